"""What has failed is started again, ever more rarely, and in the end no more."""

from __future__ import annotations

import itertools

from mm2.app import restarts


def crashes(planner: restarts.Restarts, until_s: float) -> list[float]:
    """When something is started again that fails at once, each time."""
    found, now_s = [], 0.0
    while now_s < until_s:
        if planner.due({"task 0": True}, now_s):
            found.append(now_s)
            planner.due({"task 0": False}, now_s)
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
    assert planner.due({"a": True}, 0.0) == []
    assert planner.due({"a": True}, 1.0) == ["a"]
    assert planner.due({"a": True}, 50.0) == []
    planner.restarted("a", failed=True)
    assert planner.due({"a": True}, 51.0) == []
    assert planner.due({"a": True}, 53.0) == ["a"]


def test_who_ran_for_long_has_no_failures_behind_it():
    planner = restarts.Restarts(1)
    assert planner.due({"a": True}, 0.0) == []
    assert planner.due({"a": True}, 1.0) == ["a"]
    planner.due({"a": False}, 2.0)
    planner.due({"a": True}, 1000.0)
    assert planner.given_up(["a"]) == []
    assert planner.due({"a": True}, 1001.0) == ["a"]


def test_what_is_gone_is_forgotten():
    planner = restarts.Restarts(0)
    planner.due({"a": True}, 0.0)
    planner.due({}, 1.0)
    assert planner.given_up(["a"]) == []
