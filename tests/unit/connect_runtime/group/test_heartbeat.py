from __future__ import annotations

import math
import random

import pytest

from connect_runtime.group.heartbeat import HeartbeatTimer
from connect_runtime.group.member_state import GroupRebalanceConfig


@pytest.fixture
def beating() -> HeartbeatTimer:
    made = HeartbeatTimer(settings=GroupRebalanceConfig(group_id="g"), rng=random.Random(1))
    made.start(100.0)
    made.check_invariants()
    return made


def deadlines(found: HeartbeatTimer) -> tuple[float, float, float]:
    found.check_invariants()
    return found.next_heartbeat_s, found.session_deadline_s, found.loop_deadline_s


def test_nothing_is_due_before_a_round():
    made = HeartbeatTimer(settings=GroupRebalanceConfig(group_id="g"), rng=random.Random(1))
    made.on_loop_tick(5.0)
    made.resume(5.0)
    assert made.get_earliest_deadline_s() == math.inf
    made.check_invariants()


def test_a_round_sets_all_three_deadlines(beating):
    assert deadlines(beating) == (103.0, 110.0, 160.0)
    assert beating.get_earliest_deadline_s() == 103.0


def test_a_heartbeat_in_flight_is_not_due_and_an_answer_makes_the_next_one_due(beating):
    beating.on_heartbeat_sent(103.0)
    assert deadlines(beating) == (math.inf, 110.0, 160.0)
    beating.on_heartbeat_response(104.0)
    assert deadlines(beating) == (107.0, 114.0, 160.0)


def test_a_heartbeat_that_failed_is_due_soon_and_the_session_does_not_grow(beating):
    beating.on_heartbeat_sent(103.0)
    beating.on_heartbeat_failed(104.0)
    beat_s, session_end_s, _ = deadlines(beating)
    assert 104.05 < beat_s < 104.2
    assert session_end_s == 110.0


def test_the_worker_has_a_deadline_of_its_own(beating):
    beating.on_loop_tick(130.0)
    assert deadlines(beating) == (103.0, 110.0, 190.0)


def test_without_a_coordinator_only_the_worker_is_awaited(beating):
    beating.on_heartbeat_sent(103.0)
    beating.pause()
    assert deadlines(beating) == (math.inf, math.inf, 160.0)
    beating.resume(120.0)
    assert deadlines(beating) == (120.0, 130.0, 160.0)


def test_it_ends(beating):
    beating.on_heartbeat_sent(103.0)
    beating.stop()
    assert deadlines(beating) == (math.inf, math.inf, math.inf)


def test_a_heartbeat_confirms_the_moment_at_which_it_was_sent(beating):
    assert beating.last_confirmed_s == -math.inf
    beating.on_heartbeat_sent(103.0)
    assert beating.last_confirmed_s == -math.inf
    beating.on_membership_confirmed(104.0)
    assert (beating.last_confirmed_s, beating.next_heartbeat_s) == (103.0, 107.0)
    beating.on_heartbeat_sent(107.0)
    beating.on_heartbeat_response(108.0)  # a rebalance is under way: alive, and no more than that
    beating.check_invariants()
    assert beating.last_confirmed_s == 103.0


def test_one_that_is_waited_for_is_due_at_once_but_not_again_and_again(beating):
    beating.request_heartbeat_now(101.0)
    assert beating.next_heartbeat_s == 101.0
    beating.on_heartbeat_sent(101.0)
    # the one in flight was sent before: another is due when it is answered
    beating.request_heartbeat_now(101.02)
    assert beating.next_heartbeat_s == math.inf
    beating.on_heartbeat_response(101.04)
    assert beating.next_heartbeat_s == pytest.approx(101.1)
    beating.on_heartbeat_sent(101.1)
    beating.on_heartbeat_response(101.2)
    assert beating.next_heartbeat_s == pytest.approx(104.2)


def test_nobody_can_be_asked_while_the_coordinator_is_unknown_or_there_is_no_round(beating):
    beating.pause()
    beating.request_heartbeat_now(101.0)
    assert beating.next_heartbeat_s == math.inf
    beating.stop()
    beating.request_heartbeat_now(102.0)
    beating.check_invariants()


def test_work_lapses_a_session_and_a_delay_after_the_last_answer():
    made = HeartbeatTimer(
        settings=GroupRebalanceConfig(group_id="g", rebalance_delay_s=5.0), rng=random.Random(1)
    )
    assert made.compute_reassignment_time_s(was_leader=False) == -math.inf
    made.start(100.0)
    assert made.compute_reassignment_time_s(was_leader=False) == 115.0
    made.on_heartbeat_sent(103.0)
    made.on_heartbeat_failed(104.0)
    assert made.compute_reassignment_time_s(was_leader=False) == 115.0, (
        "the coordinator could not say"
    )
    made.on_heartbeat_sent(105.0)
    made.on_heartbeat_response(206.0)
    assert made.compute_reassignment_time_s(was_leader=False) == 120.0, (
        "the answer may be as old as its question"
    )
    assert made.compute_reassignment_time_s(was_leader=True) == 115.0, (
        "nobody remembers what it ran"
    )
