"""`ClusterPairSnapshot` contains the complete input of a failover or failback plan.

The origin is the cluster that applications leave. The destination is the cluster to which they
move. Partitions have their names on the origin unless stated otherwise. Times are UTC milliseconds.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.offsets.checkpoint_rules import CommittedPositions
from mm2.offsets.group_offset_sync import GroupState, TargetGroup
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_translation import TranslatedOffset
from mm2.replication import replication_latency
from mm2.suggested_commands import ClusterCommands


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredPartition:
    """A partition of the origin cluster and its mirror on the destination cluster."""

    partition: TopicPartition
    mirror: TopicPartition
    copied_to: int | None = None
    """Next source offset to replicate; None if nothing has been replicated yet."""
    unrecorded: int = 0
    """Upper bound of the number of mirror records after the end of the offset map, which the map
    does not contain yet."""
    source_bounds: LogBounds | None = None
    """Log bounds (start and end offset) on the origin; None if the origin does not respond for the
    partition."""
    mirror_bounds: LogBounds | None = None
    """Log bounds (start and end offset) of the mirror; None if the mirror does not exist or does
    not respond."""
    waiting_since_ms: int | None = None
    """Timestamp of the oldest unreplicated record."""
    newest_ms: int | None = None
    """Timestamp of the last record on the mirror. Set only if `source_bounds` is None."""
    stop_reason: str = ""
    """Reason why the partition's offset map entries are outdated, or why the partition is halted
    permanently; "" otherwise."""
    source_error: str = ""
    """Reason why `source_bounds` is None although the origin responds for other partitions."""
    mirror_error: str = ""
    """Reason why `mirror_bounds` is None although the mirror may exist."""

    @property
    def lag_records(self) -> int | None:
        """Lag in offsets, which is an upper bound of the number of records if the log has gaps.
        None if unknown."""
        return (
            None
            if self.source_bounds is None
            else self.source_bounds.count_offsets_from(self.copied_to)
        )

    def lag_ms(self, now_ms: int) -> int | None:
        """Return the age of the oldest unreplicated record: 0 if no such record exists, None if
        unknown."""
        if self.lag_records == 0:
            return 0
        if self.source_bounds is None or self.waiting_since_ms is None:
            return None
        return replication_latency.compute_age_ms(self.waiting_since_ms, now_ms)


_ABSENT_GROUP = TargetGroup(state=GroupState.ABSENT)


class PositionBasis(enum.Enum):
    """How a consumer group's position on the origin was determined. The value is displayed to
    users."""

    COMMITTED = "committed"
    """The group's committed offset, which was just read from the origin."""
    CHECKPOINTED = "checkpoint"
    """The group's last checkpoint on the destination, which is older than its committed offset."""
    COMMITTED_AT_START = "committed at the start"
    """The group's committed offset when the failover started, because the origin has stopped
    responding since then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPair:
    """The two offsets of a checkpoint: a group that has read up to `upstream` on the origin misses
    no record if it continues at `downstream` on the destination."""

    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """A consumer group on both clusters."""

    name: str
    basis: PositionBasis
    """How the group's positions were determined."""
    is_streams: bool | None = None
    """True for a Kafka Streams application. None if unknown, for example for a group without
    members."""
    positions: CommittedPositions
    checkpoint_times_ms: Mapping[TopicPartition, int] = field(default_factory=dict)
    """Time at which the checkpoint of a position was written. Positions that do not come from a
    checkpoint have no entry."""
    state: GroupState = GroupState.UNKNOWN
    """State of the group on the origin; UNKNOWN if the origin does not respond for the group."""
    target: TargetGroup = _ABSENT_GROUP
    """State and positions of the group on the destination."""
    checkpoints: Mapping[TopicPartition, CheckpointPair] = field(default_factory=dict)
    """Checkpoints of the group."""
    unread_reason: str = ""
    """Reason why the group's committed offsets could not be read; "" if they were read, or if the
    whole origin is down."""
    is_access_denied: bool = False
    """True if mm2 is not authorized to read the group's committed offsets, so that retrying does
    not help."""
    unreadable_checkpoint: str = ""
    """Reason why a checkpoint on which the group's positions depend cannot be read."""
    target_unread_reason: str = ""
    """Reason why the group's state on the destination is UNKNOWN."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnmovedGroup:
    """A share group (KIP-932) or streams group (KIP-1071) of the origin, which mm2 does not
    move to the destination."""

    name: str
    type: str
    """Group type as in ListGroups, in lower case."""
    topics: Mapping[str, str] | None = field(default_factory=dict)
    """The flow's topics that the group reads, with their names on the destination; None if
    unknown."""
    unread_reason: str = ""
    """Reason why the group's topics are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranslatedPosition:
    """Translation of an offset on the origin to the destination."""

    partition: TopicPartition
    outcome: TranslatedOffset
    known_from: int | None = None
    """For the outcome `TOO_OLD`, the first offset on the destination that the offset map covers. A
    checkpoint at a higher offset may refer to an earlier generation of the mirror topic, and is not
    used. None if no checkpoint can be used."""
    outdated_reason: str = ""
    """Reason why the reverse flow's offset map entries are outdated; "" if they are current."""
    local_records_reason: str = ""
    """Reason why the group may skip records that were produced directly to the destination; "" if
    it does not skip any."""


TranslatePosition = Callable[[TopicPartition, int], TranslatedPosition | None]
"""Function that translates an offset of an origin partition. Returns None if no flow replicates the
topic in either direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreplicatedRecords:
    """Records of a destination partition that never reached the origin."""

    partition: TopicPartition
    """Partition of the destination."""
    start: int
    end: int
    records: int | None
    """Number of records; None if some could not be counted."""
    at_least: int = 0
    """Number of records that could be counted; only a lower bound if `records` is None."""
    first_ms: int | None = None
    """Timestamp of the first unreplicated record; None if there are no records."""
    last_ms: int | None = None
    """Timestamp of the last unreplicated record; None if there are no records."""
    unknown_reason: str = ""
    """Reason why some unreplicated records could not be counted, if known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBaseline:
    """Positions and findings of the plan with which the failover started."""

    positions: Mapping[str, CommittedPositions]
    """Positions on the origin when the failover started, by group."""
    findings: frozenset[tuple[str, str]]
    """Code and consumer group of each finding (problem) of the plan."""
    streams: frozenset[str] = frozenset()
    """Groups that are Kafka Streams applications."""


def merge_higher_positions(
    one: CommittedPositions, other: CommittedPositions
) -> CommittedPositions:
    """Merge two sets of positions, using the higher offset of each partition."""
    found = dict(one)
    for partition, position in other.items():
        known = found.get(partition)
        if known is None or (position is not None and position.offset > known.offset):
            found[partition] = position
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPairSnapshot:
    """Complete data collected for a failover or failback plan."""

    at_ms: int
    """Time at which the snapshot was taken."""
    flow: str
    mirrored: tuple[MirroredPartition, ...]
    groups: tuple[GroupSnapshot, ...]
    unmoved_groups: tuple[UnmovedGroup, ...] = ()
    """Share and streams groups that the origin lists."""
    target_commands: ClusterCommands = field(default_factory=ClusterCommands)
    """Commands that access the destination with Kafka's command-line tools."""
    target_bounds: Mapping[TopicPartition, LogBounds] = field(default_factory=dict)
    """Start and end offsets of the destination partitions that groups will read."""
    unanswered: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Destination partitions whose start and end offsets could not be fetched, with the reason."""
    origin_error: str = ""
    """Reason why the origin does not respond; "" if it responds."""
    incomplete_reason: str = ""
    """Reason why the list of groups may be incomplete; "" if it is complete."""
    checkpointed_ms: int | None = None
    """Time at which the newest checkpoint was written; None if no checkpoint exists."""
    unlisted_topics: Mapping[str, str] = field(default_factory=dict)
    """Topics whose partitions the origin did not list, with the reason."""
    reverse_flow_error: str = ""
    """Reason why the state of the reverse flow, which is stored on the origin, is unknown; "" if it
    is known."""
    offset_syncs_error: str = ""
    """Reason why the flow's own offset syncs could not be read; "" if they were read."""
    excluded_topics: Mapping[str, str] = field(default_factory=dict)
    """Topics of the destination that are no longer replicated, with the reason."""
    unfenced: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions whose earlier writers are not fenced, with the reason."""
    unreplicated: tuple[UnreplicatedRecords, ...] = ()
    loss_count: int = 0
    """Number of the flow's incidents that report lost records."""
    baseline: PlanBaseline | None = None
    """Positions and findings of the plan with which the failover started; None before the failover
    starts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchingEndOffsets:
    """End offsets on the origin at which both clusters contained the same records, before the final
    check of a planned failover."""

    ends: Mapping[TopicPartition, int]
