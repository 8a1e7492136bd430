"""Scripts that read the target's tail, and the source along it, for tail matching.

Damaged batches and logs that end too early are read several times before they are believed: a
new leader may not know yet how far the old one had got.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mm2.formats import record_batch, record_sets
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_sets import DamagedBatchError
from mm2.replication import error_policy, halts, producer_fencing, recovery_outcomes
from mm2.replication.error_policy import ErrorAction
from mm2.replication.halts import HaltCause, PartitionHalt
from mm2.replication.java_retrace import MapReconstruction
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
from mm2.replication.setup import PartitionSetup
from mm2.replication.tail_matching import MissingInput, TailMatcher
from mm2.replication.target_tail import TargetTail

SOURCE_RETRY_DELAY_S = 30.0
REREAD_BYTES_MAX = 64 * 1024
"""Of one read of the tail; many partitions may be paired at a time."""
BUDGET_POLL_INTERVAL_S = 0.05
BUDGET_TIMEOUT_S = 60.0
"""Other partitions' opened batches are acknowledged long before that, or dropped."""
READ_ATTEMPTS_MAX = 6
READ_RETRY_DELAY_S = 0.5
"""What may pass by itself is read so often, so far apart, before it is believed: damage (of the
network, or of one replica), and a log that ends too early (under a new leader, until it knows how
far the old one had got)."""


@dataclass(frozen=True, slots=True)
class ReverseFlowResolved:
    """Whose the batches are that stood in the way is known now."""


def retry_after_truncation() -> RetryRecovery:
    """An unclean election came in between."""
    return RetryRecovery(reason="the mirror's log was cut back meanwhile")


def read_tail(
    attempt: RecoveryAttempt,
    *,
    start: int,
    last_crc: int | None = None,
    lost: str = "",
    everybodys: bool = False,
) -> Script[TargetTail | RetryRecovery | OwnershipLost]:
    """Our batches on the mirror from `start` to our marker, or `everybodys`; the rest as in
    `TargetTail`.

    Raises `DamagedBatchError` where one of them cannot be read, however often it is tried.
    """
    ours = frozenset({*attempt.known.producers, attempt.fence.producer.id})
    left = TargetTail(
        ours=None if everybodys else ours,
        start=start,
        marker=attempt.fence.marker_offset,
        last_crc=last_crc,
        lost=lost,
    )
    idle = 0
    while not left.complete:
        answer = yield ReadTarget(offset=left.at)
        if (
            isinstance(answer, InstructionRefused)
            and answer.code == error_policy.OFFSET_OUT_OF_RANGE
        ):
            if answer.log_start <= left.at:
                return retry_after_truncation()
            left.deleted_before(answer.log_start)
            continue
        if not isinstance(answer, FetchedRecords):
            return recovery_outcomes.retry_after_answer("reading the tail of the mirror", answer)
        before = left.at
        found = _add_to_tail(left, answer.records, attempt.fence)
        if isinstance(found, OwnershipLost | RetryRecovery):
            return found
        idle = 0 if left.at > before else idle + 1
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
    """What one read brought; the error where damage stands before the tail's end."""
    try:
        for header, batch in iter_valid_batches(records, start=left.start):
            if producer_fencing.is_from_newer_epoch(header, fenced.producer):
                return OwnershipLost(than=fenced.producer)
            if _replaces_marker(header, fenced):
                return retry_after_truncation()
            left.add(header, batch)
    except DamagedBatchError as error:
        return None if left.complete else error
    return None


def _replaces_marker(header: BatchHeader, fenced: ProducerFence) -> bool:
    """Does something else stand where our marker was read? What stands before it may then be a
    newer owner's, of whom the facts that we read know nothing."""
    if not fenced.holds or not header.base_offset <= fenced.marker_offset <= header.last_offset:
        return False
    us = fenced.producer
    return (header.producer_id, header.producer_epoch) != (us.id, us.epoch)


def iter_valid_batches(
    records: memoryview, *, start: int
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """As `record_sets.iter_batches`; from `start` on a batch whose checksum does not match is
    damaged, too. Brokers do not look when they answer a fetch."""
    for header, batch in record_sets.iter_batches(records):
        if header.base_offset >= start and not record_batch.crc_matches(batch, header):
            why = f"the checksum of its {header.size} bytes does not match"
            raise DamagedBatchError(header.base_offset, why)
        yield header, batch


def match_source(
    attempt: RecoveryAttempt, pairs: TailMatcher
) -> Script[RetryRecovery | PartitionHalt | InstructionRefused | None]:
    """Pair until the tail is used up or does not pair; `Refused` when the source no longer has the
    position.

    One read is made even for an empty tail: it tells whether the source still has our position.
    """
    try:
        return (yield from _match_source(attempt, pairs))
    finally:
        pairs.close()


def _match_source(
    attempt: RecoveryAttempt, pairs: TailMatcher
) -> Script[RetryRecovery | PartitionHalt | InstructionRefused | None]:
    need, idle = MissingInput.SOURCE, 0
    reread = _TailRereader()
    while need is not MissingInput.NOTHING:
        if need is MissingInput.TARGET:
            fed = yield from _feed_tail_batch(pairs, reread)
            if not isinstance(fed, MissingInput):
                return fed
            again = yield from match_in_steps(pairs, fed)
            if not isinstance(again, MissingInput):
                return again
            need = again
            continue
        answer = yield from _read_source(attempt, pairs)
        if not isinstance(answer, FetchedRecords):
            return answer
        before = pairs.position
        again = yield from match_in_steps(pairs, pairs.feed(answer))
        if not isinstance(again, MissingInput):
            return again
        need = again
        idle = 0 if pairs.position > before else idle + 1
        if need is MissingInput.SOURCE and not pairs.strangers and _is_read_to_end(pairs, answer):
            if idle >= READ_ATTEMPTS_MAX:
                return _halt_at_end(attempt, pairs, end=answer.end)
            yield Delay(delay_s=READ_RETRY_DELAY_S)
        if idle > recovery_outcomes.EMPTY_READS_MAX:
            return recovery_outcomes.retry_after_empty_reads(
                "reading the source to pair the mirror's tail"
            )
    return (
        None
        if pairs.too_large is None
        else halts.halt_unreadable_batch(attempt.where, pairs.too_large)
    )


def match_in_steps(
    pairs: TailMatcher | MapReconstruction, need: MissingInput
) -> Script[MissingInput | RetryRecovery]:
    """Go on in large batches with a turn of the copy loop after each part, and wait for room in the
    budget; returns what else is needed."""
    waited = 0
    while need in (MissingInput.TURN, MissingInput.ROOM):
        waited = waited + 1 if need is MissingInput.ROOM else 0
        if waited * BUDGET_POLL_INTERVAL_S > BUDGET_TIMEOUT_S:
            return RetryRecovery(
                reason="no room in buffer.memory to decode the mirror's tail: others use it"
            )
        yield Delay(delay_s=BUDGET_POLL_INTERVAL_S if waited else 0.0)
        need = pairs.go_on()
    return need


def _read_source(
    attempt: RecoveryAttempt, pairs: TailMatcher
) -> Script[FetchedRecords | InstructionRefused | RetryRecovery | PartitionHalt]:
    if pairs.strangers:
        told = yield from resolve_reverse_flow_producers(attempt.context, pairs.strangers)
        if isinstance(told, RetryRecovery):
            return told
    answer = yield ReadSource(offset=pairs.position)
    if isinstance(answer, InstructionRefused) and answer.code == error_policy.OFFSET_OUT_OF_RANGE:
        return answer
    if not isinstance(answer, FetchedRecords):
        return react_to_source_read_failure(attempt.where, answer, offset=pairs.position)
    return answer


def resolve_reverse_flow_producers(
    context: RecoveryContext, strangers: tuple[int, ...]
) -> Script[ReverseFlowResolved | RetryRecovery]:
    """Whose are the batches of these producers? `context` says it from now on."""
    answer = yield FindReverseFlowProducers(producers=strangers)
    if not isinstance(answer, ReverseFlowProducers):
        found = recovery_outcomes.retry_after_answer(
            "asking which producers are the opposite flow's", answer
        )
        denied = isinstance(answer, InstructionRefused)
        lasting = halts.halt_reverse_flow_unknown(context.where, found.reason, denied=denied)
        return RetryRecovery(reason=found.reason, lasting=lasting)
    context.opposite.learn(strangers, theirs=answer.producers)
    return ReverseFlowResolved()


def _is_read_to_end(pairs: TailMatcher, answer: FetchedRecords) -> bool:
    return pairs.obstacle is not None or pairs.position >= answer.end


def _halt_at_end(attempt: RecoveryAttempt, pairs: TailMatcher, *, end: int) -> PartitionHalt | None:
    if pairs.obstacle is not None:
        return halts.halt_unreadable_batch(attempt.where, pairs.obstacle)
    return _halt_if_tail_ahead(attempt, pairs, end=end)


class _TailRereader:
    """Of the tail as it was read again: those behind the batch that was asked for came along, and
    are asked for next. Offsets that are looked for grow."""

    def __init__(self) -> None:
        self._batches: Iterator[tuple[BatchHeader, memoryview]] = iter(())
        self._next: tuple[BatchHeader, memoryview] | None = None

    def keep(self, records: memoryview) -> None:
        self._batches = record_sets.iter_batches(memoryview(bytes(records[:REREAD_BYTES_MAX])))
        self._next = None

    def find(self, offset: int) -> tuple[BatchHeader, memoryview] | None:
        """The batch that begins there, if it is at hand and sound."""
        try:
            while self._next is None or self._next[0].base_offset < offset:
                self._next = next(self._batches)
        except (StopIteration, DamagedBatchError):
            return None
        header, batch = self._next
        sound = header.base_offset == offset and record_batch.crc_matches(batch, header)
        return (header, batch) if sound else None


def _feed_tail_batch(
    pairs: TailMatcher, reread: _TailRereader
) -> Script[MissingInput | RetryRecovery]:
    """A batch of the tail again, now to be opened."""
    at_hand = reread.find(pairs.wanted)
    if at_hand is not None:
        return pairs.feed_target(*at_hand)
    doing = "reading the tail of the mirror again"
    for _ in range(recovery_outcomes.EMPTY_READS_MAX):
        answer = yield ReadTarget(offset=pairs.wanted)
        if not isinstance(answer, FetchedRecords):
            return recovery_outcomes.retry_after_answer(doing, answer)
        first = next(record_sets.iter_batches(answer.records), None)
        if first is None and answer.end > pairs.wanted:
            continue  # other partitions have filled the answer
        if first is None or first[0].base_offset != pairs.wanted:
            return retry_after_truncation()
        if record_batch.crc_matches(first[1], first[0]):
            reread.keep(answer.records)
            return pairs.feed_target(*first)
        yield Delay(delay_s=READ_RETRY_DELAY_S)  # it was sound when the tail was read
    return recovery_outcomes.retry_after_empty_reads(doing)


def react_to_source_read_failure(
    where: PartitionSetup, answer: InstructionAnswer, *, offset: int
) -> RetryRecovery | PartitionHalt:
    """The source gave something else than what it holds at `offset`."""
    if isinstance(answer, InstructionRefused):
        reaction = error_policy.react_to_fetch_error(where, code=answer.code, offset=offset)
        if reaction is not None and reaction.stop is not None:
            if reaction.then is ErrorAction.STOP:
                return reaction.stop
            return RetryRecovery(reason=reaction.reason, lasting=reaction.stop)
    return recovery_outcomes.retry_after_answer(
        "reading the source to pair the mirror's tail", answer
    )


def _halt_if_tail_ahead(
    attempt: RecoveryAttempt, pairs: TailMatcher, *, end: int
) -> PartitionHalt | None:
    """The mirror holds more than the source, whose log ends: None where that just does not pair.

    A source that was truncated holds fewer offsets than our records had; one that was compacted
    still counts theirs. Without fences two owners may have written the same.
    """
    why = f"the source ends at {end}, and the mirror has more records from {pairs.unpaired_from} on"
    if pairs.could_be_gone(end) or not attempt.fence.holds:
        pairs.mismatch = why
        return None
    where = attempt.where
    return PartitionHalt(
        cause=HaltCause.NOT_PAIRED,
        message=(
            f"{where.mirror}: what this flow wrote last does not match {where.name}: {why}. The "
            "source was probably truncated. The remedy may write duplicates. "
            f"{halts.format_skip_remedy(where, behind=min(pairs.position, end))}"
        ),
        retry_after_s=SOURCE_RETRY_DELAY_S,
    )
