"""Resumes a partition from its resume point.

The newest segment of the offset map contains the target offset up to which the partition was
replicated. This flow's batches after that offset on the target are matched with the source, batch
by batch, before anything new is written. If they cannot be compared, a new era (generation of the
mirror) begins.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.formats import record_set_splitter
from mm2.formats.incident_records import IncidentKind
from mm2.formats.offset_map_records import MapSegment
from mm2.formats.record_batch import BatchHeader
from mm2.replication import (
    error_policy,
    hanging_transactions,
    mirror_generations,
    offset_map_writer,
    outbound_batches,
    partition_halt_messages,
    producer_fencing,
    recovery_outcomes,
    takeover_from_java,
    target_log_tail_reader,
)
from mm2.replication.mirror_generations import NewEra
from mm2.replication.partition_halt_messages import PartitionHalt
from mm2.replication.recovery_instructions import (
    EpochEnd,
    FetchedRecords,
    FindEpochEnd,
    FindSourceOffset,
    FlowStateRecord,
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
from mm2.replication.takeover_from_java import JavaCopyStart
from mm2.replication.target_log_tail import TargetTail
from mm2.replication.target_log_tail_matching import TailMatcher
from mm2.topics.flow_config import SourceGapAction, TargetTopicAccess

OWN_BATCH_SEARCH_MAX = 1000
"""Maximum number of batches that are read backwards to find a batch of this flow. Other producers
write fewer batches while a transaction of this flow is open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePosition:
    """Position at which to resume: source offset `source` corresponds to target offset `target`."""

    era: int
    source: int
    target: int
    source_epoch: int = -1
    last_crc: int | None = None
    """CRC of the last target batch before `target`; None if no CRC needs to be checked."""
    mismatch: str = ""
    """Reason why source offset `source` and target offset `target` no longer correspond; "" if they
    do."""
    is_truncated: bool = False
    """True if the target's log was truncated at `target`. Batches after this offset are
    nevertheless read."""


def find_resume_position(
    attempt: RecoveryAttempt,
) -> Script[ResumePosition | RetryRecovery | PartitionHalt]:
    """Find the position of the newest resume point. If an unclean leader election truncated the
    target's log before that point, return the last position before the truncation."""
    anchor = attempt.state.resume_point
    if anchor is None:
        return _get_start_of_empty_era(attempt)
    segment = anchor.segment
    answer = yield FindEpochEnd(
        leader_epoch=segment.leader_epoch, current_leader_epoch=attempt.fence.leader_epoch
    )
    if not isinstance(answer, EpochEnd):
        return recovery_outcomes.retry_after_failed_instruction(
            "finding the end offset of the resume point's leader epoch", answer
        )
    if answer.offset < 0 and attempt.fence.leader_epoch < segment.leader_epoch:
        return _build_retry_for_recreated_mirror(attempt, segment)
    if 0 <= answer.offset < segment.target_next:
        return (
            yield from _find_position_after_truncation(
                attempt, answer.offset, source_epoch=segment.source_epoch
            )
        )
    if segment.target_next > attempt.fence.marker_offset + 1:
        return _build_retry_for_resume_point_past_marker(
            attempt, segment, epoch_known=answer.offset >= 0
        )
    if attempt.state.is_era_empty:
        return _get_start_of_empty_era(attempt)
    return ResumePosition(
        era=anchor.key.era,
        source=segment.through,
        target=segment.target_next,
        source_epoch=segment.source_epoch,
        last_crc=segment.last_crc,
        mismatch=""
        if answer.offset >= 0
        else "the target does not know the resume point's leader epoch",
    )


def _build_retry_for_resume_point_past_marker(
    attempt: RecoveryAttempt, segment: MapSegment, *, epoch_known: bool
) -> RetryRecovery:
    """Build a retry for a resume point whose target offset is after this owner's transaction
    marker. Either another owner wrote after the marker, or the mirror topic was recreated on a
    cluster without topic ids."""
    if epoch_known:
        return RetryRecovery(
            reason="another owner acquired the partition after this owner's transaction marker"
        )
    return _build_retry_for_recreated_mirror(attempt, segment)


def _build_retry_for_recreated_mirror(
    attempt: RecoveryAttempt, segment: MapSegment
) -> RetryRecovery:
    """Build a retry for a mirror topic that seems to have been recreated: the target does not know
    the resume point's leader epoch, although the leader epochs of a topic never decrease. If the
    problem persists, the partition is halted.

    The log end offset cannot show whether the topic was recreated, because each attempt to acquire
    the partition appends a marker.
    """
    stop = partition_halt_messages.build_mirror_unknown_halt(
        attempt.setup,
        copied=segment.target_next,
        leader_epoch=segment.leader_epoch,
        retry_after_s=None if attempt.fence.is_fenced else producer_fencing.DENIED_RETRY_DELAY_S,
    )
    epoch = segment.leader_epoch
    reason = f"{attempt.setup.mirror_name} does not know the resume point's leader epoch {epoch}"
    return RetryRecovery(reason=reason, halt_if_persistent=stop)


def _get_start_of_empty_era(attempt: RecoveryAttempt) -> ResumePosition:
    """Return the start of an era (generation of the mirror) whose owner stopped before storing a
    segment."""
    known = attempt.state
    assert known.era is not None
    target = min(known.era.first_target, attempt.fence.tail_end)
    return ResumePosition(era=known.era_number, source=known.era.first_source, target=target)


def _find_position_after_truncation(
    attempt: RecoveryAttempt, end: int, *, source_epoch: int
) -> Script[ResumePosition | RetryRecovery | PartitionHalt]:
    """Find the resume position after the target's log was truncated at `end`. Only the records that
    the offset map locates below `end` are still on the target.

    If the position precedes the newest era (generation of the mirror), an older era lost records
    and a new era begins. The position keeps the resume point's `source_epoch` (leader epoch on the
    source): if the source does not know that epoch, it has lost records that were replicated.
    """
    target = yield from _find_open_transaction_start(attempt, end)
    if isinstance(target, RetryRecovery):
        return target
    back = yield from recovery_outcomes.read_recovered_state(attempt.context, target=target)
    if not isinstance(back, RecoveredState):
        return back
    era = attempt.state.era
    assert era is not None
    if back.source_position is None or back.target_position is None:
        return RetryRecovery(
            reason="the partition's eras (mirror generations) are missing from the offset map"
        )
    target = min(target, back.target_position)
    if target > attempt.fence.marker_offset + 1:
        return RetryRecovery(reason="a new leader reported too low a log end for the mirror")
    lost = (
        ""
        if era.first_target <= target
        else "the target lost records of an older era (mirror generation)"
    )
    return ResumePosition(
        era=attempt.state.era_number,
        source=back.source_position,
        target=target,
        source_epoch=source_epoch,
        mismatch=lost,
        is_truncated=True,
    )


def _find_open_transaction_start(attempt: RecoveryAttempt, end: int) -> Script[int | RetryRecovery]:
    """Return the start of this flow's transaction whose marker was lost when the target's log was
    truncated at `end`. Return `end` if there is no such transaction.

    The offset map counts the transaction's records as replicated, but the next marker commits or
    aborts them. Batches of other producers may lie between the batches of the transaction. The
    result may be lower than the actual start: more of the target is then matched with the source.
    """
    ours = {*attempt.state.producers, attempt.fence.producer.id}
    at = end
    for _ in range(OWN_BATCH_SEARCH_MAX):
        if at == 0:
            break
        found = yield from _read_batch_before(at)
        if isinstance(found, RetryRecovery):
            return found
        if found is None:
            return at
        is_ended = found.is_control or not found.is_transactional
        if is_ended and found.producer_id in ours:
            return found.last_offset + 1
        at = found.base_offset
    return at


def _read_batch_before(
    at: int,
) -> Script[BatchHeader | RetryRecovery | None]:
    """Read the last batch before target offset `at`. If compaction left a gap there, an earlier
    batch may be returned. Return None if the log has no earlier batch."""
    doing = "reading the mirror's batches before its truncation"
    back = 1
    for _ in range(recovery_outcomes.EMPTY_READS_MAX):
        offset = max(at - back, 0)
        answer = yield ReadTarget(offset=offset)
        if (
            isinstance(answer, InstructionRefused)
            and answer.code == error_policy.OFFSET_OUT_OF_RANGE
        ):
            if answer.log_start <= offset:
                return target_log_tail_reader.retry_after_truncation()
            if answer.log_start >= at:
                return None
            back = at - answer.log_start
            continue
        if not isinstance(answer, FetchedRecords):
            return recovery_outcomes.retry_after_failed_instruction(doing, answer)
        first = next(record_set_splitter.iter_batches(answer.records), None)
        if first is not None and first[0].base_offset < at:
            return first[0]
        if answer.end < at:
            return target_log_tail_reader.retry_after_truncation()
        if first is None and answer.end > at:
            continue  # other partitions filled the response
        if offset <= max(answer.log_start, 0):
            return None
        back *= 2
    return recovery_outcomes.retry_after_empty_reads(doing)


def match_and_resume(attempt: RecoveryAttempt, position: ResumePosition) -> Script[RecoveryOutcome]:
    """Match the tail (the target's batches after the resume point) with the source, then continue
    replication after it. Begin a new era (generation of the mirror) if part of the tail cannot be
    compared."""
    java_range = yield from takeover_from_java.find_java_records(
        attempt, resume_target=position.target
    )
    if isinstance(java_range, RetryRecovery | PartitionHalt):
        return java_range
    if java_range is not None:
        since = (position.source, position.target)
        return (
            yield from takeover_from_java.take_over_mirror_from_position(
                attempt, java_range, own_progress=since
            )
        )
    return (yield from _match_tail(attempt, position))


def _match_tail(attempt: RecoveryAttempt, position: ResumePosition) -> Script[RecoveryOutcome]:
    known_lost = "" if position.is_truncated else position.mismatch
    left = yield from target_log_tail_reader.read_tail(
        attempt, start=position.target, last_crc=position.last_crc, lost=known_lost
    )
    if isinstance(left, RetryRecovery | OwnershipLost):
        return left
    if _may_java_have_written_tail(attempt, left):
        return (yield from _resume_after_java_records(attempt, position))
    blocked = _react_to_foreign_tail(attempt, position, left)
    if blocked is not None:
        return blocked
    left.lost = left.lost or position.mismatch
    changed = _has_transform_changed(attempt)
    pairs = TailMatcher(
        tail=[] if left.lost else left.committed_batches,
        position=position.source,
        source_epoch=position.source_epoch,
        start=position.target,
        transform=None
        if changed
        else outbound_batches.keep_transform_if_deterministic(attempt.context.transform),
        reverse_producers=attempt.context.reverse_producers,
        memory_budget=attempt.context.memory_budget,
    )
    gone = yield from target_log_tail_reader.match_tail_with_source(attempt, pairs)
    if isinstance(gone, RetryRecovery | PartitionHalt):
        return gone
    if gone is not None:
        lost_from = position.target if left.lost else None
        return (
            yield from _resume_after_deleted_source_records(
                attempt, position, pairs, lost_from=lost_from
            )
        )
    if left.lost:
        return (
            yield from mirror_generations.begin_era(
                attempt, _create_era_after_lost_tail(attempt, position, left.lost)
            )
        )
    if pairs.mismatch:
        if len(left.writers) > 1:
            pairs.discard_matches()
        return (
            yield from mirror_generations.begin_era(
                attempt, _create_era_after_mismatch(attempt, position, pairs)
            )
        )
    if changed:
        return (
            yield from mirror_generations.begin_era(
                attempt, _create_era_after_transform_change(attempt, position, pairs)
            )
        )
    return (
        yield from mirror_generations.continue_era(
            attempt, era=position.era, start=position.source, match=pairs
        )
    )


def _may_java_have_written_tail(attempt: RecoveryAttempt, left: TargetTail) -> bool:
    """Return True if MirrorMaker 2 may have written the foreign records in the tail (the target's
    batches after the resume point)."""
    exclusive = attempt.setup.target_topics is TargetTopicAccess.EXCLUSIVE
    known = attempt.state.java is not None
    return exclusive and known and left.foreign is not None and not left.lost


def _resume_after_java_records(
    attempt: RecoveryAttempt, position: ResumePosition
) -> Script[RecoveryOutcome]:
    begins = JavaCopyStart(
        source=position.source,
        target=position.target,
        source_epoch=position.source_epoch,
        exact=False,
    )
    changed = _has_transform_changed(attempt)
    return takeover_from_java.continue_after_java_records(
        attempt, begins, changed=changed, lost=position.mismatch
    )


def _resume_after_deleted_source_records(
    attempt: RecoveryAttempt,
    position: ResumePosition,
    pairs: TailMatcher,
    *,
    lost_from: int | None,
) -> Script[RecoveryOutcome]:
    """Begin a new era (generation of the mirror) or halt, because retention or truncation removed
    the next records to replicate from the source's log.

    `lost_from` is the target offset from which the mirror could not be compared either; None if the
    end of the mirror was readable.
    """
    found = yield FindSourceOffset(position="earliest")
    if not isinstance(found, SourceLogOffset):
        return recovery_outcomes.retry_after_failed_instruction(
            "finding the source's log start", found
        )
    if found.offset <= pairs.position:
        return partition_halt_messages.build_source_truncated_halt(
            attempt.setup,
            position=pairs.position,
            start=found.offset,
            retry_after_s=target_log_tail_reader.SOURCE_RETRY_DELAY_S,
        )
    if attempt.setup.on_source_gap is SourceGapAction.FAIL:
        return partition_halt_messages.build_source_gap_halt(
            attempt.setup, position=pairs.position, start=found.offset
        )
    left = lost_from if pairs.is_complete else pairs.matched_to
    stated = mirror_generations.create_incident(
        attempt,
        kind=IncidentKind.SOURCE_GONE,
        source=(pairs.position, found.offset),
        target=(left, attempt.fence.tail_end) if left is not None else None,
        detail="the source deleted these records before they were replicated or compared",
    )
    reason = f"the source's log starts at offset {found.offset}"
    era = NewEra(
        source=found.offset,
        reason=reason,
        incidents=(stated,),
        previous_era_records=_create_matched_segments(attempt, position, pairs),
    )
    return (yield from mirror_generations.begin_era(attempt, era))


def _has_transform_changed(attempt: RecoveryAttempt) -> bool:
    """Return True if records of the current era (generation of the mirror) were transformed
    differently than the configuration now requires."""
    era, transform = attempt.state.era, attempt.context.transform
    assert era is not None
    return era.filter_hash != outbound_batches.hash_transform(transform)


def _create_era_after_transform_change(
    attempt: RecoveryAttempt, position: ResumePosition, pairs: TailMatcher
) -> NewEra:
    return NewEra(
        source=pairs.position,
        source_epoch=pairs.source_epoch,
        reason="the transforms changed",
        previous_era_records=_create_matched_segments(attempt, position, pairs),
    )


def _create_era_after_mismatch(
    attempt: RecoveryAttempt, position: ResumePosition, pairs: TailMatcher
) -> NewEra:
    """Create a new era (generation of the mirror) because the target's last records do not match
    the source, for example after compaction, after retention, or because the source log was
    rewritten."""
    why = f"the last records of this flow do not match the source: {pairs.mismatch}"
    stated = mirror_generations.create_incident(
        attempt,
        kind=IncidentKind.NOT_PAIRED,
        target=(pairs.matched_to, attempt.fence.tail_end),
        detail=f"{why}; replicated again from source offset {pairs.position}",
    )
    return NewEra(
        source=pairs.position,
        source_epoch=pairs.source_epoch,
        reason=why,
        incidents=(stated,),
        previous_era_records=_create_matched_segments(attempt, position, pairs),
    )


def _create_era_after_lost_tail(
    attempt: RecoveryAttempt, position: ResumePosition, why: str
) -> NewEra:
    stated = mirror_generations.create_incident(
        attempt,
        kind=IncidentKind.NOT_PAIRED,
        target=(position.target, attempt.fence.tail_end),
        detail=f"{why}: replicated again from source offset {position.source}",
    )
    return NewEra(
        source=position.source,
        source_epoch=position.source_epoch,
        reason=why,
        incidents=(stated,),
    )


def _create_matched_segments(
    attempt: RecoveryAttempt, position: ResumePosition, pairs: TailMatcher
) -> tuple[FlowStateRecord, ...]:
    """Create map segments for the matched part of the tail; they belong to the previous era
    (generation of the mirror)."""
    if not pairs.runs:
        return ()
    found = mirror_generations.build_acquired_partition(
        attempt, era=position.era, start=position.source, match=pairs, target=pairs.matched_to
    )
    return (
        offset_map_writer.create_map_writer(attempt.context, found)
        .create_write_instruction(0.0)
        .items
    )


def _react_to_foreign_tail(
    attempt: RecoveryAttempt, position: ResumePosition, left: TargetTail
) -> PartitionHalt | RetryRecovery | None:
    """Return a halt or a retry if the tail contains foreign records or an open transaction."""
    alone = attempt.setup.target_topics is TargetTopicAccess.EXCLUSIVE
    if alone and left.foreign is not None:
        return takeover_from_java.react_to_foreign_batch(
            attempt, left.foreign, copied=position.source
        )
    if left.hanging_transaction is not None and not left.lost:
        return hanging_transactions.react_to_open_transaction(attempt, left.hanging_transaction)
    return None
