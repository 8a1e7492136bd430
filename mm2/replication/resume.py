"""Resumes a partition from its resume point.

The newest segment of the offset map names the target offset up to which the partition was
replicated. Whatever batches of ours follow it on the target are matched with the source, batch by
batch, before anything new is written. Where they cannot be compared, a new era begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.formats import record_sets
from mm2.formats.incident_records import IncidentKind
from mm2.formats.offset_map_records import MapSegment
from mm2.formats.record_batch import BatchHeader
from mm2.replication import (
    eras,
    error_policy,
    halts,
    hanging_transactions,
    java_takeover,
    map_writer,
    outbound_batches,
    producer_fencing,
    recovery_outcomes,
    tail_reader,
)
from mm2.replication.eras import NewEra
from mm2.replication.halts import PartitionHalt
from mm2.replication.java_takeover import JavaWrittenRange
from mm2.replication.recovery_instructions import (
    EpochEnd,
    FetchedRecords,
    FindEpochEnd,
    FindSourceOffset,
    FlowLogItem,
    InstructionRefused,
    ReadTarget,
    RecoveredState,
    Script,
    SourceLogOffset,
)
from mm2.replication.recovery_outcomes import (
    OwnershipLost,
    RecoveryAttempt,
    RecoveryOutcome,
    RetryRecovery,
)
from mm2.replication.tail_matching import TailMatcher
from mm2.replication.target_tail import TargetTail
from mm2.topics.flow_config import OnSourceGap, TargetTopicAccess

OWN_BATCH_SEARCH_MAX = 1000
"""So many batches are looked at for one of ours: more than others write while we have a
transaction open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePosition:
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


def find_resume_position(
    attempt: RecoveryAttempt,
) -> Script[ResumePosition | RetryRecovery | PartitionHalt]:
    """The newest anchor, moved back to where an unclean election cut the target's log."""
    anchor = attempt.known.anchor
    if anchor is None:
        return _position_of_empty_era(attempt)
    segment = anchor.segment
    answer = yield FindEpochEnd(
        leader_epoch=segment.leader_epoch, current_leader_epoch=attempt.fence.leader_epoch
    )
    if not isinstance(answer, EpochEnd):
        return recovery_outcomes.retry_after_answer(
            "asking where the anchor's leader epoch ended", answer
        )
    if answer.offset < 0 and attempt.fence.leader_epoch < segment.leader_epoch:
        return _retry_recreated_mirror(attempt, segment)
    if 0 <= answer.offset < segment.target_next:
        return (
            yield from _position_after_truncation(
                attempt, answer.offset, source_epoch=segment.source_epoch
            )
        )
    if segment.target_next > attempt.fence.marker_offset + 1:
        return _retry_resume_point_ahead(attempt, segment, epoch_known=answer.offset >= 0)
    if attempt.known.untaken:
        return _position_of_empty_era(attempt)
    return ResumePosition(
        era=anchor.key.era,
        source=segment.through,
        target=segment.target_next,
        source_epoch=segment.source_epoch,
        last_crc=segment.last_crc,
        lost="" if answer.offset >= 0 else "the target does not know the map's leader epoch",
    )


def _retry_resume_point_ahead(
    attempt: RecoveryAttempt, segment: MapSegment, *, epoch_known: bool
) -> RetryRecovery:
    """Another owner is there, or, where topics have no ids, another mirror of this name."""
    if epoch_known:
        return RetryRecovery(reason="another owner took the partition behind our marker")
    return _retry_recreated_mirror(attempt, segment)


def _retry_recreated_mirror(attempt: RecoveryAttempt, segment: MapSegment) -> RetryRecovery:
    """Leader epochs of a topic never go back. However long the log is: each try adds a marker."""
    stop = halts.halt_mirror_unknown(
        attempt.where,
        copied=segment.target_next,
        leader_epoch=segment.leader_epoch,
        retry_after_s=None if attempt.fence.holds else producer_fencing.DENIED_RETRY_DELAY_S,
    )
    reason = f"{attempt.where.mirror} does not know the map's leader epoch {segment.leader_epoch}"
    return RetryRecovery(reason=reason, lasting=stop)


def _position_of_empty_era(attempt: RecoveryAttempt) -> ResumePosition:
    """The era was recorded and its owner died before its first anchor: it holds nothing."""
    known = attempt.known
    assert known.era is not None
    target = min(known.era.first_target, attempt.fence.tail_end)
    return ResumePosition(era=known.era_number, source=known.era.first_source, target=target)


def _position_after_truncation(
    attempt: RecoveryAttempt, end: int, *, source_epoch: int
) -> Script[ResumePosition | RetryRecovery | PartitionHalt]:
    """Of what the map speaks of, only what stands before `end` is sure to be there still.

    Where that lies before the newest era, an older one lost records, and a new era takes them in.
    The anchor's `source_epoch` is kept: a source without it has lost what was copied once.
    """
    target = yield from _find_open_transaction_start(attempt, end)
    if isinstance(target, RetryRecovery):
        return target
    back = yield from recovery_outcomes.read_recovered_state(attempt.context, target=target)
    if not isinstance(back, RecoveredState):
        return back
    era = attempt.known.era
    assert era is not None
    if back.source_position is None or back.target_position is None:
        return RetryRecovery(reason="the partition's eras were removed from the offset map")
    target = min(target, back.target_position)
    if target > attempt.fence.marker_offset + 1:
        return RetryRecovery(reason="a new leader told the mirror's end too early")
    lost = "" if era.first_target <= target else "the target lost what an older era wrote"
    return ResumePosition(
        era=attempt.known.era_number,
        source=back.source_position,
        target=target,
        source_epoch=source_epoch,
        lost=lost,
        cut=True,
    )


def _find_open_transaction_start(attempt: RecoveryAttempt, end: int) -> Script[int | RetryRecovery]:
    """`end`, or where the transaction of ours begins whose marker was cut off with what followed.

    The map counts its records as copied, but whatever marker comes next decides about them. What
    others wrote may stand between. An earlier place than needed does no harm.
    """
    ours = {*attempt.known.producers, attempt.fence.producer.id}
    at = end
    for _ in range(OWN_BATCH_SEARCH_MAX):
        if at == 0:
            break
        found = yield from _read_batch_before(at)
        if isinstance(found, RetryRecovery):
            return found
        if found is None:
            return at
        settled = found.is_control or not found.is_transactional
        if settled and found.producer_id in ours:
            return found.last_offset + 1
        at = found.base_offset
    return at


def _read_batch_before(
    at: int,
) -> Script[BatchHeader | RetryRecovery | None]:
    """A batch of the mirror that stands before `at`: the last one, but where the cleaner left a
    gap."""
    doing = "reading the mirror's batches back from its cut"
    back = 1
    for _ in range(recovery_outcomes.EMPTY_READS_MAX):
        offset = max(at - back, 0)
        answer = yield ReadTarget(offset=offset)
        if (
            isinstance(answer, InstructionRefused)
            and answer.code == error_policy.OFFSET_OUT_OF_RANGE
        ):
            if answer.log_start <= offset:
                return tail_reader.retry_after_truncation()
            if answer.log_start >= at:
                return None
            back = at - answer.log_start
            continue
        if not isinstance(answer, FetchedRecords):
            return recovery_outcomes.retry_after_answer(doing, answer)
        first = next(record_sets.iter_batches(answer.records), None)
        if first is not None and first[0].base_offset < at:
            return first[0]
        if answer.end < at:
            return tail_reader.retry_after_truncation()
        if first is None and answer.end > at:
            continue  # other partitions have filled the answer
        if offset <= max(answer.log_start, 0):
            return None
        back *= 2
    return recovery_outcomes.retry_after_empty_reads(doing)


def match_and_resume(attempt: RecoveryAttempt, position: ResumePosition) -> Script[RecoveryOutcome]:
    """Pair the tail and go on behind it; in a new era where part of it can no longer be
    compared."""
    behind = yield from java_takeover.find_java_records(attempt, copied=position.target)
    if isinstance(behind, RetryRecovery | PartitionHalt):
        return behind
    if behind is not None:
        since = (position.source, position.target)
        return (yield from java_takeover.take_over_from(attempt, behind, since=since))
    return (yield from _match_tail(attempt, position))


def _match_tail(attempt: RecoveryAttempt, position: ResumePosition) -> Script[RecoveryOutcome]:
    known_lost = "" if position.cut else position.lost
    left = yield from tail_reader.read_tail(
        attempt, start=position.target, last_crc=position.last_crc, lost=known_lost
    )
    if isinstance(left, RetryRecovery | OwnershipLost):
        return left
    if _may_be_java_tail(attempt, left):
        return (yield from _resume_beside_java(attempt, position))
    hindrance = _react_to_foreign_tail(attempt, position, left)
    if hindrance is not None:
        return hindrance
    left.lost = left.lost or position.lost
    changed = _has_other_transform(attempt)
    pairs = TailMatcher(
        tail=[] if left.lost else left.committed,
        position=position.source,
        source_epoch=position.source_epoch,
        start=position.target,
        transform=None
        if changed
        else outbound_batches.keep_if_deterministic(attempt.context.transform),
        opposite=attempt.context.producers,
        held=attempt.context.held,
    )
    gone = yield from tail_reader.match_source(attempt, pairs)
    if isinstance(gone, RetryRecovery | PartitionHalt):
        return gone
    if gone is not None:
        lost_from = position.target if left.lost else None
        return (yield from _resume_without_source(attempt, position, pairs, lost_from=lost_from))
    if left.lost:
        return (
            yield from eras.begin_era(attempt, _era_after_lost_tail(attempt, position, left.lost))
        )
    if pairs.mismatch:
        if len(left.writers) > 1:
            pairs.start_over()
        return (yield from eras.begin_era(attempt, _era_after_mismatch(attempt, position, pairs)))
    if changed:
        return (
            yield from eras.begin_era(
                attempt, _era_after_transform_change(attempt, position, pairs)
            )
        )
    return (
        yield from eras.continue_era(attempt, era=position.era, start=position.source, pairs=pairs)
    )


def _may_be_java_tail(attempt: RecoveryAttempt, left: TargetTail) -> bool:
    """Did somebody else write where only Java may have?"""
    exclusive = attempt.where.target_topics is TargetTopicAccess.EXCLUSIVE
    known = attempt.known.java is not None
    return exclusive and known and left.foreign is not None and not left.lost


def _resume_beside_java(
    attempt: RecoveryAttempt, position: ResumePosition
) -> Script[RecoveryOutcome]:
    begins = JavaWrittenRange(
        source=position.source,
        target=position.target,
        source_epoch=position.source_epoch,
        exact=False,
    )
    changed = _has_other_transform(attempt)
    return java_takeover.continue_after_java(attempt, begins, changed=changed, lost=position.lost)


def _resume_without_source(
    attempt: RecoveryAttempt,
    position: ResumePosition,
    pairs: TailMatcher,
    *,
    lost_from: int | None,
) -> Script[RecoveryOutcome]:
    """The source's log no longer has our position: deleted by retention, or truncated.

    From `lost_from` on the target could not be compared either.
    """
    found = yield FindSourceOffset(position="earliest")
    if not isinstance(found, SourceLogOffset):
        return recovery_outcomes.retry_after_answer("finding the source's log start", found)
    if found.offset <= pairs.position:
        return halts.halt_source_truncated(
            attempt.where,
            position=pairs.position,
            start=found.offset,
            retry_after_s=tail_reader.SOURCE_RETRY_DELAY_S,
        )
    if attempt.where.on_source_gap is OnSourceGap.FAIL:
        return halts.halt_source_gap(attempt.where, position=pairs.position, start=found.offset)
    left = lost_from if pairs.complete else pairs.paired_to
    stated = eras.create_incident(
        attempt,
        kind=IncidentKind.SOURCE_GONE,
        source=(pairs.position, found.offset),
        target=(left, attempt.fence.tail_end) if left is not None else None,
        detail="the source deleted these records before they were copied or compared",
    )
    reason = f"the source's log starts at {found.offset} only"
    era = NewEra(
        source=found.offset,
        reason=reason,
        incidents=(stated,),
        learned=_create_matched_segments(attempt, position, pairs),
    )
    return (yield from eras.begin_era(attempt, era))


def _has_other_transform(attempt: RecoveryAttempt) -> bool:
    """Did the tail's writers do something else to the records than we shall do?"""
    era, transform = attempt.known.era, attempt.context.transform
    assert era is not None
    return era.filter_hash != outbound_batches.hash_transform(transform)


def _era_after_transform_change(
    attempt: RecoveryAttempt, position: ResumePosition, pairs: TailMatcher
) -> NewEra:
    return NewEra(
        source=pairs.position,
        source_epoch=pairs.source_epoch,
        reason="other records are left out or changed from here on",
        learned=_create_matched_segments(attempt, position, pairs),
    )


def _era_after_mismatch(
    attempt: RecoveryAttempt, position: ResumePosition, pairs: TailMatcher
) -> NewEra:
    """Compaction or retention came between, or the source's history is another one now."""
    why = f"what this flow wrote last does not pair: {pairs.mismatch}"
    stated = eras.create_incident(
        attempt,
        kind=IncidentKind.NOT_PAIRED,
        target=(pairs.paired_to, attempt.fence.tail_end),
        detail=f"{why}; copied again from source offset {pairs.position} on",
    )
    return NewEra(
        source=pairs.position,
        source_epoch=pairs.source_epoch,
        reason=why,
        incidents=(stated,),
        learned=_create_matched_segments(attempt, position, pairs),
    )


def _era_after_lost_tail(attempt: RecoveryAttempt, position: ResumePosition, why: str) -> NewEra:
    stated = eras.create_incident(
        attempt,
        kind=IncidentKind.NOT_PAIRED,
        target=(position.target, attempt.fence.tail_end),
        detail=f"{why}: copied again from source offset {position.source} on",
    )
    return NewEra(
        source=position.source,
        source_epoch=position.source_epoch,
        reason=why,
        incidents=(stated,),
    )


def _create_matched_segments(
    attempt: RecoveryAttempt, position: ResumePosition, pairs: TailMatcher
) -> tuple[FlowLogItem, ...]:
    """What did pair belongs to the era that ends: its map says where, for who comes back to it."""
    if not pairs.runs:
        return ()
    found = eras.create_acquired(
        attempt, era=position.era, start=position.source, pairs=pairs, target=pairs.paired_to
    )
    return map_writer.create_map_writer(attempt.context, found).write(0.0).items


def _react_to_foreign_tail(
    attempt: RecoveryAttempt, position: ResumePosition, left: TargetTail
) -> PartitionHalt | RetryRecovery | None:
    """What stands in the tail that a person must look at first."""
    alone = attempt.where.target_topics is TargetTopicAccess.EXCLUSIVE
    if alone and left.foreign is not None:
        return java_takeover.react_to_foreign_batch(attempt, left.foreign, copied=position.source)
    if left.hanging is not None and not left.lost:
        return hanging_transactions.react_to_open_transaction(attempt, left.hanging)
    return None
