"""Fences older writers of a partition (zombie fencing).

A fence is a new producer epoch followed by an empty transaction, whose marker is read back. All
batches before the marker are stored on all in-sync replicas. No older owner can write after the
marker: its requests fail with INVALID_PRODUCER_EPOCH, with or without a transaction. InitProducerId
alone does not fence: brokers reject an older epoch only after the new epoch's first write.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.formats import record_set_splitter
from mm2.formats.record_batch import BatchHeader
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    CommitTransaction,
    Delay,
    FetchedRecords,
    FindTargetEnd,
    InitIdempotentProducer,
    InitProducer,
    InstructionAnswer,
    InstructionDone,
    InstructionRefused,
    NoResponse,
    ProducerIdentity,
    ReadTarget,
    RequestAcquisition,
    Script,
    TargetEnd,
)

COORDINATOR_BUSY_CODES = frozenset({14, 15, 16, 51})
"""Coordinator errors to retry: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE,
NOT_COORDINATOR, CONCURRENT_TRANSACTIONS."""
FENCED_CODES = frozenset({47, 49, 90})
"""Errors of a fenced producer: INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING,
PRODUCER_FENCED."""
INVALID_TXN_STATE = 48
"""Error code INVALID_TXN_STATE: the producer was fenced, or another producer ended its
transaction."""
TRANSACTIONAL_ID_DENIED = 53
"""Error code TRANSACTIONAL_ID_AUTHORIZATION_FAILED."""
AUTHORIZATION_CODES = frozenset({29, 31, TRANSACTIONAL_ID_DENIED})
"""Authorization errors for the topic, the cluster and the transactional id."""

COORDINATOR_RETRIES = 200
COORDINATOR_RETRY_DELAY_S = 0.01
COORDINATOR_RETRY_DELAY_MAX_S = 0.25
MARKER_READS_MAX = 100
"""Maximum number of reads before fencing is abandoned. Each waits up to 100 ms (the fetch's maximum
wait)."""
DENIED_RETRY_DELAY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFence:
    """Result of fencing a partition: the transaction marker of `producer` is at target offset
    `marker_offset`."""

    producer: ProducerIdentity
    marker_offset: int
    """Offset of this owner's transaction marker; without a fence, the offset of the last record
    before the acquisition."""
    leader_epoch: int
    is_fenced: bool = True
    """False if fencing is impossible: no marker was written, and older owners may still write."""
    last_stable_offset: int | None = None
    """The target's last stable offset when the marker was read; None if unknown."""

    @property
    def tail_end(self) -> int:
        """Target offset before which all known batches of older owners end."""
        return self.marker_offset if self.is_fenced else self.marker_offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerOwner:
    """A newer producer epoch than that of `fenced_producer` was granted: to another owner, or to a
    delayed request of this owner."""

    fenced_producer: ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingDenied:
    """The target rejected fencing with Kafka error `code`. An operator must grant the missing
    ACL."""

    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingInterrupted:
    """A leader moved or a response was lost. Fencing must be repeated."""

    reason: str


FencingFailure = NewerOwner | FencingDenied | FencingInterrupted


def fence_partition(*, use_fence: bool = True) -> Script[ProducerFence | FencingFailure]:
    """Fence the partition: request the worker's permission, find the log end, obtain a new epoch,
    run an empty transaction, and read its marker back.

    If the flow is not authorized for the transactional id, or if `use_fence` is False, the
    partition is not fenced: only a new producer id is requested, and delivery is at least once.
    """
    allowed = yield RequestAcquisition()
    if not isinstance(allowed, InstructionDone):
        return classify_fencing_failure("requesting permission from the worker", allowed)
    end = yield FindTargetEnd()
    if not isinstance(end, TargetEnd):
        return classify_fencing_failure("reading the mirror's log end", end)
    if not use_fence:
        return (yield from _init_idempotent_producer(end))
    producer = yield from _retry_while_coordinator_busy(InitProducer())
    if isinstance(producer, InstructionRefused) and producer.code == TRANSACTIONAL_ID_DENIED:
        return (yield from _init_idempotent_producer(end))
    if not isinstance(producer, ProducerIdentity):
        return classify_fencing_failure("InitProducerId", producer)
    ended = yield from run_empty_transaction(producer)
    if ended is not None:
        return ended
    marker = yield from read_transaction_marker(producer, start=end.offset)
    if not isinstance(marker, TransactionMarker):
        return marker
    if marker.leader_epoch != end.leader_epoch:
        return FencingInterrupted(
            reason=(
                "the mirror partition's leader epoch changed during the acquisition: from "
                f"{end.leader_epoch} to {marker.leader_epoch}"
            )
        )
    return ProducerFence(
        producer=producer,
        marker_offset=marker.offset,
        leader_epoch=marker.leader_epoch,
        last_stable_offset=marker.last_stable_offset,
    )


def _init_idempotent_producer(end: TargetEnd) -> Script[ProducerFence | FencingFailure]:
    producer = yield from _retry_while_coordinator_busy(InitIdempotentProducer())
    if not isinstance(producer, ProducerIdentity):
        return classify_fencing_failure("InitProducerId without a transactional id", producer)
    return ProducerFence(
        producer=producer,
        marker_offset=end.offset - 1,
        leader_epoch=end.leader_epoch,
        is_fenced=False,
    )


def run_empty_transaction(
    producer: ProducerIdentity,
) -> Script[FencingFailure | None]:
    """Commit a transaction without data (AddPartitionsToTxn, EndTxn), which writes a single control
    record."""
    added = yield from add_partition_to_transaction(producer)
    if added is not None:
        return added
    return (yield from commit_transaction(producer))


def add_partition_to_transaction(
    producer: ProducerIdentity,
) -> Script[FencingFailure | None]:
    """Add the partition to the producer's transaction. Return the failure, if any."""
    added = yield from _retry_while_coordinator_busy(AddToTransaction(producer=producer))
    if not isinstance(added, InstructionDone):
        return classify_fencing_failure("AddPartitionsToTxn", added, producer=producer)
    return None


def commit_transaction(producer: ProducerIdentity) -> Script[FencingFailure | None]:
    """Commit the producer's transaction. Return the failure, if any."""
    ended = yield from _retry_while_coordinator_busy(CommitTransaction(producer=producer))
    if not isinstance(ended, InstructionDone):
        return classify_fencing_failure("EndTxn", ended, producer=producer)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarker:
    """Transaction marker of this owner (control batch) as read back from the target, with the last
    stable offset that the same Fetch response contained."""

    offset: int
    leader_epoch: int
    last_stable_offset: int | None = None


def read_transaction_marker(
    producer: ProducerIdentity, *, start: int
) -> Script[TransactionMarker | FencingFailure]:
    """Read the target from offset `start` until the control batch of this owner's producer epoch is
    found.

    A fetch returns only batches below the high watermark, so all in-sync replicas have the marker
    and all batches before it. Reading is needed because EndTxn responds before the marker is
    written.
    """
    at = start
    for _ in range(MARKER_READS_MAX):
        answer = yield ReadTarget(offset=at)
        if not isinstance(answer, FetchedRecords):
            return classify_fencing_failure("reading the transaction marker", answer)
        for header, _batch in record_set_splitter.iter_batches(answer.records, position=at):
            at = max(at, header.last_offset + 1)
            if is_from_newer_epoch(header, producer):
                return NewerOwner(fenced_producer=producer)
            ours = (header.producer_id, header.producer_epoch) == (producer.id, producer.epoch)
            if header.is_control and ours and header.base_offset >= start:
                return TransactionMarker(
                    offset=header.base_offset,
                    leader_epoch=header.leader_epoch,
                    last_stable_offset=answer.last_stable_offset,
                )
    return FencingInterrupted(
        reason=(
            "the transaction marker did not become readable in time (does the mirror have fewer "
            "in-sync replicas than min.insync.replicas?)"
        )
    )


def is_from_newer_epoch(header: BatchHeader, producer: ProducerIdentity) -> bool:
    """Return True if the batch has the id of `producer` with a newer epoch, which means that this
    owner is fenced.

    If such a batch is found before this owner's marker was read, an unclean leader election lost
    the marker.
    """
    return header.producer_id == producer.id and header.producer_epoch > producer.epoch


def _retry_while_coordinator_busy(
    instruction: InitProducer | InitIdempotentProducer | AddToTransaction | CommitTransaction,
) -> Script[InstructionAnswer]:
    """Send the instruction again up to `COORDINATOR_RETRIES` times while the coordinator is loading
    or moving."""
    wait_s = COORDINATOR_RETRY_DELAY_S
    for _ in range(COORDINATOR_RETRIES):
        answer = yield instruction
        if not (isinstance(answer, InstructionRefused) and answer.code in COORDINATOR_BUSY_CODES):
            return answer
        yield Delay(delay_s=wait_s)
        wait_s = min(wait_s * 1.5, COORDINATOR_RETRY_DELAY_MAX_S)
    return NoResponse(reason="the transaction coordinator is still busy after all retries")


def classify_fencing_failure(
    operation: str,
    answer: InstructionAnswer,
    *,
    producer: ProducerIdentity | None = None,
) -> FencingFailure:
    """Classify an unexpected response to an instruction of the fencing procedure. `producer` is the
    producer that sent the request, if any."""
    if isinstance(answer, NoResponse):
        return FencingInterrupted(reason=f"{operation}: {answer.reason}")
    assert isinstance(answer, InstructionRefused), (operation, answer)
    if producer is not None and (answer.code in FENCED_CODES or answer.code == INVALID_TXN_STATE):
        return NewerOwner(fenced_producer=producer)
    text = f"{operation}: {answer.message or f'error {answer.code}'}"
    if answer.code in AUTHORIZATION_CODES:
        return FencingDenied(code=answer.code, message=text)
    return FencingInterrupted(reason=text)
