"""The contract of `flow_log.FlowStateLog`, on the fake and on a real cluster."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.system import system_clock
from mm2.kafka import flow_state_log_writer, kafka_client_interfaces
from mm2.kafka.flow_state_log_writer import UnacknowledgedRecordLimits
from mm2.kafka.kafka_client_interfaces import (
    FlowStateLog,
    FlowStateLogBrokenError,
    FlowStateLogFullError,
    FlowStateTopic,
    LogTruncatedError,
    OnRecorded,
    StoredLogRecord,
)
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.fakes.admin import FakeCluster
from tests.fakes.flow_log import FakeFlowStateLog
from tests.support import cluster_access, kafka, operations, state_records

MAP, INCIDENTS = FlowStateTopic.MAP, FlowStateTopic.INCIDENTS
WAIT_S = 30.0
TOO_LARGE = b"x" * 500_000
_UNIQUE = itertools.count()


class Place(Protocol):
    """A target and one flow's alias on it."""

    alias: str

    def log(self, bounds: UnacknowledgedRecordLimits = ...) -> FlowStateLog: ...

    def away(self) -> contextlib.AbstractContextManager[None]: ...

    def create(self, topic: FlowStateTopic, *, partitions: int, policy: str) -> None: ...

    def make_again(self, topic: FlowStateTopic) -> None: ...


class FakePlace:
    def __init__(self, alias: str) -> None:
        self.alias = alias
        self._cluster = FakeCluster()

    def log(
        self,
        bounds: UnacknowledgedRecordLimits = flow_state_log_writer.DEFAULT_UNACKNOWLEDGED_LIMITS,
    ) -> FlowStateLog:
        return FakeFlowStateLog(
            self._cluster, source_alias=self.alias, bounds=bounds, max_record_bytes=200_000
        )

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self._cluster.away = True
        yield
        self._cluster.away = False

    def create(self, topic: FlowStateTopic, *, partitions: int, policy: str) -> None:
        name = kafka_client_interfaces.build_flow_state_topic_names(self.alias)[topic]
        self._cluster.create(name, partitions=partitions, cleanup_policy=policy)

    def make_again(self, topic: FlowStateTopic) -> None:
        self.create(topic, partitions=1, policy="compact")


class RealPlace:
    def __init__(self, alias: str, east: SandboxCluster) -> None:
        self.alias = alias
        self._east = east
        self._logs: list[FlowStateLog] = []

    def log(
        self,
        bounds: UnacknowledgedRecordLimits = flow_state_log_writer.DEFAULT_UNACKNOWLEDGED_LIMITS,
    ) -> FlowStateLog:
        access = cluster_access.of(self._east)
        log = cluster_access.flow_log(access, self.alias, bounds=bounds)
        self._logs.append(log)
        return log

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self._east.freeze()
        try:
            yield
        finally:
            self._east.unfreeze()

    def create(self, topic: FlowStateTopic, *, partitions: int, policy: str) -> None:
        name = kafka_client_interfaces.build_flow_state_topic_names(self.alias)[topic]
        config = {"cleanup.policy": policy}
        kafka.create_topic(
            self._east.client_properties(), name, partitions=partitions, config=config
        )

    def make_again(self, topic: FlowStateTopic) -> None:
        name = kafka_client_interfaces.build_flow_state_topic_names(self.alias)[topic]
        operations.delete(self._east.client_properties(), name)
        self.create(topic, partitions=1, policy="compact")

    def close(self) -> None:
        for log in self._logs:
            log.close(0.0)


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    alias = f"source{next(_UNIQUE)}"
    if request.param == "fake":
        yield FakePlace(alias)
        return
    real = RealPlace(alias, request.getfixturevalue("contract_cluster"))
    yield real
    real.close()


class Answers:
    """What callbacks were told, by what they were about, in order."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ConnectError | None]] = []

    def about(self, what: str) -> OnRecorded:
        return lambda error: self.heard.append((what, error))

    @property
    def recorded(self) -> list[str]:
        return [what for what, error in self.heard if error is None]

    @property
    def failed(self) -> dict[str, ConnectError]:
        return {what: error for what, error in self.heard if error is not None}


def opened(place: Place, **options: UnacknowledgedRecordLimits) -> FlowStateLog:
    log = place.log(**options)
    log.open(WAIT_S)
    return log


def settle(log: FlowStateLog) -> None:
    def settled() -> bool:
        log.poll(0.05)
        return log.pending_record_count == 0

    assert system_clock.wait_until(settled, timeout_s=WAIT_S, interval_s=0.0)


def ignore(_: ConnectError | None) -> None:
    pass


def write(log: FlowStateLog, *keys: str, topic: FlowStateTopic = MAP) -> None:
    answers = Answers()
    for key in keys:
        log.append(topic, key.encode(), b"value", on_recorded=answers.about(key))
    settle(log)
    assert answers.recorded == list(keys)


def keys(records: list[StoredLogRecord], topic: FlowStateTopic = MAP) -> list[str]:
    return [record.key.decode() for record in records if record.topic is topic]


def test_missing_topics_are_created(place):
    log = opened(place)
    assert state_records.read(log, WAIT_S) == []
    assert log.pending_record_count == 0


def test_what_was_appended_is_read_in_order_topic_by_topic(place):
    log = opened(place)
    answers = Answers()
    for number in range(300):
        topic = INCIDENTS if number % 3 == 0 else MAP
        log.append(topic, b"%d" % number, b"v", on_recorded=answers.about(str(number)))
    assert log.pending_record_count == 300
    settle(log)
    assert sorted(answers.recorded, key=int) == [str(number) for number in range(300)]
    records = state_records.read(log, WAIT_S)
    assert keys(records, INCIDENTS) == [str(number) for number in range(0, 300, 3)]
    assert keys(records, MAP) == [str(number) for number in range(300) if number % 3]
    assert [record.offset for record in records if record.topic is MAP] == list(range(200))


def test_answers_come_in_the_order_of_calls(place):
    log = opened(place)
    answers = Answers()
    wanted = [str(number) for number in range(500)]
    for key in wanted:
        log.append(MAP, key.encode(), b"v", on_recorded=answers.about(key))
        log.poll(0.0)
    settle(log)
    assert answers.recorded == wanted


def test_callbacks_run_only_inside_poll(place):
    log = opened(place)
    answers = Answers()
    log.append(MAP, b"key", b"value", on_recorded=answers.about("key"))
    state_records.read(log, WAIT_S)
    assert answers.heard == []
    assert log.pending_record_count == 1
    settle(log)
    assert answers.recorded == ["key"]


def test_a_callback_may_append(place):
    log = opened(place)
    answers = Answers()

    def on_recorded(error: ConnectError | None) -> None:
        assert error is None
        log.append(MAP, b"second", b"v", on_recorded=answers.about("second"))

    log.append(MAP, b"first", b"v", on_recorded=on_recorded)
    settle(log)
    assert answers.recorded == ["second"]
    assert keys(state_records.read(log, WAIT_S)) == ["first", "second"]


def test_tombstones_and_empty_values_are_different(place):
    log = opened(place)
    log.append(MAP, b"gone", None, on_recorded=ignore)
    log.append(MAP, b"empty", b"", on_recorded=ignore)
    settle(log)
    assert [record.value for record in state_records.read(log, WAIT_S)] == [None, b""]


def test_each_read_gives_what_is_new(place):
    log = opened(place)
    write(log, "a", "b")
    assert keys(state_records.read(log, WAIT_S)) == ["a", "b"]
    assert state_records.read(log, WAIT_S) == []
    write(log, "c", topic=INCIDENTS)
    assert keys(state_records.read(log, WAIT_S), INCIDENTS) == ["c"]
    assert state_records.read(log, WAIT_S) == []


def test_a_handler_that_fails_gets_its_record_again(place):
    log = opened(place)
    write(log, "a", "b", "c")
    taken: list[bytes] = []

    def take(record: StoredLogRecord) -> None:
        taken.append(record.key)
        if len(taken) == 2:
            raise KeyError

    with pytest.raises(KeyError):
        log.read_to_end(WAIT_S, take)
    log.read_to_end(WAIT_S, take)
    assert taken == [b"a", b"b", b"b", b"c"]


def test_what_another_log_was_told_is_recorded_is_read(place):
    ours, theirs = opened(place), opened(place)
    for round_number in range(20):
        write(theirs, f"theirs-{round_number}")
        assert keys(state_records.read(ours, WAIT_S)) == [f"theirs-{round_number}"]


def test_two_writers_see_one_order(place):
    ours, theirs = opened(place), opened(place)
    for number in range(100):
        ours.append(MAP, b"ours-%d" % number, b"v", on_recorded=ignore)
        theirs.append(MAP, b"theirs-%d" % number, b"v", on_recorded=ignore)
        if number % 10 == 0:
            ours.poll(0.0)
            theirs.poll(0.0)
    settle(ours)
    settle(theirs)
    seen = keys(state_records.read(ours, WAIT_S))
    assert seen == keys(state_records.read(theirs, WAIT_S))
    assert len(seen) == 200
    for writer in ("ours", "theirs"):
        own = [key for key in seen if key.startswith(writer)]
        assert own == [f"{writer}-{number}" for number in range(100)]


def test_flows_do_not_see_each_other(place):
    log = opened(place)
    write(log, "ours")
    place.alias = f"{place.alias}-other"
    assert state_records.read(opened(place), WAIT_S) == []


def test_a_newly_opened_log_reads_from_the_beginning(place):
    log = opened(place)
    write(log, "a")
    assert keys(state_records.read(log, WAIT_S)) == ["a"]
    log.open(WAIT_S)
    write(log, "b")
    assert keys(state_records.read(log, WAIT_S)) == ["a", "b"]
    log.close(WAIT_S)
    assert keys(state_records.read(opened(place), WAIT_S)) == ["a", "b"]


def test_a_full_log_takes_nothing_until_it_is_polled(place):
    log = opened(place, bounds=UnacknowledgedRecordLimits(records=3))
    taken = ["a", "b", "c"]
    with place.away():
        for key in taken:
            log.append(MAP, key.encode(), b"v", on_recorded=ignore)
        with pytest.raises(FlowStateLogFullError):
            log.append(MAP, b"d", b"v", on_recorded=ignore)
        log.poll(0.0)
        with pytest.raises(FlowStateLogFullError):
            log.append(MAP, b"d", b"v", on_recorded=ignore)
    settle(log)
    write(log, "e")
    assert keys(state_records.read(log, WAIT_S)) == ["a", "b", "c", "e"]


def test_bytes_are_bounded_too_and_one_record_always_fits(place):
    log = opened(place, bounds=UnacknowledgedRecordLimits(bytes=100))
    with place.away():
        log.append(MAP, b"big", b"x" * 1000, on_recorded=ignore)
        with pytest.raises(FlowStateLogFullError):
            log.append(MAP, b"small", b"v", on_recorded=ignore)
    settle(log)
    write(log, "small")
    assert keys(state_records.read(log, WAIT_S)) == ["big", "small"]


def test_a_failed_record_is_not_overtaken(place):
    log = opened(place)
    write(log, "before")
    answers = Answers()
    log.append(MAP, b"large", TOO_LARGE, on_recorded=answers.about("large"))
    try:
        log.append(MAP, b"behind", b"v", on_recorded=answers.about("behind"))
    except FlowStateLogBrokenError as error:  # the answer was there already
        answers.about("behind")(error)
    settle(log)
    assert answers.recorded == []
    assert list(answers.failed) == ["large", "behind"]
    assert "max.message.bytes" in str(answers.failed["large"])
    for topic in FlowStateTopic:
        with pytest.raises(FlowStateLogBrokenError):
            log.append(topic, b"later", b"v", on_recorded=answers.about("later"))
    assert keys(state_records.read(log, WAIT_S)) == ["before"]
    log.open(WAIT_S)
    write(log, "again")
    assert keys(state_records.read(log, WAIT_S)) == ["before", "again"]
    assert len(answers.heard) == 2


def test_records_wait_while_the_target_is_away(place):
    log = opened(place)
    answers = Answers()
    with place.away():
        log.append(MAP, b"key", b"v", on_recorded=answers.about("key"))
        log.poll(0.3)
        assert log.pending_record_count == 1
        with pytest.raises(RetriableError):
            state_records.read(log, 0.5)
    settle(log)
    assert answers.recorded == ["key"]
    assert keys(state_records.read(log, WAIT_S)) == ["key"]


def test_closing_waits_for_what_is_pending(place):
    log = opened(place)
    answers = Answers()
    for number in range(100):
        log.append(MAP, b"%d" % number, b"v", on_recorded=answers.about(str(number)))
    log.close(WAIT_S)
    assert answers.recorded == [str(number) for number in range(100)]
    assert len(state_records.read(opened(place), WAIT_S)) == 100


def test_closing_tells_what_it_did_not_wait_for(place):
    log = opened(place)
    write(log, "warm")
    answers = Answers()
    with place.away():
        log.append(MAP, b"a", b"v", on_recorded=answers.about("a"))
        log.append(INCIDENTS, b"b", b"v", on_recorded=answers.about("b"))
        log.close(0.2)
    assert sorted(answers.failed) == ["a", "b"]
    assert isinstance(answers.failed["a"], RetriableError)
    assert log.pending_record_count == 0


def test_closing_twice_or_before_opening_does_nothing(place):
    log = place.log()
    log.close(0.0)
    log.open(WAIT_S)
    log.close(WAIT_S)
    log.close(0.0)


@pytest.mark.parametrize("topic", list(FlowStateTopic))
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_forgets_by_age_is_refused(place, topic, policy):
    place.create(topic, partitions=1, policy=policy)
    with pytest.raises(FatalError) as refused:
        place.log().open(WAIT_S)
    name = kafka_client_interfaces.build_flow_state_topic_names(place.alias)[topic]
    for part in (name, "cleanup.policy", policy, "kafka-configs", "cleanup.policy=compact"):
        assert part in str(refused.value)


def test_a_topic_of_several_partitions_is_refused(place):
    place.create(INCIDENTS, partitions=2, policy="compact")
    with pytest.raises(FatalError) as refused:
        place.log().open(WAIT_S)
    for part in (
        kafka_client_interfaces.build_flow_state_topic_names(place.alias)[INCIDENTS],
        "2 partitions",
        "kafka-topics",
    ):
        assert part in str(refused.value)


def test_a_suitable_topic_is_used_as_it_is(place):
    place.create(MAP, partitions=1, policy="compact")
    log = opened(place)
    write(log, "a")
    assert keys(state_records.read(log, WAIT_S)) == ["a"]


def _append_and_hear(log: FlowStateLog) -> Exception | None:
    answers = Answers()
    log.append(MAP, b"new", b"v", on_recorded=answers.about("new"))
    settle(log)
    return answers.failed.get("new")


def _read(log: FlowStateLog) -> Exception | None:
    """What a reader is told in the end: while the topic is being made again, it may take long."""
    told: Exception | None = None
    for _ in range(5):
        try:
            state_records.read(log, 3.0)
        except RetriableError as error:
            told = error
            if isinstance(error, LogTruncatedError):
                break
    return told


@pytest.mark.parametrize("use", [_append_and_hear, _read])
def test_a_topic_made_again_under_us_is_noticed(
    place: Place, use: Callable[[FlowStateLog], Exception | None]
) -> None:
    log = opened(place)
    write(log, "a", "b")
    assert keys(state_records.read(log, WAIT_S)) == ["a", "b"]
    place.make_again(MAP)
    assert isinstance(use(log), LogTruncatedError)
    log.open(WAIT_S)
    assert "a" not in keys(state_records.read(log, WAIT_S))
