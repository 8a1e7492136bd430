from __future__ import annotations

import pytest

from connect_runtime.core.state import status_records
from connect_runtime.core.task import state_times

State = status_records.State
UNASSIGNED, RUNNING, PAUSED, FAILED = State.UNASSIGNED, State.RUNNING, State.PAUSED, State.FAILED


def test_before_the_first_state_no_time_is_spent():
    times = state_times.StateTimes()
    assert times.state is None
    assert [times.ratio(each, 5.0) for each in State] == [0.0] * len(State)


def test_time_is_shared_out_among_states():
    """StateTrackerTest."""
    times, now_s = state_times.StateTimes(), 100.0
    steps = [
        (UNASSIGNED, 1, (1.0, 0.0, 0.0, 0.0)),
        (RUNNING, 3, (0.25, 0.75, 0.0, 0.0)),
        (PAUSED, 4, (0.125, 0.375, 0.5, 0.0)),
        (RUNNING, 8, (0.0625, 0.6875, 0.25, 0.0)),
        (FAILED, 16, (0.03125, 0.34375, 0.125, 0.5)),
    ]
    for state, seconds, ratios in steps:
        times.enter(state, now_s)
        now_s += seconds
        times.enter(state, now_s)  # again: nothing changes
        assert times.state is state
        found = tuple(times.ratio(each, now_s) for each in (UNASSIGNED, RUNNING, PAUSED, FAILED))
        assert found == pytest.approx(ratios)


def test_a_state_just_entered_has_no_share_yet():
    times = state_times.StateTimes()
    times.enter(RUNNING, 5.0)
    assert times.ratio(RUNNING, 5.0) == 0.0
