"""Uneven shares are borne for five minutes, and then evened by the task that carries too much."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.topics import load_balancing, task_assignment
from mm2.topics.load_balancing import OverloadState

A, B, C, D = (TopicPartition(name, 0) for name in "abcd")
PARTITIONS = st.sets(st.builds(TopicPartition, st.just("t"), st.integers(0, 20)), min_size=1)


def test_what_is_even_enough_stays():
    assert load_balancing.balance_load([[A, B], [C, D]], {A: 9, B: 9, C: 5, D: 5}, 2) is None
    assert (
        load_balancing.balance_load([[A, B], [C], [D]], dict.fromkeys((A, B, C, D), 5.0), 3) is None
    )
    assert load_balancing.balance_load([[A]], {}, 4) is None
    assert load_balancing.balance_load([], {}, 4) is None


def test_one_busy_partition_cannot_be_shared():
    assert load_balancing.balance_load([[A], [B], [C]], {A: 99}, 3) is None


def test_a_task_that_carries_too_much_gives_to_those_that_carry_least():
    rates = {A: 10.0, B: 10.0, C: 1.0, D: 1.0}
    assert load_balancing.balance_load([[A, B], [C], [D]], rates, 3) == [[B], [A, C], [D]]


def test_new_tasks_take_as_far_as_they_are_allowed():
    rates = dict.fromkeys((A, B, C, D), 10.0)
    assert load_balancing.balance_load([[A, B, C, D]], rates, 2) is None
    assert load_balancing.balance_load([[A, B, C, D]], rates, 3) == [[C, D], [A], [B]]


def test_it_waits_until_it_lasts():
    rates = dict.fromkeys((A, B, C, D), 10.0)
    shares = [[A, B, C, D]]

    def look(before, now_s, rates=rates):
        return load_balancing.plan_reassignment_if_overloaded(
            shares, rates, tasks_max=3, before=before, now_s=now_s
        )

    first, plan = look(OverloadState(), 100)
    assert (first.since_s, plan) == (100, None)
    later, plan = look(first, 399)
    assert (later.since_s, plan) == (100, None)
    assert look(later, 399, rates={A: 1.0}) == (OverloadState(), None)
    last, plan = look(later, 400)
    assert last == OverloadState()
    assert plan is not None


@given(PARTITIONS, st.integers(1, 5), st.data())
def test_nothing_is_lost_and_nobody_gets_more_than_was_too_much(partitions, tasks_max, data):
    rates = {each: data.draw(st.integers(0, 9)) * 1.0 for each in sorted(partitions)}
    shares = task_assignment.assign_sticky(partitions, [sorted(partitions)[:-1]], tasks_max)
    found = load_balancing.balance_load(shares, rates, tasks_max)
    if found is not None:
        assert Counter(p for share in found for p in share) == Counter(partitions)
        assert all(found)
        assert len(found) <= tasks_max

        def heaviest(of):
            return max(sum(rates[each] for each in share) for share in of)

        assert heaviest(found) < heaviest(shares)
