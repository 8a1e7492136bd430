"""The fence: a new epoch, and an empty transaction whose marker is read back from the target.

Everything before the marker is final and replicated; nothing that an older owner sends can follow
it (it gets 47, inside a transaction or not). InitProducerId alone is no fence: an older epoch is
refused only after the new one's first write.
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.copy import instructions
from mm2.formats import record_batch, record_sets

COORDINATOR_BUSY = frozenset({14, 15, 16, 51})
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR,
CONCURRENT_TRANSACTIONS"""
FENCED = frozenset({47, 49, 90})
"""INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED"""
INVALID_TXN_STATE = 48
NO_RIGHT = 53
"""TRANSACTIONAL_ID_AUTHORIZATION_FAILED"""
NOT_ALLOWED = frozenset({29, 31, NO_RIGHT})
"""Authorization failures of topic, cluster and transactional id."""

BUSY_TRIES = 200
BUSY_WAIT_S = 0.01
BUSY_WAIT_MAX_S = 0.25
MARKER_READS = 100
"""Reads of up to 100 ms each (the fetch's wait) before the fence is given up."""
RETRY_REFUSED_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """The partition is fenced: our marker of `producer` stands at `marker_offset`.

    Where fences are not to be had (`holds` False), no marker was written: `marker_offset` is then
    that of the last record that stood there, and older owners may still write behind it.
    `last_stable` as it was told with the marker.
    """

    producer: instructions.ProducerIdentity
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

    than: instructions.ProducerIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The target does not allow it, by Kafka's error `code`; somebody must change that."""

    code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """A leader moved or an answer was lost; begin again."""

    reason: str


Failure = NewerOwner | Refusal | Disturbed


def fence(*, wanted: bool = True) -> instructions.Script[Fence | Failure]:
    """May-take, log end, new epoch, empty transaction, marker read back.

    Without the right to the transactional id, or where no fence is `wanted`, a new producer id is
    all: copying is then at least once.
    """
    allowed = yield instructions.AskMayTake()
    if not isinstance(allowed, instructions.Done):
        return failure("asking the worker", allowed)
    end = yield instructions.NoteTargetEnd()
    if not isinstance(end, instructions.TargetEnd):
        return failure("reading the mirror's end", end)
    if not wanted:
        return (yield from _unfenced(end))
    producer = yield from _patiently(instructions.InitProducer())
    if isinstance(producer, instructions.Refused) and producer.code == NO_RIGHT:
        return (yield from _unfenced(end))
    if not isinstance(producer, instructions.ProducerIdentity):
        return failure("InitProducerId", producer)
    ended = yield from empty_transaction(producer)
    if ended is not None:
        return ended
    marker = yield from read_marker(producer, start=end.offset)
    if not isinstance(marker, Marker):
        return marker
    if marker.leader_epoch != end.leader_epoch:
        return Disturbed(
            reason=f"the mirror moved: leader epoch {end.leader_epoch}, {marker.leader_epoch}"
        )
    return Fence(
        producer=producer,
        marker_offset=marker.offset,
        leader_epoch=marker.leader_epoch,
        last_stable=marker.last_stable,
    )


def _unfenced(end: instructions.TargetEnd) -> instructions.Script[Fence | Failure]:
    producer = yield from _patiently(instructions.GetProducerId())
    if not isinstance(producer, instructions.ProducerIdentity):
        return failure("InitProducerId without a transactional id", producer)
    return Fence(
        producer=producer,
        marker_offset=end.offset - 1,
        leader_epoch=end.leader_epoch,
        holds=False,
    )


def empty_transaction(
    producer: instructions.ProducerIdentity,
) -> instructions.Script[Failure | None]:
    """AddPartitionsToTxn and EndTxn(commit) with nothing between: one control record, no data."""
    added = yield from add_to_transaction(producer)
    if added is not None:
        return added
    return (yield from commit(producer))


def add_to_transaction(
    producer: instructions.ProducerIdentity,
) -> instructions.Script[Failure | None]:
    added = yield from _patiently(instructions.AddToTransaction(producer=producer))
    if not isinstance(added, instructions.Done):
        return failure("AddPartitionsToTxn", added, producer=producer)
    return None


def commit(producer: instructions.ProducerIdentity) -> instructions.Script[Failure | None]:
    ended = yield from _patiently(instructions.CommitTransaction(producer=producer))
    if not isinstance(ended, instructions.Done):
        return failure("EndTxn", ended, producer=producer)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """`last_stable` as it was told with it."""

    offset: int
    leader_epoch: int
    last_stable: int | None = None


def read_marker(
    producer: instructions.ProducerIdentity, *, start: int
) -> instructions.Script[Marker | Failure]:
    """Read the target from `start` until our own control batch of this epoch can be read.

    A fetch gives only what is replicated, so the marker and all before it are. EndTxn answers
    before the marker is written.
    """
    at = start
    for _ in range(MARKER_READS):
        answer = yield instructions.ReadTarget(offset=at)
        if not isinstance(answer, instructions.Records):
            return failure("reading our marker", answer)
        for header, _batch in record_sets.batches(answer.records):
            at = max(at, header.last_offset + 1)
            if is_newer(header, producer):
                return NewerOwner(than=producer)
            ours = (header.producer_id, header.producer_epoch) == (producer.id, producer.epoch)
            if header.is_control and ours and header.base_offset >= start:
                return Marker(
                    offset=header.base_offset,
                    leader_epoch=header.leader_epoch,
                    last_stable=answer.last_stable,
                )
    return Disturbed(
        reason="our marker did not become readable in time (does the mirror have as many replicas "
        "in sync as its min.insync.replicas asks for?)"
    )


def is_newer(header: record_batch.BatchHeader, producer: instructions.ProducerIdentity) -> bool:
    """Was the batch written under a newer epoch than ours, so that we are fenced?

    Found below our marker it also tells that an unclean election took the marker away.
    """
    return header.producer_id == producer.id and header.producer_epoch > producer.epoch


def _patiently(
    instruction: instructions.InitProducer
    | instructions.GetProducerId
    | instructions.AddToTransaction
    | instructions.CommitTransaction,
) -> instructions.Script[instructions.Answer]:
    """Ask a coordinator again while it is busy or moving, up to a bound."""
    wait_s = BUSY_WAIT_S
    for _ in range(BUSY_TRIES):
        answer = yield instruction
        if not (isinstance(answer, instructions.Refused) and answer.code in COORDINATOR_BUSY):
            return answer
        yield instructions.Sleep(delay_s=wait_s)
        wait_s = min(wait_s * 1.5, BUSY_WAIT_MAX_S)
    return instructions.Unanswered(reason="the transaction coordinator stayed busy")


def failure(
    doing: str,
    answer: instructions.Answer,
    *,
    producer: instructions.ProducerIdentity | None = None,
) -> Failure:
    """What an answer that is not the wished one means for a fence; `producer` is who asked."""
    if isinstance(answer, instructions.Unanswered):
        return Disturbed(reason=f"{doing}: {answer.reason}")
    assert isinstance(answer, instructions.Refused), (doing, answer)
    if producer is not None and (answer.code in FENCED or answer.code == INVALID_TXN_STATE):
        return NewerOwner(than=producer)
    text = f"{doing}: {answer.message or f'error {answer.code}'}"
    if answer.code in NOT_ALLOWED:
        return Refusal(code=answer.code, message=text)
    return Disturbed(reason=text)
