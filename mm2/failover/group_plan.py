"""Plans each consumer group: its position on the other cluster, and how much it re-reads.

A group resumes where it has read everything before and nothing after. Records that it has read
but that never reached the other cluster are counted separately: they are missing there, not
re-read.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.pair_snapshot import (
    CheckpointPair,
    GroupSnapshot,
    MirroredPartition,
    PositionBasis,
    TranslatedPosition,
    TranslatePosition,
)
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.offsets.group_offset_sync import GroupState
from mm2.offsets.log_bounds import LogBounds
from mm2.offsets.translation import EarlierOffset, ExactOffset, TranslatedOffset, Untranslated

_GroupState = GroupState
_ALL_ANSWERED: Mapping[TopicPartition, str] = {}


class GroupAction(enum.Enum):
    """What happens to a group's position in one partition; the value is printed."""

    MOVES = "moves"
    """Its position is written on the destination."""
    IS_THERE = "is there"
    """It already has this position on the destination."""
    IS_AHEAD = "is ahead"
    """It has read further on the destination. Positions are not set back, except if requested, or
    if they are beyond the end of a truncated log."""
    NOT_MIRRORED = "not mirrored"
    """No flow between the two clusters replicates the topic."""
    UNTRANSLATED = "untranslated"
    """The offset cannot be translated; `reason` has the reason."""
    MISSING = "no mirror"
    """The mirror partition does not exist (any more). If it merely does not answer, the translated
    position is used instead."""
    PAST_THE_END = "past the end"
    """The translated position is beyond the end of the mirror's log: truncated or recreated."""
    NO_OFFSET = "no offset"
    """The group has deleted its committed offset, and gets none on the destination."""


_IDLE_STATES = {_GroupState.ABSENT, _GroupState.EMPTY}
_RESET_ACTIONS = (GroupAction.UNTRANSLATED, GroupAction.PAST_THE_END)
"""Nothing is written for these: auto.offset.reset may let the group start at the first record."""
POSITIONED_ACTIONS = (GroupAction.MOVES, GroupAction.IS_THERE, GroupAction.IS_AHEAD)
"""After the move, the group is at `to` or further in these partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    """The move of one group's position in one partition."""

    partition: TopicPartition
    action: GroupAction
    """What happens to the position."""
    committed: int | None
    """Offset on the origin that is translated; see `basis`."""
    mirror: TopicPartition | None = None
    basis: PositionBasis = PositionBasis.COMMITTED
    """Whether `committed` is the committed offset itself or a checkpoint's."""
    checkpoint_ms: int | None = None
    """When the checkpoint was written, if there is one."""
    target_offset: int | None = None
    """Offset on the destination to resume at."""
    current_offset: int | None = None
    """The group's current committed offset on the destination."""
    max_rereads: int | None = 0
    """Upper bound of re-read records, None if there is none. Reads after a checkpoint are unknown,
    but bounded by the records on the mirror after it."""
    unreplicated: int = 0
    """Records that the group has read and that never reached the destination: an upper bound for a
    committed offset, a lower bound for a checkpoint."""
    unread: int | None = None
    """Records on the destination from `to` on."""
    deleted: int = 0
    """Offsets that were deleted on the destination before the group read them."""
    metadata: str = ""
    reason: str = ""
    """Why the offset could not be translated."""
    is_before_map: bool = False
    """True if the offset is older than the offset map: the group resumes at the first record."""
    local_records_reason: str = ""
    """See `TranslatedPosition`."""
    outdated_reason: str = ""
    """See `TranslatedPosition`."""
    unanswered_reason: str = ""
    """Why the destination does not answer for the partition, "" if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """The move of one group."""

    group: str
    basis: PositionBasis
    state: GroupState
    blocking_state: GroupState | None
    """The group's state on the destination if that forbids writing offsets: it has members there,
    or is not a consumer group."""
    partitions: tuple[PartitionMove, ...]
    unread_reason: str = ""
    """See `GroupSnapshot.unread_reason`."""
    is_access_denied: bool = False
    unreadable_checkpoint: str = ""
    """See `GroupSnapshot.unreadable_checkpoint`."""
    is_streams: bool = False
    """True if the group is known to be a Kafka Streams application."""
    target_unread_reason: str = ""
    max_unlisted_rereads: int | None = 0
    """Records on mirrors of its topics in partitions without a known position, which it may have
    read; None if unknown. 0 for a group whose committed offsets are known."""
    may_read_more: bool = False
    """True if the group may have begun to read other replicated topics after its checkpoint."""

    @property
    def checkpoint_ms(self) -> int | None:
        """When its newest checkpoint was written; None if no position is from a checkpoint."""
        return max(
            (each.checkpoint_ms for each in self.partitions if each.checkpoint_ms is not None),
            default=None,
        )

    @property
    def set_back_partitions(self) -> frozenset[TopicPartition]:
        """Partitions of the destination where the group's position is set back."""
        return frozenset(
            each.mirror
            for each in self.partitions
            if each.action is GroupAction.MOVES
            and each.mirror is not None
            and (each.target_offset or 0) < (each.current_offset or 0)
        )

    @property
    def offsets_to_write(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Offsets to write, by partition of the destination; empty if writing is barred."""
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
        """Minimum position after the move, by partition of the destination."""
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
        """Upper bound of re-read records; None if there is none."""
        return None if self.may_read_more else self.max_known_rereads

    @property
    def max_known_rereads(self) -> int | None:
        """Upper bound for the topics that the group is known to read; None if there is none."""
        found = [self.max_unlisted_rereads, *(each.max_rereads for each in self.partitions)]
        return None if None in found else sum(each or 0 for each in found)

    @property
    def unreplicated(self) -> int:
        return sum(each.unreplicated for each in self.partitions)

    @property
    def unread(self) -> int:
        return sum(each.unread or 0 for each in self.partitions)


def plan_group(
    group: GroupSnapshot,
    translate: TranslatePosition,
    *,
    mirrored: Mapping[TopicPartition, MirroredPartition],
    logs: Mapping[TopicPartition, LogBounds],
    unanswered: Mapping[TopicPartition, str] = _ALL_ANSWERED,
    sets_back: bool = False,
) -> GroupMove:
    """Plan one group's move.

    `mirrored` is keyed by partition of the origin; see `ClusterPairSnapshot` for `logs` and
    `unanswered`. `sets_back` also writes positions that are before the group's current one."""
    there = group.target
    positions = there.positions if there.state is _GroupState.EMPTY else {}

    def of(partition: TopicPartition) -> PartitionMove:
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
        move = _plan_partition(
            partition,
            committed,
            _use_checkpoint(place, pair, committed=committed.offset, log=log),
            mirrored=mirrored.get(partition),
            log=log,
            at=None if at is None else at.offset,
            unheard=unanswered.get(place.partition, ""),
            sets_back=sets_back,
        )
        return (
            move
            if group.basis is PositionBasis.COMMITTED
            else _bound_checkpointed(group, move, log)
        )

    return GroupMove(
        group=group.name,
        basis=group.basis,
        state=group.state,
        blocking_state=None if there.state in _IDLE_STATES else there.state,
        partitions=tuple(of(each) for each in sorted(group.positions)),
        unread_reason=group.unread_reason,
        is_access_denied=group.is_access_denied,
        unreadable_checkpoint=group.unreadable_checkpoint,
        is_streams=bool(group.is_streams),
        target_unread_reason=group.target_unread_reason,
        max_unlisted_rereads=_bound_unlisted(group, mirrored.values()),
        may_read_more=_may_read_more(group, mirrored.values()),
    )


def _bound_checkpointed(
    group: GroupSnapshot, move: PartitionMove, log: LogBounds | None
) -> PartitionMove:
    """Bound the re-reads of a position that is not the group's current committed offset: how far it
    has read since then is unknown, but not beyond the end of the mirror."""
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
        max_rereads=_count_held_from(begins, log, unheard=move.unanswered_reason),
    )


def _count_held_from(at: int | None, log: LogBounds | None, *, unheard: str) -> int | None:
    """Count the mirror's offsets from `at` on (None: all): no more records can be re-read."""
    if log is None:
        return None if unheard else 0
    return max(0, log.high_watermark - (log.start if at is None else at))


def _bound_unlisted(group: GroupSnapshot, mirrored: Iterable[MirroredPartition]) -> int | None:
    if group.basis is PositionBasis.COMMITTED:
        return 0
    stands = _list_positioned(group)
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


def _may_read_more(group: GroupSnapshot, mirrored: Iterable[MirroredPartition]) -> bool:
    """A topic that the group began to read after its last checkpoint has no checkpoint, and is
    re-read from the start with auto.offset.reset=earliest."""
    if group.basis is PositionBasis.COMMITTED:
        return False
    topics = {each.topic for each in _list_positioned(group)}
    return any(
        each.partition.topic not in topics
        and (
            each.mirror_error
            or (each.mirror_bounds and each.mirror_bounds.high_watermark > each.mirror_bounds.start)
        )
        for each in mirrored
    )


def _list_positioned(group: GroupSnapshot) -> set[TopicPartition]:
    return {place for place, position in group.positions.items() if position is not None}


def cap_rereads(
    forward: TranslatedOffset, committed: int, mirrored: MirroredPartition | None
) -> TranslatedOffset:
    """Lower the re-read bound of `forward`, a translation by the flow's map: of the records read
    beyond the end of the map, no more are re-read than the mirror has after that end."""
    beyond = _count_beyond(committed, mirrored)
    if mirrored is None or not beyond or not isinstance(forward, EarlierOffset):
        return forward
    again = max(0, forward.reread_max - beyond) + min(beyond, mirrored.unrecorded)
    if not again:
        return ExactOffset(downstream=forward.downstream)
    return dataclasses.replace(forward, reread_max=again)


def _plan_partition(
    partition: TopicPartition,
    committed: OffsetAndMetadata,
    place: TranslatedPosition,
    *,
    mirrored: MirroredPartition | None,
    log: LogBounds | None,
    at: int | None,
    unheard: str,
    sets_back: bool,
) -> PartitionMove:
    outcome = place.outcome
    oldest = outcome is Untranslated.TOO_OLD and log is not None
    if oldest and log is not None:
        outcome = _translate_to_start(log)
    if isinstance(outcome, Untranslated):
        return PartitionMove(
            partition=partition,
            action=GroupAction.UNTRANSLATED,
            committed=committed.offset,
            mirror=place.partition,
            current_offset=at,
            max_rereads=_count_held_from(None, log, unheard=unheard),
            reason=outcome.value,
            unanswered_reason=unheard,
        )
    # Where retention has taken the place a consumer would reset, by default to the end.
    to = outcome.downstream if log is None else max(outcome.downstream, log.start)
    way = _choose_action(to, at=at, log=log, unheard=unheard, sets_back=sets_back)
    again_max: int | None = outcome.reread_max if isinstance(outcome, EarlierOffset) else 0
    if way in _RESET_ACTIONS:
        again_max = _count_held_from(None, log, unheard=unheard)
    return PartitionMove(
        partition=partition,
        action=way,
        committed=committed.offset,
        mirror=place.partition,
        target_offset=to,
        current_offset=at,
        max_rereads=again_max,
        unreplicated=_count_beyond(committed.offset, mirrored),
        unread=None if log is None else log.count_from(to),
        deleted=to - outcome.downstream,
        metadata=committed.metadata,
        is_before_map=oldest,
        local_records_reason=place.local_records_reason,
        outdated_reason=place.outdated_reason,
        unanswered_reason=unheard,
    )


def _translate_to_start(log: LogBounds) -> EarlierOffset:
    return EarlierOffset(downstream=log.start, reread_max=log.high_watermark - log.start)


def _use_checkpoint(
    place: TranslatedPosition, pair: CheckpointPair | None, *, committed: int, log: LogBounds | None
) -> TranslatedPosition:
    """Use a checkpoint for what the offset map does not cover, unless the checkpoint may belong to
    an earlier topic: checkpoints have no topic id and stay when a topic is recreated."""
    if pair is None or pair.upstream > committed or log is None:
        return place
    match place.outcome:
        case Untranslated.UNKNOWN:
            pass
        case Untranslated.TOO_OLD:
            if place.known_from is None or pair.downstream > place.known_from:
                return place
        case _:
            return place
    bound = max(0, log.high_watermark - pair.downstream)
    told = EarlierOffset(downstream=pair.downstream, reread_max=bound)
    return dataclasses.replace(place, outcome=told)


def _count_beyond(committed: int, mirrored: MirroredPartition | None) -> int:
    if mirrored is None or mirrored.copied_to is None:
        return 0
    return max(0, committed - mirrored.copied_to)


def _choose_action(
    to: int, *, at: int | None, log: LogBounds | None, unheard: str, sets_back: bool
) -> GroupAction:
    if log is None and not unheard:
        return GroupAction.MISSING
    # Its place may be behind a transaction that is open: it is known by the record's own offset.
    if log is not None and to > log.high_watermark:
        return GroupAction.PAST_THE_END
    if at == to:
        return GroupAction.IS_THERE
    was_cut = log is not None and at is not None and at > log.high_watermark
    if at is not None and to < at and not was_cut and not sets_back:
        return GroupAction.IS_AHEAD
    return GroupAction.MOVES
