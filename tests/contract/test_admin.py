"""The contract of `admin.Admin`, on the fake and on a real cluster."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import polling
from mm2.cluster import admin as port
from mm2.core.topics import snapshot
from mm2.sandbox import cluster
from tests.fakes import admin as fake
from tests.support import cluster_access

_UNIQUE = itertools.count()
WAIT_S = 20.0


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
def admin(request: pytest.FixtureRequest) -> Iterator[port.Admin]:
    if request.param == "fake":
        yield fake.FakeAdmin(fake.FakeCluster())
        return
    east: cluster.Cluster = request.getfixturevalue("contract_cluster")
    real = cluster_access.admin(cluster_access.of(east))
    yield real
    real.close()


@pytest.fixture
def name() -> Callable[[str], str]:
    run = next(_UNIQUE)
    return lambda stem: f"{stem}-{run}"


def create(admin: port.Admin, name: str, *, partitions: int = 1, **configs: str) -> None:
    settings = {key.replace("_", "."): value for key, value in configs.items()}
    topic = port.NewTopic(name=name, partitions=partitions, replication_factor=1, configs=settings)
    assert admin.create_topics([topic], WAIT_S).failed == {}
    known = polling.until(
        lambda: name in admin.describe_topics([name], WAIT_S).done, timeout_s=WAIT_S
    )
    assert known


def overrides(admin: port.Admin, name: str) -> dict[str, str | None]:
    entries = admin.topic_configs([name], WAIT_S).done[name]
    return {
        key: entry.value
        for key, entry in entries.items()
        if entry.source is snapshot.ConfigSource.TOPIC
    }


def settles(admin: port.Admin, name: str, wanted: dict[str, str]) -> bool:
    return polling.until(lambda: overrides(admin, name) == wanted, timeout_s=WAIT_S)


def test_the_cluster_has_a_lasting_id(admin):
    assert admin.cluster_id(WAIT_S)
    assert admin.cluster_id(WAIT_S) == admin.cluster_id(WAIT_S)


def test_a_created_topic_is_listed_and_described(admin, name):
    create(admin, name("orders"), partitions=3)
    assert name("orders") in admin.list_topics(WAIT_S)
    topic = admin.describe_topics([name("orders")], WAIT_S).done[name("orders")]
    assert topic.name == name("orders")
    assert topic.partitions == 3
    assert topic.leaders == (1, 1, 1)
    assert topic.topic_id is not None


def test_topic_ids_tell_topics_apart(admin, name):
    for stem in ("one", "two"):
        create(admin, name(stem))
    described = admin.describe_topics([name("one"), name("two")], WAIT_S).done
    assert described[name("one")].topic_id != described[name("two")].topic_id


def test_a_missing_topic_fails_alone(admin, name):
    create(admin, name("there"))
    asked = [name("there"), name("missing")]
    for answer in (admin.describe_topics(asked, WAIT_S), admin.topic_configs(asked, WAIT_S)):
        assert set(answer.done) == {name("there")}
        assert set(answer.failed) == {name("missing")}
        assert isinstance(answer.failed[name("missing")], kafka_errors.TopicMissingError)


def test_asking_about_nothing_answers_nothing(admin):
    assert admin.describe_topics([], WAIT_S) == port.PerTopic(done={}, failed={})
    assert admin.create_topics([], WAIT_S) == port.PerTopic(done={}, failed={})
    assert admin.alter_configs({}, WAIT_S) == port.PerTopic(done={}, failed={})


def test_settings_tell_where_they_come_from(admin, name):
    create(admin, name("orders"), retention_ms="1000")
    entries = admin.topic_configs([name("orders")], WAIT_S).done[name("orders")]
    assert entries["retention.ms"].value == "1000"
    assert entries["retention.ms"].source is snapshot.ConfigSource.TOPIC
    assert entries["cleanup.policy"].value == "delete"
    assert entries["cleanup.policy"].source is snapshot.ConfigSource.DEFAULT


def test_one_topic_that_cannot_be_created_does_not_block_the_others(admin, name):
    def topic(stem: str, **options: object) -> port.NewTopic:
        settings = {"partitions": 1, "replication_factor": 1, **options}
        return port.NewTopic(name=name(stem), **settings)  # type: ignore[arg-type]

    answer = admin.create_topics(
        [
            topic("good", partitions=2),
            topic("rf", replication_factor=3),
            topic("property", configs={"nonsense": "1"}),
            topic("default", replication_factor=None),
        ],
        WAIT_S,
    )
    assert set(answer.done) == {name("good"), name("default")}
    assert set(answer.failed) == {name("rf"), name("property")}
    for stem, code in (("rf", "INVALID_REPLICATION_FACTOR"), ("property", "INVALID_CONFIG")):
        failure = answer.failed[name(stem)]
        assert isinstance(failure, errors.FatalError)
        assert code in str(failure)
        assert name(stem) in str(failure)
    assert answer.first_failure() is answer.failed[name("property")]


def test_what_would_be_refused_is_known_without_making_anything(admin, name):
    topics = [
        port.NewTopic(name=name(stem), partitions=1, replication_factor=factor)
        for stem, factor in (("fits", 1), ("rf", 3))
    ]
    answer = admin.create_topics(topics, WAIT_S, only_try=True)
    assert set(answer.done) == {name("fits")}
    assert "INVALID_REPLICATION_FACTOR" in str(answer.failed[name("rf")])
    create(admin, name("fits"), partitions=2)
    assert admin.describe_topics([name("fits")], WAIT_S).done[name("fits")].partitions == 2


def test_creating_what_is_there_says_so(admin, name):
    create(admin, name("orders"), partitions=2)
    again = port.NewTopic(name=name("orders"), partitions=1, replication_factor=1)
    answer = admin.create_topics([again], WAIT_S)
    assert isinstance(answer.failed[name("orders")], kafka_errors.TopicExistsError)
    assert admin.describe_topics([name("orders")], WAIT_S).done[name("orders")].partitions == 2


def test_topics_grow_and_having_grown_is_as_good(admin, name):
    create(admin, name("grows"))
    create(admin, name("grew"), partitions=3)
    wanted = {name("grows"): 3, name("grew"): 3, name("missing"): 3}
    answer = admin.grow_topics(wanted, WAIT_S)
    assert set(answer.done) == {name("grows"), name("grew")}
    assert isinstance(answer.failed[name("missing")], kafka_errors.TopicMissingError)
    assert polling.until(
        lambda: admin.describe_topics([name("grows")], WAIT_S).done[name("grows")].partitions == 3,
        timeout_s=WAIT_S,
    )
    assert admin.grow_topics({name("grew"): 2}, WAIT_S).failed == {}
    assert admin.describe_topics([name("grew")], WAIT_S).done[name("grew")].partitions == 3


def test_altering_touches_only_what_is_named(admin, name):
    create(admin, name("orders"), retention_ms="1000", compression_type="lz4")
    change = port.ConfigChange(set={"cleanup.policy": "compact"}, delete=["retention.ms"])
    answer = admin.alter_configs({name("orders"): change}, WAIT_S)
    assert answer.failed == {}
    wanted = {"cleanup.policy": "compact", "compression.type": "lz4"}
    assert settles(admin, name("orders"), wanted)


def test_a_refused_change_fails_alone_and_changes_nothing(admin, name):
    for stem in ("good", "bad"):
        create(admin, name(stem), retention_ms="1000")
    answer = admin.alter_configs(
        {
            name("good"): port.ConfigChange(set={"retention.ms": "2000"}),
            name("bad"): port.ConfigChange(set={"retention.ms": "no number"}),
            name("missing"): port.ConfigChange(set={"retention.ms": "2000"}),
        },
        WAIT_S,
    )
    assert set(answer.done) == {name("good")}
    assert "INVALID_CONFIG" in str(answer.failed[name("bad")])
    assert isinstance(answer.failed[name("missing")], kafka_errors.TopicMissingError)
    assert settles(admin, name("good"), {"retention.ms": "2000"})
    assert overrides(admin, name("bad")) == {"retention.ms": "1000"}


def test_broker_settings_are_told_and_unknown_ones_are_none(admin):
    known = "producer.id.expiration.ms"
    answer = admin.broker_configs([known, "no.such.setting"], WAIT_S)
    assert answer == {known: "86400000", "no.such.setting": None}


def test_observing_joins_descriptions_and_settings(admin, name):
    create(admin, name("orders"), partitions=2, retention_ms="1000")
    seen = port.observe_topics(
        admin, [name("orders"), name("missing")], WAIT_S, clock=cluster_access.CLOCK
    )
    topic = seen.done[name("orders")]
    assert (topic.partitions, topic.config("retention.ms")) == (2, "1000")
    assert topic.topic_id is not None
    assert isinstance(seen.failed[name("missing")], kafka_errors.TopicMissingError)
