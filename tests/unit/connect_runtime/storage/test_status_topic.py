from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.api.plugin_context import JavaWorkerTaskRun
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import status_records
from connect_runtime.storage.internal_topic_log import SkippedRecord
from connect_runtime.storage.status_records import (
    RunState,
    RunStatus,
    StatusSubject,
    TopicStatus,
    TopicStatusKey,
)
from connect_runtime.storage.status_topic import (
    ActiveTopicsChanged,
    StatusChanged,
    StatusRecordOrigin,
    StatusRemoved,
    StatusTopicState,
    TaskRunHistory,
)
from tests.support import examples

State = RunState
TASK = ConnectorTaskId("c", 0)


def says(state, generation=1, worker="a:1"):
    return RunStatus(state=state, worker_id=worker, generation=generation)


def feed(log, *records):
    return [log.apply_record(each.key, each.value, offset=at) for at, each in enumerate(records)]


def test_the_last_word_counts():
    log = StatusTopicState()
    changes = feed(
        log,
        status_records.encode_status("c", says(State.RUNNING)),
        status_records.encode_status(TASK, says(State.RUNNING)),
        status_records.encode_status(TASK, says(State.FAILED, worker="b:1")),
    )
    assert changes == [
        StatusChanged("c"),
        StatusChanged(TASK),
        StatusChanged(TASK),
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
    log = StatusTopicState()
    feed(log, status_records.encode_status(TASK, known))
    [change] = feed(log, status_records.encode_status(TASK, later))
    assert (change is None) == (kept is not later.state)
    assert log.snapshot().task(TASK).state is kept


def test_a_worker_of_another_life_of_the_group_is_believed():
    """…ShouldIgnoreStaleStatusesFromOtherWorkers, its end: RUNNING counts whatever came before."""
    log = StatusTopicState()
    feed(log, status_records.encode_status(TASK, says(State.RUNNING, 10)))
    feed(log, status_records.encode_status(TASK, says(State.UNASSIGNED, 9, "b:1")))
    assert log.snapshot().task(TASK) == says(State.RUNNING, 10)
    feed(log, status_records.encode_status(TASK, says(State.RUNNING, 1, "c:1")))
    assert log.snapshot().task(TASK) == says(State.RUNNING, 1, "c:1")


def test_connectors_have_no_stale_status():
    log = StatusTopicState()
    feed(log, status_records.encode_status("c", says(State.RUNNING, 10)))
    feed(log, status_records.encode_status("c", says(State.UNASSIGNED, 9)))
    assert log.snapshot().connector("c").state is State.UNASSIGNED


def test_the_deletion_of_a_connector_takes_its_tasks():
    log = StatusTopicState()
    feed(
        log,
        status_records.encode_status("c", says(State.RUNNING)),
        status_records.encode_status(TASK, says(State.RUNNING)),
        status_records.encode_status(ConnectorTaskId("d", 1), says(State.RUNNING)),
    )
    assert feed(log, status_records.encode_status("c", says(State.DESTROYED))) == [
        StatusRemoved("c")
    ]
    view = log.snapshot()
    assert (view.connectors(), view.tasks("c"), len(view.tasks("d"))) == ([], {}, 1)


def test_a_task_is_deleted_alone():
    log = StatusTopicState()
    other = ConnectorTaskId("c", 1)
    feed(
        log,
        *(status_records.encode_status(each, says(State.RUNNING)) for each in ("c", TASK, other)),
        status_records.encode_status(TASK, says(State.DESTROYED)),
    )  # fmt: skip
    assert list(log.snapshot().tasks("c")) == [other]


def test_topics_are_kept_by_connector():
    log = StatusTopicState()
    used = [
        TopicStatus(topic=name, connector="c", task=0, discovered_ms=5) for name in ("t2", "t1")
    ]
    feed(log, *map(status_records.encode_topic_status, used))
    assert [each.topic for each in log.snapshot().topics("c")] == ["t1", "t2"]
    assert log.snapshot().topic("c", "t2") == used[0]
    for name in ("t1", "t2", "never"):
        key = TopicStatusKey(name, "c")
        assert feed(log, status_records.encode_topic_removal(key)) == [ActiveTopicsChanged("c")]
        log.check_invariants()
    assert log.snapshot().topics("c") == log.snapshot().topics("unknown") == []


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"status-connector-c", b"{"), (b"status-task-c-0", b"null"), (b"status-task-c", b"{}"),
     (b"elsewhere", b"{}"), (None, None), (b"status-topic-t:connector-c", b"{}")],
)  # fmt: skip
def test_bad_records_are_skipped_and_change_nothing(key, value):
    log = StatusTopicState()
    feed(log, status_records.encode_status("c", says(State.RUNNING)))
    before = log.snapshot()
    assert isinstance(log.apply_record(key, value, offset=9), SkippedRecord)
    assert log.snapshot() == before


def test_a_view_never_changes():
    log = StatusTopicState()
    feed(log, status_records.encode_status(TASK, says(State.RUNNING)))
    before = log.snapshot()
    assert log.snapshot() is before
    feed(log, status_records.encode_status(TASK, says(State.PAUSED)))
    assert before.task(TASK).state is State.RUNNING


SUBJECTS = st.sampled_from(["c", "d", TASK, ConnectorTaskId("d", 2)])
RECORDS = st.builds(
    lambda subject, state, generation: (subject, says(state, generation)),
    SUBJECTS, st.sampled_from(list(State)), st.integers(0, 3),
)  # fmt: skip


@settings(max_examples=examples.of(60))
@given(st.lists(RECORDS, max_size=20))
def test_the_fold_agrees_with_a_plain_table_and_replay_changes_nothing(writes):
    log = StatusTopicState()
    table: dict[StatusSubject, RunStatus] = {}
    for subject, status in writes:
        record = status_records.encode_status(subject, status)
        for _ in range(2):  # a record that comes twice is as good as one
            log.apply_record(record.key, record.value, offset=0)
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
        for each in ("c", "d", TASK, ConnectorTaskId("d", 2)):
            assert view.get(each) == table.get(each)


OURS = "ours"


def told(*words):
    """A fold that has taken these: (who, state, generation), a second apart."""
    runs = TaskRunHistory()
    for at, (who, state, generation) in enumerate(words):
        status = RunStatus(state=state, worker_id=who, generation=generation)
        gone = state is State.DESTROYED
        author = StatusRecordOrigin(is_own=who == OURS, wall_ms=at * 1000)
        runs.apply_status(TASK, None if gone else status, author)
        runs.check_invariants()
    return runs


def run(worker_id="java", began_ms=0, **given):
    return JavaWorkerTaskRun(worker_id=worker_id, started_ms=began_ms, **given)


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ([], None),
        ([("java", State.RUNNING, 1)], run()),
        ([("java", State.RUNNING, 1), ("java", State.UNASSIGNED, 1)], run(ended_ms=1000)),
        ([("java", State.RUNNING, 1), ("java", State.FAILED, 1)], run(ended_ms=1000)),
        ([("java", State.PAUSED, 1)], run()),
        ([("java", State.RUNNING, 1), ("java", State.RESTARTING, 1)], run()),
        ([("java", State.RUNNING, 1), (OURS, State.UNASSIGNED, 2)], run()),
        ([("java", State.RUNNING, 1), (OURS, State.FAILED, 2)], run()),
        ([("java", State.RUNNING, 1), (OURS, State.RUNNING, 2)], None),
        ([("java", State.RUNNING, 1), ("java", State.DESTROYED, 1)], run(removed_ms=1000)),
        ([("java", State.RUNNING, 1), (OURS, State.DESTROYED, 1)], run(removed_ms=1000)),
        ([("java", State.UNASSIGNED, 1)], None),
        ([(OURS, State.RUNNING, 1), ("java", State.RUNNING, 2)], run(began_ms=1000)),
    ],
)
def test_a_run_by_others_lasts_until_they_end_it_or_we_run_the_task(words, left):
    runs = told(*words)
    assert runs.get_java_task_runs("c").get(0) == left
    ran = (OURS, State.RUNNING) in {(who, state) for who, state, _ in words}
    assert runs.get_python_task_start_times("c").keys() == ({0} if left is None and ran else set())


REMOVED_AND_ENDED = [
    ("java", State.RUNNING, 1),
    ("java", State.DESTROYED, 1),
    ("java", State.UNASSIGNED, 1),
]


def test_a_task_that_is_removed_may_still_be_run_by_who_has_not_heard_of_it():
    assert told(*REMOVED_AND_ENDED).get_java_task_runs("c")[0] == run(
        ended_ms=2000, removed_ms=1000
    )
    assert told(*REMOVED_AND_ENDED, ("java", State.DESTROYED, 1)).get_java_task_runs("c") == {}
    again = told(*REMOVED_AND_ENDED[:2], ("b", State.RUNNING, 2))
    assert again.get_java_task_runs("c")[0] == run(worker_id="b", began_ms=2000, overlaps=True)
    assert told(*REMOVED_AND_ENDED[:2], (OURS, State.RUNNING, 2)).get_java_task_runs("c") == {}


@pytest.mark.parametrize(
    ("words", "began_ms"),
    [
        ([(OURS, State.RUNNING, 1), (OURS, State.RUNNING, 2)], 0),
        ([(OURS, State.RUNNING, 1), (OURS, State.RESTARTING, 1), (OURS, State.RUNNING, 1)], 0),
        ([(OURS, State.RUNNING, 1), (OURS, State.UNASSIGNED, 1), (OURS, State.RUNNING, 2)], 2000),
        ([(OURS, State.RUNNING, 1), (OURS, State.FAILED, 1), (OURS, State.RUNNING, 1)], 2000),
        ([(OURS, State.RUNNING, 1), ("java", State.RUNNING, 2), (OURS, State.RUNNING, 3)], 2000),
        ([(OURS, State.RUNNING, 1), ("java", State.UNASSIGNED, 1), (OURS, State.RUNNING, 1)], 0),
    ],
)
def test_a_run_of_ours_begins_with_its_first_word(words, began_ms):
    assert told(*words).get_python_task_start_times("c") == {0: began_ms}


def test_another_worker_of_ours_begins_a_run_of_its_own():
    runs = told((OURS, State.RUNNING, 1))
    status = RunStatus(state=State.RUNNING, worker_id="ours too", generation=1)
    runs.apply_status(TASK, status, StatusRecordOrigin(is_own=True, wall_ms=5))
    late = RunStatus(state=State.UNASSIGNED, worker_id=OURS, generation=1)
    runs.apply_status(TASK, late, StatusRecordOrigin(is_own=True, wall_ms=6))
    runs.apply_status(TASK, status, StatusRecordOrigin(is_own=True, wall_ms=7))
    assert runs.get_python_task_start_times("c") == {0: 5}


def test_who_ran_it_before_and_never_ended_it_is_not_forgotten():
    runs = told(("a", State.RUNNING, 1), ("b", State.RUNNING, 2), ("b", State.UNASSIGNED, 2))
    assert runs.get_java_task_runs("c")[0] == run(
        worker_id="b", began_ms=1000, ended_ms=2000, overlaps=True
    )


def test_an_end_that_is_told_late_is_that_of_the_run_before():
    runs = told(("a", State.RUNNING, 1), ("b", State.RUNNING, 2), ("a", State.UNASSIGNED, 1))
    assert runs.get_java_task_runs("c")[0] == run(worker_id="b", began_ms=1000)


def test_a_pause_is_part_of_a_run():
    words = [("java", each, 1) for each in (State.RUNNING, State.PAUSED, State.RUNNING)]
    assert told(*words).get_java_task_runs("c")[0] == run()


def test_connectors_are_kept_apart():
    runs = told(("java", State.RUNNING, 1))
    assert runs.get_java_task_runs("other") == {}
    assert runs.get_python_task_start_times("other") == {}


words = st.tuples(
    st.sampled_from(["java", "b", OURS]), st.sampled_from(list(State)), st.integers(1, 4)
)


@given(st.lists(words, max_size=12))
def test_once_we_run_it_nothing_of_before_counts(said):
    assert told(*said, (OURS, State.RUNNING, 9)).get_java_task_runs("c") == {}


def test_a_snapshot_does_not_change_with_later_records():
    log = StatusTopicState()
    other = ConnectorTaskId("d", 0)
    feed(
        log,
        status_records.encode_status(TASK, says(State.RUNNING)),
        status_records.encode_status(other, says(State.RUNNING)),
    )
    before = log.snapshot()
    feed(
        log,
        status_records.encode_status(TASK, says(State.FAILED)),
        status_records.encode_status(ConnectorTaskId("c", 1), says(State.RUNNING)),
    )
    now = log.snapshot()
    assert {each.task: status.state for each, status in before.tasks("c").items()} == {
        0: State.RUNNING
    }
    assert {each.task: status.state for each, status in now.tasks("c").items()} == {
        0: State.FAILED,
        1: State.RUNNING,
    }
    assert now.by_task["d"] is before.by_task["d"]  # unchanged tables are not copied again
    log.check_invariants()


def test_records_of_one_connector_are_folded_in_linear_time():
    def fold_s(count):
        log = StatusTopicState()
        began_s = time.process_time()
        feed(
            log,
            *(
                status_records.encode_status(ConnectorTaskId("c", each), says(State.RUNNING))
                for each in range(count)
            ),
        )
        return time.process_time() - began_s

    assert fold_s(20_000) < 20 * fold_s(2_000) + 0.5
