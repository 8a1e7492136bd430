"""Decides which consumer group offsets are written on the target (`sync.group.offsets.enabled`).

The rules are those of `MirrorCheckpointTask.syncGroupOffset`, with one additional condition:
offsets are written only if the group's last description showed no members. Java treats a group that
is not in its list of idle groups as new and writes all its offsets. A group that becomes idle after
that list was read is therefore rewound (KAFKA-19794).

Callers make a plan, read the group again just before writing, and plan again. Therefore a task with
outdated checkpoints does not rewind a group, and neither does a second writer. Brokers offer no
conditional write, so the group can still change between the second read and the write: it may
resume and stop, or two writers may write at once. The next round corrects the offsets.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.offsets.checkpoint_rules import CommittedPositions, GroupCheckpoints, OffsetAndMetadata

_NO_END_OFFSETS: Mapping[TopicPartition, int] = {}


class GroupState(enum.Enum):
    """State of a group on the target, for classic groups and for the consumer protocol of
    KIP-848."""

    ABSENT = "absent"
    """The broker does not know the group, or reports it as dead. The group has no offsets that
    could be rewound."""
    EMPTY = "empty"
    """The group has committed offsets and no members."""
    ACTIVE = "active"
    """The group has members, or members are joining. The broker's state is stable, (re)balancing,
    assigning or reconciling."""
    FOREIGN = "foreign"
    """The group is not a consumer group but, for example, a Connect, share or streams group."""
    UNKNOWN = "unknown"
    """The broker did not report the group's state, or the request failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetGroup:
    """Snapshot of one group on the target. `positions` are valid only if the group is empty."""

    state: GroupState
    positions: CommittedPositions = field(default_factory=dict)


class UnchangedReason(enum.Enum):
    """Reason why a partition's offset on the target is not written."""

    AHEAD = "ahead"
    """The group's committed offset on the target is already equal to or higher than the
    checkpoint's target offset."""
    MISSING = "missing"
    """The partition does not exist on the target (any more), so a request that includes it would
    fail."""
    BEYOND = "beyond"
    """The checkpoint's target offset is higher than the end offset of the target's log, because the
    topic was recreated after the checkpoint. If the offset was written, the group would skip
    records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSyncPlan:
    """Offsets to write for one group on the target, and the partitions whose offsets are not
    written."""

    group: str
    blocked_by: GroupState | None = None
    """Group state because of which no offsets may be written; None if offsets may be written."""
    write: Mapping[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    """Offsets to write."""
    unchanged: Mapping[TopicPartition, UnchangedReason] = field(default_factory=dict)
    """Partitions whose offsets remain unchanged, with the reason."""
    replaces_empty: frozenset[TopicPartition] = frozenset()
    """Partitions of `write` whose committed offset on the target is negative: clients commit -1 to
    reset a partition. The caller should log that these offsets are replaced."""


def plan_group_sync(
    group: str,
    checkpoints: GroupCheckpoints,
    target_group: TargetGroup,
    *,
    partitions: Mapping[str, int] | None = None,
    ends: Mapping[TopicPartition, int] = _NO_END_OFFSETS,
) -> GroupSyncPlan:
    """Plan the offsets to write for a group from its checkpoints.

    `partitions` (partition counts of the target's topics) and `ends` (log end offsets on the
    target) may be incomplete.

    A plan never lowers a committed offset. If a group was rewound on the source, its offset on the
    target remains unchanged: the group may have consumed records on the target since then, so it is
    unknown whether it should be rewound there. Its checkpoints are rewound, and `mm2 failover`
    rewinds the group to them on request.
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
