"""Statuses are tried again while they are worth it, and give way to newer words."""

from __future__ import annotations

import sys
from collections import deque

import pytest

from connect_runtime.api.plugin_context import JavaWorkerTaskRun, LastTaskRuns
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import status_records
from connect_runtime.storage.memory_and_offset_file_logs import MemoryLog
from connect_runtime.storage.status_records import RunState, RunStatus, TopicStatus
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from tests.fakes.shared_log import FakeSharedLog, FakeTopic
from tests.support import eventually

State = RunState
CLOCK = SystemClock()
TASK = ConnectorTaskId("c", 0)
REFUSED = RetriableError("too few replicas")


def says(state, generation=1, worker="us:1"):
    return RunStatus(state=state, worker_id=worker, generation=generation)


@pytest.fixture
def topic():
    return FakeTopic(partitions=5)


@pytest.fixture
def store(topic):
    store = StatusBackingStore(FakeSharedLog(topic), clock=CLOCK)
    store.start(1.0)
    yield store
    store.stop(1.0)


def written(topic):
    return [(each.key, each.value is None) for each in topic.records]


def test_what_was_said_is_seen_when_it_was_read_back(store, topic):
    topic.silent = True
    store.put(TASK, says(State.RUNNING))
    store.wait_for_writes(1.0)
    assert store.snapshot().task(TASK) is None
    store.refresh(1.0)
    assert store.snapshot().task(TASK) == says(State.RUNNING)


def test_a_safe_word_gives_way_to_a_newer_one_of_another_worker(store, topic):
    """KafkaStatusBackingStoreTest.putSafe*."""
    theirs = status_records.encode_status("c", says(State.RUNNING, 5, "them:1"))
    topic.append(theirs.key, theirs.value)
    store.put("c", says(State.UNASSIGNED, 4), safe=True)
    assert len(topic.records) == 1
    store.put("c", says(State.RUNNING, 4))
    assert store.snapshot().connector("c") == says(State.RUNNING, 4)


def test_a_destroyed_one_is_forgotten_with_its_tasks(store, topic):
    store.put("c", says(State.RUNNING))
    store.put(TASK, says(State.RUNNING))
    store.put("c", says(State.DESTROYED))
    assert store.snapshot().connectors() == []
    assert store.snapshot().tasks("c") == {}
    assert written(topic)[-1] == (b"status-connector-c", True)


def test_what_was_refused_for_now_is_tried_again_and_told_of_once(store, topic, caplog):
    topic.refusals = deque([REFUSED, REFUSED])
    store.put(TASK, says(State.RUNNING))
    store.wait_for_writes(10.0)
    assert caplog.messages == ["failed to write statuses, retrying: too few replicas"]
    assert store.snapshot().task(TASK) == says(State.RUNNING)
    assert len(topic.records) == 1


def test_what_was_refused_is_not_tried_again_behind_a_newer_word(store, topic):
    topic.refusals = deque([REFUSED])
    store.put(TASK, says(State.RUNNING))
    store.put(TASK, says(State.FAILED))
    store.wait_for_writes(10.0)
    assert len(topic.records) == 1
    assert store.snapshot().task(TASK) == says(State.FAILED)


def test_what_was_refused_does_not_come_back_after_its_removal(store, topic):
    store.put("c", says(State.RUNNING))
    topic.refusals = deque([REFUSED])
    store.put(TASK, says(State.RUNNING))
    gone = status_records.encode_status("c", says(State.DESTROYED))
    topic.append(gone.key, gone.value)
    store.wait_for_writes(10.0)
    assert store.snapshot().tasks("c") == {}
    assert written(topic)[-1] == (b"status-connector-c", True)


def test_what_is_refused_for_good_is_said_and_not_waited_for(store, topic, caplog):
    topic.refusals = deque([FatalError("no right to")])
    store.put(TASK, says(State.RUNNING))
    store.wait_for_writes(1.0)
    assert (
        "record status-task-c-0 is lost, because it cannot be written: no right to" in caplog.text
    )


def test_flushing_ends_at_its_deadline(store, topic):
    with topic.unreachable():
        store.put(TASK, says(State.RUNNING))
        with pytest.raises(RetriableError, match="1 status was"):
            store.wait_for_writes(0.01)
    store.wait_for_writes(1.0)


def test_topics_in_use_are_kept_and_forgotten_per_connector(store, topic):
    for name, connector in (("t1", "c"), ("t2", "c"), ("t1", "d")):
        store.put_topic_status(
            TopicStatus(topic=name, connector=connector, task=0, discovered_ms=1)
        )
    assert [each.topic for each in store.snapshot().topics("c")] == ["t1", "t2"]
    assert store.is_topic_recorded("c", "t1")
    store.delete_active_topics("c")
    assert not store.is_topic_recorded("c", "t1")
    assert store.is_topic_recorded("d", "t1")
    assert store.snapshot().topics("c") == []
    assert [each.topic for each in store.snapshot().topics("d")] == ["t1"]


def test_a_topic_in_use_is_tried_for_ever(store, topic):
    topic.refusals = deque([REFUSED] * 3)
    used = TopicStatus(topic="t", connector="c", task=0, discovered_ms=1)
    store.put_topic_status(used)
    eventually.eventually(
        lambda: store.snapshot().topics("c") == [used], deadline_s=10.0, what="the topic is known"
    )


def test_who_stops_leaves_nobody_waiting(topic):
    store = StatusBackingStore(FakeSharedLog(topic), clock=CLOCK)
    store.start(1.0)
    with topic.unreachable():
        store.put(TASK, says(State.RUNNING))
        store.stop(0.01)
    assert topic.records == []


def test_standalone_keeps_it_in_memory():
    store = StatusBackingStore(MemoryLog("statuses"), clock=CLOCK)
    store.start(1.0)
    store.put(TASK, says(State.RUNNING, 0))
    store.wait_for_writes(1.0)
    assert store.snapshot().task(TASK) == says(State.RUNNING, 0)
    store.stop(1.0)


def test_threads_that_say_different_things_do_not_wait_for_each_other_for_ever():
    """A standalone worker's log tells its listener on the thread that writes."""
    store = StatusBackingStore(MemoryLog("statuses"), clock=CLOCK)
    store.start(1.0)
    used = TopicStatus(topic="t", connector="c", task=0, discovered_ms=1)
    saying = [
        lambda: store.put(TASK, says(State.RUNNING)),
        lambda: store.put_topic_status(used),
        lambda: store.delete_active_topics("c"),
    ]

    def often(say):
        def body(stop):
            for _ in range(300):
                say()
            stop.set()

        return body

    started = ThreadGroup(on_unexpected_end=lambda ended: pytest.fail(str(ended)))
    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        running = [started.start(str(at), often(each)) for at, each in enumerate(saying)]
        assert all(each.join(5.0) for each in running)
    finally:
        sys.setswitchinterval(before_s)
    store.stop(1.0)


def test_who_ran_a_task_last_is_known_by_who_wrote_it(store, topic):
    others = status_records.encode_status(TASK, says(State.RUNNING, worker="java:1"))
    topic.append(others.key, others.value)
    assert store.get_last_task_runs("c") == LastTaskRuns(
        foreign={0: JavaWorkerTaskRun(worker_id="java:1", started_ms=topic.wall_ms)}
    )
    store.put(TASK, says(State.UNASSIGNED))
    assert store.get_last_task_runs("c").foreign.keys() == {0}
    store.put(TASK, says(State.RUNNING))
    assert store.get_last_task_runs("c") == LastTaskRuns(own_start_ms={0: topic.wall_ms})
