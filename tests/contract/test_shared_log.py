"""The contract of `internal_topic_log.SharedLog`, on the fake and on a real cluster."""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import confluent_kafka
import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka.internal_topics import InternalTopicManager
from connect_runtime.kafka.kafka_shared_log import KafkaSharedLog
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.storage.config_records import KeyedRecord
from connect_runtime.storage.internal_topic_log import SharedLog, SharedLogRecord
from connect_runtime.storage.internal_topic_settings import InternalTopic, InternalTopicKind
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.fakes.shared_log import FakeSharedLog, FakeTopic
from tests.support import eventually, kafka, operations

WAIT_S = 30.0
CLOCK = SystemClock()
TOO_LARGE = b"x" * 500_000
_UNIQUE = itertools.count()


class Place(Protocol):
    """One topic, of three partitions."""

    name: str

    def log(self) -> SharedLog: ...

    def append(self, key: bytes, value: bytes | None) -> None:
        """By somebody else."""

    def away(self) -> contextlib.AbstractContextManager[None]: ...

    def make(self, *, policy: str) -> None:
        """Before any log does."""

    def make_again(self) -> None: ...


class FakePlace:
    def __init__(self, name: str) -> None:
        self.name = name
        self._topic = FakeTopic(name=name, partitions=3, max_record_bytes=200_000)

    def log(self) -> SharedLog:
        return FakeSharedLog(self._topic)

    def append(self, key: bytes, value: bytes | None) -> None:
        self._topic.append(key, value)

    def away(self) -> contextlib.AbstractContextManager[None]:
        return self._topic.unreachable()

    def make(self, *, policy: str) -> None:
        self._topic.cleanup_policy = policy

    def make_again(self) -> None:
        self._topic.make_again()


class RealPlace:
    def __init__(self, name: str, running: SandboxCluster) -> None:
        self.name = name
        self._cluster = running
        self._access = KafkaClusterAccess(bootstrap=(running.bootstrap,))
        self._topics = TopicAdmin(self._access, client_id="admin", clock=CLOCK)

    def log(self, **options: Any) -> SharedLog:
        internal = InternalTopic(
            kind=InternalTopicKind.STATUS,
            name=self.name,
            partitions=3,
            replication_factor=1,
            settings={"cleanup.policy": "compact"},
        )
        makes = InternalTopicManager(admin=self._topics, clock=CLOCK)
        return KafkaSharedLog(
            self._access,
            topic=self.name,
            client_id="worker-statuses",
            admin=self._topics,
            prepare=functools.partial(makes.ensure_topic, internal),
            clock=CLOCK,
            **options,
        )

    def append(self, key: bytes, value: bytes | None) -> None:
        producer = self.producer()
        producer.produce(self.name, value, key)
        assert producer.flush(WAIT_S) == 0

    def producer(self, **settings: Any) -> confluent_kafka.Producer:
        return confluent_kafka.Producer(
            {
                "bootstrap.servers": self._cluster.bootstrap,
                "partitioner": "murmur2_random",
                **settings,
            }
        )

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self._cluster.freeze()
        try:
            yield
        finally:
            self._cluster.unfreeze()

    def make(self, *, policy: str) -> None:
        kafka.create_topic(
            self._cluster.client_properties(),
            self.name,
            partitions=3,
            config={"cleanup.policy": policy},
        )

    def make_again(self) -> None:
        operations.delete(self._cluster.client_properties(), self.name)
        self.make(policy="compact")


@dataclass
class Heard:
    """Implements `LogListener`."""

    records: list[SharedLogRecord] = field(default_factory=list)
    replayed_after: list[int] = field(default_factory=list)
    started_over: int = 0

    def on_record(self, record: SharedLogRecord) -> None:
        self.records.append(record)

    def on_replay_completed(self) -> None:
        self.replayed_after.append(len(self.records))

    def on_log_reset(self) -> None:
        self.started_over += 1
        self.records.clear()

    def values(self, key: bytes) -> list[bytes | None]:
        return [each.value for each in self.records if each.key == key]


@dataclass
class Reader:
    """A started log with what it told."""

    log: SharedLog
    heard: Heard = field(default_factory=Heard)
    answers: list[ConnectError | None] = field(default_factory=list)

    def send(self, key: bytes, value: bytes | None) -> None:
        self.log.send(KeyedRecord(key=key, value=value), on_recorded=self.answers.append)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
def place(request: pytest.FixtureRequest) -> Place:
    name = f"log-{next(_UNIQUE)}"
    if request.param == "fake":
        return FakePlace(name)
    return RealPlace(name, request.getfixturevalue("contract_cluster"))


@pytest.fixture
def started() -> Iterator[Any]:
    made: list[Reader] = []

    def start(log: SharedLog) -> Reader:
        reader = Reader(log)
        made.append(reader)
        log.start(reader.heard, WAIT_S)
        return reader

    yield start
    for each in made:
        each.log.stop(0.0)


def test_an_empty_log_has_no_past(place, started):
    reader = started(place.log())
    assert reader.heard == Heard(replayed_after=[0])
    assert reader.log.name == place.name


def test_what_is_there_is_told_before_start_returns_and_as_the_past(place, started):
    first = started(place.log())
    for number in range(50):
        first.send(b"k%d" % (number % 7), b"%d" % number)
    first.log.read_to_end(WAIT_S)
    second = started(place.log())
    assert second.heard.replayed_after == [50]
    for key in (b"k0", b"k6"):
        assert second.heard.values(key) == first.heard.values(key) != []


def test_what_was_sent_before_is_read_to_the_end(place, started):
    reader = started(place.log())
    for number in range(200):
        reader.send(b"k%d" % (number % 10), b"%d" % number)
    reader.log.read_to_end(WAIT_S)
    assert len(reader.heard.records) == 200
    assert reader.answers == [None] * 200
    assert reader.heard.values(b"k3") == [b"%d" % number for number in range(3, 200, 10)]
    assert {each.partition for each in reader.heard.records} == {0, 1, 2}
    assert {each.topic for each in reader.heard.records} == {place.name}


def test_what_others_were_acknowledged_is_read_to_the_end(place, started):
    reader, other = started(place.log()), started(place.log())
    for number in range(5):
        place.append(b"k", b"%d" % number)
        reader.log.read_to_end(WAIT_S)
        assert reader.heard.values(b"k")[-1] == b"%d" % number
    other.send(b"k", None)
    other.log.read_to_end(WAIT_S)
    reader.log.read_to_end(WAIT_S)
    assert reader.heard.values(b"k") == other.heard.values(b"k")
    assert reader.heard.values(b"k")[-1] is None


def test_it_is_known_who_wrote_a_record_and_when(place, started):
    reader, other = started(place.log()), started(place.log())
    other.send(b"k", b"by us")
    other.log.read_to_end(WAIT_S)
    place.append(b"k", b"by others")
    reader.log.read_to_end(WAIT_S)
    found = {each.value: each for each in reader.heard.records}
    assert found[b"by us"].is_own
    assert not found[b"by others"].is_own
    assert all(each.wall_ms > 0 for each in found.values())


def test_it_is_told_without_being_asked(place, started):
    reader = started(place.log())
    place.append(b"k", b"v")
    eventually.eventually(
        lambda: reader.heard.values(b"k") == [b"v"],
        deadline_s=WAIT_S,
        what="the record is delivered",
    )
    assert reader.heard.replayed_after == [0]


def test_offsets_rise_in_every_partition(place, started):
    reader = started(place.log())
    for number in range(30):
        reader.send(b"k%d" % number, b"v")
    reader.log.read_to_end(WAIT_S)
    for partition in range(3):
        found = [each.offset for each in reader.heard.records if each.partition == partition]
        assert found == list(range(len(found)))
        assert found


def test_many_may_read_and_send_at_once(place, started):
    reader = started(place.log())
    short: list[int] = []

    def talk(number: int, _: threading.Event) -> None:
        key = b"k%d" % number
        for count in range(1, 21):
            reader.send(key, b"v")
            reader.log.read_to_end(WAIT_S)
            if len(reader.heard.values(key)) != count:
                short.append(number)

    running = ThreadGroup(on_unexpected_end=lambda _: None)
    bodies = [running.start(f"t{each}", functools.partial(talk, each)) for each in range(5)]
    assert all(each.join(WAIT_S) for each in bodies)
    assert [each.failure for each in bodies] == [None] * 5
    assert short == []


def test_a_record_that_is_too_large_is_refused_alone(place, started):
    reader = started(place.log())
    reader.send(b"k", TOO_LARGE)
    reader.send(b"k", b"small")
    reader.log.read_to_end(WAIT_S)
    assert isinstance(reader.answers[0], FatalError)
    assert "max.message.bytes" in str(reader.answers[0])
    assert reader.answers[1] is None
    assert reader.heard.values(b"k") == [b"small"]


def test_while_the_cluster_is_away_nothing_is_lost_and_nobody_waits_for_ever(place, started):
    reader = started(place.log())
    reader.send(b"k", b"before")
    reader.log.read_to_end(WAIT_S)
    with place.away():
        reader.send(b"k", b"meanwhile")
        with pytest.raises(RetriableError):
            reader.log.read_to_end(0.5)
        assert reader.answers == [None]
    reader.log.read_to_end(WAIT_S)
    assert reader.heard.values(b"k") == [b"before", b"meanwhile"]
    assert reader.answers == [None, None]


def test_who_stops_tells_everybody(place, started):
    reader = started(place.log())
    reader.send(b"k", b"before")
    reader.log.read_to_end(WAIT_S)
    with place.away():
        reader.send(b"k", b"meanwhile")
        reader.log.stop(0.1)
        assert len(reader.answers) == 2
        assert isinstance(reader.answers[1], RetriableError)
    with pytest.raises(FatalError, match="stopped"):
        reader.send(b"k", b"after")
    with pytest.raises(FatalError, match="stopped"):
        reader.log.read_to_end(1.0)
    reader.log.stop(0.0)


def test_a_topic_that_forgets_is_refused(place, started):
    place.make(policy="compact,delete")
    with pytest.raises(FatalError, match=r"set cleanup.policy=compact|cleanup.policy must"):
        started(place.log())


def test_a_topic_that_was_made_again_is_read_again(place, started):
    reader = started(place.log())
    for number in range(10):
        reader.send(b"old", b"%d" % number)
    reader.log.read_to_end(WAIT_S)
    place.make_again()
    eventually.eventually(
        lambda: reader.heard.replayed_after == [0, 0], deadline_s=WAIT_S, what="started over"
    )
    assert reader.heard.started_over == 1
    place.append(b"new", b"v")
    eventually.eventually(
        lambda: reader.heard.values(b"new") == [b"v"], deadline_s=WAIT_S, what="heard anew"
    )
    reader.send(b"new", b"w")
    reader.log.read_to_end(WAIT_S)
    assert reader.heard.values(b"new") == [b"v", b"w"]
    assert reader.heard.values(b"old") == []
