from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.offsets import group_offset_sync
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupSyncPlan, TargetGroup, UnchangedReason

T0 = TopicPartition("s1.t", 0)
T1 = TopicPartition("s1.t", 1)
GroupState = group_offset_sync.GroupState


def points(**downstream):
    """By partition's number, `p0=101`."""
    found = {}
    for name, offset in downstream.items():
        partition = TopicPartition("s1.t", int(name[1:]))
        found[partition] = Checkpoint(
            group="g1", partition=partition, upstream=7, downstream=offset, metadata=f"of {name}"
        )
    return found


def seen(state, **offsets):
    positions = {
        TopicPartition("s1.t", int(name[1:])): None
        if offset is None
        else OffsetAndMetadata(offset=offset)
        for name, offset in offsets.items()
    }
    return TargetGroup(state=state, positions=positions)


def written(plan):
    return {str(partition): each.offset for partition, each in plan.write.items()}


@pytest.mark.parametrize(
    ("position", "expected"),
    [({"p0": 100}, 101), ({"p0": 101}, None), ({"p0": 150}, None), ({}, 101), ({"p0": None}, 101)],
)
def test_an_idle_group_only_goes_forward(position, expected):
    plan = group_offset_sync.plan_group_sync(
        "g1", points(p0=101), seen(GroupState.EMPTY, **position)
    )
    assert written(plan) == ({} if expected is None else {"s1.t-0": expected})
    assert plan.unchanged == ({T0: UnchangedReason.AHEAD} if expected is None else {})
    assert plan.replaces_empty == ({T0} if position == {"p0": None} else frozenset())
    assert plan.blocked_by is None


def test_each_partition_is_judged_by_itself():
    plan = group_offset_sync.plan_group_sync(
        "g1", points(p0=51, p1=101, p2=3), seen(GroupState.EMPTY, p0=50, p1=500)
    )
    assert written(plan) == {"s1.t-0": 51, "s1.t-2": 3}
    assert plan.unchanged == {T1: UnchangedReason.AHEAD}


def test_the_groups_note_goes_along():
    plan = group_offset_sync.plan_group_sync("g1", points(p0=5), seen(GroupState.EMPTY))
    assert plan.write == {T0: OffsetAndMetadata(offset=5, metadata="of p0")}


def test_a_group_that_the_target_never_heard_of_gets_everything():
    plan = group_offset_sync.plan_group_sync("g1", points(p0=5, p1=0), seen(GroupState.ABSENT))
    assert written(plan) == {"s1.t-0": 5, "s1.t-1": 0}
    assert not plan.replaces_empty


@pytest.mark.parametrize("state", [GroupState.ACTIVE, GroupState.FOREIGN, GroupState.UNKNOWN])
def test_whoever_is_not_known_to_be_idle_is_left_alone(state):
    """KAFKA-19794: Java writes all offsets of such a group, and relies on the broker's refusal."""
    plan = group_offset_sync.plan_group_sync("g1", points(p0=5, p1=9), seen(state))
    assert plan == GroupSyncPlan(group="g1", blocked_by=state)


def test_partitions_that_are_not_on_the_target_are_left_out():
    """KAFKA-19107: one of them makes Java's request fail for ever."""
    gone = TopicPartition("s1.gone", 0)
    of_gone = Checkpoint(group="g1", partition=gone, upstream=1, downstream=1)
    plan = group_offset_sync.plan_group_sync(
        "g1",
        {**points(p0=5, p1=9), gone: of_gone},
        seen(GroupState.EMPTY),
        partitions={"s1.t": 1},
    )
    assert written(plan) == {"s1.t-0": 5}
    assert plan.unchanged == {T1: UnchangedReason.MISSING, gone: UnchangedReason.MISSING}


def test_a_group_without_checkpoints_has_nothing_to_write():
    assert group_offset_sync.plan_group_sync("g1", {}, seen(GroupState.EMPTY)) == GroupSyncPlan(
        group="g1"
    )


@pytest.mark.parametrize(("end", "beyond"), [(100, True), (101, False), (None, False)])
def test_nothing_is_written_beyond_a_partitions_end(end, beyond):
    ends = {} if end is None else {T0: end}
    plan = group_offset_sync.plan_group_sync(
        "g1", points(p0=101), seen(GroupState.EMPTY, p0=7), ends=ends
    )
    assert plan.unchanged == ({T0: UnchangedReason.BEYOND} if beyond else {})
    assert written(plan) == ({} if beyond else {"s1.t-0": 101})
