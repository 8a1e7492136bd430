from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker.task_state_machine import (
    IterationDone,
    KeepTaskIdle,
    PublishStatus,
    ReconfigurationDone,
    ReconfigurationRequested,
    ReconfigureTask,
    RunTaskOnce,
    ShutDownTask,
    StartTask,
    TaskAbandoned,
    TaskEnded,
    TaskLifecycle,
    TaskLifecycleAction,
    TaskLifecycleEvent,
    TaskPhase,
    TaskStarted,
    TaskStopRequested,
    TaskTargetStateRequested,
    TaskThreadStarted,
)
from tests.support import examples

Target = TargetState
State = RunState
BEGUN, UP, ROUND = TaskThreadStarted(), TaskStarted(), IterationDone()
STOP, GIVEN_UP, OVER = TaskStopRequested(), TaskAbandoned(), TaskEnded()
START_UP, GO_ON, REST = StartTask(), RunTaskOnce(), KeepTaskIdle()
CLOSE = ShutDownTask()
OFFER, CONSIDERED, TAKE_UP = ReconfigurationRequested(), ReconfigurationDone(), ReconfigureTask()


def target(state):
    return TaskTargetStateRequested(state)


def says(state, trace=None, *, safe=False):
    return PublishStatus(state=state, trace=trace, safe=safe)


UNASSIGNED = says(State.UNASSIGNED, safe=True)


def run(initial, *told):
    """The instructions of each event."""
    task = TaskLifecycle(initial)
    return [task.process_event(each) for each in told], task


def test_a_task_starts_runs_and_stops():
    said, task = run(Target.STARTED, BEGUN, UP, ROUND, STOP, ROUND, OVER)
    assert said == [
        [START_UP],
        [says(State.RUNNING), GO_ON],
        [GO_ON],
        [],
        [CLOSE],
        [UNASSIGNED],
    ]
    assert task.phase is TaskPhase.ENDED


def test_a_task_paused_from_the_start_is_not_started_before_it_goes_on():
    said, _ = run(Target.PAUSED, BEGUN, target(Target.PAUSED), target(Target.STARTED), UP)
    assert said == [
        [says(State.PAUSED), REST],
        [],
        [START_UP],
        [says(State.RUNNING), GO_ON],
    ]


def test_a_running_task_pauses_when_it_comes_round_and_goes_on_at_once():
    said, _ = run(
        Target.STARTED, BEGUN, UP, target(Target.PAUSED), ROUND, target(Target.STARTED), ROUND
    )
    assert said[2:] == [[], [says(State.PAUSED), REST], [says(State.RUNNING), GO_ON], [GO_ON]]


def test_paused_and_resumed_between_two_rounds_is_nothing():
    said, _ = run(Target.STARTED, BEGUN, UP, target(Target.PAUSED), target(Target.STARTED), ROUND)
    assert said[2:] == [[], [], [GO_ON]]


@pytest.mark.parametrize("initial", [Target.PAUSED, Target.STARTED])
def test_a_resting_task_stops_at_once(initial):
    events = [BEGUN] if initial is Target.PAUSED else [BEGUN, UP, target(Target.PAUSED), ROUND]
    said, _ = run(initial, *events, STOP, OVER)
    assert said[-2:] == [[CLOSE], [UNASSIGNED]]


@pytest.mark.parametrize("wish", [STOP, target(Target.STOPPED)])
def test_a_task_stopped_before_or_while_starting_never_runs(wish):
    assert run(Target.STARTED, wish, BEGUN, OVER)[0] == [[], [CLOSE], [UNASSIGNED]]
    assert run(Target.STARTED, BEGUN, wish, UP, OVER)[0] == [[START_UP], [], [CLOSE], [UNASSIGNED]]


def test_the_state_stopped_is_for_good():
    said, task = run(
        Target.STARTED, BEGUN, UP, target(Target.STOPPED), target(Target.STARTED), ROUND
    )
    assert said[-1] == [CLOSE]
    assert task.is_stopping
    assert run(Target.STOPPED, BEGUN)[0] == [[CLOSE]]


def test_what_is_thrown_fails_the_task_unless_it_was_stopping_anyway():
    thrown = TaskEnded("Traceback …")
    failed = says(State.FAILED, "Traceback …", safe=True)
    assert run(Target.STARTED, BEGUN, thrown)[0][-1] == [failed]
    assert run(Target.STARTED, BEGUN, UP, thrown)[0][-1] == [failed]
    assert run(Target.STARTED, BEGUN, UP, STOP, thrown)[0][-1] == [UNASSIGNED]


def test_a_task_that_was_given_up_on_says_nothing_more():
    said, _ = run(Target.STARTED, BEGUN, UP, STOP, GIVEN_UP, TaskEnded("late"))
    assert said[-2:] == [[], []]
    said, _ = run(Target.STARTED, BEGUN, GIVEN_UP, UP, target(Target.PAUSED), ROUND)
    assert said[-3:] == [[GO_ON], [], [REST]]


def test_an_offer_is_considered_between_two_rounds():
    said, _ = run(Target.STARTED, BEGUN, UP, OFFER, ROUND, CONSIDERED, ROUND)
    assert said[2:] == [[], [TAKE_UP], [GO_ON], [GO_ON]]
    assert run(Target.STARTED, OFFER, BEGUN, UP)[0][1:] == [
        [START_UP],
        [says(State.RUNNING), TAKE_UP],
    ]


def test_a_resting_task_considers_at_once_and_heeds_what_was_wished_meanwhile():
    said, _ = run(Target.PAUSED, BEGUN, OFFER, CONSIDERED)
    assert said[1:] == [[TAKE_UP], [REST]]
    paused = [BEGUN, UP, target(Target.PAUSED), ROUND, OFFER]
    said, _ = run(Target.STARTED, *paused, target(Target.STARTED), CONSIDERED)
    assert said[-3:] == [[TAKE_UP], [], [says(State.RUNNING), GO_ON]]
    said, _ = run(Target.STARTED, *paused, OFFER, STOP, CONSIDERED)
    assert said[-4:] == [[TAKE_UP], [], [], [CLOSE]]


def test_after_the_end_nothing_happens():
    said, _ = run(Target.STARTED, BEGUN, UP, OVER, OVER, STOP, target(Target.PAUSED), ROUND)
    assert said[3:] == [[], [], [], []]


@settings(max_examples=examples.of(100))
@given(
    st.sampled_from(list(Target)),
    st.lists(
        st.sampled_from([STOP, GIVEN_UP, OFFER, *map(target, (Target.STARTED, Target.PAUSED))])
        | st.none()
    ),
    st.booleans(),
)
def test_every_task_that_is_asked_to_stop_comes_to_its_end(initial, wishes, throws):
    """Its loop obeys: None is a turn of the loop."""
    task = TaskLifecycle(initial)
    waits: list[TaskLifecycleEvent] = [BEGUN]
    said: list[TaskLifecycleAction] = []
    for wish in [*wishes, STOP, *[None] * 5]:
        if wish is None and not waits:
            continue
        new = task.process_event(waits.pop() if wish is None else wish)
        for each in new:
            if each == START_UP:
                waits.append(UP)
            elif each == GO_ON:
                waits.append(ROUND)
            elif each == TAKE_UP:
                waits.append(CONSIDERED)
            elif each == CLOSE:
                waits.append(TaskEnded("thrown" if throws else None))
        said += new
        assert len(waits) <= 1
    assert task.phase is TaskPhase.ENDED
    assert said.count(START_UP) <= 1
    assert said.count(CLOSE) == 1
    last = [each for each in said if isinstance(each, PublishStatus)]
    if GIVEN_UP not in wishes:
        assert last[-1] == UNASSIGNED
