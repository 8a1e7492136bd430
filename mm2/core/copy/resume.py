"""Going on from an anchor: find our place in the target, pair its tail with the source.

The newest anchor says where we were; whatever of ours stands behind it on the target is matched
with the source batch by batch, strictly, before anything new is written.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.copy import (
    eras,
    facts,
    fence,
    first_anchor,
    from_java,
    going_on,
    instructions,
    java_stretch,
    open_transactions,
    opening,
    outcomes,
    pairing,
    refusals,
    setup,
    stops,
    tail,
    walk,
)
from mm2.formats import map_record, receipt, record_batch, record_sets

BATCHES_BACK = 1000
"""So many batches are looked at for one of ours: more than others write while we have a
transaction open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Source offset `source` belongs to target offset `target`, where `lost` does not say why not.

    `cut`: that is where the log was cut back, and what stands behind is read all the same.
    `last_crc` is that of the target batch that ends before `target`, when it must be checked.
    """

    era: int
    source: int
    target: int
    source_epoch: int = -1
    last_crc: int | None = None
    lost: str = ""
    cut: bool = False


def where_we_were(
    attempt: outcomes.Attempt,
) -> instructions.Script[Position | outcomes.BeginAgain | stops.Stop]:
    """The newest anchor, moved back to where an unclean election cut the target's log."""
    anchor = attempt.known.anchor
    if anchor is None:
        return _era_alone(attempt)
    segment = anchor.segment
    answer = yield instructions.FindEpochEnd(
        leader_epoch=segment.leader_epoch, current_leader_epoch=attempt.fence.leader_epoch
    )
    if not isinstance(answer, instructions.EpochEnd):
        return outcomes.again("asking where the anchor's leader epoch ended", answer)
    if answer.offset < 0 and attempt.fence.leader_epoch < segment.leader_epoch:
        return _another_mirror(attempt, segment)
    if 0 <= answer.offset < segment.target_next:
        return (yield from _cut_back(attempt, answer.offset, source_epoch=segment.source_epoch))
    if segment.target_next > attempt.fence.marker_offset + 1:
        return _anchor_ahead(attempt, segment, epoch_known=answer.offset >= 0)
    if attempt.known.untaken:
        return _era_alone(attempt)
    return Position(
        era=anchor.key.era,
        source=segment.through,
        target=segment.target_next,
        source_epoch=segment.source_epoch,
        last_crc=segment.last_crc,
        lost="" if answer.offset >= 0 else "the target does not know the map's leader epoch",
    )


def _anchor_ahead(
    attempt: outcomes.Attempt, segment: map_record.Segment, *, epoch_known: bool
) -> outcomes.BeginAgain:
    """Another owner is there, or, where topics have no ids, another mirror of this name."""
    if epoch_known:
        return outcomes.BeginAgain(reason="another owner took the partition behind our marker")
    return _another_mirror(attempt, segment)


def _another_mirror(attempt: outcomes.Attempt, segment: map_record.Segment) -> outcomes.BeginAgain:
    """Leader epochs of a topic never go back. However long the log is: each try adds a marker."""
    stop = stops.mirror_unknown(
        attempt.where,
        copied=segment.target_next,
        leader_epoch=segment.leader_epoch,
        retry_after_s=None if attempt.fence.holds else fence.RETRY_REFUSED_S,
    )
    reason = f"{attempt.where.mirror} does not know the map's leader epoch {segment.leader_epoch}"
    return outcomes.BeginAgain(reason=reason, lasting=stop)


def _era_alone(attempt: outcomes.Attempt) -> Position:
    """The era was recorded and its owner died before its first anchor: it holds nothing."""
    known = attempt.known
    assert known.era is not None
    target = min(known.era.first_target, attempt.fence.tail_end)
    return Position(era=known.era_number, source=known.era.first_source, target=target)


def _cut_back(
    attempt: outcomes.Attempt, end: int, *, source_epoch: int
) -> instructions.Script[Position | outcomes.BeginAgain | stops.Stop]:
    """Of what the map speaks of, only what stands before `end` is sure to be there still.

    Where that lies before the newest era, an older one lost records, and a new era takes them in.
    The anchor's `source_epoch` is kept: a source without it has lost what was copied once.
    """
    target = yield from _before_open_transaction(attempt, end)
    if isinstance(target, outcomes.BeginAgain):
        return target
    back = yield from outcomes.read_facts(attempt.context, target=target)
    if not isinstance(back, facts.Facts):
        return back
    era = attempt.known.era
    assert era is not None
    if back.source_position is None or back.target_position is None:
        return outcomes.BeginAgain(reason="the partition's eras were removed from the offset map")
    target = min(target, back.target_position)
    if target > attempt.fence.marker_offset + 1:
        return outcomes.BeginAgain(reason="a new leader told the mirror's end too early")
    lost = "" if era.first_target <= target else "the target lost what an older era wrote"
    return Position(
        era=attempt.known.era_number,
        source=back.source_position,
        target=target,
        source_epoch=source_epoch,
        lost=lost,
        cut=True,
    )


def _before_open_transaction(
    attempt: outcomes.Attempt, end: int
) -> instructions.Script[int | outcomes.BeginAgain]:
    """`end`, or where the transaction of ours begins whose marker was cut off with what followed.

    The map counts its records as copied, but whatever marker comes next decides about them. What
    others wrote may stand between. An earlier place than needed does no harm.
    """
    ours = {*attempt.known.producers, attempt.fence.producer.id}
    at = end
    for _ in range(BATCHES_BACK):
        if at == 0:
            break
        found = yield from _batch_before(at)
        if isinstance(found, outcomes.BeginAgain):
            return found
        if found is None:
            return at
        settled = found.is_control or not found.is_transactional
        if settled and found.producer_id in ours:
            return found.last_offset + 1
        at = found.base_offset
    return at


def _batch_before(
    at: int,
) -> instructions.Script[record_batch.BatchHeader | outcomes.BeginAgain | None]:
    """A batch of the mirror that stands before `at`: the last one, but where the cleaner left a
    gap."""
    doing = "reading the mirror's batches back from its cut"
    back = 1
    for _ in range(outcomes.READS_WITHOUT_NEWS):
        offset = max(at - back, 0)
        answer = yield instructions.ReadTarget(offset=offset)
        if isinstance(answer, instructions.Refused) and answer.code == refusals.OFFSET_OUT_OF_RANGE:
            if answer.log_start <= offset:
                return walk.cut_again()
            if answer.log_start >= at:
                return None
            back = at - answer.log_start
            continue
        if not isinstance(answer, instructions.Records):
            return outcomes.again(doing, answer)
        first = next(record_sets.batches(answer.records), None)
        if first is not None and first[0].base_offset < at:
            return first[0]
        if answer.end < at:
            return walk.cut_again()
        if first is None and answer.end > at:
            continue  # other partitions have filled the answer
        if offset <= max(answer.log_start, 0):
            return None
        back *= 2
    return outcomes.stuck(doing)


def pair(attempt: outcomes.Attempt, position: Position) -> instructions.Script[outcomes.Outcome]:
    """Pair the tail and go on behind it; in a new era where part of it can no longer be
    compared."""
    behind = yield from java_stretch.look_behind(attempt, copied=position.target)
    if isinstance(behind, outcomes.BeginAgain | stops.Stop):
        return behind
    if behind is not None:
        since = (position.source, position.target)
        return (yield from from_java.take_over(attempt, behind, since=since))
    return (yield from _pair_tail(attempt, position))


def _pair_tail(
    attempt: outcomes.Attempt, position: Position
) -> instructions.Script[outcomes.Outcome]:
    known_lost = "" if position.cut else position.lost
    left = yield from walk.read_tail(
        attempt, start=position.target, last_crc=position.last_crc, lost=known_lost
    )
    if isinstance(left, outcomes.BeginAgain | outcomes.Fenced):
        return left
    if _beside_java(attempt, left):
        return (yield from _beside(attempt, position))
    hindrance = _hindrance(attempt, position, left)
    if hindrance is not None:
        return hindrance
    left.lost = left.lost or position.lost
    changed = _other_transform(attempt)
    pairs = pairing.Pairing(
        tail=[] if left.lost else left.committed,
        position=position.source,
        source_epoch=position.source_epoch,
        start=position.target,
        transform=None if changed else opening.repeatable(attempt.context.transform),
        opposite=attempt.context.producers,
        held=attempt.context.held,
    )
    gone = yield from walk.walk_source(attempt, pairs)
    if isinstance(gone, outcomes.BeginAgain | stops.Stop):
        return gone
    if gone is not None:
        lost_from = position.target if left.lost else None
        return (yield from _source_gone(attempt, position, pairs, lost_from=lost_from))
    if left.lost:
        return (yield from eras.begin_era(attempt, _tail_lost(attempt, position, left.lost)))
    if pairs.mismatch:
        if len(left.writers) > 1:
            pairs.start_over()
        return (yield from eras.begin_era(attempt, _not_paired(attempt, position, pairs)))
    if changed:
        return (yield from eras.begin_era(attempt, _transform_changed(attempt, position, pairs)))
    return (
        yield from going_on.go_on(attempt, era=position.era, start=position.source, pairs=pairs)
    )


def _beside_java(attempt: outcomes.Attempt, left: tail.Tail) -> bool:
    """Did somebody else write where only Java may have?"""
    exclusive = attempt.where.target_topics is setup.TargetTopics.EXCLUSIVE
    known = attempt.known.java is not None
    return exclusive and known and left.foreign is not None and not left.lost


def _beside(attempt: outcomes.Attempt, position: Position) -> instructions.Script[outcomes.Outcome]:
    begins = java_stretch.Stretch(
        source=position.source,
        target=position.target,
        source_epoch=position.source_epoch,
        exact=False,
    )
    changed = _other_transform(attempt)
    return from_java.go_on_beside(attempt, begins, changed=changed, lost=position.lost)


def _source_gone(
    attempt: outcomes.Attempt,
    position: Position,
    pairs: pairing.Pairing,
    *,
    lost_from: int | None,
) -> instructions.Script[outcomes.Outcome]:
    """The source's log no longer has our position: deleted by retention, or truncated.

    From `lost_from` on the target could not be compared either.
    """
    found = yield instructions.FindSourceOffset(position="earliest")
    if not isinstance(found, instructions.SourceOffset):
        return outcomes.again("finding the source's log start", found)
    if found.offset <= pairs.position:
        return stops.source_truncated(
            attempt.where, position=pairs.position, start=found.offset, retry_after_s=walk.RETRY_S
        )
    if attempt.where.on_source_gap is setup.OnSourceGap.FAIL:
        return stops.source_gap(attempt.where, position=pairs.position, start=found.offset)
    left = lost_from if pairs.complete else pairs.paired_to
    stated = eras.statement(
        attempt,
        kind=receipt.ReceiptKind.SOURCE_GONE,
        source=(pairs.position, found.offset),
        target=(left, attempt.fence.tail_end) if left is not None else None,
        detail="the source deleted these records before they were copied or compared",
    )
    reason = f"the source's log starts at {found.offset} only"
    era = eras.NewEra(
        source=found.offset,
        reason=reason,
        receipts=(stated,),
        learned=_learned(attempt, position, pairs),
    )
    return (yield from eras.begin_era(attempt, era))


def _other_transform(attempt: outcomes.Attempt) -> bool:
    """Did the tail's writers do something else to the records than we shall do?"""
    era, transform = attempt.known.era, attempt.context.transform
    assert era is not None
    return era.filter_hash != opening.filter_hash(transform)


def _transform_changed(
    attempt: outcomes.Attempt, position: Position, pairs: pairing.Pairing
) -> eras.NewEra:
    return eras.NewEra(
        source=pairs.position,
        source_epoch=pairs.source_epoch,
        reason="other records are left out or changed from here on",
        learned=_learned(attempt, position, pairs),
    )


def _not_paired(
    attempt: outcomes.Attempt, position: Position, pairs: pairing.Pairing
) -> eras.NewEra:
    """Compaction or retention came between, or the source's history is another one now."""
    why = f"what this flow wrote last does not pair: {pairs.mismatch}"
    stated = eras.statement(
        attempt,
        kind=receipt.ReceiptKind.NOT_PAIRED,
        target=(pairs.paired_to, attempt.fence.tail_end),
        detail=f"{why}; copied again from source offset {pairs.position} on",
    )
    return eras.NewEra(
        source=pairs.position,
        source_epoch=pairs.source_epoch,
        reason=why,
        receipts=(stated,),
        learned=_learned(attempt, position, pairs),
    )


def _tail_lost(attempt: outcomes.Attempt, position: Position, why: str) -> eras.NewEra:
    stated = eras.statement(
        attempt,
        kind=receipt.ReceiptKind.NOT_PAIRED,
        target=(position.target, attempt.fence.tail_end),
        detail=f"{why}: copied again from source offset {position.source} on",
    )
    return eras.NewEra(
        source=position.source,
        source_epoch=position.source_epoch,
        reason=why,
        receipts=(stated,),
    )


def _learned(
    attempt: outcomes.Attempt, position: Position, pairs: pairing.Pairing
) -> tuple[instructions.LogItem, ...]:
    """What did pair belongs to the era that ends: its map says where, for who comes back to it."""
    if not pairs.runs:
        return ()
    found = going_on.taken(
        attempt, era=position.era, start=position.source, pairs=pairs, target=pairs.paired_to
    )
    return first_anchor.map_of(attempt.context, found).write(0.0).items


def _hindrance(
    attempt: outcomes.Attempt, position: Position, left: tail.Tail
) -> stops.Stop | outcomes.BeginAgain | None:
    """What stands in the tail that a person must look at first."""
    alone = attempt.where.target_topics is setup.TargetTopics.EXCLUSIVE
    if alone and left.foreign is not None:
        return from_java.stranger(attempt, left.foreign, copied=position.source)
    if left.hanging is not None and not left.lost:
        return open_transactions.hangs(attempt, left.hanging)
    return None
