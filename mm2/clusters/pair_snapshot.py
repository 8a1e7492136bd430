"""`ClusterPairSnapshot`: everything that the plan of a failover or failback reads.

The origin is the cluster that applications leave, the destination the cluster that they move to.
Partitions have their names on the origin unless stated otherwise; times are UTC milliseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.offsets.checkpoint_rules import CommittedPositions
from mm2.offsets.group_offset_sync import GroupState, TargetGroup
from mm2.offsets.log_bounds import LogBounds
from mm2.offsets.translation import TranslatedOffset
from mm2.operator_commands import ClusterCommands
from mm2.replication import latency


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredPartition:
    """One partition of the origin and its mirror on the destination."""

    partition: TopicPartition
    mirror: TopicPartition
    copied_to: int | None = None
    """Next source offset to replicate, None if nothing was replicated yet."""
    unrecorded: int = 0
    """Upper bound of records on the mirror after the end of the offset map."""
    source_bounds: LogBounds | None = None
    """Log bounds on the origin, None if it does not answer for the partition."""
    mirror_bounds: LogBounds | None = None
    """Log bounds of the mirror, None if it does not exist or does not answer."""
    waiting_since_ms: int | None = None
    """Timestamp of the oldest record that is not replicated yet."""
    newest_ms: int | None = None
    """Timestamp of the last record on the mirror, if `source_bounds` is None."""
    stop_reason: str = ""
    """Why its map entries are outdated or it is halted for good, "" otherwise."""
    source_error: str = ""
    """Why `source_bounds` is None although the origin answers for other partitions."""
    mirror_error: str = ""
    """Why `mirror_bounds` is None although the mirror may exist."""

    @property
    def lag_records(self) -> int | None:
        """Lag in offsets: an upper bound if the log has gaps. None if it is unknown."""
        return None if self.source_bounds is None else self.source_bounds.count_from(self.copied_to)

    def lag_ms(self, now_ms: int) -> int | None:
        """Age of the oldest record that is not replicated, 0 if there is none; None if unknown."""
        if self.lag_records == 0:
            return 0
        if self.source_bounds is None or self.waiting_since_ms is None:
            return None
        return latency.compute_age_ms(self.waiting_since_ms, now_ms)


_ABSENT_GROUP = TargetGroup(state=GroupState.ABSENT)


class PositionBasis(enum.Enum):
    """What a group's position on the origin is taken from; the value is printed."""

    COMMITTED = "committed"
    """The group's committed offset, just read from the origin."""
    CHECKPOINTED = "checkpoint"
    """The group's last checkpoint on the destination: older than its committed offset."""
    COMMITTED_AT_START = "committed at the start"
    """The group's committed offset when the move began; the origin has stopped answering since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPair:
    """A checkpoint: a group at `upstream` on the origin misses nothing from `downstream` on."""

    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """One consumer group on both clusters."""

    name: str
    basis: PositionBasis
    """What the positions are taken from."""
    is_streams: bool | None = None
    """True for a Kafka Streams application; None if unknown, as for a group without members."""
    positions: CommittedPositions
    checkpoint_times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    """When the checkpoint of a position was written; no entry for other positions."""
    state: GroupState = GroupState.UNKNOWN
    """State on the origin, UNKNOWN if it does not answer for the group."""
    target: TargetGroup = _ABSENT_GROUP
    """State and positions on the destination."""
    checkpoints: Mapping[TopicPartition, CheckpointPair] = field(default_factory=dict)
    """The group's checkpoints."""
    unread_reason: str = ""
    """Why its committed offsets could not be read; "" if they were, or if the whole origin is
    down."""
    is_access_denied: bool = False
    """True if mm2 is not authorized to read them, so that retrying does not help."""
    unreadable_checkpoint: str = ""
    """Why one of the checkpoints that its positions are taken from cannot be read."""
    target_unread_reason: str = ""
    """Why its state on the destination is UNKNOWN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmovedGroup:
    """A share group (KIP-932) or streams group (KIP-1071) of the origin, which mm2 does not
    move."""

    name: str
    type: str
    """As in ListGroups, in lower case."""
    topics: Mapping[str, str] | None = field(default_factory=dict)
    """The flow's topics that it reads, with their names on the destination; None if unknown."""
    unread_reason: str = ""
    """Why its topics are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedPosition:
    """The translation of an offset on the origin to the destination."""

    partition: TopicPartition
    outcome: TranslatedOffset
    known_from: int | None = None
    """For `TOO_OLD`: the first offset on the destination that the map covers. A checkpoint after it
    may belong to an earlier mirror. None if any may."""
    outdated_reason: str = ""
    """Why the reverse flow's map entries are outdated, "" if they are not."""
    local_records_reason: str = ""
    """Why the group may skip local records of the destination, "" if it does not."""


TranslatePosition = Callable[[TopicPartition, int], TranslatedPosition | None]
"""Translates an offset of a partition of the origin; returns None if no flow replicates the topic
in either direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreplicatedRecords:
    """Records of one partition of the destination that never reached the origin."""

    partition: TopicPartition
    """Partition of the destination."""
    start: int
    end: int
    records: int | None
    """Number of records, None if not all could be counted."""
    at_least: int = 0
    """Number of records that were counted."""
    first_ms: int | None = None
    """Timestamp of the first of them, None if there is none."""
    last_ms: int | None = None
    """Timestamp of the last of them, None if there is none."""
    unknown_reason: str = ""
    """Why not all could be counted, if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBaseline:
    """The plan with which the move began."""

    positions: Mapping[str, CommittedPositions]
    """Positions on the origin, by group."""
    findings: frozenset[tuple[str, str]]
    """Code and group of each finding."""
    streams: frozenset[str] = frozenset()
    """Groups that are Kafka Streams applications."""


def merge_furthest(one: CommittedPositions, other: CommittedPositions) -> CommittedPositions:
    """Merge positions; the higher offset of each partition counts."""
    found = dict(one)
    for partition, position in other.items():
        known = found.get(partition)
        if known is None or (position is not None and position.offset > known.offset):
            found[partition] = position
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPairSnapshot:
    """Everything that was collected for a plan."""

    at_ms: int
    """When the snapshot was taken."""
    flow: str
    mirrored: tuple[MirroredPartition, ...]
    groups: tuple[GroupSnapshot, ...]
    unmoved_groups: tuple[UnmovedGroup, ...] = ()
    """Share and streams groups that the origin lists."""
    target_commands: ClusterCommands = field(default_factory=ClusterCommands)
    """Commands with which Kafka's tools reach the destination."""
    target_bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    """Log bounds on the destination, of partitions that groups will read."""
    unanswered: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions of these that the destination does not answer for, and why."""
    origin_error: str = ""
    """Why the origin does not answer, "" if it does."""
    incomplete_reason: str = ""
    """Why the list of groups may be incomplete, "" if it is complete."""
    checkpointed_ms: int | None = None
    """When the newest checkpoint was written, None if there is none."""
    unlisted_topics: Mapping[str, str] = field(default_factory=dict)
    """Topics whose partitions the origin did not list, and why."""
    reverse_flow_error: str = ""
    """Why the reverse flow's state on the origin is unknown, "" if it is known."""
    offset_syncs_error: str = ""
    """Why the flow's own offset syncs could not be read, "" if they were."""
    excluded_topics: Mapping[str, str] = field(default_factory=dict)
    """Topics of the destination that are no longer replicated, and why."""
    unfenced: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions whose writers are not fenced, and why."""
    unreplicated: tuple[UnreplicatedRecords, ...] = ()
    loss_count: int = 0
    """Number of the flow's incidents that report lost records."""
    baseline: PlanBaseline | None = None
    """The plan with which the move began, None before that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreedEnds:
    """Ends on the origin when both clusters were equal, before the final check of a planned
    move."""

    ends: Mapping[TopicPartition, int]
