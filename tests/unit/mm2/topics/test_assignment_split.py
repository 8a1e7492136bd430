from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.topics import task_assignment, topic_filters
from mm2.topics.flow_config import FlowThrottles, TopicThrottle

PARTITIONS = st.sets(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "c-1"]), st.integers(0, 30))
)


def test_partitions_go_round_in_order_of_name_and_number():
    seen = [TopicPartition("b", 0), TopicPartition("a", 10), TopicPartition("a", 2)]
    tasks = task_assignment.assign_round_robin(seen, 2)
    assert [[str(p) for p in task] for task in tasks] == [["a-2", "b-0"], ["a-10"]]


def test_no_partitions_no_tasks():
    assert task_assignment.assign_round_robin([], 4) == []


def test_no_more_tasks_than_partitions():
    assert len(task_assignment.assign_round_robin([TopicPartition("a", 0)], 4)) == 1


def test_at_least_one_task_must_be_allowed():
    with pytest.raises(AssertionError):
        task_assignment.assign_round_robin([], 0)


@given(PARTITIONS, st.integers(1, 10))
def test_every_partition_has_one_task_and_shares_are_even(partitions, tasks_max):
    tasks = task_assignment.assign_round_robin(partitions, tasks_max)
    assert Counter(p for task in tasks for p in task) == Counter(partitions)
    sizes = [len(task) for task in tasks]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert all(task == sorted(task) for task in tasks)
    assert tasks == task_assignment.assign_round_robin(sorted(partitions, reverse=True), tasks_max)


@given(PARTITIONS, PARTITIONS, st.integers(1, 6))
def test_a_later_plan_leaves_partitions_where_they_are(before, after, tasks_max):
    first = task_assignment.assign_round_robin(before, tasks_max)
    second = task_assignment.assign_sticky(after, first, tasks_max)
    assert Counter(p for task in second for p in task) == Counter(after)
    assert len(first) <= len(second) <= max(tasks_max, len(first))
    for old, new in zip(first, second, strict=False):
        assert set(old) & after <= set(new)
    assert second == task_assignment.assign_sticky(sorted(after, reverse=True), first, tasks_max)


def test_new_partitions_go_to_new_tasks_and_then_to_the_smallest():
    a, b, c, d = (TopicPartition(name, 0) for name in "abcd")
    assert task_assignment.assign_sticky([a, b, c], [[a]], 2) == [[a], [b, c]]
    assert task_assignment.assign_sticky([a, c, d], [[a], [b]], 4) == [[a], [c], [d]]
    assert task_assignment.assign_sticky([], [[a], [b]], 2) == [[], []]
    assert task_assignment.assign_sticky([a], [], 1) == [[a]]


@given(
    st.lists(PARTITIONS, min_size=1, max_size=4),
    st.integers(0, 10**9),
    st.integers(1_000, 10**9),
)
def test_shares_of_budgets_never_exceed_the_whole(shares, flow, topic):
    limited = (TopicThrottle(topic_filters.compile_patterns(["a|c-.*"]), topic),)
    found = task_assignment.split_throttles(FlowThrottles(flow=flow, topics=limited), shares)
    assert len(found) == len(shares)
    busy = [each.flow for each, share in zip(found, shares, strict=True) if share]
    assert sum(busy) <= max(flow, len(busy))
    assert all(each > 0 for each in busy) or flow == 0
    for name in ("a", "c-1"):
        parts = [each.topics[name] for each in found if name in each.topics]
        assert sum(parts) <= topic
        assert (len(parts) > 0) == any(p.topic == name for share in shares for p in share)
    assert all("b" not in each.topics for each in found)


def test_the_first_budget_that_matches_a_topic_is_its_own():
    one, other = (
        TopicThrottle(topic_filters.compile_patterns([pattern]), rate)
        for pattern, rate in (("or.*", 5_000), (".*", 9_000))
    )
    budgets = FlowThrottles(topics=(one, other))
    assert (budgets.get_topic_throttle("orders"), budgets.get_topic_throttle("x")) == (5_000, 9_000)
    assert FlowThrottles(topics=(one,)).get_topic_throttle("x") is None


def test_the_last_shares_take_the_places_of_empty_ones():
    assert task_assignment.fill_empty_assignments([[], ["a"], [], ["b"], ["c"], []]) == [
        ["c"],
        ["a"],
        ["b"],
    ]
    assert task_assignment.fill_empty_assignments([[], []]) == []
    assert task_assignment.fill_empty_assignments([["a"], ["b"]]) == [["a"], ["b"]]


@given(PARTITIONS, PARTITIONS, st.integers(1, 6))
def test_plans_without_holes_lose_nothing_and_move_whole_shares(before, after, tasks_max):
    later = task_assignment.assign_sticky(
        after, task_assignment.assign_round_robin(before, tasks_max), tasks_max
    )
    found = task_assignment.fill_empty_assignments(later)
    assert all(found)
    assert sorted(found) == sorted(share for share in later if share)


def test_fewer_tasks_than_before_leave_the_first_where_they_are():
    a, b, c = (TopicPartition(name, 0) for name in "abc")
    assert task_assignment.assign_sticky([a, b, c], [[a], [b], [c]], 2) == [[a, c], [b], []]


def test_what_two_tasks_hold_stays_with_the_first():
    a, b = (TopicPartition(name, 0) for name in "ab")
    assert task_assignment.assign_sticky([a, b], [[a], [a, b]], 2) == [[a], [b]]


class CountingId(str):
    """A group id that counts how often ids are hashed."""

    __slots__ = ()
    hashed = 0

    def __hash__(self) -> int:
        CountingId.hashed += 1
        return super().__hash__()


@pytest.mark.parametrize("tasks_max", [1, 50])
def test_a_later_plan_takes_time_in_proportion_to_its_items(tasks_max):
    groups = [CountingId(at) for at in range(1_000)]
    CountingId.hashed = 0
    plan = task_assignment.assign_sticky(groups, [groups[:5]], tasks_max)
    assert sorted(map(len, plan)) == [1_000 // tasks_max] * tasks_max
    assert CountingId.hashed < 10 * len(groups)


def test_a_new_partition_goes_to_a_task_that_must_restart_anyway():
    a, b, c, d = (TopicPartition(name, 0) for name in "abcd")
    assert task_assignment.assign_sticky([a, b, d], [[a], [b, c]], 2) == [[a], [b, d]]
