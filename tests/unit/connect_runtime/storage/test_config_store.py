"""Writes become state when they are read back, in the order that other readers rely on."""

from __future__ import annotations

from collections import deque

import pytest

from connect_runtime.api.plugin_context import LeaderlessPeriod, PublishedTaskConfig
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import config_records, config_store
from connect_runtime.storage.cluster_config_state import SessionKey, TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.config_topic import (
    ConnectorConfigured,
    ConnectorRemoved,
    RestartRequested,
    SessionKeyChanged,
    TargetStateChanged,
    TaskConfigsCommitted,
)
from connect_runtime.storage.internal_topic_log import WritePrivilegeLost
from connect_runtime.storage.memory_and_offset_file_logs import MemoryLog
from connect_runtime.system.system_clock import SystemClock
from tests.fakes.plugin_contexts import Clock
from tests.fakes.shared_log import FakeSharedLog, FakeTopic

PAUSED = TargetState.PAUSED
CLOCK = SystemClock()
HOUR_MS, WALL_MS = 3_600_000, 1_700_000_000_000
KEY = SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=1)


class Watched(FakeSharedLog):
    """Notes when it is read to its end, among the records."""

    def __init__(self, topic):
        super().__init__(topic)
        self.seen: list[str] = []
        self.topic = topic

    def read_to_end(self, timeout_s):
        self.seen.append("read")
        super().read_to_end(timeout_s)

    def send(self, record, *, on_recorded):
        self.seen.append(record.key.decode())
        super().send(record, on_recorded=on_recorded)


class Fenced:
    """Implements `FencedWriter` beside a fake topic."""

    def __init__(self, topic):
        self.topic = topic
        self.claimed = False

    def claim_write_privileges(self, timeout_s):
        self.claimed = True

    def write_records(self, records, timeout_s):
        if not self.claimed:
            raise WritePrivilegeLost("not claimed")
        for record in records:
            self.topic.append(record.key, record.value)

    def stop(self):
        self.claimed = False


@pytest.fixture
def topic():
    return FakeTopic(silent=True)


@pytest.fixture
def log(topic):
    return Watched(topic)


@pytest.fixture
def changes():
    return []


@pytest.fixture
def store(log, changes):
    store = ConfigBackingStore(log, clock=CLOCK, on_change=changes.append)
    store.start(1.0)
    yield store
    store.stop(1.0)


def test_a_connector_is_there_when_the_write_returns(store, changes, log):
    store.put_connector("c", {"a": "1", "b": None})
    assert store.snapshot().config("c") == {"a": "1", "b": None}
    assert changes == [ConnectorConfigured("c", created=True)]
    assert log.seen == ["connector-c", "read"]


def test_a_target_state_goes_before_the_connector_that_is_created_in_it(store, log, changes):
    """KafkaConfigBackingStoreTest.testPutConnectorConfigWithTargetState: of it nobody is told."""
    store.put_connector("c", {}, target_state=PAUSED)
    assert changes == [ConnectorConfigured("c", created=True)]
    assert log.seen == ["target-state-c", "connector-c", "read"]
    assert store.snapshot().target_state("c") is PAUSED


def test_a_removal_takes_the_target_state_along(store, changes, log):
    store.put_connector("c", {})
    del changes[:], log.seen[:]
    store.remove_connector("c")
    assert log.seen == ["connector-c", "target-state-c", "read"]
    assert changes == [ConnectorRemoved("c", existed=True)]
    assert not store.snapshot().has_connector("c")


def test_task_configs_are_read_back_before_they_are_committed(store, changes, log):
    """KafkaConfigBackingStoreTest.testPutTaskConfigs."""
    store.put_connector("c", {})
    del changes[:], log.seen[:]
    store.put_task_configs("c", [{"t": "0"}, {"t": "1"}])
    assert log.seen == ["read", "task-c-0", "task-c-1", "read", "commit-c", "read"]
    tasks = [ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)]
    assert changes == [TaskConfigsCommitted("c", tuple(tasks))]
    assert store.snapshot().task_config(tasks[1]) == {"t": "1"}


def test_no_tasks_are_only_committed(store, log):
    """KafkaConfigBackingStoreTest.testPutTaskConfigsZeroTasks."""
    store.put_connector("c", {})
    del log.seen[:]
    store.put_task_configs("c", [])
    assert log.seen == ["read", "commit-c", "read"]
    assert store.snapshot().tasks("c") == []


def test_a_whole_set_resolves_what_was_inconsistent(store, topic):
    """KafkaConfigBackingStoreTest.testPutTaskConfigsDoesNotResolveAllInconsistencies."""
    task0, task1 = config_records.encode_task_configs("c", [{}, {}])
    for record in (
        config_records.encode_connector_config("c", {}),
        task1,
        config_records.encode_task_config_commit("c", 2),
        task0,
    ):
        topic.append(record.key, record.value)
    store.refresh(1.0)
    assert store.snapshot().inconsistent_connectors() == ["c"]
    assert store.snapshot().tasks("c") == []
    store.put_task_configs("c", [{"t": "0"}])
    assert store.snapshot().inconsistent_connectors() == []
    assert store.snapshot().tasks("c") == [ConnectorTaskId("c", 0)]


def test_the_rest_is_read_back_too(store, changes, log):
    request = RestartRequest(connector="c", include_tasks=True)
    store.put_restart_request(request)
    store.put_session_key(KEY)
    store.put_fencing_count("c", 4)
    assert log.seen == [
        "restart-connector-c",
        "read",
        "session-key",
        "read",
        "tasks-fencing-c",
        "read",
    ]
    assert changes == [RestartRequested(request), SessionKeyChanged(KEY)]
    assert store.snapshot().fencing_count("c") == 4


def test_what_every_worker_may_write_is_not_read_back(store, log):
    store.put_target_state("c", PAUSED)
    store.put_logger_level("org.x", "DEBUG")
    assert log.seen == ["target-state-c", "logger-cluster-org.x"]


def test_what_is_over_is_not_told_but_what_comes_is(topic, changes):
    """KafkaConfigBackingStoreTest.testRestoreRestartRequestInconsistentState and its like."""
    request = config_records.encode_restart_request(RestartRequest(connector="c"))
    topic.append(request.key, request.value)
    store = ConfigBackingStore(FakeSharedLog(topic), clock=CLOCK, on_change=changes.append)
    store.start(1.0)
    assert changes == []
    topic.append(request.key, b"{}")
    store.refresh(1.0)
    assert changes == [RestartRequested(RestartRequest(connector="c"))]


def test_a_refused_record_is_the_writers_failure(store, topic):
    topic.refusals = deque([FatalError("no right to")])
    with pytest.raises(FatalError, match="no right to"):
        store.put_connector("c", {})
    with pytest.raises(RetriableError), topic.unreachable():
        store.refresh(0.01)


class Hours:
    """A clock that a slow log moves on."""

    def __init__(self):
        self.at_s = 0.0

    def now_s(self):
        return self.at_s

    def wall_ms(self):
        return 0


class Slow(Watched):
    """Takes 14.5 s for a record, and notes how long it was given to read to its end."""

    def __init__(self, topic, hours):
        super().__init__(topic)
        self.hours = hours
        self.given: list[float] = []

    def send(self, record, *, on_recorded):
        self.hours.at_s += 14.5
        super().send(record, on_recorded=on_recorded)

    def read_to_end(self, timeout_s):
        self.given.append(timeout_s)
        super().read_to_end(timeout_s)


def test_all_of_a_write_has_one_deadline(topic):
    """testRemoveConnectorConfigSlowProducer: what sending took is not left for reading."""
    hours = Hours()
    log = Slow(topic, hours)
    store = ConfigBackingStore(log, clock=hours, on_change=lambda _: None)
    store.start(1.0)
    store.remove_connector("c")
    assert log.given == [pytest.approx(config_store.WRITE_TIMEOUT_S - 29)]
    hours.at_s, log.given = 0.0, []
    store.put_task_configs("c", [{}, {}])
    assert log.given == [30.0, pytest.approx(1.0), 0.0]


def test_a_bad_record_is_logged_with_its_place_and_skipped(store, topic, caplog):
    topic.append(b"connector-a", b"\xff{")
    topic.append(b"connector-b", b'{"properties":{"secret":1}}')
    store.put_connector("c", {})
    assert store.snapshot().connectors() == ["c"]
    assert "fake-0 at offset 0" in caplog.text
    assert "fake-0 at offset 1" in caplog.text


def test_a_log_that_starts_over_shows_no_half_and_tells_what_differs(store, topic, changes):
    store.put_connector("a", {"x": "1"})
    store.put_connector("b", {})
    seen = store.snapshot()
    del changes[:]
    topic.records[:] = topic.records[1:]
    halves: list[object] = []
    for reader in topic.readers:
        reader._told = 0
        listener = reader._listener
        listener.on_log_reset()
        halves.append(store.snapshot())
        reader.hear()
        halves.append(store.snapshot())
        listener.on_replay_completed()
    assert halves == [seen, seen]
    assert store.snapshot().connectors() == ["b"]
    assert changes == [ConnectorRemoved("a", existed=True)]


def test_only_who_claimed_may_write_as_leader(topic, changes):
    """KafkaConfigBackingStoreTest.testFencableProducerPropertiesInferredByDefault and the like."""
    fenced = Fenced(topic)
    store = ConfigBackingStore(
        FakeSharedLog(topic), clock=CLOCK, on_change=changes.append, fenced=fenced
    )
    store.start(1.0)
    with pytest.raises(WritePrivilegeLost):
        store.put_connector("c", {})
    store.put_target_state("c", PAUSED)
    store.claim_write_privileges()
    store.put_connector("c", {})
    store.put_task_configs("c", [{}])
    assert store.snapshot().tasks("c") == [ConnectorTaskId("c", 0)]
    assert store.snapshot().target_state("c") is PAUSED
    store.stop(1.0)
    assert not fenced.claimed


def test_without_exactly_once_there_is_nothing_to_claim(store):
    store.claim_write_privileges()
    store.put_connector("c", {})


def test_standalone_keeps_it_in_memory(changes):
    store = ConfigBackingStore(MemoryLog("configs"), clock=CLOCK, on_change=changes.append)
    store.start(1.0)
    store.put_connector("c", {"a": "1"})
    store.put_task_configs("c", [{"t": "0"}])
    store.put_target_state("c", PAUSED)
    assert store.snapshot().task_config(ConnectorTaskId("c", 0)) == {"t": "0"}
    assert [type(each) for each in changes] == [
        ConnectorConfigured,
        TaskConfigsCommitted,
        TargetStateChanged,
    ]
    store.stop(1.0)
    with pytest.raises(FatalError, match="stopped"):
        store.put_connector("c", {})


@pytest.mark.parametrize(
    ("created_ms", "expected"),
    [
        (None, None),
        (WALL_MS - HOUR_MS, None),  # its leader may live
        (WALL_MS - HOUR_MS - 1, LeaderlessPeriod(from_ms=WALL_MS - 1, to_ms=WALL_MS)),
        (1, LeaderlessPeriod(from_ms=HOUR_MS + 1, to_ms=WALL_MS)),
    ],
)
def test_a_key_that_nobody_renewed_tells_of_a_time_without_a_leader(topic, created_ms, expected):
    if created_ms is not None:
        key = SessionKey(key=b"k" * 32, algorithm="Hmac", created_ms=created_ms)
        record = config_records.encode_session_key(key)
        topic.append(record.key, record.value)
    at = Clock(wall=WALL_MS)
    store = ConfigBackingStore(Watched(topic), clock=at, on_change=lambda _: None)
    store.start(1.0)
    at.wall += 5 * HOUR_MS  # what comes after the start is no evidence
    assert store.find_leaderless_period_before_start(HOUR_MS) == expected
    store.put_session_key(KEY)
    assert store.find_leaderless_period_before_start(HOUR_MS) == expected
    store.stop(1.0)


def test_what_tasks_were_given_has_the_time_of_its_record(store, topic):
    store.put_connector("c", {})
    topic.wall_ms = 5
    store.put_task_configs("c", [{"a": "1"}])
    (given,) = store.get_task_config_history("c")[0]
    assert given == PublishedTaskConfig(config={"a": "1"}, published_ms=5)
    assert store.get_task_config_history("other") == {}
