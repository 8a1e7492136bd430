from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.base import ids
from connect_runtime.core.state import skipped, status_log, status_records
from tests.support import examples

State = status_records.State
TASK = ids.ConnectorTaskId("c", 0)


def says(state, generation=1, worker="a:1"):
    return status_records.Status(state=state, worker_id=worker, generation=generation)


def feed(log, *records):
    return [log.apply(each.key, each.value, offset=at) for at, each in enumerate(records)]


def test_the_last_word_counts():
    log = status_log.StatusLog()
    changes = feed(
        log,
        status_records.status("c", says(State.RUNNING)),
        status_records.status(TASK, says(State.RUNNING)),
        status_records.status(TASK, says(State.FAILED, worker="b:1")),
    )
    assert changes == [
        status_log.StatusChanged("c"),
        status_log.StatusChanged(TASK),
        status_log.StatusChanged(TASK),
    ]
    view = log.snapshot()
    assert view.connectors() == ["c"]
    assert view.get("c") == says(State.RUNNING)
    assert view.tasks("c") == {TASK: says(State.FAILED, worker="b:1")}


@pytest.mark.parametrize(
    ("known", "later", "kept"),
    [
        (says(State.RUNNING, 10), says(State.UNASSIGNED, 9, "b:1"), State.RUNNING),
        (says(State.RUNNING, 10), says(State.UNASSIGNED, 10, "b:1"), State.RUNNING),
        (says(State.RUNNING, 10), says(State.UNASSIGNED, 11, "b:1"), State.UNASSIGNED),
        (says(State.PAUSED, 10), says(State.UNASSIGNED, 9, "b:1"), State.UNASSIGNED),
        (says(State.RUNNING, 10), says(State.FAILED, 9, "b:1"), State.FAILED),
    ],
)
def test_a_stale_unassigned_task_is_dropped(known, later, kept):
    """KAFKA-12525. Only tasks, only UNASSIGNED after RUNNING."""
    log = status_log.StatusLog()
    feed(log, status_records.status(TASK, known))
    [change] = feed(log, status_records.status(TASK, later))
    assert (change is None) == (kept is not later.state)
    assert log.snapshot().task(TASK).state is kept


def test_a_worker_of_another_life_of_the_group_is_believed():
    """…ShouldIgnoreStaleStatusesFromOtherWorkers, its end: RUNNING counts whatever came before."""
    log = status_log.StatusLog()
    feed(log, status_records.status(TASK, says(State.RUNNING, 10)))
    feed(log, status_records.status(TASK, says(State.UNASSIGNED, 9, "b:1")))
    assert log.snapshot().task(TASK) == says(State.RUNNING, 10)
    feed(log, status_records.status(TASK, says(State.RUNNING, 1, "c:1")))
    assert log.snapshot().task(TASK) == says(State.RUNNING, 1, "c:1")


def test_connectors_have_no_stale_status():
    log = status_log.StatusLog()
    feed(log, status_records.status("c", says(State.RUNNING, 10)))
    feed(log, status_records.status("c", says(State.UNASSIGNED, 9)))
    assert log.snapshot().connector("c").state is State.UNASSIGNED


def test_the_deletion_of_a_connector_takes_its_tasks():
    log = status_log.StatusLog()
    feed(
        log,
        status_records.status("c", says(State.RUNNING)),
        status_records.status(TASK, says(State.RUNNING)),
        status_records.status(ids.ConnectorTaskId("d", 1), says(State.RUNNING)),
    )
    assert feed(log, status_records.status("c", says(State.DESTROYED))) == [
        status_log.StatusRemoved("c")
    ]
    view = log.snapshot()
    assert (view.connectors(), view.tasks("c"), len(view.tasks("d"))) == ([], {}, 1)


def test_a_task_is_deleted_alone():
    log = status_log.StatusLog()
    other = ids.ConnectorTaskId("c", 1)
    feed(
        log, *(status_records.status(each, says(State.RUNNING)) for each in ("c", TASK, other)),
        status_records.status(TASK, says(State.DESTROYED)),
    )  # fmt: skip
    assert list(log.snapshot().tasks("c")) == [other]


def test_topics_are_kept_by_connector():
    log = status_log.StatusLog()
    used = [
        status_records.TopicStatus(topic=name, connector="c", task=0, discovered_ms=5)
        for name in ("t2", "t1")
    ]
    feed(log, *map(status_records.topic, used))
    assert [each.topic for each in log.snapshot().topics("c")] == ["t1", "t2"]
    assert log.snapshot().topic("c", "t2") == used[0]
    for name in ("t1", "t2", "never"):
        key = status_records.TopicKey(name, "c")
        assert feed(log, status_records.topic_removal(key)) == [status_log.TopicsChanged("c")]
        log.check_invariants()
    assert log.snapshot().topics("c") == log.snapshot().topics("unknown") == []


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"status-connector-c", b"{"), (b"status-task-c-0", b"null"), (b"status-task-c", b"{}"),
     (b"elsewhere", b"{}"), (None, None), (b"status-topic-t:connector-c", b"{}")],
)  # fmt: skip
def test_bad_records_are_skipped_and_change_nothing(key, value):
    log = status_log.StatusLog()
    feed(log, status_records.status("c", says(State.RUNNING)))
    before = log.snapshot()
    assert isinstance(log.apply(key, value, offset=9), skipped.Skipped)
    assert log.snapshot() == before


def test_a_view_never_changes():
    log = status_log.StatusLog()
    feed(log, status_records.status(TASK, says(State.RUNNING)))
    before = log.snapshot()
    assert log.snapshot() is before
    feed(log, status_records.status(TASK, says(State.PAUSED)))
    assert before.task(TASK).state is State.RUNNING


SUBJECTS = st.sampled_from(["c", "d", TASK, ids.ConnectorTaskId("d", 2)])
RECORDS = st.builds(
    lambda subject, state, generation: (subject, says(state, generation)),
    SUBJECTS, st.sampled_from(list(State)), st.integers(0, 3),
)  # fmt: skip


@settings(max_examples=examples.of(60))
@given(st.lists(RECORDS, max_size=20))
def test_the_fold_agrees_with_a_plain_table_and_replay_changes_nothing(writes):
    log = status_log.StatusLog()
    table: dict[status_records.Subject, status_records.Status] = {}
    for subject, status in writes:
        record = status_records.status(subject, status)
        for _ in range(2):  # a record that comes twice is as good as one
            log.apply(record.key, record.value, offset=0)
        log.check_invariants()
        known = table.get(subject)
        if status.state is State.DESTROYED:
            for each in list(table):
                if each == subject or getattr(each, "connector", None) == subject:
                    del table[each]
        elif not (
            not isinstance(subject, str)
            and status.state is State.UNASSIGNED
            and known is not None
            and known.state is State.RUNNING
            and known.generation >= status.generation
        ):
            table[subject] = status
        view = log.snapshot()
        for each in ("c", "d", TASK, ids.ConnectorTaskId("d", 2)):
            assert view.get(each) == table.get(each)
