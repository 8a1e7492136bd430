"""Plans the failover of each consumer group: the offsets at which it resumes on the destination,
and how many records it reads again.

A group resumes at the offset up to which it has read all records. Records that the group has read
but that were never replicated are counted separately: they are missing on the destination, not
re-read.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import (
    CheckpointPair,
    GroupSnapshot,
    MirroredPartition,
    PositionBasis,
    TranslatedPosition,
    TranslatePosition,
)
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_translation import (
    EarlierOffset,
    ExactOffset,
    TranslatedOffset,
    UntranslatedReason,
)

_GroupState = GroupState
_ALL_ANSWERED: Mapping[TopicPartition, str] = {}


class GroupAction(enum.Enum):
    """Planned action for a group's offset in one partition. The enum value is shown to the
    operator."""

    MOVES = "moves"
    """The position is written on the destination."""
    IS_THERE = "is there"
    """The group already has this position on the destination."""
    IS_AHEAD = "is ahead"
    """The group's position on the destination is already higher than the translated position, and
    is kept. It is rewound only if the operator requests this, or if it is beyond the end of a
    truncated log."""
    NOT_MIRRORED = "not mirrored"
    """No flow between the two clusters replicates the topic."""
    UNTRANSLATED = "untranslated"
    """The offset cannot be translated; `PartitionMove.reason` states why."""
    MISSING = "no mirror"
    """The mirror partition does not exist or was deleted. If the partition merely does not respond,
    the translated position is used instead."""
    PAST_THE_END = "past the end"
    """The translated position is beyond the end of the mirror's log, which was truncated or
    recreated."""
    NO_OFFSET = "no offset"
    """The group's committed offset was deleted, so no offset is written on the destination."""


_IDLE_STATES = {_GroupState.ABSENT, _GroupState.EMPTY}
_RESET_ACTIONS = (GroupAction.UNTRANSLATED, GroupAction.PAST_THE_END)
"""Actions that write no offset, so that auto.offset.reset may restart the group at the first
record."""
POSITIONED_ACTIONS = (GroupAction.MOVES, GroupAction.IS_THERE, GroupAction.IS_AHEAD)
"""Actions after which the group is at `target_offset` or higher in the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    """Planned failover of one group's position in one partition."""

    partition: TopicPartition
    action: GroupAction
    """Planned action for the position."""
    committed: int | None
    """The group's offset on the origin, to be translated. `basis` states its source."""
    mirror: TopicPartition | None = None
    basis: PositionBasis = PositionBasis.COMMITTED
    """Source of the offset in `committed`: the group's committed offset or a checkpoint."""
    checkpoint_ms: int | None = None
    """Time when the checkpoint was written, or None if `committed` is not from a checkpoint."""
    target_offset: int | None = None
    """Offset at which the group resumes on the destination."""
    current_offset: int | None = None
    """The group's current committed offset on the destination."""
    max_rereads: int | None = 0
    """Upper bound of re-read records, or None if unbounded. The reads after a checkpoint are
    unknown, but cannot exceed the mirror's records after the checkpoint."""
    unreplicated: int = 0
    """Number of records that the group has read but that were never replicated to the destination:
    an upper bound for a committed offset, a lower bound for a checkpoint."""
    unread: int | None = None
    """Number of records on the destination from `target_offset` on, which the group has still to
    read."""
    deleted: int = 0
    """Number of offsets whose records were deleted on the destination before the group could read
    them."""
    metadata: str = ""
    reason: str = ""
    """Reason why the offset could not be translated."""
    is_before_map: bool = False
    """True if the offset is older than the offset map, so that the group resumes at the first
    record."""
    local_records_reason: str = ""
    """Reason why the group may skip records that were produced directly to the destination; see
    `TranslatedPosition`."""
    outdated_reason: str = ""
    """Reason why the reverse flow's offset map is outdated for this partition; see
    `TranslatedPosition`."""
    unanswered_reason: str = ""
    """Reason why the destination does not respond for the partition, or "" if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """Planned failover of one group in all its partitions."""

    group: str
    basis: PositionBasis
    state: GroupState
    blocking_state: GroupState | None
    """The group's state on the destination if it forbids writing offsets (the group has members or
    is not a consumer group), else None."""
    partitions: tuple[PartitionMove, ...]
    unread_reason: str = ""
    """Reason why the group's committed offsets could not be read; "" if they were read, or if the
    whole origin is down."""
    is_access_denied: bool = False
    unreadable_checkpoint: str = ""
    """Reason why a checkpoint on which the group's positions depend cannot be read."""
    is_streams: bool = False
    """True if the group is known to be a Kafka Streams application."""
    target_unread_reason: str = ""
    max_unlisted_rereads: int | None = 0
    """Number of records in mirror partitions for which the group has no known position but which it
    may have read. None if unknown, 0 if the group's committed offsets are known."""
    may_read_more: bool = False
    """True if the group may have started to read other replicated topics after its last
    checkpoint."""

    @property
    def checkpoint_ms(self) -> int | None:
        """Time when the group's newest checkpoint was written, or None if no position comes from a
        checkpoint."""
        return max(
            (each.checkpoint_ms for each in self.partitions if each.checkpoint_ms is not None),
            default=None,
        )

    @property
    def rewound_partitions(self) -> frozenset[TopicPartition]:
        """Destination partitions in which the group's position is rewound."""
        return frozenset(
            each.mirror
            for each in self.partitions
            if each.action is GroupAction.MOVES
            and each.mirror is not None
            and (each.target_offset or 0) < (each.current_offset or 0)
        )

    @property
    def offsets_to_write(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Offsets to commit for the group, by destination partition. Empty if the group's state on
        the destination forbids writing offsets."""
        if self.blocking_state is not None:
            return {}
        return {
            each.mirror: OffsetAndMetadata(offset=each.target_offset, metadata=each.metadata)
            for each in self.partitions
            if each.action is GroupAction.MOVES
            and each.mirror is not None
            and each.target_offset is not None
        }

    @property
    def minimum_offsets(self) -> dict[TopicPartition, int]:
        """Minimum committed offsets that the group must have after the failover, by destination
        partition."""
        if self.blocking_state is not None:
            return {}
        return {
            each.mirror: each.target_offset
            for each in self.partitions
            if each.action in POSITIONED_ACTIONS
            and each.mirror is not None
            and each.target_offset is not None
        }

    @property
    def max_rereads(self) -> int | None:
        """Upper bound of the records that the group will re-read, or None if unbounded."""
        return None if self.may_read_more else self.max_known_rereads

    @property
    def max_known_rereads(self) -> int | None:
        """Upper bound of the records that the group will re-read in the topics that it is known to
        read, or None if unbounded."""
        found = [self.max_unlisted_rereads, *(each.max_rereads for each in self.partitions)]
        return None if None in found else sum(each or 0 for each in found)

    @property
    def unreplicated_records(self) -> int:
        return sum(each.unreplicated for each in self.partitions)

    @property
    def unread_records(self) -> int:
        return sum(each.unread or 0 for each in self.partitions)


def plan_group_move(
    group: GroupSnapshot,
    translate: TranslatePosition,
    *,
    mirrored: Mapping[TopicPartition, MirroredPartition],
    logs: Mapping[TopicPartition, LogBounds],
    unanswered: Mapping[TopicPartition, str] = _ALL_ANSWERED,
    rewind: bool = False,
) -> GroupMove:
    """Plan the failover of one group.

    `mirrored` contains the mirrored partitions by origin partition. `logs` and `unanswered` are
    described in `ClusterPairSnapshot` (`target_bounds` and `unanswered`). If `rewind` is True,
    offsets lower than the group's current offset on the destination are also written.
    """
    there = group.target
    positions = there.positions if there.state is _GroupState.EMPTY else {}

    def plan_partition(partition: TopicPartition) -> PartitionMove:
        committed = group.positions[partition]
        if committed is None:
            return PartitionMove(partition=partition, action=GroupAction.NO_OFFSET, committed=None)
        place = translate(partition, committed.offset)
        if place is None:
            return PartitionMove(
                partition=partition, action=GroupAction.NOT_MIRRORED, committed=committed.offset
            )
        at, log = positions.get(place.partition), logs.get(place.partition)
        pair = group.checkpoints.get(partition)
        move = _plan_partition_move(
            partition,
            committed,
            _translate_unmapped_position_by_checkpoint(
                place, pair, committed=committed.offset, log=log
            ),
            mirrored=mirrored.get(partition),
            log=log,
            at=None if at is None else at.offset,
            unheard=unanswered.get(place.partition, ""),
            rewind=rewind,
        )
        return (
            move
            if group.basis is PositionBasis.COMMITTED
            else _add_stale_position_reread_bound(group, move, log)
        )

    return GroupMove(
        group=group.name,
        basis=group.basis,
        state=group.state,
        blocking_state=None if there.state in _IDLE_STATES else there.state,
        partitions=tuple(plan_partition(each) for each in sorted(group.positions)),
        unread_reason=group.unread_reason,
        is_access_denied=group.is_access_denied,
        unreadable_checkpoint=group.unreadable_checkpoint,
        is_streams=bool(group.is_streams),
        target_unread_reason=group.target_unread_reason,
        max_unlisted_rereads=_bound_rereads_of_unlisted_partitions(group, mirrored.values()),
        may_read_more=_may_read_unlisted_topics(group, mirrored.values()),
    )


def _add_stale_position_reread_bound(
    group: GroupSnapshot, move: PartitionMove, log: LogBounds | None
) -> PartitionMove:
    """Set the upper bound of re-read records for a position that is a checkpoint, or the committed
    offset at the start of the failover. It is unknown how far the group has read after this
    position, but the group cannot have read beyond the end of the mirror partition."""
    written_ms = group.checkpoint_times_ms.get(move.partition)
    begins = {GroupAction.IS_AHEAD: move.current_offset, **dict.fromkeys(_RESET_ACTIONS)}.get(
        move.action, move.target_offset
    )
    return dataclasses.replace(
        move,
        basis=PositionBasis.COMMITTED_AT_START
        if written_ms is None
        else PositionBasis.CHECKPOINTED,
        checkpoint_ms=written_ms,
        max_rereads=_count_offsets_to_log_end(begins, log, unheard=move.unanswered_reason),
    )


def _count_offsets_to_log_end(at: int | None, log: LogBounds | None, *, unheard: str) -> int | None:
    """Return the upper bound of re-read records: the number of offsets in the mirror partition from
    `at` to the end, or of all its offsets if `at` is None. None if the partition does not
    respond."""
    if log is None:
        return None if unheard else 0
    return max(0, log.high_watermark - (log.start if at is None else at))


def _bound_rereads_of_unlisted_partitions(
    group: GroupSnapshot, mirrored: Iterable[MirroredPartition]
) -> int | None:
    if group.basis is PositionBasis.COMMITTED:
        return 0
    stands = _list_partitions_with_position(group)
    if not stands:
        return None
    topics = {each.topic for each in stands}
    count = 0
    for each in mirrored:
        if each.partition.topic not in topics or each.partition in stands:
            continue
        if each.mirror_bounds is not None:
            count += each.mirror_bounds.high_watermark - each.mirror_bounds.start
        elif each.mirror_error:
            return None
    return count


def _may_read_unlisted_topics(group: GroupSnapshot, mirrored: Iterable[MirroredPartition]) -> bool:
    """Return True if the group may have started to read a topic after its last checkpoint. Such a
    topic has no checkpoint and is re-read from the start if auto.offset.reset is earliest."""
    if group.basis is PositionBasis.COMMITTED:
        return False
    topics = {each.topic for each in _list_partitions_with_position(group)}
    return any(
        each.partition.topic not in topics
        and (
            each.mirror_error
            or (each.mirror_bounds and each.mirror_bounds.high_watermark > each.mirror_bounds.start)
        )
        for each in mirrored
    )


def _list_partitions_with_position(group: GroupSnapshot) -> set[TopicPartition]:
    return {place for place, position in group.positions.items() if position is not None}


def cap_reread_bound(
    forward: TranslatedOffset, committed: int, mirrored: MirroredPartition | None
) -> TranslatedOffset:
    """Lower the bound of re-read records in `forward`, the translation of the offset `committed` by
    the flow's offset map. The group may have read records after the end of the map. Of these
    records it re-reads at most as many as the mirror partition has after the end of the map."""
    beyond = _count_read_unreplicated_records(committed, mirrored)
    if mirrored is None or not beyond or not isinstance(forward, EarlierOffset):
        return forward
    again = max(0, forward.reread_max - beyond) + min(beyond, mirrored.unrecorded)
    if not again:
        return ExactOffset(downstream=forward.downstream)
    return dataclasses.replace(forward, reread_max=again)


def _plan_partition_move(
    partition: TopicPartition,
    committed: OffsetAndMetadata,
    place: TranslatedPosition,
    *,
    mirrored: MirroredPartition | None,
    log: LogBounds | None,
    at: int | None,
    unheard: str,
    rewind: bool,
) -> PartitionMove:
    outcome = place.outcome
    oldest = outcome is UntranslatedReason.TOO_OLD and log is not None
    if oldest and log is not None:
        outcome = _build_log_start_translation(log)
    if isinstance(outcome, UntranslatedReason):
        return PartitionMove(
            partition=partition,
            action=GroupAction.UNTRANSLATED,
            committed=committed.offset,
            mirror=place.partition,
            current_offset=at,
            max_rereads=_count_offsets_to_log_end(None, log, unheard=unheard),
            reason=outcome.value,
            unanswered_reason=unheard,
        )
    # Where retention has taken the place a consumer would reset, by default to the end.
    to = outcome.downstream if log is None else max(outcome.downstream, log.start)
    way = _choose_group_action(to, at=at, log=log, unheard=unheard, rewind=rewind)
    again_max: int | None = outcome.reread_max if isinstance(outcome, EarlierOffset) else 0
    if way in _RESET_ACTIONS:
        again_max = _count_offsets_to_log_end(None, log, unheard=unheard)
    return PartitionMove(
        partition=partition,
        action=way,
        committed=committed.offset,
        mirror=place.partition,
        target_offset=to,
        current_offset=at,
        max_rereads=again_max,
        unreplicated=_count_read_unreplicated_records(committed.offset, mirrored),
        unread=None if log is None else log.count_offsets_from(to),
        deleted=to - outcome.downstream,
        metadata=committed.metadata,
        is_before_map=oldest,
        local_records_reason=place.local_records_reason,
        outdated_reason=place.outdated_reason,
        unanswered_reason=unheard,
    )


def _build_log_start_translation(log: LogBounds) -> EarlierOffset:
    return EarlierOffset(downstream=log.start, reread_max=log.high_watermark - log.start)


def _translate_unmapped_position_by_checkpoint(
    place: TranslatedPosition, pair: CheckpointPair | None, *, committed: int, log: LogBounds | None
) -> TranslatedPosition:
    """Translate a position with a checkpoint if the offset map has no entry for it. Checkpoints
    contain no topic id and are kept when a topic is recreated, so a checkpoint that may belong to a
    deleted topic of the same name is not used."""
    if pair is None or pair.upstream > committed or log is None:
        return place
    match place.outcome:
        case UntranslatedReason.UNKNOWN:
            pass
        case UntranslatedReason.TOO_OLD:
            if place.known_from is None or pair.downstream > place.known_from:
                return place
        case _:
            return place
    bound = max(0, log.high_watermark - pair.downstream)
    told = EarlierOffset(downstream=pair.downstream, reread_max=bound)
    return dataclasses.replace(place, outcome=told)


def _count_read_unreplicated_records(committed: int, mirrored: MirroredPartition | None) -> int:
    if mirrored is None or mirrored.copied_to is None:
        return 0
    return max(0, committed - mirrored.copied_to)


def _choose_group_action(
    to: int, *, at: int | None, log: LogBounds | None, unheard: str, rewind: bool
) -> GroupAction:
    if log is None and not unheard:
        return GroupAction.MISSING
    # Its place may be behind a transaction that is open: it is known by the record's own offset.
    if log is not None and to > log.high_watermark:
        return GroupAction.PAST_THE_END
    if at == to:
        return GroupAction.IS_THERE
    was_cut = log is not None and at is not None and at > log.high_watermark
    if at is not None and to < at and not was_cut and not rewind:
        return GroupAction.IS_AHEAD
    return GroupAction.MOVES
