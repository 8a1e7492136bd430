"""Which groups are followed, and by which task."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.offsets import group_selection
from mm2.offsets.group_selection import GroupSelectionChange, ListedGroup, SelectedGroups
from mm2.topics import topic_filters
from mm2.topics.flow_config import Flow

FLOW = Flow(
    source="A",
    target="B",
    topics=topic_filters.compile_topic_filter(["t2"]),
    groups=topic_filters.compile_group_filter(["g[1-3]", "x.*"]),
)
GROUPS = st.sets(st.sampled_from("abcdefgh"))


@pytest.mark.parametrize(
    ("listed", "expected"),
    [
        (ListedGroup(group="g"), True),
        (ListedGroup(group="g", type="Consumer"), True),
        (ListedGroup(group="g", type="Classic", protocol=""), True),
        (ListedGroup(group="g", type="Classic", protocol="connect"), False),
        (ListedGroup(group="g", type="Share", protocol=""), False),
        (ListedGroup(group="g", type="Streams"), False),
    ],
)
def test_consumer_groups_are_those_of_javas_admin(listed, expected):
    """`ListGroupsOptions.forConsumerGroups`: classic and KIP-848, and those without members."""
    assert listed.is_consumer is expected


def test_groups_with_offsets_of_topics_that_are_mirrored():
    """`testFindConsumerGroups`, its common scenarios."""
    topics = {"g1": ["t1", "t2"], "g2": ["t2", "t3"], "g3": ["t3"], "g4": ["t2"]}
    names = group_selection.filter_listed_groups(
        FLOW, [ListedGroup(group=group) for group in topics]
    ).accepted
    assert names == ("g1", "g2", "g3")
    found = group_selection.select_groups(FLOW, {group: topics[group] for group in names})
    assert found == SelectedGroups(groups=frozenset({"g1", "g2"}))
    assert group_selection.select_groups(FLOW, {"g1": []}).groups == frozenset()


def test_a_name_that_takes_too_long_to_match_is_left_out_alone():
    pattern = "(?:(?>.*a.*b)|x)*(?:a+)+"
    groups = topic_filters.compile_group_filter([pattern, "g.*"], [])
    long = "x" * 2_000
    listed = [ListedGroup(group="g1"), ListedGroup(group=long), ListedGroup(group="g2")]
    found = group_selection.filter_listed_groups(
        Flow(source="A", target="B", groups=groups), listed
    )
    assert found.accepted == ("g1", "g2")
    assert list(found.unmatched) == [long]
    assert "groups: matching the regular expression" in found.unmatched[long]


def test_one_that_may_not_be_read_stands_in_nobodys_way():
    found = group_selection.select_groups(
        FLOW, {"g1": None, "g2": ["t2"], "g3": None}, followed=["g3"]
    )
    assert found.groups == {"g2", "g3"}
    assert found.unread == {"g1", "g3"}


def test_ids_that_no_configuration_can_hold_are_left_out_and_said():
    found = group_selection.select_groups(FLOW, {"x,y": ["t2"], "g1": ["t2"]})
    assert found == SelectedGroups(groups=frozenset({"g1"}), unwritable=frozenset({"x,y"}))


def test_heartbeats_are_no_reason_to_follow_a_group():
    assert group_selection.select_groups(FLOW, {"g1": ["heartbeats"]}).groups == frozenset()


@pytest.mark.parametrize("topic", ["B.orders", "A.B.orders", "__orders", "checkpoints.internal"])
def test_groups_of_topics_that_are_not_replicated_have_no_checkpoints(topic):
    """Topics of the target, internal topics, and one whose mirror only mm2 may write."""
    everything = Flow(source="A", target="B", topics=topic_filters.compile_topic_filter([".*"], []))
    found = group_selection.select_groups(
        everything, {"g1": [topic], "g2": [topic, "orders"], "g3": ["heartbeats"]}
    )
    assert found.groups == {"g2", "g3"}


def test_only_other_groups_are_a_change():
    found = SelectedGroups(groups=frozenset({"a", "b"}))
    assert not group_selection.compute_selection_change({"b", "a"}, found)
    change = group_selection.compute_selection_change({"b", "c"}, found)
    assert change == GroupSelectionChange(new=frozenset({"a"}), gone=frozenset({"c"}))
    assert change


def test_first_shares_are_javas_runs_of_neighbours():
    assert group_selection.assign_groups("dacb", 3) == [["a", "b"], ["c"], ["d"]]
    assert group_selection.assign_groups("ba", 9) == [["a"], ["b"]]
    assert group_selection.assign_groups("", 2) == []


@given(GROUPS, GROUPS, st.integers(1, 4))
def test_later_shares_leave_groups_where_they_are(before, after, tasks_max):
    first = group_selection.assign_groups(before, tasks_max)
    later = group_selection.reassign_groups(after, first, tasks_max)
    assert sorted(group for share in later for group in share) == sorted(after)
    assert all(later)
    assert len(later) <= tasks_max
    if before <= after:
        assert all(set(share) <= set(later[at]) for at, share in enumerate(first))


@pytest.mark.parametrize(("size", "written"), [(1_000, True), (1_001, False)])
def test_a_group_with_a_very_long_id_is_left_out(size, written):
    group = "é" * (size // 2) + "x" * (size % 2)
    selected = group_selection.select_groups(FLOW, {group: ["t2"], "short": ["t2"]})
    assert (group in selected.groups, group in selected.unwritable) == (written, not written)
    assert "short" in selected.groups


def test_groups_whose_ids_have_no_room_are_left_out_the_longest_first():
    ids = ["a", "bb", "c" * 20, "d" * 20, "e" * 30]
    found, left_out = group_selection.limit_group_assignments([ids], [], bytes_max=60)
    assert found == [["a", "bb", "c" * 20, "d" * 20]]
    assert left_out == {"e" * 30}
    again, _ = group_selection.limit_group_assignments([["0", *ids]], found, bytes_max=60)
    assert again == [["0", *found[0]]]


def test_groups_beyond_the_limit_are_left_out_and_followed_ones_stay():
    topics = {group: ["t2"] for group in ("c", "b", "dd", "followed", "x,y")}
    found = group_selection.select_groups(FLOW, topics, followed=["followed"], groups_max=3)
    assert found.groups == {"followed", "b", "c"}
    assert found.beyond_limit == {"dd"}
    assert found.unwritable == {"x,y"}
    all_followed = group_selection.select_groups(FLOW, topics, followed=topics, groups_max=3)
    assert all_followed.beyond_limit == frozenset()
