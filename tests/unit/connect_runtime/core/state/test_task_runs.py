from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.api import context
from connect_runtime.base import ids
from connect_runtime.core.state import status_records, task_runs

State = status_records.State
TASK = ids.ConnectorTaskId("c", 0)
OURS = "ours"


def told(*words):
    """A fold that has taken these: (who, state, generation), a second apart."""
    runs = task_runs.TaskRuns()
    for at, (who, state, generation) in enumerate(words):
        status = status_records.Status(state=state, worker_id=who, generation=generation)
        gone = state is State.DESTROYED
        author = task_runs.Author(ours=who == OURS, wall_ms=at * 1000)
        runs.take(TASK, None if gone else status, author)
        runs.check_invariants()
    return runs


def run(worker_id="java", began_ms=0, **given):
    return context.OthersRun(worker_id=worker_id, began_ms=began_ms, **given)


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
    assert runs.others("c").get(0) == left
    ran = (OURS, State.RUNNING) in {(who, state) for who, state, _ in words}
    assert runs.ours("c").keys() == ({0} if left is None and ran else set())


REMOVED_AND_ENDED = [
    ("java", State.RUNNING, 1),
    ("java", State.DESTROYED, 1),
    ("java", State.UNASSIGNED, 1),
]


def test_a_task_that_is_removed_may_still_be_run_by_who_has_not_heard_of_it():
    assert told(*REMOVED_AND_ENDED).others("c")[0] == run(ended_ms=2000, removed_ms=1000)
    assert told(*REMOVED_AND_ENDED, ("java", State.DESTROYED, 1)).others("c") == {}
    again = told(*REMOVED_AND_ENDED[:2], ("b", State.RUNNING, 2))
    assert again.others("c")[0] == run(worker_id="b", began_ms=2000, overlaps=True)
    assert told(*REMOVED_AND_ENDED[:2], (OURS, State.RUNNING, 2)).others("c") == {}


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
    assert told(*words).ours("c") == {0: began_ms}


def test_another_worker_of_ours_begins_a_run_of_its_own():
    runs = told((OURS, State.RUNNING, 1))
    status = status_records.Status(state=State.RUNNING, worker_id="ours too", generation=1)
    runs.take(TASK, status, task_runs.Author(ours=True, wall_ms=5))
    late = status_records.Status(state=State.UNASSIGNED, worker_id=OURS, generation=1)
    runs.take(TASK, late, task_runs.Author(ours=True, wall_ms=6))
    runs.take(TASK, status, task_runs.Author(ours=True, wall_ms=7))
    assert runs.ours("c") == {0: 5}


def test_who_ran_it_before_and_never_ended_it_is_not_forgotten():
    runs = told(("a", State.RUNNING, 1), ("b", State.RUNNING, 2), ("b", State.UNASSIGNED, 2))
    assert runs.others("c")[0] == run(worker_id="b", began_ms=1000, ended_ms=2000, overlaps=True)


def test_an_end_that_is_told_late_is_that_of_the_run_before():
    runs = told(("a", State.RUNNING, 1), ("b", State.RUNNING, 2), ("a", State.UNASSIGNED, 1))
    assert runs.others("c")[0] == run(worker_id="b", began_ms=1000)


def test_a_pause_is_part_of_a_run():
    words = [("java", each, 1) for each in (State.RUNNING, State.PAUSED, State.RUNNING)]
    assert told(*words).others("c")[0] == run()


def test_connectors_are_kept_apart():
    runs = told(("java", State.RUNNING, 1))
    assert runs.others("other") == {}
    assert runs.ours("other") == {}


words = st.tuples(
    st.sampled_from(["java", "b", OURS]), st.sampled_from(list(State)), st.integers(1, 4)
)


@given(st.lists(words, max_size=12))
def test_once_we_run_it_nothing_of_before_counts(said):
    assert told(*said, (OURS, State.RUNNING, 9)).others("c") == {}
