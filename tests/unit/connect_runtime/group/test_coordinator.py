from __future__ import annotations

import math
import random

import pytest

from connect_runtime.group import coordinator
from connect_runtime.group.coordinator import (
    CoordinatorErrorAction,
    CoordinatorLookup,
    GroupMembershipError,
)
from connect_runtime.group.member_state import GroupRebalanceConfig


@pytest.fixture
def made() -> CoordinatorLookup:
    return CoordinatorLookup(settings=GroupRebalanceConfig(group_id="g"), rng=random.Random(1))


def test_an_unknown_coordinator_is_asked_for_at_once(made):
    assert made.compute_next_lookup_time_s() == -math.inf
    made.pending_token = 5
    assert made.compute_next_lookup_time_s() == math.inf
    made.on_coordinator_found(3)
    assert (made.node, made.pending_token, made.compute_next_lookup_time_s()) == (3, None, math.inf)
    made.check_invariants()


def test_a_question_that_failed_is_asked_again_later_each_time(made):
    waits = []
    for _ in range(8):
        made.on_lookup_failed(100.0)
        waits.append(made.compute_next_lookup_time_s() - 100.0)
    assert 0.05 < waits[0] < 0.2
    assert max(waits) <= 1.0
    assert waits[-1] > 0.5


def test_a_lost_coordinator_is_asked_for_at_once_but_not_again_and_again(made):
    made.on_coordinator_found(3)
    made.on_coordinator_response()
    made.on_coordinator_lost(100.0)
    assert (made.node, made.lost_since_s, made.compute_next_lookup_time_s()) == (None, 100.0, 100.0)
    made.on_coordinator_found(3)
    made.on_coordinator_lost(101.0)
    assert made.lost_since_s == 100.0, "nobody has answered since"
    assert made.work_stop_deadline_s == 103.0, "a heartbeat's time"
    assert made.compute_next_lookup_time_s() > 101.0


def test_silence_ends_when_one_answers(made):
    made.on_coordinator_lost(100.0)
    made.on_coordinator_found(4)
    assert made.lost_since_s == 100.0
    made.on_coordinator_response()
    assert (made.lost_since_s, made.compute_next_lookup_time_s()) == (None, math.inf)
    assert made.work_stop_deadline_s == math.inf
    made.on_coordinator_lost(200.0)
    assert [made.lost_since_s, made.compute_next_lookup_time_s()] == [200.0, 200.0]


def test_older_brokers_are_asked_for_one_group(made):
    assert (made.build_request().low, made.build_request().high) == (4, 6)
    made.pending_token = 1
    made.switch_to_single_group_lookups()
    assert made.looks_up_single_groups
    assert made.pending_token is None
    assert (made.build_request().low, made.build_request().high) == (1, 3)


FINE, AGAIN, LATER, MOVED, MEMBER_GONE, GENERATION_GONE, ID_GIVEN, FATAL = CoordinatorErrorAction
TABLE = [
    # code: find, join, sync, heartbeat
    (0, FINE, FINE, FINE, FINE),
    (-1, LATER, FATAL, LATER, LATER),
    (14, LATER, LATER, LATER, LATER),
    (15, LATER, MOVED, MOVED, MOVED),
    (16, LATER, MOVED, MOVED, MOVED),
    (22, FATAL, FATAL, GENERATION_GONE, GENERATION_GONE),
    (23, FATAL, FATAL, FATAL, LATER),
    (24, FATAL, FATAL, FATAL, LATER),
    (25, FATAL, MEMBER_GONE, MEMBER_GONE, MEMBER_GONE),
    (26, FATAL, FATAL, FATAL, LATER),
    (27, FATAL, AGAIN, AGAIN, AGAIN),
    (30, FATAL, FATAL, FATAL, FATAL),
    (79, FATAL, ID_GIVEN, FATAL, LATER),
    (81, FATAL, FATAL, FATAL, LATER),
    (82, FATAL, FATAL, FATAL, FATAL),
]


@pytest.mark.parametrize(("code", "find", "join", "sync", "heartbeat"), TABLE)
def test_codes_mean_what_they_mean_to_java(code, find, join, sync, heartbeat):
    assert coordinator.classify_lookup_error(code) is find
    assert coordinator.classify_join_error(code) is join
    assert coordinator.classify_sync_error(code) is sync
    assert coordinator.classify_heartbeat_error(code) is heartbeat


def test_an_error_names_what_was_done_the_code_and_the_remedy():
    error = GroupMembershipError("group g: joining the group", error_code=81)
    assert error.error_code == 81
    assert str(error) == (
        "group g: joining the group: GROUP_MAX_SIZE_REACHED (81); "
        "the group has reached the broker's group.max.size"
    )
