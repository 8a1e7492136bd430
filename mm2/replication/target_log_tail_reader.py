"""Scripts (generators of instructions) that read the target's tail and the corresponding source
records for tail matching.

If a batch is damaged or a log ends too early, the read is repeated several times before the problem
is considered permanent. A new leader, for example, may not yet know the old leader's high
watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mm2.formats import record_batch, record_set_splitter
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_set_splitter import DamagedBatchError
from mm2.replication import (
    error_policy,
    partition_halt_messages,
    producer_fencing,
    recovery_outcomes,
)
from mm2.replication.error_policy import ErrorAction
from mm2.replication.java_offset_map_reconstruction import MapReconstruction
from mm2.replication.partition_halt_messages import HaltCause, PartitionHalt
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.producer_fencing import ProducerFence
from mm2.replication.recovery_instructions import (
    Delay,
    FetchedRecords,
    FindReverseFlowProducers,
    InstructionAnswer,
    InstructionRefused,
    ReadSource,
    ReadTarget,
    ReverseFlowProducers,
    Script,
)
from mm2.replication.recovery_outcomes import (
    OwnershipLost,
    RecoveryAttempt,
    RecoveryContext,
    RetryRecovery,
)
from mm2.replication.target_log_tail import TargetTail
from mm2.replication.target_log_tail_matching import RequiredMatchingInput, TailMatcher

SOURCE_RETRY_DELAY_S = 30.0
REREAD_BYTES_MAX = 64 * 1024
"""Maximum number of bytes kept from one read of the tail, because many partitions may be matched at
the same time."""
BUDGET_POLL_INTERVAL_S = 0.05
BUDGET_TIMEOUT_S = 60.0
"""Maximum time in seconds to wait for free memory. Normally, other partitions release the memory of
their decoded batches sooner."""
READ_ATTEMPTS_MAX = 6
READ_RETRY_DELAY_S = 0.5
"""Delay before a read is repeated because of a possibly transient problem: the network or one
replica damaged a batch, or a new leader does not yet know the old leader's high watermark and
reports a log end that is too low."""


@dataclass(frozen=True, slots=True)
class ReverseFlowProducersResolved:
    """Result of a completed lookup: for each requested producer id, it is now known whether the id
    belongs to the reverse flow."""


def retry_after_truncation() -> RetryRecovery:
    """Build a retry because an unclean leader election truncated the mirror's log."""
    return RetryRecovery(reason="the mirror's log was truncated during the acquisition")


def read_tail(
    attempt: RecoveryAttempt,
    *,
    start: int,
    last_crc: int | None = None,
    lost: str = "",
    all_producers: bool = False,
) -> Script[TargetTail | RetryRecovery | OwnershipLost]:
    """Read this flow's batches on the mirror, from offset `start` to this owner's transaction
    marker. If `all_producers` is True, read the batches of all producers.

    `last_crc` is the expected CRC of the batch before `start`. `lost` is the reason why the tail is
    already known not to match the offset map, or "". Raises `DamagedBatchError` if a batch remains
    unreadable after all retries.
    """
    ours = frozenset({*attempt.state.producers, attempt.fence.producer.id})
    left = TargetTail(
        own_producers=None if all_producers else ours,
        start=start,
        marker=attempt.fence.marker_offset,
        last_crc=last_crc,
        lost=lost,
    )
    idle = 0
    while not left.is_complete:
        answer = yield ReadTarget(offset=left.next_offset)
        if (
            isinstance(answer, InstructionRefused)
            and answer.code == error_policy.OFFSET_OUT_OF_RANGE
        ):
            if answer.log_start <= left.next_offset:
                return retry_after_truncation()
            left.handle_deleted_batches(answer.log_start)
            continue
        if not isinstance(answer, FetchedRecords):
            return recovery_outcomes.retry_after_failed_instruction(
                "reading the tail of the mirror", answer
            )
        before = left.next_offset
        found = _add_to_tail(left, answer.records, attempt.fence)
        if isinstance(found, OwnershipLost | RetryRecovery):
            return found
        idle = 0 if left.next_offset > before else idle + 1
        if found is not None:
            if idle >= READ_ATTEMPTS_MAX:
                raise found
            yield Delay(delay_s=READ_RETRY_DELAY_S)
        if idle > recovery_outcomes.EMPTY_READS_MAX:
            return recovery_outcomes.retry_after_empty_reads("reading the tail of the mirror")
    return left


def _add_to_tail(
    left: TargetTail, records: memoryview, fenced: ProducerFence
) -> OwnershipLost | RetryRecovery | DamagedBatchError | None:
    """Add the batches of one read to the tail. Return the error if a batch before the end of the
    tail is damaged."""
    try:
        for header, batch in iter_valid_batches(
            records, start=left.next_offset, check_from=left.start
        ):
            if producer_fencing.is_from_newer_epoch(header, fenced.producer):
                return OwnershipLost(fenced_producer=fenced.producer)
            if _has_replaced_marker(header, fenced):
                return retry_after_truncation()
            left.add_batch(header, batch)
    except DamagedBatchError as error:
        return None if left.is_complete else error
    return None


def _has_replaced_marker(header: BatchHeader, fenced: ProducerFence) -> bool:
    """Return True if another batch is now at the offset where this owner's transaction marker was
    read.

    A newer owner may then have written the batches before that offset. The recovered state does not
    include that owner.
    """
    if not fenced.is_fenced or not header.base_offset <= fenced.marker_offset <= header.last_offset:
        return False
    us = fenced.producer
    return (header.producer_id, header.producer_epoch) != (us.id, us.epoch)


def iter_valid_batches(
    records: memoryview, *, start: int, check_from: int | None = None
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Iterate over the valid batches of a record set, starting at offset `start`. Raises
    `DamagedBatchError` for a wrong checksum, because brokers do not verify checksums on fetch.

    Checksums are verified only for batches at or after offset `check_from` (None means `start`).
    """
    verified = start if check_from is None else check_from
    for header, batch in record_set_splitter.iter_batches(records, position=start):
        if header.base_offset >= verified and not record_batch.has_valid_crc(batch, header):
            why = f"the checksum of the batch ({header.size} bytes) does not match"
            raise DamagedBatchError(header.base_offset, why)
        yield header, batch


def match_tail_with_source(
    attempt: RecoveryAttempt, matcher: TailMatcher
) -> Script[RetryRecovery | PartitionHalt | InstructionRefused | None]:
    """Match the target's tail (the batches after the resume point) with the source. Return
    `InstructionRefused` if the source's log no longer contains the offset at which matching begins.

    The source is read once even for an empty tail, to check whether it still contains that offset.
    """
    try:
        return (yield from _run_tail_matcher(attempt, matcher))
    finally:
        matcher.close()


def _run_tail_matcher(
    attempt: RecoveryAttempt, pairs: TailMatcher
) -> Script[RetryRecovery | PartitionHalt | InstructionRefused | None]:
    need, idle = RequiredMatchingInput.SOURCE, 0
    reread = _TailBatchCache()
    while need is not RequiredMatchingInput.NOTHING:
        if need is RequiredMatchingInput.TARGET:
            fed = yield from _reread_tail_batch(pairs, reread)
            if not isinstance(fed, RequiredMatchingInput):
                return fed
            again = yield from match_batches_in_parts(pairs, fed)
            if not isinstance(again, RequiredMatchingInput):
                return again
            need = again
            continue
        answer = yield from _read_source(attempt, pairs)
        if not isinstance(answer, FetchedRecords):
            return answer
        before = pairs.position
        again = yield from match_batches_in_parts(pairs, pairs.add_source_records(answer))
        if not isinstance(again, RequiredMatchingInput):
            return again
        need = again
        idle = 0 if pairs.position > before else idle + 1
        if (
            need is RequiredMatchingInput.SOURCE
            and not pairs.unresolved_producers
            and _is_source_read_to_end(pairs, answer)
        ):
            if idle >= READ_ATTEMPTS_MAX:
                return _check_tail_at_source_end(attempt, pairs, end=answer.end)
            yield Delay(delay_s=READ_RETRY_DELAY_S)
        if idle > recovery_outcomes.EMPTY_READS_MAX:
            return recovery_outcomes.retry_after_empty_reads(
                "reading the source to match the mirror's tail"
            )
    return (
        None
        if pairs.too_large is None
        else partition_halt_messages.build_unreadable_batch_halt(attempt.setup, pairs.too_large)
    )


def match_batches_in_parts(
    matcher: TailMatcher | MapReconstruction, need: RequiredMatchingInput
) -> Script[RequiredMatchingInput | RetryRecovery]:
    """Match large batches in parts: return to the copy loop after each part, and wait for memory if
    needed. Return the input that matching needs next."""
    waited = 0
    while need in (RequiredMatchingInput.YIELD, RequiredMatchingInput.MEMORY):
        waited = waited + 1 if need is RequiredMatchingInput.MEMORY else 0
        if waited * BUDGET_POLL_INTERVAL_S > BUDGET_TIMEOUT_S:
            return RetryRecovery(
                reason="not enough free memory (buffer.memory) to decode the mirror's tail"
            )
        yield Delay(delay_s=BUDGET_POLL_INTERVAL_S if waited else 0.0)
        need = matcher.match_available_records()
    return need


def _read_source(
    attempt: RecoveryAttempt, pairs: TailMatcher
) -> Script[FetchedRecords | InstructionRefused | RetryRecovery | PartitionHalt]:
    if pairs.unresolved_producers:
        resolved = yield from resolve_reverse_flow_producers(
            attempt.context, pairs.unresolved_producers
        )
        if isinstance(resolved, RetryRecovery):
            return resolved
    answer = yield ReadSource(offset=pairs.position)
    if isinstance(answer, InstructionRefused) and answer.code == error_policy.OFFSET_OUT_OF_RANGE:
        return answer
    if not isinstance(answer, FetchedRecords):
        return react_to_source_read_failure(attempt.setup, answer, offset=pairs.position)
    return answer


def resolve_reverse_flow_producers(
    context: RecoveryContext, producers: tuple[int, ...]
) -> Script[ReverseFlowProducersResolved | RetryRecovery]:
    """Look up which producers belong to the reverse flow and store the result in `context`."""
    answer = yield FindReverseFlowProducers(producers=producers)
    if not isinstance(answer, ReverseFlowProducers):
        found = recovery_outcomes.retry_after_failed_instruction(
            "looking up the reverse flow's producers", answer
        )
        denied = isinstance(answer, InstructionRefused)
        lasting = partition_halt_messages.build_reverse_flow_unknown_halt(
            context.setup, found.reason, denied=denied
        )
        return RetryRecovery(reason=found.reason, halt_if_persistent=lasting)
    context.reverse_flow_filter.add_resolved_producers(
        producers, reverse_producers=answer.producers
    )
    return ReverseFlowProducersResolved()


def _is_source_read_to_end(pairs: TailMatcher, answer: FetchedRecords) -> bool:
    return pairs.obstacle is not None or pairs.position >= answer.end


def _check_tail_at_source_end(
    attempt: RecoveryAttempt, pairs: TailMatcher, *, end: int
) -> PartitionHalt | None:
    if pairs.obstacle is not None:
        return partition_halt_messages.build_unreadable_batch_halt(attempt.setup, pairs.obstacle)
    return _halt_if_tail_ahead(attempt, pairs, end=end)


class _TailBatchCache:
    """Caches the target batches of one read while the tail is read again for decoding, because the
    following batches are usually requested next. Offsets must be requested in ascending order."""

    def __init__(self) -> None:
        self._batches: Iterator[tuple[BatchHeader, memoryview]] = iter(())
        self._next: tuple[BatchHeader, memoryview] | None = None

    def keep_batches(self, records: memoryview, *, start: int) -> None:
        """Keep the batches of a new read, starting at offset `start`."""
        kept = memoryview(bytes(records[:REREAD_BYTES_MAX]))
        self._batches = record_set_splitter.iter_batches(kept, position=start)
        self._next = None

    def find_batch(self, offset: int) -> tuple[BatchHeader, memoryview] | None:
        """Return the batch at `offset` if it was read and is valid, else None."""
        try:
            while self._next is None or self._next[0].base_offset < offset:
                self._next = next(self._batches)
        except (StopIteration, DamagedBatchError):
            return None
        header, batch = self._next
        sound = header.base_offset == offset and record_batch.has_valid_crc(batch, header)
        return (header, batch) if sound else None


def _reread_tail_batch(
    pairs: TailMatcher, reread: _TailBatchCache
) -> Script[RequiredMatchingInput | RetryRecovery]:
    """Read a batch of the tail again in order to decode it."""
    at_hand = reread.find_batch(pairs.next_offset)
    if at_hand is not None:
        return pairs.add_target_batch(*at_hand)
    doing = "reading the tail of the mirror again"
    for _ in range(recovery_outcomes.EMPTY_READS_MAX):
        answer = yield ReadTarget(offset=pairs.next_offset)
        if not isinstance(answer, FetchedRecords):
            return recovery_outcomes.retry_after_failed_instruction(doing, answer)
        first = next(
            record_set_splitter.iter_batches(answer.records, position=pairs.next_offset), None
        )
        if first is None and answer.end > pairs.next_offset:
            continue  # other partitions filled the response
        if first is None or first[0].base_offset != pairs.next_offset:
            return retry_after_truncation()
        if record_batch.has_valid_crc(first[1], first[0]):
            reread.keep_batches(answer.records, start=pairs.next_offset)
            return pairs.add_target_batch(*first)
        yield Delay(delay_s=READ_RETRY_DELAY_S)  # its checksum was valid when the tail was read
    return recovery_outcomes.retry_after_empty_reads(doing)


def react_to_source_read_failure(
    setup: PartitionSetup, answer: InstructionAnswer, *, offset: int
) -> RetryRecovery | PartitionHalt:
    """Build a halt or a retry because the source could not be read at `offset`."""
    if isinstance(answer, InstructionRefused):
        reaction = error_policy.react_to_fetch_error(setup, code=answer.code, offset=offset)
        if reaction is not None and reaction.halt is not None:
            if reaction.action is ErrorAction.HALT:
                return reaction.halt
            return RetryRecovery(reason=reaction.reason, halt_if_persistent=reaction.halt)
    return recovery_outcomes.retry_after_failed_instruction(
        "reading the source to match the mirror's tail", answer
    )


def _halt_if_tail_ahead(
    attempt: RecoveryAttempt, pairs: TailMatcher, *, end: int
) -> PartitionHalt | None:
    """Return a halt if the mirror has more records than the source; None if the additional records
    are treated as a mismatch.

    A truncated source has fewer offsets than the unmatched records of the tail need; a compacted
    source has enough. Without a fence, two owners may have written the same records.
    """
    first = pairs.mismatch_offset
    why = f"the source ends at {end}, but the mirror has more records from offset {first}"
    if pairs.can_source_contain_unmatched_records(end) or not attempt.fence.is_fenced:
        pairs.mismatch = why
        return None
    setup = attempt.setup
    next_offset = min(pairs.position, end)
    return PartitionHalt(
        cause=HaltCause.TAIL_MISMATCH,
        message=(
            f"{setup.mirror_name}: the last records of this flow do not match "
            f"{setup.source_name}: {why}. The "
            "source was probably truncated. The remedy may write duplicates. "
            f"{partition_halt_messages.format_skip_remedy(setup, next_offset=next_offset)}"
        ),
        retry_after_s=SOURCE_RETRY_DELAY_S,
    )
