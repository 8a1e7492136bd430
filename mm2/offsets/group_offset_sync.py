"""Decides which consumer group offsets are written on the target (`sync.group.offsets.enabled`).

As `MirrorCheckpointTask.syncGroupOffset`, plus a guard: a group is written only after it was
seen without members. Java treats a group that it does not know to be idle as new and writes all
of it; a group that becomes idle meanwhile is set back (KAFKA-19794). Callers plan, read the
group again just before writing, and plan again, so the remaining race is one request long.

So neither a task that started with old checkpoints nor a second writer sets a group back. What
happens within that one request (a group that resumes and stops, two writers at once) is
corrected in the next round; brokers offer no conditional write.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.offsets.checkpoint_rules import CommittedPositions, GroupCheckpoints, OffsetAndMetadata

_NO_END_OFFSETS: Mapping[TopicPartition, int] = {}


class GroupState(enum.Enum):
    """What the target says of a group, classic or of the new protocol (KIP-848)."""

    ABSENT = "absent"
    """Never heard of, or dead: there is nothing that could be thrown back."""
    EMPTY = "empty"
    """It has offsets and no members."""
    ACTIVE = "active"
    """It has members, or is about to: stable, (re)balancing, assigning, reconciling."""
    FOREIGN = "foreign"
    """No group of consumers: Connect's workers, share groups, streams groups."""
    UNKNOWN = "unknown"
    """Not told, or the question failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetGroup:
    """What was seen of one group on the target. `positions` count only of an empty one."""

    state: GroupState
    positions: CommittedPositions = field(default_factory=dict)


class UnchangedReason(enum.Enum):
    """Why a partition's offset on the target stays as it is."""

    AHEAD = "ahead"
    """It is there already, or further."""
    MISSING = "missing"
    """The partition does not exist on the target (any more): a request with it would fail."""
    BEYOND = "beyond"
    """The partition ends before the checkpoint, which is of another one that had its name: the
    group would miss what comes up to there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSyncPlan:
    """What to write of one group. With `barred`, nothing of it, whatever its checkpoints say.

    `over_none` are those of `write` where the group has a position of no offset at all, as clients
    leave it that reset to -1: worth a word to operators.
    """

    group: str
    barred: GroupState | None = None
    write: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    kept: Mapping[TopicPartition, UnchangedReason] = field(default_factory=dict)
    over_none: frozenset[TopicPartition] = frozenset()


def plan_group_sync(
    group: str,
    points: GroupCheckpoints,
    seen: TargetGroup,
    *,
    partitions: Mapping[str, int] | None = None,
    ends: Mapping[TopicPartition, int] = _NO_END_OFFSETS,
) -> GroupSyncPlan:
    """`points` are the group's checkpoints; `partitions` the target's topics and `ends` where their
    logs end, where known.

    Positions only ever go forward. A group that went back on the source stays where it is here:
    nothing tells whether its users want the same on the target, where it may have gone on by
    itself, or whether its coordinator there has lost something. Its checkpoints do go back, and
    `mm2 failover` sets it back where that is asked for.
    """
    if seen.state not in {GroupState.ABSENT, GroupState.EMPTY}:
        return GroupSyncPlan(group=group, barred=seen.state)
    write: dict[TopicPartition, OffsetAndMetadata] = {}
    kept: dict[TopicPartition, UnchangedReason] = {}
    over_none: set[TopicPartition] = set()
    positions = seen.positions if seen.state is GroupState.EMPTY else {}
    for partition in sorted(points):
        point, position = points[partition], positions.get(partition)
        if partitions is not None and partition.partition >= partitions.get(partition.topic, 0):
            kept[partition] = UnchangedReason.MISSING
        elif position is not None and position.offset >= point.downstream:
            kept[partition] = UnchangedReason.AHEAD
        elif point.downstream > ends.get(partition, point.downstream):
            kept[partition] = UnchangedReason.BEYOND
        else:
            write[partition] = OffsetAndMetadata(offset=point.downstream, metadata=point.metadata)
            if position is None and partition in positions:
                over_none.add(partition)
    return GroupSyncPlan(group=group, write=write, kept=kept, over_none=frozenset(over_none))
