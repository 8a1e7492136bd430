"""Decides which consumer group offsets are written on the target (`sync.group.offsets.enabled`).

As `MirrorCheckpointTask.syncGroupOffset`, plus a guard: a group is written only after it was
observed without members. Java treats a group that it does not know to be idle as new and writes all
of it; a group that becomes idle meanwhile is set back (KAFKA-19794). Callers plan, read the group
again just before writing, and plan again, so the remaining race is one request long.

So neither a task that started with old checkpoints nor a second writer sets a group back. What
happens within that one request (a group that resumes and stops, two writers at once) is corrected
in the next round; brokers offer no conditional write.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.offsets.checkpoint_rules import CommittedPositions, GroupCheckpoints, OffsetAndMetadata

_NO_END_OFFSETS: Mapping[TopicPartition, int] = {}


class GroupState(enum.Enum):
    """State of a group on the target, classic or of the new protocol (KIP-848)."""

    ABSENT = "absent"
    """Unknown to the broker, or dead: there are no offsets that could be set back."""
    EMPTY = "empty"
    """Has offsets and no members."""
    ACTIVE = "active"
    """Has members or is about to: stable, (re)balancing, assigning, reconciling."""
    FOREIGN = "foreign"
    """Not a consumer group: Connect workers, share groups, streams groups."""
    UNKNOWN = "unknown"
    """Not reported, or the request failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetGroup:
    """Snapshot of one group on the target. `positions` count only if the group is empty."""

    state: GroupState
    positions: CommittedPositions = field(default_factory=dict)


class UnchangedReason(enum.Enum):
    """Why a partition's offset on the target is not written."""

    AHEAD = "ahead"
    """The group's offset is the same or higher."""
    MISSING = "missing"
    """The partition does not exist on the target (any more), so a request with it would fail."""
    BEYOND = "beyond"
    """The log ends before the checkpoint, which is of an earlier topic of that name: the group
    would skip records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSyncPlan:
    """What to write for one group."""

    group: str
    blocked_by: GroupState | None = None
    """State of the group that forbids any write; None if writing is allowed."""
    write: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """Offsets to write."""
    unchanged: Mapping[TopicPartition, UnchangedReason] = field(default_factory=dict)
    """Partitions that stay unchanged, and why."""
    replaces_empty: frozenset[TopicPartition] = frozenset()
    """Partitions of `write` with an empty position, as clients leave it that reset to -1; worth
    a log line."""


def plan_group_sync(
    group: str,
    checkpoints: GroupCheckpoints,
    target_group: TargetGroup,
    *,
    partitions: Mapping[str, int] | None = None,
    ends: Mapping[TopicPartition, int] = _NO_END_OFFSETS,
) -> GroupSyncPlan:
    """Plan the offsets to write for a group from its checkpoints.

    `partitions` maps the target's topics to partition counts and `ends` has log end offsets, as far
    as known.

    Offsets only ever go forward. If a group went back on the source, its target offset stays:
    whether that is wanted on the target is unknown, and the group may have run there. Its
    checkpoints do go back, and `mm2 failover` sets the group back on request.
    """
    if target_group.state not in {GroupState.ABSENT, GroupState.EMPTY}:
        return GroupSyncPlan(group=group, blocked_by=target_group.state)
    write: dict[TopicPartition, OffsetAndMetadata] = {}
    kept: dict[TopicPartition, UnchangedReason] = {}
    over_none: set[TopicPartition] = set()
    positions = target_group.positions if target_group.state is GroupState.EMPTY else {}
    for partition in sorted(checkpoints):
        point, position = checkpoints[partition], positions.get(partition)
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
    return GroupSyncPlan(
        group=group, write=write, unchanged=kept, replaces_empty=frozenset(over_none)
    )
