"""The scenarios are those of Java's IncrementalCooperativeAssignorTest, with its numbers.

Loads are (connectors, tasks) of all members, ascending; every connector has four tasks.
"""

from __future__ import annotations

import pytest

from connect_runtime.core.assignment import cooperative, lost, work
from tests.fakes import connect_group

D_MS = connect_group.DELAY_MAX_MS
MADE = ("c1", "c2", "c3")


def group(*, connectors: int = 2, delay_max_ms: int = D_MS) -> connect_group.ConnectGroup:
    made = connect_group.ConnectGroup(delay_max_ms=delay_max_ms)
    made.connectors = dict.fromkeys(MADE[:connectors], 4)
    made.join("w1")
    return made


def settled(found: connect_group.ConnectGroup, *, delay_ms: int = 0) -> bool:
    return found.complete and found.even and found.last.delay_ms == delay_ms


def revokes(plan: cooperative.Plan) -> bool:
    return any(plan.revoked.values())


def test_a_worker_that_joins_gets_its_part_in_two_rounds():
    found = group()
    found.round()
    assert found.loads == ([2], [8])
    assert settled(found)
    found.join("w2")
    assert found.round().delay_ms == 0
    assert found.loads == ([0, 1], [0, 4])
    assert not revokes(found.round())
    assert found.loads == ([1, 1], [4, 4])
    assert settled(found)
    assert connect_group.moved(found.round()) == 0


def after_one_and_two(delay_max_ms: int = D_MS) -> connect_group.ConnectGroup:
    """Three connectors, and a second worker whose part was just taken from the first."""
    found = group(connectors=3, delay_max_ms=delay_max_ms)
    found.round()
    assert found.loads == ([3], [12])
    found.join("w2")
    found.round()
    assert found.loads == ([0, 2], [0, 6])
    return found


def after_three() -> connect_group.ConnectGroup:
    """A third worker joined then: taking away a second time is put off."""
    found = after_one_and_two()
    found.join("w3")
    plan = found.round()
    assert plan.delay_ms == 40
    assert not revokes(plan)
    assert found.loads == ([0, 1, 2], [3, 3, 6])
    return found


def test_workers_that_join_one_after_another_wait_longer_each_time():
    found = after_three()
    found.now_ms += 40
    found.join("w4")
    assert found.round().delay_ms == 0
    assert found.loads == ([0, 0, 1, 1], [0, 3, 3, 3])
    found.join("w5")
    assert found.round().delay_ms == 1600
    assert found.loads == ([0, 0, 1, 1, 1], [1, 2, 3, 3, 3])
    found.now_ms += 1600
    found.join("w6")
    assert found.round().delay_ms == 0
    assert found.loads == ([0, 0, 0, 1, 1, 1], [0, 1, 2, 2, 2, 2])
    found.round()
    assert found.loads == ([0, 0, 0, 1, 1, 1], [2, 2, 2, 2, 2, 2])
    assert settled(found)


def test_without_a_delay_work_is_taken_away_in_every_round():
    found = after_one_and_two(delay_max_ms=0)
    found.join("w3")
    assert found.round().delay_ms == 0
    assert found.loads == ([0, 1, 1], [3, 3, 4])
    assert not revokes(found.round())
    assert found.loads == ([1, 1, 1], [4, 4, 4])
    assert settled(found)


def test_the_shortest_delay_of_all_is_a_delay():
    found = after_one_and_two(delay_max_ms=1)
    found.join("w3")
    assert found.round().delay_ms == 1
    assert found.loads == ([0, 1, 2], [3, 3, 6])


def test_a_worker_that_joins_during_the_delay_waits_with_the_others():
    found = after_three()
    found.now_ms += 20
    found.join("w4")
    plan = found.round()
    assert plan.delay_ms == 20
    assert not revokes(plan)
    assert found.loads == ([0, 0, 1, 2], [0, 3, 3, 6])
    found.now_ms += 20
    found.join("w5")
    assert found.round().delay_ms == 0
    assert found.loads == ([0, 0, 0, 1, 1], [0, 0, 2, 3, 3])
    assert not revokes(found.round())
    assert found.loads == ([0, 0, 1, 1, 1], [2, 2, 2, 3, 3])
    assert settled(found)


def after_a_worker_left() -> connect_group.ConnectGroup:
    """Two workers shared evenly, one left, and half of the delay has passed."""
    found = group()
    found.join("w2")
    found.round()
    assert found.loads == ([1, 1], [4, 4])
    assert settled(found)
    found.leave("w2")
    plan = found.round()
    assert plan.delay_ms == D_MS
    assert connect_group.moved(plan) == 0
    found.now_ms += D_MS // 2
    plan = found.round()
    assert plan.delay_ms == D_MS // 2
    assert connect_group.moved(plan) == 0
    return found


def test_work_of_a_worker_that_stays_away_is_given_away_after_the_delay():
    found = after_a_worker_left()
    found.now_ms += D_MS // 2 + 1
    found.round()
    assert found.loads == ([2], [8])
    assert settled(found)


def test_a_worker_that_comes_back_gets_its_work_back_when_the_delay_ends():
    found = after_a_worker_left()
    kept = found.members["w1"]
    found.now_ms += D_MS // 4
    found.join("w2")
    plan = found.round()
    assert plan.delay_ms == D_MS // 4
    assert connect_group.moved(plan) == 0
    found.now_ms += D_MS // 4
    assert not revokes(found.round())
    assert found.loads == ([1, 1], [4, 4])
    assert found.members["w1"] == kept
    assert settled(found)


def after_the_leader_left() -> connect_group.ConnectGroup:
    """Its successor knows of nothing that is lost, and gives it away at once."""
    found = group()
    found.join("w2", "w3")
    found.round()
    assert found.loads == ([0, 1, 1], [2, 3, 3])
    found.leave("w1")
    found.forget()
    found.round()
    assert found.loads == ([1, 1], [4, 4])
    assert settled(found)
    return found


def test_work_of_a_leader_that_left_does_not_wait():
    assert connect_group.moved(after_the_leader_left().round()) == 0


def test_a_leader_that_comes_back_is_a_new_worker():
    found = after_the_leader_left()
    found.join("w1")
    assert found.round().delay_ms == 0
    assert found.loads == ([0, 1, 1], [0, 3, 3])
    assert not revokes(found.round())
    assert found.loads == ([0, 1, 1], [2, 3, 3])
    assert settled(found)


def test_a_first_plan_that_nobody_got_is_made_again():
    found = group()
    found.join("w2")
    assert found.round(delivered=False).delay_ms == 0
    assert found.loads == ([0, 0], [0, 0])
    found.round()
    assert found.loads == ([1, 1], [4, 4])
    assert settled(found)


@pytest.mark.parametrize("completed_before", [1, 2])
def test_a_revocation_that_nobody_got_is_made_again_after_a_delay(completed_before):
    """2: the leader did not get its own answer either, so what it planned does not count."""
    found = group()
    found.join("w2")
    found.round()
    assert settled(found)
    found.join("w3")
    assert found.round(delivered=False).delay_ms == 0
    assert found.loads == ([0, 1, 1], [0, 4, 4])
    assert found.round(completed_before=completed_before).delay_ms == 40
    assert found.loads == ([0, 1, 1], [0, 4, 4])
    found.now_ms += 40
    assert found.round().delay_ms == 0
    assert found.loads == ([0, 1, 1], [0, 3, 3])
    found.round()
    assert found.loads == ([0, 1, 1], [2, 3, 3])
    assert settled(found)


def test_a_deleted_connector_is_stopped_at_once():
    found = group(connectors=3)
    found.join("w2")
    found.round()
    assert found.loads == ([1, 2], [6, 6])
    assert settled(found)
    del found.connectors["c3"]
    found.round()
    assert found.loads == ([1, 1], [4, 4])
    assert settled(found)


def test_without_a_delay_lost_work_is_given_away_at_once():
    found = group(delay_max_ms=0)
    found.join("w2")
    found.round()
    assert found.loads == ([1, 1], [4, 4])
    found.leave("w2")
    found.round()
    assert found.loads == ([2], [8])
    assert settled(found)


TWICE = work.Work(connectors=("c1",), tasks=connect_group.tasks("c1", 4))


def test_what_runs_twice_is_stopped_everywhere_and_comes_back_once():
    found = group()
    found.round()
    found.join("w2", held=TWICE)
    assert found.round().delay_ms == 0
    assert found.loads == ([0, 1], [0, 4])
    plan = found.round()
    assert plan.delay_ms == 0
    assert not revokes(plan)
    assert found.loads == ([1, 1], [4, 4])
    assert settled(found)
    assert connect_group.moved(found.round()) == 0


def test_what_runs_twice_and_is_deleted_is_stopped_everywhere():
    found = group()
    found.round()
    del found.connectors["c1"]
    found.join("w2", held=TWICE)
    assert found.round().delay_ms == 0
    assert found.loads == ([0, 1], [0, 2])
    plan = found.round()
    assert plan.delay_ms == 0
    assert not revokes(plan)
    assert found.loads == ([0, 1], [2, 2])
    assert settled(found)
    assert connect_group.moved(found.round()) == 0


# Beyond the peer's scenarios


def test_what_is_taken_away_is_what_came_last():
    found = group(connectors=1)
    found.connectors["c1"] = 3
    found.round()
    found.connectors["c1"] = 5
    found.round()
    newest = connect_group.tasks("c1", 2, start=3)
    assert found.members["w1"].tasks == (*newest, *connect_group.tasks("c1", 3))
    found.join("w2")
    plan = found.round()
    assert plan.revoked["w1"].tasks == newest


def test_a_connector_whose_tasks_are_incomplete_keeps_none():
    found = group()
    found.round()
    found.connectors["c1"] = 0
    plan = found.round()
    assert plan.revoked["w1"] == work.Work(tasks=connect_group.tasks("c1", 4))
    assert found.loads == ([2], [4])


def test_an_idle_worker_that_leaves_after_a_revocation_has_all_wait():
    """As in Java: nothing is lost, and yet the whole delay passes before loads are evened out."""
    found = group()
    found.round()
    found.join("w2", "w3")
    found.round()
    found.leave("w3")
    plan = found.round()
    assert plan.delay_ms == D_MS
    assert found.complete
    found.now_ms += D_MS
    found.round()
    found.round()
    assert settled(found)


def test_a_worker_that_would_get_back_too_much_is_told_to_stop_what_it_never_ran():
    """Or nobody might join again, and that work would wait for the next chance."""
    found = group(connectors=1)
    found.connectors["c1"] = 8
    found.join("w2")
    found.round()
    lost = set(found.members["w2"].items)
    found.leave("w2")
    found.join("new")
    found.round()
    found.join("w3", "w4")
    found.now_ms += D_MS
    plan = found.round()
    spare = set(plan.revoked["new"].items)
    assert spare < lost
    assert set(plan.assigned["new"].items) == lost - spare
    assert not any(spare & set(held.items) for held in plan.running.values())
    found.round()
    assert settled(found)


def test_work_that_was_taken_from_a_worker_is_given_on_though_that_worker_left():
    found = group()
    found.round()
    found.join("w2")
    found.round()
    taken = connect_group.tasks("c1", 4)
    assert found.last.revoked["w1"].tasks == taken
    found.leave("w1")
    plan = found.round()
    assert set(plan.assigned["w2"].tasks) == set(taken)
    assert plan.delay_ms == D_MS, "what it kept rests"


def test_the_same_leader_again_after_others_does_not_trust_what_it_remembers():
    found = group()
    found.join("w2")
    found.round()
    found.leave("w2")
    plan = found.round(completed_before=7)
    assert plan.delay_ms == 0
    assert found.loads == ([2], [8])


@pytest.mark.parametrize(
    ("rounds", "delay_max_ms", "expected"),
    [
        (1, D_MS, 40),
        (2, D_MS, 1600),
        (3, D_MS, 64_000),
        (4, D_MS, D_MS),
        (10_000, D_MS, D_MS),
        (1, 0, 0),
        (1, 1, 1),
        (7, 2**31 - 1, 2**31 - 1),
    ],
)
def test_taking_away_is_put_off_longer_each_time(rounds, delay_max_ms, expected):
    assert cooperative.backoff_ms(rounds, delay_max_ms) == expected


def test_a_plan_leaves_what_it_was_given_as_it_was():
    members = {
        "w1": work.Work(connectors=("c1",), tasks=connect_group.tasks("c1", 4)),
        "w2": work.NO_WORK,
    }
    asked = cooperative.Round(
        configured=work.Configured(offset=1, task_counts={"c1": 4}),
        members=members,
        generation=3,
        last_completed=2,
    )
    state = cooperative.State(generation=2)
    times = lost.Times(now_ms=0, delay_max_ms=D_MS)
    one, again = (cooperative.plan(asked, state, times=times) for _ in range(2))
    assert one == again
    assert state == cooperative.State(generation=2)
    assert len(members["w1"].tasks) == 4
