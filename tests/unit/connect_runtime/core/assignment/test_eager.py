from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.core.assignment import eager, work


def planned(task_counts: dict[str, int], *members: str) -> dict[str, str]:
    """`c1 c2-0`: connectors and tasks by member."""
    found = eager.plan(work.Configured(task_counts=task_counts), members)
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
    configured = work.Configured(task_counts=task_counts)
    found = eager.plan(configured, members)
    assert set(found) == members
    given_out = [item for has in found.values() for item in has.items]
    assert sorted(map(str, given_out)) == sorted(map(str, configured.work().items))
    assert len(set(given_out)) == len(given_out)
    for kind in ("connectors", "tasks", "items"):
        sizes = [len(getattr(has, kind)) for has in found.values()]
        assert max(sizes) - min(sizes) <= 1
    assert eager.plan(configured, sorted(members, reverse=True)) == found
