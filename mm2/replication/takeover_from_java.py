"""Takes over a mirror from MirrorMaker 2 by comparing its stored progress with the mirror.

MirrorMaker 2 stores its source position once a minute, without a target offset, and writes more
records than it stores. Its last records are therefore compared with the source: from the newest
offset sync at or below the stored position, or from the start of both logs. Records that
MirrorMaker 2 wrote twice are reported and remain on the mirror.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from connect_runtime.base import plurals
from mm2.formats import record_batch, record_set_splitter
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_set_splitter import DamagedBatchError
from mm2.replication import (
    error_policy,
    hanging_transactions,
    mirror_generations,
    outbound_batches,
    partition_halt_messages,
    recovery_outcomes,
    target_log_tail_reader,
)
from mm2.replication.java_offset_map_reconstruction import MapReconstruction
from mm2.replication.mirror_generations import NewEra
from mm2.replication.partition_halt_messages import PartitionHalt
from mm2.replication.recovery_instructions import (
    Delay,
    FetchedRecords,
    FindSourceOffset,
    InstructionRefused,
    JavaMirrorProgress,
    ReadSource,
    ReadTarget,
    Script,
    SourceLogOffset,
)
from mm2.replication.recovery_outcomes import (
    OwnershipLost,
    RecoveryAttempt,
    RecoveryOutcome,
    RetryRecovery,
)
from mm2.replication.target_log_tail import ForeignBatch, TailBatch, TargetTail
from mm2.replication.target_log_tail_matching import RequiredMatchingInput
from mm2.topics.flow_config import TargetTopicAccess

FULL_RETRACE_MAX = 5_000_000
"""Maximum length of a mirror, in offsets, that is compared with the source from its start if no
offset sync exists. Comparing this many offsets takes about a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaCopyStart:
    """Start of the records that MirrorMaker 2 wrote to a mirror: the first one is at target offset
    `target` and was copied from source offset `source`."""

    source: int
    target: int
    source_epoch: int = -1
    """Leader epoch of the source batch before `source`."""
    exact: bool = True
    """True if the record at `target` must match the record at `source` exactly."""


def find_log_starts(
    attempt: RecoveryAttempt, java: JavaMirrorProgress
) -> Script[JavaCopyStart | RetryRecovery | None]:
    """Find the start offsets of the source's and the mirror's log. Return None if the mirror is too
    long to be read from its start."""
    source = yield FindSourceOffset(position="earliest")
    if not isinstance(source, SourceLogOffset):
        return recovery_outcomes.retry_after_failed_instruction(
            "finding the source's log start", source
        )
    target = yield ReadTarget(offset=0)
    out = isinstance(target, InstructionRefused) and target.code == error_policy.OFFSET_OUT_OF_RANGE
    if not out and not isinstance(target, FetchedRecords):
        return recovery_outcomes.retry_after_failed_instruction(
            "finding the mirror's log start", target
        )
    assert isinstance(target, FetchedRecords | InstructionRefused)
    start = max(target.log_start, 0)
    if java.next_offset > source.offset and attempt.fence.tail_end - start > FULL_RETRACE_MAX:
        return None
    return JavaCopyStart(source=source.offset, target=start, exact=False)


def find_java_records(
    attempt: RecoveryAttempt, *, resume_target: int
) -> Script[JavaCopyStart | RetryRecovery | PartitionHalt | None]:
    """Find the position after the flow's resume point at which MirrorMaker 2 began to write to the
    mirror. Return None if there is no such position.

    mm2's own flows also write offset syncs to MirrorMaker 2's internal topics. An offset sync is
    therefore used only if the mirror record at its target offset was written by a foreign producer
    and matches the source.
    """
    java = attempt.state.java
    if java is None or java.sync is None:
        return None
    source, target = java.sync
    if not resume_target <= target < attempt.fence.tail_end:
        return None
    found = yield from _read_foreign_batch(attempt, target)
    if found is None or isinstance(found, RetryRecovery):
        return found
    answer = yield ReadSource(offset=source)
    if not isinstance(answer, FetchedRecords):
        if (
            isinstance(answer, InstructionRefused)
            and answer.code == error_policy.OFFSET_OUT_OF_RANGE
        ):
            return None
        return recovery_outcomes.retry_after_failed_instruction(
            "reading the source record of an offset sync", answer
        )
    most = attempt.context.memory_budget.largest_decoded_bytes
    one = MapReconstruction(
        source=source,
        target=target,
        require_exact_start=True,
        likely_step_back=source,
        max_decoded_bytes=most,
    )
    fed = yield from target_log_tail_reader.match_batches_in_parts(
        one, one.add_source_records(answer)
    )
    if isinstance(fed, RetryRecovery):
        return fed
    if one.too_large is None:
        one.add_target_batch(*found)
    if one.too_large is not None:
        return partition_halt_messages.build_unreadable_batch_halt(attempt.setup, one.too_large)
    return JavaCopyStart(source=source, target=target) if one.has_match else None


def _read_foreign_batch(
    attempt: RecoveryAttempt, target: int
) -> Script[tuple[BatchHeader, memoryview] | RetryRecovery | None]:
    """Read the batch that contains this target offset. Return None if a producer of this flow wrote
    it."""
    doing = "reading the mirror record of an offset sync"
    ours = {*attempt.state.producers, attempt.fence.producer.id}
    for _ in range(recovery_outcomes.EMPTY_READS_MAX):
        answer = yield ReadTarget(offset=target)
        if (
            isinstance(answer, InstructionRefused)
            and answer.code == error_policy.OFFSET_OUT_OF_RANGE
        ):
            return None
        if not isinstance(answer, FetchedRecords):
            return recovery_outcomes.retry_after_failed_instruction(doing, answer)
        first = next(record_set_splitter.iter_batches(answer.records, position=target), None)
        if first is None and answer.end > target:
            continue  # other partitions filled the response
        if first is None or first[0].producer_id in ours or first[0].is_control:
            return None
        if record_batch.has_valid_crc(first[1], first[0]):
            return first
        yield Delay(delay_s=target_log_tail_reader.READ_RETRY_DELAY_S)
    return recovery_outcomes.retry_after_empty_reads(doing)


STEP_BACK_MAX = 1_000_000
"""Maximum number of source offsets by which MirrorMaker 2 may have rewound before the resume point.
Records that it copied again from this range are recognized as duplicates."""

RetraceFailure = RetryRecovery | OwnershipLost | PartitionHalt


def match_mirror_with_source(
    attempt: RecoveryAttempt, begins: JavaCopyStart, *, copied_to: int = -1
) -> Script[MapReconstruction | RetraceFailure]:
    """Match all mirror records between the position `begins` and this owner's transaction marker
    with the source, regardless of who wrote them."""
    left = yield from target_log_tail_reader.read_tail(
        attempt, start=begins.target, all_producers=True
    )
    if not isinstance(left, TargetTail):
        return left
    java = attempt.state.java
    assert java is not None
    if left.hanging_transaction is not None and not left.lost:
        return hanging_transactions.react_to_open_transaction(attempt, left.hanging_transaction)
    nearest = min(max(java.next_offset, begins.source - STEP_BACK_MAX), begins.source)
    for copied_from in (nearest, max(begins.source - STEP_BACK_MAX, 0)):
        traced = MapReconstruction(
            source=begins.source,
            target=begins.target,
            require_exact_start=begins.exact,
            copied_from=copied_from,
            copied_to=copied_to,
            likely_step_back=java.next_offset,
            transform=outbound_batches.keep_transform_if_deterministic(attempt.context.transform),
            source_epoch_before=begins.source_epoch,
            max_decoded_bytes=attempt.context.memory_budget.largest_decoded_bytes,
        )
        if left.lost:
            traced.abort_matching(left.lost)
        elif left.committed_batches:
            failed = yield from _compare_mirror_with_source(attempt, traced, left.committed_batches)
            if failed is not None:
                return failed
        if not traced.mismatch or (begins.exact and not traced.has_match):
            break  # otherwise it may have stepped back further: retry with more
    return traced


def _compare_mirror_with_source(
    attempt: RecoveryAttempt, traced: MapReconstruction, batches: Sequence[TailBatch]
) -> Script[RetryRecovery | PartitionHalt | None]:
    at = idle = 0
    need = traced.match_available_records()
    while need is not RequiredMatchingInput.NOTHING and not (
        need is RequiredMatchingInput.TARGET and at == len(batches)
    ):
        before = at, traced.read_to
        if need is RequiredMatchingInput.TARGET:
            answer = yield ReadTarget(offset=max(batches[at].offset, traced.target))
            if not isinstance(answer, FetchedRecords):
                return recovery_outcomes.retry_after_failed_instruction(
                    "reading the records of MirrorMaker 2 on the mirror", answer
                )
            need, at = _add_mirror_batches(traced, answer.records, batches, at=at)
            ends = at == before[0]
        else:
            answer = yield ReadSource(offset=traced.read_to)
            if isinstance(answer, InstructionRefused) and _is_source_deleted(traced, answer):
                need = traced.match_available_records()
                continue
            if not isinstance(answer, FetchedRecords):
                return target_log_tail_reader.react_to_source_read_failure(
                    attempt.setup, answer, offset=traced.read_to
                )
            fed = yield from target_log_tail_reader.match_batches_in_parts(
                traced, traced.add_source_records(answer)
            )
            if not isinstance(fed, RequiredMatchingInput):
                return fed
            need = fed
            blocked = traced.obstacle is not None
            ends = need is RequiredMatchingInput.SOURCE and (
                blocked or traced.read_to >= answer.end
            )
        idle = idle + 1 if before == (at, traced.read_to) else 0
        if ends and idle < target_log_tail_reader.READ_ATTEMPTS_MAX:
            yield Delay(delay_s=target_log_tail_reader.READ_RETRY_DELAY_S)
        elif ends and traced.obstacle is not None:
            return partition_halt_messages.build_unreadable_batch_halt(
                attempt.setup, traced.obstacle
            )
        elif ends and need is RequiredMatchingInput.SOURCE:
            need = traced.mark_source_ended()
        if idle > recovery_outcomes.EMPTY_READS_MAX:
            return recovery_outcomes.retry_after_empty_reads(
                "comparing the records of MirrorMaker 2 with the source"
            )
    return (
        None
        if traced.too_large is None
        else partition_halt_messages.build_unreadable_batch_halt(attempt.setup, traced.too_large)
    )


def _is_source_deleted(traced: MapReconstruction, answer: InstructionRefused) -> bool:
    if answer.code != error_policy.OFFSET_OUT_OF_RANGE:
        return False
    traced.skip_deleted_source_records(answer.log_start)
    return True


def _add_mirror_batches(
    traced: MapReconstruction,
    held: memoryview,
    batches: Sequence[TailBatch],
    *,
    at: int,
) -> tuple[RequiredMatchingInput, int]:
    """Feed batches of one mirror fetch to the reconstruction, starting with `batches[at]`, until it
    needs no more mirror batches."""
    need = RequiredMatchingInput.TARGET
    with contextlib.suppress(DamagedBatchError):  # its checksum was valid a moment ago
        for header, batch in target_log_tail_reader.iter_valid_batches(
            held, start=batches[at].offset
        ):
            if header.base_offset == batches[at].offset:
                need = traced.add_target_batch(header, batch)
                at += 1
            if at == len(batches) or need is not RequiredMatchingInput.TARGET:
                break
    return need, at


TAKEOVER_REASON = "taken over from MirrorMaker 2"


def take_over_mirror(attempt: RecoveryAttempt) -> Script[RecoveryOutcome]:
    """Take over a mirror that was written only by MirrorMaker 2."""
    java = attempt.state.java
    assert java is not None
    if java.sync is not None:
        begins = JavaCopyStart(source=java.sync[0], target=java.sync[1])
        return (yield from take_over_mirror_from_position(attempt, begins))
    found = yield from find_log_starts(attempt, java)
    if isinstance(found, RetryRecovery):
        return found
    if found is None:
        return (
            yield from mirror_generations.begin_era(
                attempt, _create_era_without_offset_sync(attempt, java)
            )
        )
    return (yield from take_over_mirror_from_position(attempt, found))


def _create_era_without_offset_sync(attempt: RecoveryAttempt, java: JavaMirrorProgress) -> NewEra:
    stated = mirror_generations.create_incident(
        attempt,
        kind=IncidentKind.UNVERIFIED_TAKEOVER,
        source=(0, java.next_offset),
        target=(0, attempt.fence.tail_end),
        detail=f"no offset sync maps source offset {java.next_offset} to the mirror",
    )
    return NewEra(source=java.next_offset, reason=TAKEOVER_REASON, incidents=(stated,))


def take_over_mirror_from_position(
    attempt: RecoveryAttempt,
    begins: JavaCopyStart,
    *,
    own_progress: tuple[int, int] | None = None,
) -> Script[RecoveryOutcome]:
    """Compare the mirror with the source, starting at the position `begins`, and begin an era
    (generation of the mirror) after the records that MirrorMaker 2 wrote. Records before `begins`
    are not compared.

    `own_progress` is the pair of source and target offset up to which this flow had replicated.
    """
    java = attempt.state.java
    assert java is not None
    copied_to = own_progress[0] if own_progress is not None else -1
    traced = yield from match_mirror_with_source(attempt, begins, copied_to=copied_to)
    if not isinstance(traced, MapReconstruction):
        return traced
    known = attempt.state.resume_point is not None
    failure = _react_to_mismatch(attempt, traced) if known or traced.is_past_source else None
    if failure is not None:
        return failure
    copied = max(traced.position, copied_to)
    source = max(copied, java.next_offset)
    era = NewEra(
        source=source,
        source_epoch=traced.source_epoch if source == traced.position else -1,
        reason=TAKEOVER_REASON,
        incidents=(
            *_create_incidents_for_uncompared_records(attempt, begins, own_progress),
            *_create_incidents_for_match_problems(attempt, traced),
            *_create_incidents_for_unverified_records(attempt, copied, source),
        ),
    )
    if traced.is_complete and source == traced.position:
        era = dataclasses.replace(
            era,
            first_offsets=(begins.source, begins.target),
            runs=tuple(traced.runs),
            junctions=tuple(traced.junctions),
        )
    return (yield from mirror_generations.begin_era(attempt, era))


def continue_after_java_records(
    attempt: RecoveryAttempt, begins: JavaCopyStart, *, changed: bool, lost: str
) -> Script[RecoveryOutcome]:
    """Continue after foreign records that follow the flow's resume point, if MirrorMaker 2 copied
    them from the source.

    The position that MirrorMaker 2 stored is ignored, because flows of mm2 also store it and an
    unclean election may have truncated the log since then. A new era (generation of the mirror)
    begins even if all records match in two cases: the transform changed (`changed`), or this flow's
    tail was lost (`lost` is the reason, "" if it was not).
    """
    traced = yield from match_mirror_with_source(attempt, begins)
    if not isinstance(traced, MapReconstruction):
        return traced
    failure = _react_to_mismatch(attempt, traced)
    if failure is not None:
        return failure
    if traced.is_complete and not changed and not lost:
        number = attempt.state.era_number
        return (
            yield from mirror_generations.continue_era(
                attempt, era=number, start=begins.source, match=traced
            )
        )
    era = NewEra(
        source=traced.position,
        source_epoch=traced.source_epoch,
        reason=traced.mismatch or lost or "MirrorMaker 2 wrote to the mirror after this flow",
        incidents=_create_incidents_for_match_problems(attempt, traced),
    )
    return (yield from mirror_generations.begin_era(attempt, era))


def _react_to_mismatch(
    attempt: RecoveryAttempt, traced: MapReconstruction
) -> PartitionHalt | RetryRecovery | None:
    """Choose the reaction to mirror records that do not match the source, if only this flow and
    MirrorMaker 2 are allowed to write."""
    ours = {*attempt.state.producers, attempt.fence.producer.id}
    may = attempt.setup.target_topics is not TargetTopicAccess.EXCLUSIVE
    if may or not traced.mismatch or traced.producer_id in ours:
        return None
    if traced.is_past_source:
        stop = partition_halt_messages.build_ahead_of_source_halt(
            attempt.setup,
            traced.mismatch,
            copied=traced.position,
            retry_after_s=target_log_tail_reader.SOURCE_RETRY_DELAY_S,
        )
        reason = f"{attempt.setup.mirror_name}: {traced.mismatch}"
        return RetryRecovery(reason=reason, halt_if_persistent=stop)
    found = ForeignBatch(offset=traced.mismatch_offset, producer_id=traced.producer_id)
    return react_to_foreign_batch(attempt, found, copied=traced.position, mismatch=traced.mismatch)


def react_to_foreign_batch(
    attempt: RecoveryAttempt, batch: ForeignBatch, *, copied: int, mismatch: str = ""
) -> PartitionHalt | RetryRecovery:
    """Build the reaction to foreign records: a halt, or a retry if fencing is impossible."""
    stop = partition_halt_messages.build_foreign_records_halt(
        attempt.setup, batch, copied=copied, mismatch=mismatch
    )
    if attempt.fence.is_fenced:
        return stop
    # Without a fence, the writer may be an owner that stored its producer id after the map was
    # read.
    reason = (
        f"{attempt.setup.mirror_name}: foreign records at offset {batch.offset}, of producer id "
        f"{batch.producer_id}"
    )
    return RetryRecovery(reason=reason, halt_if_persistent=stop)


def _create_incidents_for_uncompared_records(
    attempt: RecoveryAttempt, begins: JavaCopyStart, since: tuple[int, int] | None
) -> tuple[Incident, ...]:
    """Create an incident for records that MirrorMaker 2 copied after the flow's resume point and
    that were not compared."""
    if since is None or since[1] >= begins.target:
        return ()
    stated = mirror_generations.create_incident(
        attempt,
        kind=IncidentKind.UNVERIFIED_TAKEOVER,
        source=(since[0], begins.source) if since[0] < begins.source else None,
        target=(since[1], begins.target),
        detail="copied by MirrorMaker 2 after the resume point and not compared with the source",
    )
    return (stated,)


def _create_incidents_for_unverified_records(
    attempt: RecoveryAttempt, copied: int, source: int
) -> tuple[Incident, ...]:
    """Create an incident for records that were copied only according to MirrorMaker 2's stored
    position."""
    if source <= copied:
        return ()
    stated = mirror_generations.create_incident(
        attempt,
        kind=IncidentKind.UNVERIFIED_TAKEOVER,
        source=(copied, source),
        detail="copied according to MirrorMaker 2's stored position, but not found on the mirror",
    )
    return (stated,)


def _create_incidents_for_match_problems(
    attempt: RecoveryAttempt, traced: MapReconstruction
) -> tuple[Incident, ...]:
    """Create incidents for duplicate records and for records that could not be compared."""
    found = [
        mirror_generations.create_incident(
            attempt,
            kind=IncidentKind.DOUBLED_BY_JAVA,
            target=doubled,
            detail="duplicate records on the mirror; in total, another writer repeated "
            f"{plurals.format_count(traced.duplicate_count, 'record')}",
        )
        for doubled in traced.duplicate_ranges
    ]
    if traced.mismatch:
        end = attempt.fence.tail_end
        stated = mirror_generations.create_incident(
            attempt,
            kind=IncidentKind.NOT_PAIRED,
            target=(min(traced.mismatch_offset, end), end),
            detail=f"the last records of another writer do not match the source: {traced.mismatch}",
        )
        found.append(stated)
    return tuple(found)
