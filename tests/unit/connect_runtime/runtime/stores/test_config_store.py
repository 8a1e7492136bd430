"""Writes become state when they are read back, in the order that other readers rely on."""

from __future__ import annotations

from collections import deque

import pytest

from connect_runtime.api import context
from connect_runtime.base import errors, ids
from connect_runtime.core.state import cluster_config, config_log, config_records
from connect_runtime.ports import fenced_writer
from connect_runtime.runtime.stores import config_store, memory_log
from connect_runtime.system import clock
from tests.fakes import plugin_contexts, shared_log

PAUSED = cluster_config.TargetState.PAUSED
CLOCK = clock.SystemClock()
HOUR_MS, WALL_MS = 3_600_000, 1_700_000_000_000
KEY = cluster_config.SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=1)


class Watched(shared_log.FakeSharedLog):
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
    """Implements `fenced_writer.FencedWriter` beside a fake topic."""

    def __init__(self, topic):
        self.topic = topic
        self.claimed = False

    def claim(self, timeout_s):
        self.claimed = True

    def write(self, records, timeout_s):
        if not self.claimed:
            raise fenced_writer.PrivilegeLost("not claimed")
        for record in records:
            self.topic.append(record.key, record.value)

    def stop(self):
        self.claimed = False


@pytest.fixture
def topic():
    return shared_log.FakeTopic(silent=True)


@pytest.fixture
def log(topic):
    return Watched(topic)


@pytest.fixture
def changes():
    return []


@pytest.fixture
def store(log, changes):
    store = config_store.ConfigStore(log, clock=CLOCK, on_change=changes.append)
    store.start(1.0)
    yield store
    store.stop(1.0)


def test_a_connector_is_there_when_the_write_returns(store, changes, log):
    store.put_connector("c", {"a": "1", "b": None})
    assert store.snapshot().config("c") == {"a": "1", "b": None}
    assert changes == [config_log.ConnectorConfigured("c", created=True)]
    assert log.seen == ["connector-c", "read"]


def test_a_target_state_goes_before_the_connector_that_is_created_in_it(store, log, changes):
    """KafkaConfigBackingStoreTest.testPutConnectorConfigWithTargetState: of it nobody is told."""
    store.put_connector("c", {}, target_state=PAUSED)
    assert changes == [config_log.ConnectorConfigured("c", created=True)]
    assert log.seen == ["target-state-c", "connector-c", "read"]
    assert store.snapshot().target_state("c") is PAUSED


def test_a_removal_takes_the_target_state_along(store, changes, log):
    store.put_connector("c", {})
    del changes[:], log.seen[:]
    store.remove_connector("c")
    assert log.seen == ["connector-c", "target-state-c", "read"]
    assert changes == [config_log.ConnectorRemoved("c", existed=True)]
    assert not store.snapshot().contains("c")


def test_task_configs_are_read_back_before_they_are_committed(store, changes, log):
    """KafkaConfigBackingStoreTest.testPutTaskConfigs."""
    store.put_connector("c", {})
    del changes[:], log.seen[:]
    store.put_task_configs("c", [{"t": "0"}, {"t": "1"}])
    assert log.seen == ["read", "task-c-0", "task-c-1", "read", "commit-c", "read"]
    tasks = [ids.ConnectorTaskId("c", 0), ids.ConnectorTaskId("c", 1)]
    assert changes == [config_log.TasksCommitted("c", tuple(tasks))]
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
    task0, task1 = config_records.task_configs("c", [{}, {}])
    for record in (
        config_records.connector("c", {}),
        task1,
        config_records.commit("c", 2),
        task0,
    ):
        topic.append(record.key, record.value)
    store.refresh(1.0)
    assert store.snapshot().inconsistent_connectors() == ["c"]
    assert store.snapshot().tasks("c") == []
    store.put_task_configs("c", [{"t": "0"}])
    assert store.snapshot().inconsistent_connectors() == []
    assert store.snapshot().tasks("c") == [ids.ConnectorTaskId("c", 0)]


def test_the_rest_is_read_back_too(store, changes, log):
    request = config_records.RestartRequest(connector="c", include_tasks=True)
    store.put_restart(request)
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
    assert changes == [config_log.RestartRequested(request), config_log.SessionKeyChanged(KEY)]
    assert store.snapshot().fencing_count("c") == 4


def test_what_every_worker_may_write_is_not_read_back(store, log):
    store.put_target_state("c", PAUSED)
    store.put_logger_level("org.x", "DEBUG")
    assert log.seen == ["target-state-c", "logger-cluster-org.x"]


def test_what_is_over_is_not_told_but_what_comes_is(topic, changes):
    """KafkaConfigBackingStoreTest.testRestoreRestartRequestInconsistentState and its like."""
    request = config_records.restart(config_records.RestartRequest(connector="c"))
    topic.append(request.key, request.value)
    store = config_store.ConfigStore(
        shared_log.FakeSharedLog(topic), clock=CLOCK, on_change=changes.append
    )
    store.start(1.0)
    assert changes == []
    topic.append(request.key, b"{}")
    store.refresh(1.0)
    assert changes == [config_log.RestartRequested(config_records.RestartRequest(connector="c"))]


def test_a_refused_record_is_the_writers_failure(store, topic):
    topic.refusals = deque([errors.FatalError("no right to")])
    with pytest.raises(errors.FatalError, match="no right to"):
        store.put_connector("c", {})
    with pytest.raises(errors.RetriableError), topic.unreachable():
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
    store = config_store.ConfigStore(log, clock=hours, on_change=lambda _: None)
    store.start(1.0)
    store.remove_connector("c")
    assert log.given == [pytest.approx(config_store.WRITE_S - 29)]
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
        listener.on_start_over()
        halves.append(store.snapshot())
        reader.hear()
        halves.append(store.snapshot())
        listener.on_replayed()
    assert halves == [seen, seen]
    assert store.snapshot().connectors() == ["b"]
    assert changes == [config_log.ConnectorRemoved("a", existed=True)]


def test_only_who_claimed_may_write_as_leader(topic, changes):
    """KafkaConfigBackingStoreTest.testFencableProducerPropertiesInferredByDefault and the like."""
    fenced = Fenced(topic)
    store = config_store.ConfigStore(
        shared_log.FakeSharedLog(topic), clock=CLOCK, on_change=changes.append, fenced=fenced
    )
    store.start(1.0)
    with pytest.raises(fenced_writer.PrivilegeLost):
        store.put_connector("c", {})
    store.put_target_state("c", PAUSED)
    store.claim_writes()
    store.put_connector("c", {})
    store.put_task_configs("c", [{}])
    assert store.snapshot().tasks("c") == [ids.ConnectorTaskId("c", 0)]
    assert store.snapshot().target_state("c") is PAUSED
    store.stop(1.0)
    assert not fenced.claimed


def test_without_exactly_once_there_is_nothing_to_claim(store):
    store.claim_writes()
    store.put_connector("c", {})


def test_standalone_keeps_it_in_memory(changes):
    store = config_store.ConfigStore(
        memory_log.MemoryLog("configs"), clock=CLOCK, on_change=changes.append
    )
    store.start(1.0)
    store.put_connector("c", {"a": "1"})
    store.put_task_configs("c", [{"t": "0"}])
    store.put_target_state("c", PAUSED)
    assert store.snapshot().task_config(ids.ConnectorTaskId("c", 0)) == {"t": "0"}
    assert [type(each) for each in changes] == [
        config_log.ConnectorConfigured,
        config_log.TasksCommitted,
        config_log.TargetStateChanged,
    ]
    store.stop(1.0)
    with pytest.raises(errors.FatalError, match="stopped"):
        store.put_connector("c", {})


@pytest.mark.parametrize(
    ("created_ms", "expected"),
    [
        (None, None),
        (WALL_MS - HOUR_MS, None),  # its leader may live
        (WALL_MS - HOUR_MS - 1, context.Quiet(from_ms=WALL_MS - 1, to_ms=WALL_MS)),
        (1, context.Quiet(from_ms=HOUR_MS + 1, to_ms=WALL_MS)),
    ],
)
def test_a_key_that_nobody_renewed_tells_of_a_time_without_a_leader(topic, created_ms, expected):
    if created_ms is not None:
        key = cluster_config.SessionKey(key=b"k" * 32, algorithm="Hmac", created_ms=created_ms)
        record = config_records.session_key(key)
        topic.append(record.key, record.value)
    at = plugin_contexts.Clock(wall=WALL_MS)
    store = config_store.ConfigStore(Watched(topic), clock=at, on_change=lambda _: None)
    store.start(1.0)
    at.wall += 5 * HOUR_MS  # what comes after the start is no evidence
    assert store.quiet(HOUR_MS) == expected
    store.put_session_key(KEY)
    assert store.quiet(HOUR_MS) == expected
    store.stop(1.0)


def test_what_tasks_were_given_has_the_time_of_its_record(store, topic):
    store.put_connector("c", {})
    topic.wall_ms = 5
    store.put_task_configs("c", [{"a": "1"}])
    (given,) = store.given("c")[0]
    assert given == context.TaskGiven(config={"a": "1"}, at_ms=5)
    assert store.given("other") == {}
