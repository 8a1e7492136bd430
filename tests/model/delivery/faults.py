"""Machines with one rule broken, to see that the judge notices.

Most bend what the real machine's scripts are told: they answer a question themselves, or change an
answer on its way. Nothing of this is reachable from the product.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import crc32c

from mm2.formats import offset_map_records, record_batch, record_set_splitter
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey
from mm2.formats.record_batch import BatchHeader
from mm2.replication.offset_map_writer import MapWriter
from mm2.replication.partition_recovery import OnScriptEnd, PartitionRecovery, RecoveryScriptRunner
from mm2.replication.partition_replicator import Instructions, PartitionReplicator
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.partition_state import PartitionPhase
from mm2.replication.recovery_instructions import (
    AddToTransaction,
    AppendToFlowState,
    CommitTransaction,
    EpochEnd,
    FetchedRecords,
    FindEpochEnd,
    FindTargetEnd,
    FlowStateRecord,
    InitProducer,
    Instruction,
    InstructionAnswer,
    InstructionDone,
    ProducerIdentity,
    ReadRecoveredState,
    ReadSource,
    ReadTarget,
    RecoveredState,
    Script,
    TargetEnd,
)
from mm2.replication.recovery_outcomes import PartitionAcquired
from tests.fakes import batches
from tests.fakes.batches import Stamp

Bent = Script[InstructionAnswer]
_MADE_UP_IDS = itertools.count(1 << 40)


class _BentRunner(RecoveryScriptRunner):
    """Gives a script to run through `bend`."""

    bend: Callable[[Script[object]], Script[object]]

    def start_script(
        self, script: Script[object], on_end: OnScriptEnd, *, now_s: float
    ) -> list[Instruction]:
        return super().start_script(self.bend(script), on_end, now_s=now_s)


class BentCopy(PartitionReplicator):
    """Every question of a script goes through `bend`, which may ask it or answer it."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        runner = self.script_runner = self._recovery._runner = _BentRunner(self.setup)
        runner.bend = self._begun

    def _begun(self, script: Script[object]) -> Script[object]:
        self.in_tail = False
        return self._through(script)

    def _through(self, script: Script[object]) -> Script[object]:
        try:
            question = next(script)
            while True:
                answer = yield from self._told(question)
                question = script.send(answer)
        except StopIteration as end:
            return end.value

    def _told(self, question: Instruction) -> Bent:
        answer = yield from self.bend(question)
        if isinstance(question, ReadRecoveredState) and isinstance(answer, RecoveredState):
            self.in_tail = True  # what is read of the target from here on is the tail
            self.facts = answer
        return answer

    def bend(self, question: Instruction) -> Bent:
        return (yield question)


class _WithoutMarker(BentCopy):
    """Believes that its marker stands right behind the log's end, and goes on there."""

    identity = ProducerIdentity(id=-1, epoch=-1)
    marker: InstructionAnswer | None = None

    def initialise(self, question: Instruction) -> Bent:
        return (yield question)

    def skips(self) -> bool:
        return self.state.phase is PartitionPhase.ACQUIRING

    def bend(self, question: Instruction) -> Bent:
        if isinstance(question, InitProducer):
            answer = yield from self.initialise(question)
            if isinstance(answer, ProducerIdentity):
                self.identity, self.marker = answer, None
            return answer
        if not self.skips():
            return (yield question)
        match question:
            case AddToTransaction() | CommitTransaction():
                return InstructionDone()
            case ReadTarget() if self.marker is None:
                return self._make_marker((yield FindTargetEnd()))
            case AppendToFlowState():
                return (yield AppendToFlowState(items=tuple(map(_nearer, question.items))))
            case ReadTarget():
                answer = yield question
                nothing = isinstance(answer, FetchedRecords) and not answer.records
                return self.marker if nothing and self.marker else answer
        return (yield question)

    def _make_marker(self, answer: InstructionAnswer) -> InstructionAnswer:
        if not isinstance(answer, TargetEnd):
            return answer
        stamp = Stamp(
            base_offset=answer.offset,
            leader_epoch=answer.leader_epoch,
            producer_id=self.identity.id,
            producer_epoch=self.identity.epoch,
        )
        made_up = memoryview(batches.marker(stamp, commit=True, timestamp=0))
        self.marker = FetchedRecords(records=made_up, log_start=0, end=answer.offset)
        return self.marker

    def _begin_copying(
        self, taken: PartitionAcquired, written: MapWriter, now_s: float
    ) -> Instructions:
        if self.skips():
            taken = dataclasses.replace(taken, target=taken.target - 1)
            written.target_next = taken.target
        return super()._begin_copying(taken, written, now_s)


def _nearer(item: FlowStateRecord) -> FlowStateRecord:
    """An anchor that does not count the marker which is not there."""
    key = offset_map_records.decode_map_key(item.key) if not item.incident else None
    if not isinstance(key, MapSegmentKey) or item.value is None:
        return item
    segment = offset_map_records.decode_map_value(key, item.value)
    assert isinstance(segment, MapSegment)
    nearer = dataclasses.replace(segment, target_next=segment.target_next - 1)
    return dataclasses.replace(item, value=offset_map_records.encode_map_value(nearer))


class NoFence(_WithoutMarker):
    """Every owner writes under a producer id of its own, made up on the spot."""

    def initialise(self, question: Instruction) -> Bent:
        del question
        yield from ()
        return ProducerIdentity(id=next(_MADE_UP_IDS), epoch=0)


class InitProducerOnly(_WithoutMarker):
    """A new epoch, but no marker."""


class NewPartitionUnmarked(_WithoutMarker):
    """No marker where the mirror is empty."""

    empty = False

    def skips(self) -> bool:
        return self.empty and super().skips()

    def bend(self, question: Instruction) -> Bent:
        answer = yield from super().bend(question)
        if isinstance(question, FindTargetEnd):
            self.empty = isinstance(answer, TargetEnd) and answer.offset == 0
        return answer


class _OtherTail(BentCopy):
    """Sees another tail of the target than the one that is there."""

    def bend(self, question: Instruction) -> Bent:
        answer = yield question
        if not isinstance(question, ReadTarget) or not self.in_tail:
            return answer
        if not isinstance(answer, FetchedRecords):
            return answer
        return dataclasses.replace(answer, records=memoryview(self.seen(answer)))

    def seen(self, answer: FetchedRecords) -> bytes:
        start = self.facts.resume_point.segment.target_next if self.facts.resume_point else 0
        kept = [
            bytes(batch)
            for header, batch in record_set_splitter.iter_batches(answer.records)
            if header.is_control or header.base_offset < start or self.keep(header, batch)
        ]
        return b"".join(kept)

    def keep(self, header: BatchHeader, batch: memoryview) -> bool:
        raise NotImplementedError


class TailIgnored(_OtherTail):
    """Whatever older owners wrote behind the anchor does not count."""

    def keep(self, header: BatchHeader, batch: memoryview) -> bool:
        return False


class TailShifted(_OtherTail):
    """The first batch behind the anchor is taken to belong to what is before it."""

    def keep(self, header: BatchHeader, batch: memoryview) -> bool:
        assert self.facts.resume_point is not None
        return header.base_offset > self.facts.resume_point.segment.target_next


class AbortedTailCounted(_OtherTail):
    """A transactional batch counts whatever its marker says."""

    def keep(self, header: BatchHeader, batch: memoryview) -> bool:
        return True

    def seen(self, answer: FetchedRecords) -> bytes:
        return b"".join(
            plain(batch) for _, batch in record_set_splitter.iter_batches(answer.records)
        )


def plain(batch: memoryview) -> bytes:
    """The batch, without its transactional bit if it holds data."""
    copied = bytearray(batch)
    if not copied[22] & batches.CONTROL:
        copied[22] &= ~batches.TRANSACTIONAL
        record_batch.write_batch_crc(copied, crc32c.crc32c(copied[record_batch.CRC_START :]))
    return bytes(copied)


class SequencesCounted(AbortedTailCounted):
    """So many records of ours stand in the tail: as many source offsets are done."""

    def _begun(self, script: Script[object]) -> Script[object]:
        self.tail: list[memoryview] = []
        return super()._begun(script)

    def seen(self, answer: FetchedRecords) -> bytes:
        records = super().seen(answer)
        self.tail += [
            batch
            for header, batch in record_set_splitter.iter_batches(memoryview(records))
            if not header.is_control and not any(batch == each for each in self.tail)
        ]
        return records

    def bend(self, question: Instruction) -> Bent:
        answer = yield from super().bend(question)
        if not isinstance(question, ReadSource) or not self.tail:
            return answer
        if not isinstance(answer, FetchedRecords):
            return answer
        as_counted = b"".join(self._numbered(question.offset))
        return dataclasses.replace(answer, records=memoryview(as_counted), aborted=())

    def _numbered(self, offset: int) -> Iterator[bytes]:
        for batch in self.tail:
            header = record_batch.read_batch_header(batch)
            yield offset.to_bytes(8, "big") + bytes(batch[8:])
            offset += header.record_count


class LogEndCompared(BentCopy):
    """Takes the target's end for the end of the anchor's leader epoch."""

    def bend(self, question: Instruction) -> Bent:
        if not isinstance(question, FindEpochEnd):
            return (yield question)
        answer = yield FindTargetEnd()
        if isinstance(answer, TargetEnd):
            return EpochEnd(offset=answer.offset)
        return answer


class AnchorBeforeAcknowledgement(PartitionReplicator):
    """Says that a batch is copied as soon as it is sent."""

    def pop_next_batch(self, now_s: float) -> memoryview:
        payload = super().pop_next_batch(now_s)
        self._claim(now_s)
        return payload

    def on_produce_acknowledged(
        self, base_offset: int, append_time_ms: int, now_s: float
    ) -> Instructions:
        given = super().on_produce_acknowledged(base_offset, append_time_ms, now_s)
        self._claim(now_s)
        return given

    def _claim(self, now_s: float) -> None:
        assert self.map is not None
        for sent in self.in_flight._in_flight:
            self.map.add_acknowledged_batch(
                sent.batch, target=sent.target, crc=sent.crc, now_s=now_s
            )

    def check_invariants(self) -> None:
        """Would notice, but the judge shall."""


class AnchorsOutOfPlace(PartitionReplicator):
    """All anchors but the first are recorded as an older owner's, and count for nothing."""

    def _begin_copying(
        self, taken: PartitionAcquired, written: MapWriter, now_s: float
    ) -> Instructions:
        written.ordinal = written.epoch = 0
        return super()._begin_copying(taken, written, now_s)


class UnknownTakenForDone(PartitionReplicator):
    """No answer is taken for a good one."""

    def on_produce_response_lost(self, reason: str, now_s: float) -> Instructions:
        del reason
        return self.on_produce_acknowledged(self.in_flight._in_flight[0].target, -1, now_s)


class BaseOffsetUnchecked(PartitionReplicator):
    """Wherever a batch landed, it is taken to stand where it should."""

    def on_produce_acknowledged(
        self, base_offset: int, append_time_ms: int, now_s: float
    ) -> Instructions:
        del base_offset
        return super().on_produce_acknowledged(
            self.in_flight._in_flight[0].target, append_time_ms, now_s
        )


class QueueTakenForSkipped(PartitionReplicator):
    """What was fetched and dropped unsent counts as dealt with."""

    def _drop_send_queue(self) -> None:
        self.send_queue.drop_all_batches()


class _AsksNobody(PartitionRecovery):
    def check_fence(self, fenced_producer: ProducerIdentity, now_s: float) -> Instructions:
        del fenced_producer
        return self.start_acquisition(now_s)


class TakesAgainAtOnce(PartitionReplicator):
    """Fenced, it never asks by whom."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._recovery.__class__ = _AsksNobody


def old_records_outside_transactions(where: PartitionSetup, **rest: Any) -> PartitionReplicator:
    """A machine that never finds a record old."""
    return PartitionReplicator(dataclasses.replace(where, old_after_ms=1 << 60), **rest)


def fence_never_renewed(where: PartitionSetup, **rest: Any) -> PartitionReplicator:
    """An idle owner lets its fence, and its transactional id, expire."""
    return PartitionReplicator(dataclasses.replace(where, renew_after_s=1e12), **rest)
