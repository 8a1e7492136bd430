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
    """What becomes of a group's position in one partition."""

    MOVES = "moves"
    """Its position is written."""
    IS_THERE = "is there"
    """It has this position already."""
    IS_AHEAD = "is ahead"
    """It has read further there; positions are never set back unless that is asked for, or they are
    beyond the end of the log: of a log that was cut."""
    NOT_MIRRORED = "not mirrored"
    """The topic is on no flow between the two clusters."""
    UNTRANSLATED = "untranslated"
    """Nobody can say where it is there; the outcome says why."""
    MISSING = "no mirror"
    """There is no such partition there (any more); of one that nobody answers for that is not
    known, and its place is where the map says."""
    PAST_THE_END = "past the end"
    """It would be behind the end of the log there, which was cut or made anew."""
    NO_OFFSET = "no offset"
    """The group has reset it to nowhere, and goes on nowhere there, too."""


_IDLE_STATES = {_GroupState.ABSENT, _GroupState.EMPTY}
_RESET_ACTIONS = (GroupAction.UNTRANSLATED, GroupAction.PAST_THE_END)
"""Of these nothing is written: auto.offset.reset may let the group begin at the first record."""
POSITIONED_ACTIONS = (GroupAction.MOVES, GroupAction.IS_THERE, GroupAction.IS_AHEAD)
"""Of these the group stands at `to`, or further, once it has moved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    """One partition of one group; offsets as in Kafka, records as counts.

    `basis` says what `committed` is: the committed offset itself, or a checkpoint's, which was
    written at `written_ms`. `to` is the offset to go on from there, `at` the group's position there
    now. At most `again_max` records are read again, None where no bound can be proven: what a group
    has read after a checkpoint is unknown, but it cannot be more than the mirror holds behind it.
    `unmirrored` records, at most, were read on the cluster that is left and never reached this one;
    of a checkpoint that many are known, and more may be. `gone` records were deleted here before
    the group read them, by offsets. `oldest`: its place is before all that is known, so it goes on
    at the first record that is left. `unsure` and `stopped` as in `TranslatedPosition`; `unheard`:
    why the cluster gone to does not answer for the partition there, "" where it does."""

    partition: TopicPartition
    way: GroupAction
    committed: int | None
    mirror: TopicPartition | None = None
    basis: PositionBasis = PositionBasis.COMMITTED
    written_ms: int | None = None
    to: int | None = None
    at: int | None = None
    again_max: int | None = 0
    unmirrored: int = 0
    unread: int | None = None
    gone: int = 0
    metadata: str = ""
    why: str = ""
    oldest: bool = False
    unsure: str = ""
    stopped: str = ""
    unheard: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMove:
    """`barred`: the group has members there, or is no consumers' one, so nothing is written.
    `unread_why`, `refused` and `there_unread` as in `GroupSnapshot`, `is_streams`: as far as that
    is known. Of a group whose committed offsets of now are not known: `unlisted_max` records stand
    on mirrors of its topics in partitions that it has no position in, and may have read, None:
    nobody can tell; `may_read_more`: there are other mirrored topics, which it may read by now."""

    group: str
    origin: PositionBasis
    state: GroupState
    barred: GroupState | None
    partitions: tuple[PartitionMove, ...]
    unread_why: str = ""
    refused: bool = False
    is_streams: bool = False
    there_unread: str = ""
    unlisted_max: int | None = 0
    may_read_more: bool = False

    @property
    def written_ms(self) -> int | None:
        """When its newest checkpoint was written; None where no position is a checkpoint's."""
        return max(
            (each.written_ms for each in self.partitions if each.written_ms is not None),
            default=None,
        )

    @property
    def sets_back(self) -> frozenset[TopicPartition]:
        """Where it is written though it had got further there; by names there."""
        return frozenset(
            each.mirror
            for each in self.partitions
            if each.way is GroupAction.MOVES
            and each.mirror is not None
            and (each.to or 0) < (each.at or 0)
        )

    @property
    def write(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """By names there; empty where the group is barred."""
        if self.barred is not None:
            return {}
        return {
            each.mirror: OffsetAndMetadata(offset=each.to, metadata=each.metadata)
            for each in self.partitions
            if each.way is GroupAction.MOVES and each.mirror is not None and each.to is not None
        }

    @property
    def expected(self) -> dict[TopicPartition, int]:
        """Where the group has to stand there at least once it has moved."""
        if self.barred is not None:
            return {}
        return {
            each.mirror: each.to
            for each in self.partitions
            if each.way in POSITIONED_ACTIONS and each.mirror is not None and each.to is not None
        }

    @property
    def again_max(self) -> int | None:
        """None: no bound can be proven."""
        return None if self.may_read_more else self.again_known_max

    @property
    def again_known_max(self) -> int | None:
        """The bound of the topics that it is known to read; None: none can be proven."""
        found = [self.unlisted_max, *(each.again_max for each in self.partitions)]
        return None if None in found else sum(each or 0 for each in found)

    @property
    def unmirrored(self) -> int:
        return sum(each.unmirrored for each in self.partitions)

    @property
    def unread(self) -> int:
        return sum(each.unread or 0 for each in self.partitions)


def plan_group(
    group: GroupSnapshot,
    translate: TranslatePosition,
    *,
    mirrored: Mapping[TopicPartition, MirroredPartition],
    logs: Mapping[TopicPartition, LogBounds],
    unheard: Mapping[TopicPartition, str] = _ALL_ANSWERED,
    sets_back: bool = False,
) -> GroupMove:
    """`mirrored` by name on the cluster that is left, `logs` and `unheard` as in
    `ClusterPairSnapshot`. `sets_back`: also write positions that are behind where the group has got
    there."""
    there = group.there
    positions = there.positions if there.state is _GroupState.EMPTY else {}

    def of(partition: TopicPartition) -> PartitionMove:
        committed = group.positions[partition]
        if committed is None:
            return PartitionMove(partition=partition, way=GroupAction.NO_OFFSET, committed=None)
        place = translate(partition, committed.offset)
        if place is None:
            return PartitionMove(
                partition=partition, way=GroupAction.NOT_MIRRORED, committed=committed.offset
            )
        at, log = positions.get(place.partition), logs.get(place.partition)
        pair = group.pairs.get(partition)
        move = _plan_partition(
            partition,
            committed,
            _use_checkpoint(place, pair, committed=committed.offset, log=log),
            mirrored=mirrored.get(partition),
            log=log,
            at=None if at is None else at.offset,
            unheard=unheard.get(place.partition, ""),
            sets_back=sets_back,
        )
        return (
            move
            if group.origin is PositionBasis.COMMITTED
            else _bound_checkpointed(group, move, log)
        )

    return GroupMove(
        group=group.name,
        origin=group.origin,
        state=group.state,
        barred=None if there.state in _IDLE_STATES else there.state,
        partitions=tuple(of(each) for each in sorted(group.positions)),
        unread_why=group.unread,
        refused=group.refused,
        is_streams=bool(group.is_streams),
        there_unread=group.there_unread,
        unlisted_max=_bound_unlisted(group, mirrored.values()),
        may_read_more=_may_read_more(group, mirrored.values()),
    )


def _bound_checkpointed(
    group: GroupSnapshot, move: PartitionMove, log: LogBounds | None
) -> PartitionMove:
    """Of a position that is not the group's committed offset of now: how far it has read since is
    unknown, and bounded only by what the mirror holds behind its place."""
    written_ms = group.written_ms.get(move.partition)
    begins = {GroupAction.IS_AHEAD: move.at, **dict.fromkeys(_RESET_ACTIONS)}.get(move.way, move.to)
    return dataclasses.replace(
        move,
        basis=PositionBasis.BEGUN if written_ms is None else PositionBasis.CHECKPOINTED,
        written_ms=written_ms,
        again_max=_count_held_from(begins, log, unheard=move.unheard),
    )


def _count_held_from(at: int | None, log: LogBounds | None, *, unheard: str) -> int | None:
    """Offsets that the mirror holds from `at` on, None for all: no more can be read again."""
    if log is None:
        return None if unheard else 0
    return max(0, log.high_watermark - (log.start if at is None else at))


def _bound_unlisted(group: GroupSnapshot, mirrored: Iterable[MirroredPartition]) -> int | None:
    if group.origin is PositionBasis.COMMITTED:
        return 0
    stands = _list_positioned(group)
    if not stands:
        return None
    topics = {each.topic for each in stands}
    count = 0
    for each in mirrored:
        if each.partition.topic not in topics or each.partition in stands:
            continue
        if each.there is not None:
            count += each.there.high_watermark - each.there.start
        elif each.unheard:
            return None
    return count


def _may_read_more(group: GroupSnapshot, mirrored: Iterable[MirroredPartition]) -> bool:
    """A topic that it began to read after its last checkpoint has none, and is read whole with
    auto.offset.reset=earliest."""
    if group.origin is PositionBasis.COMMITTED:
        return False
    topics = {each.topic for each in _list_positioned(group)}
    return any(
        each.partition.topic not in topics
        and (each.unheard or (each.there and each.there.high_watermark > each.there.start))
        for each in mirrored
    )


def _list_positioned(group: GroupSnapshot) -> set[TopicPartition]:
    return {place for place, position in group.positions.items() if position is not None}


def cap_rereads(
    forward: TranslatedOffset, committed: int, mirrored: MirroredPartition | None
) -> TranslatedOffset:
    """Of what was read beyond all that the flow has recorded, no more is read again than stands on
    the mirror behind that. `forward`: by the flow's map."""
    beyond = _count_beyond(committed, mirrored)
    if mirrored is None or not beyond or not isinstance(forward, EarlierOffset):
        return forward
    again = max(0, forward.again_max - beyond) + min(beyond, mirrored.tail)
    if not again:
        return ExactOffset(downstream=forward.downstream)
    return dataclasses.replace(forward, again_max=again)


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
            way=GroupAction.UNTRANSLATED,
            committed=committed.offset,
            mirror=place.partition,
            at=at,
            again_max=_count_held_from(None, log, unheard=unheard),
            why=outcome.value,
            unheard=unheard,
        )
    # Where retention has taken the place a consumer would reset, by default to the end.
    to = outcome.downstream if log is None else max(outcome.downstream, log.start)
    way = _choose_action(to, at=at, log=log, unheard=unheard, sets_back=sets_back)
    again_max: int | None = outcome.again_max if isinstance(outcome, EarlierOffset) else 0
    if way in _RESET_ACTIONS:
        again_max = _count_held_from(None, log, unheard=unheard)
    return PartitionMove(
        partition=partition,
        way=way,
        committed=committed.offset,
        mirror=place.partition,
        to=to,
        at=at,
        again_max=again_max,
        unmirrored=_count_beyond(committed.offset, mirrored),
        unread=None if log is None else log.left(to),
        gone=to - outcome.downstream,
        metadata=committed.metadata,
        oldest=oldest,
        unsure=place.unsure,
        stopped=place.stopped,
        unheard=unheard,
    )


def _translate_to_start(log: LogBounds) -> EarlierOffset:
    return EarlierOffset(downstream=log.start, again_max=log.high_watermark - log.start)


def _use_checkpoint(
    place: TranslatedPosition, pair: CheckpointPair | None, *, committed: int, log: LogBounds | None
) -> TranslatedPosition:
    """What the map does not know a checkpoint may, unless it can be of a mirror before this one:
    it says nothing of which topics it is, and stays when they are made anew."""
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
    told = EarlierOffset(downstream=pair.downstream, again_max=bound)
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
