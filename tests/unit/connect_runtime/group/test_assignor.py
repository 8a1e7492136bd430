"""The sequences are those of Java's tests of lost assignments, with its numbers.

The scenarios are those of Java's IncrementalCooperativeAssignorTest, with its numbers.

Loads are (connectors, tasks) of all members, ascending; every connector has four tasks."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.group import assignor, connectors_and_tasks
from connect_runtime.group.assignor import (
    AssignmentInput,
    AssignmentPlan,
    AssignorState,
    DelayedRebalance,
    LostWorkDecision,
    MemberLoads,
    RebalanceTimes,
)
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from tests.fakes import connect_group
from tests.fakes.connect_group import ConnectGroup


def planned(task_counts: dict[str, int], *members: str) -> dict[str, str]:
    """`c1 c2-0`: connectors and tasks by member."""
    found = assignor.plan_eager_assignment(ConfiguredWork(task_counts=task_counts), members)
    return {member: " ".join(map(str, has.items)) for member, has in found.items()}


@pytest.mark.parametrize(
    ("task_counts", "leader", "member"),
    [
        ({"c1": 1}, "c1", "c1-0"),
        ({"c1": 2, "c2": 1}, "c1 c1-0 c2-0", "c2 c1-1"),
        ({"c1": 1, "c2": 1, "c3": 1}, "c1 c3 c2-0", "c2 c1-0 c3-0"),
    ],
)
def test_two_members_share_as_in_java(task_counts, leader, member):
    assert planned(task_counts, "leader", "member") == {"leader": leader, "member": member}


def test_one_member_runs_everything():
    assert planned({"b": 1, "a": 2}, "m") == {"m": "a b a-0 a-1 b-0"}


def test_members_take_turns_in_the_order_of_their_ids():
    assert planned({"c": 3}, "m-2", "m-10", "m-1") == {"m-1": "c c-2", "m-10": "c-0", "m-2": "c-1"}


def test_nothing_configured_leaves_every_member_with_nothing():
    assert planned({}, "m1", "m2") == {"m1": "", "m2": ""}


def test_a_connector_whose_tasks_are_incomplete_runs_alone():
    assert planned({"c": 0}, "m1", "m2") == {"m1": "c", "m2": ""}


@given(
    st.dictionaries(st.text(max_size=4), st.integers(0, 6), max_size=6),
    st.sets(st.text(min_size=1, max_size=4), min_size=1, max_size=6),
)
def test_each_item_is_run_once_and_no_member_has_two_more_than_another(task_counts, members):
    configured = ConfiguredWork(task_counts=task_counts)
    found = assignor.plan_eager_assignment(configured, members)
    assert set(found) == members
    given_out = [item for has in found.values() for item in has.items]
    assert sorted(map(str, given_out)) == sorted(map(str, configured.list_work().items))
    assert len(set(given_out)) == len(given_out)
    for kind in ("connectors", "tasks", "items"):
        sizes = [len(getattr(has, kind)) for has in found.values()]
        assert max(sizes) - min(sizes) <= 1
    assert assignor.plan_eager_assignment(configured, sorted(members, reverse=True)) == found


def numbered(first: int, last: int) -> list[str]:
    return [f"c{each}" for each in range(first, last + 1)]


def loads(**held: ConnectorsAndTasks) -> MemberLoads:
    return MemberLoads.from_members(held, without=frozenset())


# Handing out


def test_even_members_take_turns_in_the_order_of_their_ids():
    """As the peer's test: two each, five more."""
    held = {"w0": numbered(0, 1), "w1": numbered(2, 3), "w2": numbered(4, 5)}
    assignor.assign_evenly_to_members(held, numbered(6, 10))
    assert held == {
        "w0": ["c0", "c1", "c6", "c9"],
        "w1": ["c2", "c3", "c7", "c10"],
        "w2": ["c4", "c5", "c8"],
    }


def test_uneven_members_are_filled_up_from_the_least_loaded():
    held = {"w0": numbered(0, 1), "w1": numbered(2, 4), "w2": numbered(5, 8), "w3": []}
    assignor.assign_evenly_to_members(held, numbered(9, 23))
    assert [len(each) for each in held.values()] == [6, 6, 6, 6]


def test_connectors_and_tasks_are_handed_out_apart():
    one = ConnectorsAndTasks(connectors=("c1", "c2"))
    other = ConnectorsAndTasks(tasks=connect_group.tasks("c1", 2))
    found = loads(a=one, b=other)
    found.assign_work_evenly(["c3", *connect_group.tasks("c3", 1)])
    assert found.get_assigned_work("b") == ConnectorsAndTasks(
        connectors=("c3",), tasks=connect_group.tasks("c1", 2)
    )
    assert found.get_assigned_work("a") == ConnectorsAndTasks(
        connectors=("c1", "c2"), tasks=connect_group.tasks("c3", 1)
    )


@given(
    st.dictionaries(st.text(max_size=3), st.integers(0, 9), min_size=1, max_size=6),
    st.integers(0, 30),
)
def test_nobody_gets_an_item_who_has_more_than_another(sizes, count):
    held = {member: ["old"] * size for member, size in sizes.items()}
    assignor.assign_evenly_to_members(held, ["new"] * count)
    assert sum(len(each) for each in held.values()) == sum(sizes.values()) + count
    raised = [len(each) for each in held.values() if "new" in each]
    if raised:
        assert max(raised) - min(map(len, held.values())) <= 1


# Taking away


@pytest.mark.parametrize(
    ("sizes", "total", "expected"),
    [
        ([3, 3], 6, [0, 0]),
        ([4, 3], 7, [0, 0]),
        ([8, 0], 8, [4, 0]),
        ([4, 4, 0], 8, [1, 1, 0]),
        ([5, 0, 2], 7, [2, 0, 0]),
        ([2, 2, 3], 7, [0, 0, 0]),
        ([4, 4], 9, [0, 0]),  # one is to come
        ([4, 2, 3], 9, [1, 0, 0]),
        ([3, 3, 3, 0], 9, [0, 1, 1, 0]),  # the first keeps the odd one
        ([0, 0], 5, [0, 0]),
        ([0, 1], 0, [0, 1]),
    ],
)
def test_what_is_above_a_members_part_is_taken_from_its_front(sizes, total, expected):
    held = {f"w{at}": list(range(size)) for at, size in enumerate(sizes)}
    found = assignor.find_surplus_assignments(held, total)
    assert [len(found.get(member, ())) for member in held] == expected
    for member, taken in found.items():
        assert list(taken) == held[member][: len(taken)]


def test_nothing_is_taken_while_nothing_runs_or_nothing_is_configured():
    some = ConnectorsAndTasks(connectors=("c1", "c2"))
    assert (
        loads(a=connectors_and_tasks.NO_WORK, b=connectors_and_tasks.NO_WORK).find_surplus_work(
            some
        )
        == {}
    )
    assert (
        loads(a=some, b=connectors_and_tasks.NO_WORK).find_surplus_work(
            connectors_and_tasks.NO_WORK
        )
        == {}
    )


def test_connectors_and_tasks_are_taken_together():
    everything = ConnectorsAndTasks(connectors=("c1", "c2"), tasks=connect_group.tasks("c1", 4))
    found = loads(a=everything, b=connectors_and_tasks.NO_WORK).find_surplus_work(everything)
    assert found == {"a": frozenset({"c1", *connect_group.tasks("c1", 2)})}


# Keeping books


def test_loads_are_added_to_and_taken_from():
    held = ConnectorsAndTasks(connectors=("c1",), tasks=connect_group.tasks("c1", 3))
    found = MemberLoads.from_members({"a": held, "b": connectors_and_tasks.NO_WORK}, without={"c1"})
    assert list(found.idle_members) == ["b"]
    assert set(found.members) == {"a", "b"}
    found.remove_from_member("a", frozenset(connect_group.tasks("c1", 2)))
    assert found.get_assigned_work("a") == ConnectorsAndTasks(
        tasks=connect_group.tasks("c1", 1, start=2)
    )
    found.assign_to_member("b", ["c2"])
    assert found.get_assigned_work("b") == ConnectorsAndTasks(connectors=("c2",))
    assert list(found.idle_members) == []
    assert held.connectors == ("c1",), "what came in is left alone"


D_MS = connect_group.DELAY_MAX_MS
START_MS = 1_790_000_000_000


def part(number: int) -> ConnectorsAndTasks:
    """Two connectors and four tasks, others for every number."""
    return ConnectorsAndTasks(
        connectors=(f"c{2 * number}", f"c{2 * number + 1}"),
        tasks=connect_group.tasks("t", 4, start=4 * number),
    )


LOST = part(1)


@dataclass(slots=True)
class Case:
    """Three workers; the second is gone with its part, and the clock stands at the start."""

    now_ms: int = START_MS
    delay_max_ms: int = D_MS
    waiting: DelayedRebalance = field(default_factory=DelayedRebalance)
    members: dict[str, ConnectorsAndTasks] = field(
        default_factory=lambda: {"w0": part(0), "w2": part(2)}
    )
    before: frozenset[str] = frozenset({"w0", "w1", "w2"})

    def judge(self, items: ConnectorsAndTasks = LOST) -> LostWorkDecision:
        verdict = assignor.handle_lost_assignments(
            items.items,
            MemberLoads.from_members(self.members, without=frozenset()),
            self.waiting,
            members_before=self.before,
            times=RebalanceTimes(now_ms=self.now_ms, delay_max_ms=self.delay_max_ms),
        )
        self.waiting = verdict.delayed_rebalance
        self.before = frozenset(self.members)
        return verdict

    @property
    def delay_ms(self) -> int:
        return 0 if self.waiting.scheduled_ms is None else self.waiting.scheduled_ms - self.now_ms


def rests(verdict: LostWorkDecision) -> bool:
    return not verdict.reassign and not verdict.returned


def test_nothing_lost_ends_all_waiting():
    case = Case(waiting=DelayedRebalance(candidates=("w9",), scheduled_ms=START_MS + 5))
    assert rests(case.judge(connectors_and_tasks.NO_WORK))
    assert case.waiting == DelayedRebalance()


def after_the_first_half(*, joined: str | None = None) -> Case:
    case = Case()
    if joined is not None:
        case.members[joined] = connectors_and_tasks.NO_WORK
    assert rests(case.judge())
    assert case.delay_ms == D_MS
    case.now_ms += D_MS // 2
    return case


def test_what_a_worker_lost_waits_and_goes_to_the_one_that_came_back():
    case = after_the_first_half()
    assert list(case.waiting.candidates) == []
    case.members["w1"] = connectors_and_tasks.NO_WORK
    assert rests(case.judge())
    assert list(case.waiting.candidates) == ["w1"]
    assert case.delay_ms == D_MS // 2
    case.now_ms += D_MS // 2
    verdict = case.judge()
    assert verdict.returned == {"w1": list(LOST.items)}
    assert not verdict.reassign
    assert case.waiting == DelayedRebalance()


def test_what_nobody_came_back_for_is_handed_out_anew():
    case = after_the_first_half()
    assert rests(case.judge())
    assert case.delay_ms == D_MS // 2
    case.now_ms += D_MS // 2
    verdict = case.judge()
    assert verdict.reassign == LOST.items
    assert case.waiting == DelayedRebalance()


def test_two_that_came_share_what_was_lost():
    """They have got new work since, which does not matter."""
    case = after_the_first_half(joined="w3")
    assert list(case.waiting.candidates) == ["w3"]
    case.members["w1"] = connectors_and_tasks.NO_WORK
    assert rests(case.judge())
    assert list(case.waiting.candidates) == ["w3", "w1"]
    case.members |= {"w1": part(5), "w3": part(6)}
    case.now_ms += D_MS // 2
    first, second = connect_group.tasks("t", 2, start=4), connect_group.tasks("t", 2, start=6)
    assert case.judge().returned == {
        "w3": ["c2", first[0], second[0]],
        "w1": ["c3", first[1], second[1]],
    }
    assert case.waiting == DelayedRebalance()


def test_a_candidate_that_left_again_gets_nothing():
    case = after_the_first_half()
    case.members["w1"] = connectors_and_tasks.NO_WORK
    case.judge()
    assert list(case.waiting.candidates) == ["w1"]
    del case.members["w1"]
    case.now_ms += D_MS // 2
    assert case.judge().reassign == LOST.items
    assert case.waiting == DelayedRebalance()


def test_with_no_delay_allowed_lost_work_is_handed_out_at_once():
    case = Case(delay_max_ms=0)
    assert case.judge().reassign == LOST.items
    assert case.waiting == DelayedRebalance()


def test_with_all_members_present_nothing_was_lost_but_an_answer():
    case = Case(before=frozenset({"w0"}))
    assert case.judge().reassign == LOST.items
    assert case.waiting == DelayedRebalance()


def test_while_work_rests_more_of_it_does_not_make_it_wait_longer():
    case = after_the_first_half()
    case.now_ms += 7
    assert rests(case.judge(LOST.union(part(0))))
    assert case.delay_ms == D_MS // 2 - 7


def test_a_delay_is_cut_to_a_longest_one_that_became_shorter():
    case = after_the_first_half()
    case.delay_max_ms = 1000
    assert rests(case.judge())
    assert case.delay_ms == 1000


@pytest.mark.parametrize("before", [frozenset({"w0"}), frozenset({"w0", "gone"})])
def test_after_a_revocation_only_a_departure_has_them_wait(before):
    revoked = DelayedRebalance(revoked_before=True)
    case = Case(before=before, waiting=revoked)
    assert rests(case.judge(connectors_and_tasks.NO_WORK))
    if "gone" in before:
        assert case.delay_ms == D_MS
    else:
        assert case.waiting == revoked


def test_when_the_delay_ends_the_next_revocation_is_the_first_again():
    expired = DelayedRebalance(scheduled_ms=START_MS, revoked_before=True)
    case = Case(waiting=expired)
    case.judge(connectors_and_tasks.NO_WORK)
    assert case.waiting == DelayedRebalance()


MADE = ("c1", "c2", "c3")


def group(*, connectors: int = 2, delay_max_ms: int = D_MS) -> ConnectGroup:
    made = ConnectGroup(delay_max_ms=delay_max_ms)
    made.connectors = dict.fromkeys(MADE[:connectors], 4)
    made.join("w1")
    return made


def settled(found: ConnectGroup, *, delay_ms: int = 0) -> bool:
    return found.complete and found.even and found.last.delay_ms == delay_ms


def revokes(plan: AssignmentPlan) -> bool:
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


def after_one_and_two(delay_max_ms: int = D_MS) -> ConnectGroup:
    """Three connectors, and a second worker whose part was just taken from the first."""
    found = group(connectors=3, delay_max_ms=delay_max_ms)
    found.round()
    assert found.loads == ([3], [12])
    found.join("w2")
    found.round()
    assert found.loads == ([0, 2], [0, 6])
    return found


def after_three() -> ConnectGroup:
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


def after_a_worker_left() -> ConnectGroup:
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


def after_the_leader_left() -> ConnectGroup:
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


TWICE = ConnectorsAndTasks(connectors=("c1",), tasks=connect_group.tasks("c1", 4))


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
    assert plan.revoked["w1"] == ConnectorsAndTasks(tasks=connect_group.tasks("c1", 4))
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
    assert assignor.compute_revocation_backoff_ms(rounds, delay_max_ms) == expected


def test_a_plan_leaves_what_it_was_given_as_it_was():
    members = {
        "w1": ConnectorsAndTasks(connectors=("c1",), tasks=connect_group.tasks("c1", 4)),
        "w2": connectors_and_tasks.NO_WORK,
    }
    asked = AssignmentInput(
        configured=ConfiguredWork(offset=1, task_counts={"c1": 4}),
        members=members,
        generation=3,
        last_completed=2,
    )
    state = AssignorState(generation=2)
    times = RebalanceTimes(now_ms=0, delay_max_ms=D_MS)
    one, again = (assignor.plan_cooperative_assignment(asked, state, times=times) for _ in range(2))
    assert one == again
    assert state == AssignorState(generation=2)
    assert len(members["w1"].tasks) == 4
