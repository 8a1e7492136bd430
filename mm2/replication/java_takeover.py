"""Takes over a mirror from Java MirrorMaker 2: compares its stored progress with what is there.

Java's progress N has no target offset, and it writes more than it records (progress is stored
once a minute). So what it wrote last, from the newest offset sync at or below N on, or from the
start of both logs, is retraced on the source. Records that it wrote twice are reported and stay.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from connect_runtime.base import plurals
from mm2.formats import record_batch, record_sets
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_sets import DamagedBatchError
from mm2.replication import (
    eras,
    error_policy,
    halts,
    hanging_transactions,
    outbound_batches,
    recovery_outcomes,
    tail_reader,
)
from mm2.replication.eras import NewEra
from mm2.replication.halts import PartitionHalt
from mm2.replication.java_retrace import MapReconstruction
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
from mm2.replication.tail_matching import MissingInput
from mm2.replication.target_tail import ForeignBatch, TailBatch, TargetTail
from mm2.topics.flow_config import TargetTopicAccess

FULL_RETRACE_MAX = 5_000_000
"""Without an OffsetSync no more of a mirror than this (offsets) is retraced from its start: that
takes about a minute, and Java stores progress as often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaWrittenRange:
    """What Java wrote of a mirror: from target offset `target` on it holds what the
    source holds from `source` on, whose batch before has `source_epoch`. `exact`: the record at
    `source` stands at `target`."""

    source: int
    target: int
    source_epoch: int = -1
    exact: bool = True


def find_log_starts(
    attempt: RecoveryAttempt, java: JavaMirrorProgress
) -> Script[JavaWrittenRange | RetryRecovery | None]:
    """The starts of both logs; None where the mirror is too long to be read from its start."""
    source = yield FindSourceOffset(position="earliest")
    if not isinstance(source, SourceLogOffset):
        return recovery_outcomes.retry_after_answer("finding the source's log start", source)
    target = yield ReadTarget(offset=0)
    out = isinstance(target, InstructionRefused) and target.code == error_policy.OFFSET_OUT_OF_RANGE
    if not out and not isinstance(target, FetchedRecords):
        return recovery_outcomes.retry_after_answer("finding the mirror's log start", target)
    assert isinstance(target, FetchedRecords | InstructionRefused)
    start = max(target.log_start, 0)
    if java.next_offset > source.offset and attempt.fence.tail_end - start > FULL_RETRACE_MAX:
        return None
    return JavaWrittenRange(source=source.offset, target=start, exact=False)


def find_java_records(
    attempt: RecoveryAttempt, *, copied: int
) -> Script[JavaWrittenRange | RetryRecovery | PartitionHalt | None]:
    """Did Java go on behind `copied`, the target offset that our anchor names, and store where?

    What our own owners stored in its topics tells nothing: the record must be a stranger's, and the
    one that the OffsetSync says.
    """
    java = attempt.known.java
    if java is None or java.sync is None:
        return None
    source, target = java.sync
    if not copied <= target < attempt.fence.tail_end:
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
        return recovery_outcomes.retry_after_answer(
            "reading what an OffsetSync names on the source", answer
        )
    most = attempt.context.held.largest_decoded_bytes
    one = MapReconstruction(
        source=source, target=target, exact=True, likely=source, max_decoded_bytes=most
    )
    fed = yield from tail_reader.match_in_steps(one, one.feed_source(answer))
    if isinstance(fed, RetryRecovery):
        return fed
    if one.too_large is None:
        one.feed_target(*found)
    if one.too_large is not None:
        return halts.halt_unreadable_batch(attempt.where, one.too_large)
    return JavaWrittenRange(source=source, target=target) if one.found_any else None


def _read_foreign_batch(
    attempt: RecoveryAttempt, target: int
) -> Script[tuple[BatchHeader, memoryview] | RetryRecovery | None]:
    """The batch that holds this target offset, if none of our producers wrote it."""
    doing = "reading what an OffsetSync names on the mirror"
    ours = {*attempt.known.producers, attempt.fence.producer.id}
    for _ in range(recovery_outcomes.EMPTY_READS_MAX):
        answer = yield ReadTarget(offset=target)
        if (
            isinstance(answer, InstructionRefused)
            and answer.code == error_policy.OFFSET_OUT_OF_RANGE
        ):
            return None
        if not isinstance(answer, FetchedRecords):
            return recovery_outcomes.retry_after_answer(doing, answer)
        first = next(record_sets.iter_batches(answer.records), None)
        if first is None and answer.end > target:
            continue  # other partitions have filled the answer
        if first is None or first[0].producer_id in ours or first[0].is_control:
            return None
        if record_batch.crc_matches(first[1], first[0]):
            return first
        yield Delay(delay_s=tail_reader.READ_RETRY_DELAY_S)
    return recovery_outcomes.retry_after_empty_reads(doing)


STEP_BACK_MAX = 1_000_000
"""So many source offsets before our anchor at most are read to find what Java copied once more."""

RetraceFailure = RetryRecovery | OwnershipLost | PartitionHalt


def retrace_mirror(
    attempt: RecoveryAttempt, begins: JavaWrittenRange, *, copied_to: int = -1
) -> Script[MapReconstruction | RetraceFailure]:
    """Everything on the mirror from there to our marker, whoever wrote it."""
    left = yield from tail_reader.read_tail(attempt, start=begins.target, everybodys=True)
    if not isinstance(left, TargetTail):
        return left
    java = attempt.known.java
    assert java is not None
    if left.hanging is not None and not left.lost:
        return hanging_transactions.react_to_open_transaction(attempt, left.hanging)
    near = min(max(java.next_offset, begins.source - STEP_BACK_MAX), begins.source)
    for copied_from in (near, max(begins.source - STEP_BACK_MAX, 0)):
        traced = MapReconstruction(
            source=begins.source,
            target=begins.target,
            exact=begins.exact,
            copied_from=copied_from,
            copied_to=copied_to,
            likely=java.next_offset,
            transform=outbound_batches.keep_if_deterministic(attempt.context.transform),
            source_epoch_before=begins.source_epoch,
            max_decoded_bytes=attempt.context.held.largest_decoded_bytes,
        )
        if left.lost:
            traced.lost(left.lost)
        elif left.committed:
            failed = yield from _compare_logs(attempt, traced, left.committed)
            if failed is not None:
                return failed
        if not traced.mismatch or (begins.exact and not traced.found_any):
            break  # else it may have stepped back farther than it was to
    return traced


def _compare_logs(
    attempt: RecoveryAttempt, traced: MapReconstruction, batches: Sequence[TailBatch]
) -> Script[RetryRecovery | PartitionHalt | None]:
    at = idle = 0
    need = traced.go_on()
    while need is not MissingInput.NOTHING and not (
        need is MissingInput.TARGET and at == len(batches)
    ):
        before = at, traced.read_to
        if need is MissingInput.TARGET:
            answer = yield ReadTarget(offset=max(batches[at].offset, traced.target))
            if not isinstance(answer, FetchedRecords):
                return recovery_outcomes.retry_after_answer(
                    "reading what Java wrote to the mirror", answer
                )
            need, at = _feed_mirror_batches(traced, answer.records, batches, at=at)
            ends = at == before[0]
        else:
            answer = yield ReadSource(offset=traced.read_to)
            if isinstance(answer, InstructionRefused) and _is_source_deleted(traced, answer):
                need = traced.go_on()
                continue
            if not isinstance(answer, FetchedRecords):
                return tail_reader.react_to_source_read_failure(
                    attempt.where, answer, offset=traced.read_to
                )
            fed = yield from tail_reader.match_in_steps(traced, traced.feed_source(answer))
            if not isinstance(fed, MissingInput):
                return fed
            need = fed
            blocked = traced.obstacle is not None
            ends = need is MissingInput.SOURCE and (blocked or traced.read_to >= answer.end)
        idle = idle + 1 if before == (at, traced.read_to) else 0
        if ends and idle < tail_reader.READ_ATTEMPTS_MAX:
            yield Delay(delay_s=tail_reader.READ_RETRY_DELAY_S)
        elif ends and traced.obstacle is not None:
            return halts.halt_unreadable_batch(attempt.where, traced.obstacle)
        elif ends and need is MissingInput.SOURCE:
            need = traced.source_ends()
        if idle > recovery_outcomes.EMPTY_READS_MAX:
            return recovery_outcomes.retry_after_empty_reads(
                "comparing what Java wrote with the source"
            )
    return (
        None
        if traced.too_large is None
        else halts.halt_unreadable_batch(attempt.where, traced.too_large)
    )


def _is_source_deleted(traced: MapReconstruction, answer: InstructionRefused) -> bool:
    if answer.code != error_policy.OFFSET_OUT_OF_RANGE:
        return False
    traced.source_gone(answer.log_start)
    return True


def _feed_mirror_batches(
    traced: MapReconstruction,
    held: memoryview,
    batches: Sequence[TailBatch],
    *,
    at: int,
) -> tuple[MissingInput, int]:
    """As many of `batches`, from the one at index `at` on, as were read and are wanted."""
    need = MissingInput.TARGET
    with contextlib.suppress(DamagedBatchError):  # it was sound just before
        for header, batch in tail_reader.iter_valid_batches(held, start=batches[at].offset):
            if header.base_offset == batches[at].offset:
                need = traced.feed_target(header, batch)
                at += 1
            if at == len(batches) or need is not MissingInput.TARGET:
                break
    return need, at


TAKEOVER_REASON = "taken over from MirrorMaker 2"


def take_over_mirror(attempt: RecoveryAttempt) -> Script[RecoveryOutcome]:
    """No owner of ours was here before, and Java was."""
    java = attempt.known.java
    assert java is not None
    if java.sync is not None:
        begins = JavaWrittenRange(source=java.sync[0], target=java.sync[1])
        return (yield from take_over_from(attempt, begins))
    found = yield from find_log_starts(attempt, java)
    if isinstance(found, RetryRecovery):
        return found
    if found is None:
        return (yield from eras.begin_era(attempt, _era_without_sync(attempt, java)))
    return (yield from take_over_from(attempt, found))


def _era_without_sync(attempt: RecoveryAttempt, java: JavaMirrorProgress) -> NewEra:
    stated = eras.create_incident(
        attempt,
        kind=IncidentKind.TAKEN_FROM_JAVA,
        source=(0, java.next_offset),
        target=(0, attempt.fence.tail_end),
        detail=f"no OffsetSync tells where source offset {java.next_offset} stands on the mirror",
    )
    return NewEra(source=java.next_offset, reason=TAKEOVER_REASON, incidents=(stated,))


def take_over_from(
    attempt: RecoveryAttempt, begins: JavaWrittenRange, *, since: tuple[int, int] | None = None
) -> Script[RecoveryOutcome]:
    """What stands before there is Java's word; go on behind what it wrote from there on.

    Up to `since` (source and target offset) we had copied ourselves.
    """
    java = attempt.known.java
    assert java is not None
    copied_to = since[0] if since is not None else -1
    traced = yield from retrace_mirror(attempt, begins, copied_to=copied_to)
    if not isinstance(traced, MapReconstruction):
        return traced
    known = attempt.known.anchor is not None
    strange = _react_to_mismatch(attempt, traced) if known or traced.beyond else None
    if strange is not None:
        return strange
    copied = max(traced.position, copied_to)
    source = max(copied, java.next_offset)
    era = NewEra(
        source=source,
        source_epoch=traced.source_epoch if source == traced.position else -1,
        reason=TAKEOVER_REASON,
        incidents=(
            *_create_uncompared_incidents(attempt, begins, since),
            *_create_retrace_incidents(attempt, traced),
            *_create_unverified_incidents(attempt, copied, source),
        ),
    )
    if traced.whole and source == traced.position:
        era = dataclasses.replace(
            era,
            begins=(begins.source, begins.target),
            runs=tuple(traced.runs),
            seams=tuple(traced.seams),
        )
    return (yield from eras.begin_era(attempt, era))


def continue_after_java(
    attempt: RecoveryAttempt, begins: JavaWrittenRange, *, changed: bool, lost: str
) -> Script[RecoveryOutcome]:
    """Strangers wrote behind our anchor: Java, if what they wrote is on the source, too.

    How far Java stored progress counts for nothing here: we store it as well, and did before
    an unclean election may have cut the log. `changed` and `lost` say why our era ends anyway.
    """
    traced = yield from retrace_mirror(attempt, begins)
    if not isinstance(traced, MapReconstruction):
        return traced
    strange = _react_to_mismatch(attempt, traced)
    if strange is not None:
        return strange
    if traced.whole and not changed and not lost:
        number = attempt.known.era_number
        return (
            yield from eras.continue_era(attempt, era=number, start=begins.source, pairs=traced)
        )
    era = NewEra(
        source=traced.position,
        source_epoch=traced.source_epoch,
        reason=traced.mismatch or lost or "MirrorMaker 2 was here meanwhile",
        incidents=_create_retrace_incidents(attempt, traced),
    )
    return (yield from eras.begin_era(attempt, era))


def _react_to_mismatch(
    attempt: RecoveryAttempt, traced: MapReconstruction
) -> PartitionHalt | RetryRecovery | None:
    """Somebody else wrote what does not pair, where only this flow, and Java before it, may."""
    ours = {*attempt.known.producers, attempt.fence.producer.id}
    may = attempt.where.target_topics is not TargetTopicAccess.EXCLUSIVE
    if may or not traced.mismatch or traced.writer in ours:
        return None
    if traced.beyond:
        stop = halts.halt_ahead_of_source(
            attempt.where,
            traced.mismatch,
            copied=traced.position,
            retry_after_s=tail_reader.SOURCE_RETRY_DELAY_S,
        )
        reason = f"{attempt.where.mirror}: {traced.mismatch}"
        return RetryRecovery(reason=reason, lasting=stop)
    found = ForeignBatch(offset=traced.unpaired_from, producer_id=traced.writer)
    return react_to_foreign_batch(attempt, found, copied=traced.position, unlike=traced.mismatch)


def react_to_foreign_batch(
    attempt: RecoveryAttempt, found: ForeignBatch, *, copied: int, unlike: str = ""
) -> PartitionHalt | RetryRecovery:
    """As `halts.halt_foreign_records`."""
    stop = halts.halt_foreign_records(attempt.where, found, copied=copied, unlike=unlike)
    if attempt.fence.holds:
        return stop
    # Nobody is fenced: it may be an owner that recorded its id since we read the map.
    reason = (
        f"{attempt.where.mirror}: foreign records at offset {found.offset}, of producer id "
        f"{found.producer_id}"
    )
    return RetryRecovery(reason=reason, lasting=stop)


def _create_uncompared_incidents(
    attempt: RecoveryAttempt, begins: JavaWrittenRange, since: tuple[int, int] | None
) -> tuple[Incident, ...]:
    """What Java copied since we did, and nobody compares."""
    if since is None or since[1] >= begins.target:
        return ()
    stated = eras.create_incident(
        attempt,
        kind=IncidentKind.TAKEN_FROM_JAVA,
        source=(since[0], begins.source) if since[0] < begins.source else None,
        target=(since[1], begins.target),
        detail="copied while MirrorMaker 2 had the partition; nobody compared it",
    )
    return (stated,)


def _create_unverified_incidents(
    attempt: RecoveryAttempt, copied: int, source: int
) -> tuple[Incident, ...]:
    """What Java alone knows to be there, where the copy goes on behind it."""
    if source <= copied:
        return ()
    stated = eras.create_incident(
        attempt,
        kind=IncidentKind.TAKEN_FROM_JAVA,
        source=(copied, source),
        detail="MirrorMaker 2 stored that it had copied it; nobody saw it on the mirror",
    )
    return (stated,)


def _create_retrace_incidents(
    attempt: RecoveryAttempt, traced: MapReconstruction
) -> tuple[Incident, ...]:
    """What stands twice, and what could not be compared."""
    found = [
        eras.create_incident(
            attempt,
            kind=IncidentKind.DOUBLED_BY_JAVA,
            target=doubled,
            detail="stands a second time; altogether "
            f"{plurals.format_count(traced.count, 'record')} that others copied "
            f"{plurals.conjugate(traced.count, 'do')}",
        )
        for doubled in traced.doubled
    ]
    if traced.mismatch:
        end = attempt.fence.tail_end
        stated = eras.create_incident(
            attempt,
            kind=IncidentKind.NOT_PAIRED,
            target=(min(traced.unpaired_from, end), end),
            detail=f"what others wrote last does not pair: {traced.mismatch}",
        )
        found.append(stated)
    return tuple(found)
