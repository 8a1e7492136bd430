"""The contract of `admin.Admin`, on the fake and on a real cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka.client_errors import TopicExistsError, TopicMissingError
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic
from connect_runtime.system import system_clock
from mm2.kafka import kafka_client_interfaces
from mm2.kafka.kafka_client_interfaces import Admin, PerTopicResult
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.topics.mirror_topic_plan import ConfigEntrySource
from tests.fakes.admin import FakeAdmin, FakeCluster
from tests.support import cluster_access

_UNIQUE = itertools.count()
WAIT_S = 20.0


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
def admin(request: pytest.FixtureRequest) -> Iterator[Admin]:
    if request.param == "fake":
        yield FakeAdmin(FakeCluster())
        return
    east: SandboxCluster = request.getfixturevalue("contract_cluster")
    real = cluster_access.admin(cluster_access.of(east))
    yield real
    real.close()


@pytest.fixture
def name() -> Callable[[str], str]:
    run = next(_UNIQUE)
    return lambda stem: f"{stem}-{run}"


def create(admin: Admin, name: str, *, partitions: int = 1, **configs: str) -> None:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    topic = NewTopic(name=name, partitions=partitions, replication_factor=1, configs=settings)
    assert admin.create_topics([topic], WAIT_S).failed == {}
    known = system_clock.wait_until(
        lambda: name in admin.describe_topics([name], WAIT_S).succeeded, timeout_s=WAIT_S
    )
    assert known


def overrides(admin: Admin, name: str) -> dict[str, str | None]:
    entries = admin.read_topic_configs([name], WAIT_S).succeeded[name]
    return {
        key: entry.value
        for key, entry in entries.items()
        if entry.source is ConfigEntrySource.TOPIC
    }


def settles(admin: Admin, name: str, wanted: dict[str, str]) -> bool:
    return system_clock.wait_until(lambda: overrides(admin, name) == wanted, timeout_s=WAIT_S)


def test_the_cluster_has_a_lasting_id(admin):
    assert admin.read_cluster_id(WAIT_S)
    assert admin.read_cluster_id(WAIT_S) == admin.read_cluster_id(WAIT_S)


def test_a_created_topic_is_listed_and_described(admin, name):
    create(admin, name("orders"), partitions=3)
    assert name("orders") in admin.list_topics(WAIT_S)
    topic = admin.describe_topics([name("orders")], WAIT_S).succeeded[name("orders")]
    assert topic.name == name("orders")
    assert topic.partition_count == 3
    assert topic.leaders == (1, 1, 1)
    assert topic.topic_id is not None


def test_topic_ids_tell_topics_apart(admin, name):
    for stem in ("one", "two"):
        create(admin, name(stem))
    described = admin.describe_topics([name("one"), name("two")], WAIT_S).succeeded
    assert described[name("one")].topic_id != described[name("two")].topic_id


def test_a_missing_topic_fails_alone(admin, name):
    create(admin, name("there"))
    asked = [name("there"), name("missing")]
    for answer in (admin.describe_topics(asked, WAIT_S), admin.read_topic_configs(asked, WAIT_S)):
        assert set(answer.succeeded) == {name("there")}
        assert set(answer.failed) == {name("missing")}
        assert isinstance(answer.failed[name("missing")], TopicMissingError)


def test_asking_about_nothing_answers_nothing(admin):
    assert admin.describe_topics([], WAIT_S) == PerTopicResult(succeeded={}, failed={})
    assert admin.create_topics([], WAIT_S) == PerTopicResult(succeeded={}, failed={})
    assert admin.alter_configs({}, WAIT_S) == PerTopicResult(succeeded={}, failed={})


def test_settings_tell_where_they_come_from(admin, name):
    create(admin, name("orders"), retention_ms="1000")
    entries = admin.read_topic_configs([name("orders")], WAIT_S).succeeded[name("orders")]
    assert entries["retention.ms"].value == "1000"
    assert entries["retention.ms"].source is ConfigEntrySource.TOPIC
    assert entries["cleanup.policy"].value == "delete"
    assert entries["cleanup.policy"].source is ConfigEntrySource.DEFAULT


def test_one_topic_that_cannot_be_created_does_not_block_the_others(admin, name):
    def topic(stem: str, **options: object) -> NewTopic:
        settings = {"partitions": 1, "replication_factor": 1, **options}
        return NewTopic(name=name(stem), **settings)  # type: ignore[arg-type]

    answer = admin.create_topics(
        [
            topic("good", partitions=2),
            topic("rf", replication_factor=3),
            topic("property", configs={"nonsense": "1"}),
            topic("default", replication_factor=None),
        ],
        WAIT_S,
    )
    assert set(answer.succeeded) == {name("good"), name("default")}
    assert set(answer.failed) == {name("rf"), name("property")}
    for stem, code in (("rf", "INVALID_REPLICATION_FACTOR"), ("property", "INVALID_CONFIG")):
        failure = answer.failed[name(stem)]
        assert isinstance(failure, FatalError)
        assert code in str(failure)
        assert name(stem) in str(failure)
    assert answer.get_first_failure() is answer.failed[name("property")]


def test_what_would_be_refused_is_known_without_making_anything(admin, name):
    topics = [
        NewTopic(name=name(stem), partitions=1, replication_factor=factor)
        for stem, factor in (("fits", 1), ("rf", 3))
    ]
    answer = admin.create_topics(topics, WAIT_S, validate_only=True)
    assert set(answer.succeeded) == {name("fits")}
    assert "INVALID_REPLICATION_FACTOR" in str(answer.failed[name("rf")])
    create(admin, name("fits"), partitions=2)
    assert (
        admin.describe_topics([name("fits")], WAIT_S).succeeded[name("fits")].partition_count == 2
    )


def test_creating_what_is_there_says_so(admin, name):
    create(admin, name("orders"), partitions=2)
    again = NewTopic(name=name("orders"), partitions=1, replication_factor=1)
    answer = admin.create_topics([again], WAIT_S)
    assert isinstance(answer.failed[name("orders")], TopicExistsError)
    assert (
        admin.describe_topics([name("orders")], WAIT_S).succeeded[name("orders")].partition_count
        == 2
    )


def test_topics_grow_and_having_grown_is_as_good(admin, name):
    create(admin, name("grows"))
    create(admin, name("grew"), partitions=3)
    wanted = {name("grows"): 3, name("grew"): 3, name("missing"): 3}
    answer = admin.add_partitions(wanted, WAIT_S)
    assert set(answer.succeeded) == {name("grows"), name("grew")}
    assert isinstance(answer.failed[name("missing")], TopicMissingError)
    assert system_clock.wait_until(
        lambda: (
            admin.describe_topics([name("grows")], WAIT_S).succeeded[name("grows")].partition_count
            == 3
        ),
        timeout_s=WAIT_S,
    )
    assert admin.add_partitions({name("grew"): 2}, WAIT_S).failed == {}
    assert (
        admin.describe_topics([name("grew")], WAIT_S).succeeded[name("grew")].partition_count == 3
    )


def test_altering_touches_only_what_is_named(admin, name):
    create(admin, name("orders"), retention_ms="1000", compression_type="lz4")
    change = ConfigChange(set={"cleanup.policy": "compact"}, delete=["retention.ms"])
    answer = admin.alter_configs({name("orders"): change}, WAIT_S)
    assert answer.failed == {}
    wanted = {"cleanup.policy": "compact", "compression.type": "lz4"}
    assert settles(admin, name("orders"), wanted)


def test_a_refused_change_fails_alone_and_changes_nothing(admin, name):
    for stem in ("good", "bad"):
        create(admin, name(stem), retention_ms="1000")
    answer = admin.alter_configs(
        {
            name("good"): ConfigChange(set={"retention.ms": "2000"}),
            name("bad"): ConfigChange(set={"retention.ms": "no number"}),
            name("missing"): ConfigChange(set={"retention.ms": "2000"}),
        },
        WAIT_S,
    )
    assert set(answer.succeeded) == {name("good")}
    assert "INVALID_CONFIG" in str(answer.failed[name("bad")])
    assert isinstance(answer.failed[name("missing")], TopicMissingError)
    assert settles(admin, name("good"), {"retention.ms": "2000"})
    assert overrides(admin, name("bad")) == {"retention.ms": "1000"}


def test_broker_settings_are_told_and_unknown_ones_are_none(admin):
    known = "producer.id.expiration.ms"
    answer = admin.read_broker_configs([known, "no.such.setting"], WAIT_S)
    assert answer == {known: "86400000", "no.such.setting": None}


def test_observing_joins_descriptions_and_settings(admin, name):
    create(admin, name("orders"), partitions=2, retention_ms="1000")
    seen = kafka_client_interfaces.describe_topics_with_configs(
        admin, [name("orders"), name("missing")], WAIT_S, clock=cluster_access.CLOCK
    )
    topic = seen.succeeded[name("orders")]
    assert (topic.partitions, topic.get_config("retention.ms")) == (2, "1000")
    assert topic.topic_id is not None
    assert isinstance(seen.failed[name("missing")], TopicMissingError)
