"""Fences older writers of a partition (zombie fencing).

A fence is a new producer epoch and an empty transaction, whose marker is read back. Everything
before the marker is final and replicated, and nothing from an older owner can follow it (it gets
INVALID_PRODUCER_EPOCH, inside a transaction or not). InitProducerId alone does not fence: brokers
reject an older epoch only after the new one's first write.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.formats import record_sets
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
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
CONCURRENT_TRANSACTIONS"""
FENCED_CODES = frozenset({47, 49, 90})
"""INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED"""
INVALID_TXN_STATE = 48
TRANSACTIONAL_ID_DENIED = 53
"""TRANSACTIONAL_ID_AUTHORIZATION_FAILED"""
AUTHORIZATION_CODES = frozenset({29, 31, TRANSACTIONAL_ID_DENIED})
"""Authorization failures of topic, cluster and transactional id."""

COORDINATOR_RETRIES = 200
COORDINATOR_RETRY_DELAY_S = 0.01
COORDINATOR_RETRY_DELAY_MAX_S = 0.25
MARKER_READS_MAX = 100
"""Reads of up to 100 ms each (the fetch's wait) before the fence is given up."""
DENIED_RETRY_DELAY_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFence:
    """The partition is fenced: our marker of `producer` stands at `marker_offset`.

    Where fences are not to be had (`holds` False), no marker was written: `marker_offset` is then
    that of the last record that stood there, and older owners may still write behind it.
    `last_stable` as it was told with the marker.
    """

    producer: ProducerIdentity
    marker_offset: int
    leader_epoch: int
    holds: bool = True
    last_stable: int | None = None

    @property
    def tail_end(self) -> int:
        """Target offset behind the last that older owners wrote, as far as that is known."""
        return self.marker_offset if self.holds else self.marker_offset + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class NewerOwner:
    """Somebody else, or a request of our own that came late, got a newer epoch than `than`."""

    than: ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingDenied:
    """The target does not allow it, by Kafka's error `code`; somebody must change that."""

    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingInterrupted:
    """A leader moved or an answer was lost; begin again."""

    reason: str


FencingFailure = NewerOwner | FencingDenied | FencingInterrupted


def fence_partition(*, wanted: bool = True) -> Script[ProducerFence | FencingFailure]:
    """May-take, log end, new epoch, empty transaction, marker read back.

    Without the right to the transactional id, or where no fence is `wanted`, a new producer id is
    all: copying is then at least once.
    """
    allowed = yield RequestAcquisition()
    if not isinstance(allowed, InstructionDone):
        return classify_failure("asking the worker", allowed)
    end = yield FindTargetEnd()
    if not isinstance(end, TargetEnd):
        return classify_failure("reading the mirror's end", end)
    if not wanted:
        return (yield from _create_unfenced(end))
    producer = yield from _retry_while_busy(InitProducer())
    if isinstance(producer, InstructionRefused) and producer.code == TRANSACTIONAL_ID_DENIED:
        return (yield from _create_unfenced(end))
    if not isinstance(producer, ProducerIdentity):
        return classify_failure("InitProducerId", producer)
    ended = yield from run_empty_transaction(producer)
    if ended is not None:
        return ended
    marker = yield from read_marker(producer, start=end.offset)
    if not isinstance(marker, TransactionMarker):
        return marker
    if marker.leader_epoch != end.leader_epoch:
        return FencingInterrupted(
            reason=f"the mirror moved: leader epoch {end.leader_epoch}, {marker.leader_epoch}"
        )
    return ProducerFence(
        producer=producer,
        marker_offset=marker.offset,
        leader_epoch=marker.leader_epoch,
        last_stable=marker.last_stable,
    )


def _create_unfenced(end: TargetEnd) -> Script[ProducerFence | FencingFailure]:
    producer = yield from _retry_while_busy(InitIdempotentProducer())
    if not isinstance(producer, ProducerIdentity):
        return classify_failure("InitProducerId without a transactional id", producer)
    return ProducerFence(
        producer=producer,
        marker_offset=end.offset - 1,
        leader_epoch=end.leader_epoch,
        holds=False,
    )


def run_empty_transaction(
    producer: ProducerIdentity,
) -> Script[FencingFailure | None]:
    """AddPartitionsToTxn and EndTxn(commit) with nothing between: one control record, no data."""
    added = yield from add_to_transaction(producer)
    if added is not None:
        return added
    return (yield from commit_transaction(producer))


def add_to_transaction(
    producer: ProducerIdentity,
) -> Script[FencingFailure | None]:
    added = yield from _retry_while_busy(AddToTransaction(producer=producer))
    if not isinstance(added, InstructionDone):
        return classify_failure("AddPartitionsToTxn", added, producer=producer)
    return None


def commit_transaction(producer: ProducerIdentity) -> Script[FencingFailure | None]:
    ended = yield from _retry_while_busy(CommitTransaction(producer=producer))
    if not isinstance(ended, InstructionDone):
        return classify_failure("EndTxn", ended, producer=producer)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionMarker:
    """`last_stable` as it was told with it."""

    offset: int
    leader_epoch: int
    last_stable: int | None = None


def read_marker(
    producer: ProducerIdentity, *, start: int
) -> Script[TransactionMarker | FencingFailure]:
    """Read the target from `start` until our own control batch of this epoch can be read.

    A fetch gives only what is replicated, so the marker and all before it are. EndTxn answers
    before the marker is written.
    """
    at = start
    for _ in range(MARKER_READS_MAX):
        answer = yield ReadTarget(offset=at)
        if not isinstance(answer, FetchedRecords):
            return classify_failure("reading our marker", answer)
        for header, _batch in record_sets.iter_batches(answer.records):
            at = max(at, header.last_offset + 1)
            if is_from_newer_epoch(header, producer):
                return NewerOwner(than=producer)
            ours = (header.producer_id, header.producer_epoch) == (producer.id, producer.epoch)
            if header.is_control and ours and header.base_offset >= start:
                return TransactionMarker(
                    offset=header.base_offset,
                    leader_epoch=header.leader_epoch,
                    last_stable=answer.last_stable,
                )
    return FencingInterrupted(
        reason="our marker did not become readable in time (does the mirror have as many replicas "
        "in sync as its min.insync.replicas asks for?)"
    )


def is_from_newer_epoch(header: BatchHeader, producer: ProducerIdentity) -> bool:
    """Was the batch written under a newer epoch than ours, so that we are fenced?

    Found below our marker it also tells that an unclean election took the marker away.
    """
    return header.producer_id == producer.id and header.producer_epoch > producer.epoch


def _retry_while_busy(
    instruction: InitProducer | InitIdempotentProducer | AddToTransaction | CommitTransaction,
) -> Script[InstructionAnswer]:
    """Ask a coordinator again while it is busy or moving, up to a bound."""
    wait_s = COORDINATOR_RETRY_DELAY_S
    for _ in range(COORDINATOR_RETRIES):
        answer = yield instruction
        if not (isinstance(answer, InstructionRefused) and answer.code in COORDINATOR_BUSY_CODES):
            return answer
        yield Delay(delay_s=wait_s)
        wait_s = min(wait_s * 1.5, COORDINATOR_RETRY_DELAY_MAX_S)
    return NoResponse(reason="the transaction coordinator stayed busy")


def classify_failure(
    doing: str,
    answer: InstructionAnswer,
    *,
    producer: ProducerIdentity | None = None,
) -> FencingFailure:
    """What an answer that is not the wished one means for a fence; `producer` is who asked."""
    if isinstance(answer, NoResponse):
        return FencingInterrupted(reason=f"{doing}: {answer.reason}")
    assert isinstance(answer, InstructionRefused), (doing, answer)
    if producer is not None and (answer.code in FENCED_CODES or answer.code == INVALID_TXN_STATE):
        return NewerOwner(than=producer)
    text = f"{doing}: {answer.message or f'error {answer.code}'}"
    if answer.code in AUTHORIZATION_CODES:
        return FencingDenied(code=answer.code, message=text)
    return FencingInterrupted(reason=text)
