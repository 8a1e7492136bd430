"""Which offsets of a consumer group are written on the target (`sync.group.offsets.enabled`).

As `MirrorCheckpointTask.syncGroupOffset`, with the guard that it lacks: a group is written only
after it was seen without members. Java takes whatever it does not know to be idle for a new group
and writes all of it; a group that becomes idle meanwhile is thrown back (KAFKA-19794). Plan,
look again just before writing, and plan again: then what remains is the time of one request.

So nobody who knows less sets a group back: neither a task that was started with old checkpoints,
nor one of two that write. What of it happens within that one request (a group that goes on and ends
meanwhile, two writers at once) is made good in the next round by who knows more, and cannot be told
from outside where it is the group itself: brokers have no write on condition.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.core.offsets import checkpoints

_NO_ENDS: Mapping[ids.TopicPartition, int] = {}


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
    positions: checkpoints.Positions = field(default_factory=dict)


class Kept(enum.Enum):
    """Why a partition's offset on the target stays as it is."""

    AHEAD = "ahead"
    """It is there already, or further."""
    MISSING = "missing"
    """The partition does not exist on the target (any more): a request with it would fail."""
    BEYOND = "beyond"
    """The partition ends before the checkpoint, which is of another one that had its name: the
    group would miss what comes up to there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """What to write of one group. With `barred`, nothing of it, whatever its checkpoints say.

    `over_none` are those of `write` where the group has a position of no offset at all, as clients
    leave it that reset to -1: worth a word to operators.
    """

    group: str
    barred: GroupState | None = None
    write: Mapping[ids.TopicPartition, checkpoints.OffsetAndMetadata] = field(default_factory=dict)
    kept: Mapping[ids.TopicPartition, Kept] = field(default_factory=dict)
    over_none: frozenset[ids.TopicPartition] = frozenset()


def plan(
    group: str,
    points: checkpoints.Points,
    seen: TargetGroup,
    *,
    partitions: Mapping[str, int] | None = None,
    ends: Mapping[ids.TopicPartition, int] = _NO_ENDS,
) -> GroupPlan:
    """`points` are the group's checkpoints; `partitions` the target's topics and `ends` where their
    logs end, where known.

    Positions only ever go forward. A group that went back on the source stays where it is here:
    nothing tells whether its users want the same on the target, where it may have gone on by
    itself, or whether its coordinator there has lost something. Its checkpoints do go back, and
    `mm2 failover` sets it back where that is asked for.
    """
    if seen.state not in {GroupState.ABSENT, GroupState.EMPTY}:
        return GroupPlan(group=group, barred=seen.state)
    write: dict[ids.TopicPartition, checkpoints.OffsetAndMetadata] = {}
    kept: dict[ids.TopicPartition, Kept] = {}
    over_none: set[ids.TopicPartition] = set()
    positions = seen.positions if seen.state is GroupState.EMPTY else {}
    for partition in sorted(points):
        point, position = points[partition], positions.get(partition)
        if partitions is not None and partition.partition >= partitions.get(partition.topic, 0):
            kept[partition] = Kept.MISSING
        elif position is not None and position.offset >= point.downstream:
            kept[partition] = Kept.AHEAD
        elif point.downstream > ends.get(partition, point.downstream):
            kept[partition] = Kept.BEYOND
        else:
            write[partition] = checkpoints.OffsetAndMetadata(
                offset=point.downstream, metadata=point.metadata
            )
            if position is None and partition in positions:
                over_none.add(partition)
    return GroupPlan(group=group, write=write, kept=kept, over_none=frozenset(over_none))
