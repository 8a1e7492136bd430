"""The contract of `groups.Groups`, on the fake and on a real cluster."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import confluent_kafka
import pytest

from connect_runtime.base.errors import RetriableError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka import librdkafka_connection_settings
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.network import keystore_files
from mm2.kafka.consumer_groups import KafkaGroups
from mm2.kafka.kafka_client_interfaces import (
    ConsumerGroups,
    GroupInUseError,
    PerGroupResult,
    ReportedPositions,
)
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.group_selection import ListedGroup
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.fakes.groups import FakeGroup, FakeGroupCluster, FakeGroups
from tests.support import cluster_access as support_cluster_access
from tests.support import eventually, group_workers, kafka, other_groups
from tests.support.group_workers import Worker, Workers

WAIT_S = 60.0
PARTITIONS = 2
CLASSIC, CONSUMER = "classic", "consumer"
SHARE, STREAMS = "share", "streams"
State = GroupState
_UNIQUE = itertools.count()


class Place(Protocol):
    """One cluster, with a topic of `PARTITIONS` partitions."""

    topic: str
    groups: ConsumerGroups

    def member(self, group: str, *, type: str) -> contextlib.AbstractContextManager[None]:
        """The group has one, which has its partitions."""

    def worker(self, group: str) -> contextlib.AbstractContextManager[None]:
        """A Connect worker is in the group."""

    def pending(self, group: str) -> contextlib.AbstractContextManager[None]:
        """A transaction is open that has an offset of the group."""

    def other(self, group: str, *, type: str, offset: int) -> None:
        """Make a share or streams group that has this offset in the first partition."""

    def close(self) -> None: ...


class FakePlace:
    def __init__(self) -> None:
        self.topic = "orders"
        places = frozenset(TopicPartition(self.topic, number) for number in range(PARTITIONS))
        self._cluster = FakeGroupCluster(partitions=places)
        self.groups: ConsumerGroups = FakeGroups(self._cluster)

    @contextlib.contextmanager
    def member(self, group: str, *, type: str) -> Iterator[None]:
        found = self._cluster.groups.setdefault(group, FakeGroup())
        found.state, found.type, found.protocol = State.ACTIVE, type, "consumer"
        found.assignor = "range" if type == CLASSIC else ""
        yield
        found.state, found.assignor = State.EMPTY, ""

    @contextlib.contextmanager
    def worker(self, group: str) -> Iterator[None]:
        self._cluster.groups[group] = FakeGroup(
            protocol="connect", state=State.ACTIVE, hosts=("127.0.0.1",)
        )
        yield
        self._cluster.groups[group].hosts = ()

    @contextlib.contextmanager
    def pending(self, group: str) -> Iterator[None]:
        self._cluster.groups[group].unstable = True
        yield
        self._cluster.groups[group].unstable = False

    def other(self, group: str, *, type: str, offset: int) -> None:
        made = self._cluster.commit(group, {TopicPartition(self.topic, 0): offset})
        made.type, made.protocol = type, type

    def close(self) -> None:
        self.groups.close()


class RealPlace:
    def __init__(self, running: SandboxCluster) -> None:
        self.topic = f"grouped-{next(_UNIQUE)}"
        self._cluster = running
        self._properties = running.client_properties()
        kafka.create_topic(self._properties, self.topic, partitions=PARTITIONS)
        self.groups: ConsumerGroups = KafkaGroups(
            support_cluster_access.of(running),
            client_id="test-groups",
            clock=support_cluster_access.CLOCK,
        )

    @contextlib.contextmanager
    def member(self, group: str, *, type: str) -> Iterator[None]:
        more = {"group.protocol": type, "group.id": group, "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer(kafka.client_config(self._properties, **more))
        try:
            consumer.subscribe([self.topic])
            eventually.eventually(
                lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == PARTITIONS,
                WAIT_S,
                "the member has its partitions",
            )
            yield
        finally:
            consumer.close()

    @contextlib.contextmanager
    def worker(self, group: str) -> Iterator[None]:
        with Workers() as workers:
            member = group_workers.kafka_member(self._properties, group, "worker")
            one = workers.add(Worker("worker", member))
            workers.until(lambda: one.settled)
            yield

    @contextlib.contextmanager
    def pending(self, group: str) -> Iterator[None]:
        consumer = confluent_kafka.Consumer(
            kafka.client_config(self._properties, **{"group.id": group})
        )
        producer = kafka.transactional_producer(self._properties, f"tx-{group}")
        producer.begin_transaction()
        try:
            place = confluent_kafka.TopicPartition(self.topic, 0, 8)
            metadata = consumer.consumer_group_metadata()
            kafka.retried(lambda: producer.send_offsets_to_transaction([place], metadata, WAIT_S))
            yield
            kafka.end_transaction(producer, commit=False)
        finally:
            consumer.close()

    def other(self, group: str, *, type: str, offset: int) -> None:
        make = other_groups.share_group if type == SHARE else other_groups.streams_group
        make(self._cluster, group, {TopicPartition(self.topic, 0): offset})

    def close(self) -> None:
        self.groups.close()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    made: Place
    if request.param == "fake":
        made = FakePlace()
    else:
        made = RealPlace(request.getfixturevalue("contract_cluster"))
    yield made
    made.close()


@pytest.fixture
def group() -> str:
    return f"group-{next(_UNIQUE)}"


def at(offset: int, metadata: str = "") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset=offset, metadata=metadata)


def partition(place: Place, number: int) -> TopicPartition:
    return TopicPartition(place.topic, number)


def written(place: Place, group: str, *offsets: int) -> None:
    given = {partition(place, number): at(offset) for number, offset in enumerate(offsets)}
    assert place.groups.commit_offsets({group: given}, WAIT_S).succeeded == {group: {}}


def state(place: Place, group: str) -> GroupState:
    found = place.groups.describe_group_states([group], WAIT_S)
    assert found.failed == {}
    return found.succeeded[group]


def listed(place: Place, group: str) -> list[ListedGroup]:
    return [each for each in place.groups.list_groups(WAIT_S) if each.group == group]


def test_a_group_that_was_never_heard_of_is_absent_and_has_nothing(place, group):
    assert listed(place, group) == []
    assert state(place, group) is State.ABSENT
    assert place.groups.list_member_hosts([group], WAIT_S).succeeded == {group: ()}
    assert place.groups.fetch_committed_offsets([group], WAIT_S) == PerGroupResult(
        succeeded={group: {}}, failed={}
    )


def test_offsets_make_a_group_that_has_them(place, group):
    given = {partition(place, 0): at(3, "größe"), partition(place, 1): at(0)}
    assert place.groups.commit_offsets({group: given}, WAIT_S) == PerGroupResult(
        succeeded={group: {}}, failed={}
    )
    assert place.groups.fetch_committed_offsets([group], WAIT_S).succeeded == {group: given}
    assert state(place, group) is State.EMPTY
    (found,) = listed(place, group)
    assert found.is_consumer
    written(place, group, 1)
    assert place.groups.fetch_committed_offsets([group], WAIT_S).succeeded[group][
        partition(place, 0)
    ] == at(1)


def test_a_share_group_is_listed_as_one_and_tells_what_it_reads(place, group):
    place.other(group, type=SHARE, offset=3)
    (found,) = listed(place, group)
    assert (found.unsupported_type, found.is_consumer) == (SHARE, False)
    told = place.groups.list_share_partitions([group], WAIT_S)
    assert told.succeeded == {group: frozenset({partition(place, 0)})}
    assert place.groups.list_share_partitions(["never"], WAIT_S).succeeded == {"never": frozenset()}


def test_a_streams_group_is_listed_as_one_and_has_offsets_like_any_other(place, group):
    place.other(group, type=STREAMS, offset=3)
    (found,) = listed(place, group)
    assert (found.unsupported_type, found.is_consumer) == (STREAMS, False)
    assert place.groups.fetch_committed_offsets([group], WAIT_S).succeeded == {
        group: {partition(place, 0): at(3)}
    }


@pytest.mark.parametrize(("type", "assignor"), [(CLASSIC, "range"), (CONSUMER, "")])
def test_members_of_a_classic_group_have_an_assignor(place, group, type, assignor):
    with place.member(group, type=type):
        assert place.groups.list_assignors([group], WAIT_S).succeeded == {group: assignor}
    assert place.groups.list_assignors(["never"], WAIT_S).succeeded == {"never": ""}


def test_many_groups_are_one_question(place, group):
    names = [f"{group}-{number}" for number in range(30)]
    offsets = {name: {partition(place, 0): at(number)} for number, name in enumerate(names)}
    assert place.groups.commit_offsets(offsets, WAIT_S).succeeded == {name: {} for name in names}
    assert place.groups.fetch_committed_offsets(names, WAIT_S).succeeded == offsets
    assert place.groups.describe_group_states(names, WAIT_S).succeeded == dict.fromkeys(
        names, State.EMPTY
    )
    assert set(names) <= {each.group for each in place.groups.list_groups(WAIT_S)}


def test_groups_that_have_what_they_had_are_no_news(place, group):
    names = [f"{group}-{number}" for number in range(250)]
    offsets = {name: {partition(place, 0): at(number)} for number, name in enumerate(names)}
    place.groups.commit_offsets(offsets, WAIT_S)
    seen: ReportedPositions = {}
    found = place.groups.fetch_changed_committed_offsets([*names, group], WAIT_S, seen=seen)
    assert found == PerGroupResult(succeeded={**offsets, group: {}}, failed={})
    assert place.groups.fetch_changed_committed_offsets(names, WAIT_S, seen=seen) == PerGroupResult(
        succeeded={}, failed={}
    )
    written(place, names[7], 9, 3)
    moved = {partition(place, 0): at(9), partition(place, 1): at(3)}
    assert place.groups.fetch_changed_committed_offsets(names, WAIT_S, seen=seen).succeeded == {
        names[7]: moved
    }
    del seen[names[8]]
    assert place.groups.fetch_changed_committed_offsets(names, WAIT_S, seen=seen).succeeded == {
        names[8]: offsets[names[8]]
    }


def test_an_offset_in_an_open_transaction_is_not_stable(place, group):
    written(place, group, 5)
    with place.pending(group):
        assert place.groups.fetch_committed_offsets([group], WAIT_S).succeeded == {
            group: {partition(place, 0): at(5)}
        }
        found = place.groups.fetch_committed_offsets([group, f"{group}-other"], 5.0, stable=True)
        assert found.succeeded == {f"{group}-other": {}}
        assert isinstance(found.failed[group], RetriableError)
    eventually.eventually(
        lambda: (
            group in place.groups.fetch_committed_offsets([group], WAIT_S, stable=True).succeeded
        ),
        WAIT_S,
        "the transaction has ended",
    )


def test_nothing_asked_is_nothing_answered(place, group):
    nothing: PerGroupResult[Any] = PerGroupResult(succeeded={}, failed={})
    assert place.groups.describe_group_states([], WAIT_S) == nothing
    assert place.groups.fetch_committed_offsets([], WAIT_S) == nothing
    assert place.groups.fetch_changed_committed_offsets([], WAIT_S, seen={}) == nothing
    assert place.groups.commit_offsets({}, WAIT_S) == nothing


@pytest.mark.parametrize("type", [CLASSIC, CONSUMER])
def test_a_group_with_members_is_active_and_keeps_its_offsets(place, group, type):
    written(place, group, 5)
    with place.member(group, type=type):
        assert state(place, group) is State.ACTIVE
        assert [each.is_consumer for each in listed(place, group)] == [True]
        refused = place.groups.commit_offsets({group: {partition(place, 0): at(9)}}, WAIT_S)
        assert refused.succeeded == {}
        assert isinstance(refused.failed[group], GroupInUseError)
        assert group in str(refused.failed[group])
    eventually.eventually(
        lambda: state(place, group) is State.EMPTY, WAIT_S, "the group is without members"
    )
    assert place.groups.fetch_committed_offsets([group], WAIT_S).succeeded[group] == {
        partition(place, 0): at(5)
    }
    written(place, group, 9)


def test_a_partition_that_is_not_there_is_told_beside_the_others(place, group):
    there, beyond = partition(place, 0), partition(place, PARTITIONS)
    found = place.groups.commit_offsets({group: {there: at(1), beyond: at(2)}}, WAIT_S)
    assert list(found.succeeded[group]) == [beyond]
    assert isinstance(found.succeeded[group][beyond], TopicMissingError)
    assert place.groups.fetch_committed_offsets([group], WAIT_S).succeeded[group] == {there: at(1)}
    alone = place.groups.commit_offsets({group: {beyond: at(2)}}, WAIT_S)
    assert isinstance(alone.failed[group], TopicMissingError)
    assert isinstance(alone.get_first_failure(), TopicMissingError)


def test_a_group_of_workers_is_foreign(place, group):
    with place.worker(group):
        assert state(place, group) is State.FOREIGN
        assert [each.is_consumer for each in listed(place, group)] == [False]
        assert place.groups.list_member_hosts([group], WAIT_S).succeeded == {group: ("127.0.0.1",)}
    eventually.eventually(
        lambda: place.groups.list_member_hosts([group], WAIT_S).succeeded == {group: ()},
        WAIT_S,
        "it has left",
    )


@pytest.mark.integration
def test_who_has_gone_waits_for_no_cluster():
    nowhere = KafkaGroups(
        librdkafka_connection_settings.parse_cluster_access(
            {"bootstrap.servers": "127.0.0.1:1"},
            files=keystore_files.create_store_files(Path()),
            name="nowhere",
        ),
        client_id="test-groups",
        clock=support_cluster_access.CLOCK,
        is_shutting_down=lambda: True,
    )
    with contextlib.closing(nowhere), pytest.raises(RetriableError, match="aborted"):
        nowhere.list_groups(WAIT_S)
