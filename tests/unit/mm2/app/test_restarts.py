"""What has failed is started again, ever more rarely, and in the end no more."""

from __future__ import annotations

import itertools

import pytest

from connect_runtime.core.state import status_records
from mm2.app import restarts

State = status_records.State


def look(planner: restarts.Restarts, now_s: float, *, failed: bool, number: int = 1) -> list[str]:
    return saw(planner, now_s, State.FAILED if failed else State.RUNNING, number=number)


def saw(
    planner: restarts.Restarts, now_s: float, state: State | None, *, number: int = 1
) -> list[str]:
    return planner.due({"task 0": restarts.Attempt(number, state)}, now_s)


def crashes(planner: restarts.Restarts, until_s: float) -> list[float]:
    """When something is started again that fails at once, each time."""
    found: list[float] = []
    now_s = 0.0
    while now_s < until_s:
        if look(planner, now_s, failed=True, number=len(found)):
            found.append(now_s)
        now_s += 0.5
    return found


def test_each_pause_is_longer_than_the_last_up_to_a_minute():
    found = crashes(restarts.Restarts(restarts.UNLIMITED), 400.0)
    pauses = [b - a for a, b in itertools.pairwise(found)]
    assert found[0] == 1.0
    assert pauses == sorted(pauses)
    assert 60.0 <= pauses[-1] <= 61.0


def test_in_the_end_it_is_given_up():
    planner = restarts.Restarts(3)
    assert len(crashes(planner, 400.0)) == 3
    assert planner.given_up(["task 0", "task 1"]) == ["task 0"]


def test_nothing_is_started_again_where_that_is_off():
    planner = restarts.Restarts(0)
    assert crashes(planner, 100.0) == []
    assert planner.given_up(["task 0"]) == ["task 0"]


def test_what_failed_is_started_once_until_its_state_is_news():
    planner = restarts.Restarts(5)
    assert look(planner, 0.0, failed=True) == []
    assert look(planner, 1.0, failed=True) == ["task 0"]
    assert look(planner, 50.0, failed=True) == []
    planner.restarted("task 0", failed=True)
    assert look(planner, 51.0, failed=True) == []
    assert look(planner, 53.0, failed=True) == ["task 0"]


def test_an_attempt_that_was_refused_is_made_again_and_counts_for_nothing():
    planner = restarts.Restarts(1)
    assert look(planner, 0.0, failed=True) == []
    for now_s in (1.0, 2.0, 3.0):
        assert look(planner, now_s, failed=True) == ["task 0"]
        planner.refused("task 0", now_s)
        assert look(planner, now_s + 0.5, failed=True) == []
    assert planner.given_up(["task 0"]) == []


def test_who_ran_for_long_has_no_failures_behind_it():
    planner = restarts.Restarts(1)
    assert look(planner, 0.0, failed=True) == []
    assert look(planner, 1.0, failed=True) == ["task 0"]
    look(planner, 2.0, failed=False)
    look(planner, 990.0, failed=False)
    look(planner, 1000.0, failed=True)
    assert planner.given_up(["task 0"]) == []
    assert look(planner, 1001.0, failed=True) == ["task 0"]


@pytest.mark.parametrize("state", [None, State.UNASSIGNED, State.RESTARTING, State.PAUSED])
def test_who_waited_for_long_has_not_run(state):
    planner = restarts.Restarts(1)
    look(planner, 0.0, failed=True)
    assert look(planner, 1.0, failed=True) == ["task 0"]
    look(planner, 2.0, failed=False)
    for now_s in (3.0, 500.0, 1000.0):
        saw(planner, now_s, state)
    look(planner, 1001.0, failed=True)
    assert planner.given_up(["task 0"]) == ["task 0"]


def test_what_ran_in_parts_has_run():
    """A rebalance, say, is no failure."""
    planner = restarts.Restarts(1)
    look(planner, 0.0, failed=True)
    for at_s in (1.0, 400.0):
        look(planner, at_s, failed=False)
        look(planner, at_s + 300.0, failed=False)
        saw(planner, at_s + 301.0, State.UNASSIGNED)
    look(planner, 710.0, failed=True)
    assert planner.given_up(["task 0"]) == []


def test_what_is_gone_is_forgotten():
    planner = restarts.Restarts(0)
    look(planner, 0.0, failed=True)
    planner.due({}, 1.0)
    assert planner.given_up(["task 0"]) == []


def test_a_failure_between_two_looks_is_another():
    planner = restarts.Restarts(5)
    look(planner, 0.0, failed=True)
    assert look(planner, 1.0, failed=True) == ["task 0"]
    assert look(planner, 2.0, failed=True, number=2) == []
    assert look(planner, 3.5, failed=True, number=2) == []
    assert look(planner, 4.0, failed=True, number=2) == ["task 0"]
