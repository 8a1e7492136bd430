"""One partition's copy in a small world: a source, a mirror and an offset map that answer it."""

from __future__ import annotations

import random
import struct
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.formats import record_batch, record_codec
from mm2.formats.record_codec import BatchRecord, RecordFields
from mm2.offsets.offset_map import OffsetMap, PartitionMap
from mm2.replication import outbound_batches, recovery_instructions
from mm2.replication.batch_size_limits import BatchMergeLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import RecordTransform
from mm2.replication.partition_replicator import PartitionReplicator
from mm2.replication.partition_state import PartitionPhase, PartitionState
from mm2.replication.read_committed_batch_filter import SourceBatch
from mm2.replication.recovery_instructions import (
    AppendToFlowState,
    CommitTransaction,
    Delay,
    EpochEnd,
    FindEpochEnd,
    FindSourceOffset,
    FindTargetEnd,
    InitIdempotentProducer,
    InitProducer,
    Instruction,
    ProducerIdentity,
    ReadRecoveredState,
    ReadSource,
    ReadTarget,
    SourceLogOffset,
    TargetEnd,
)
from tests.fakes import batches, scripts, taking
from tests.fakes.batches import Stamp
from tests.fakes.scripts import Log

FRESH = scripts.NOW_MS
OLD = scripts.NOW_MS - 86_400_000
"""A timestamp that brokers are about to forget a producer by."""


class World:
    """Answers every question at once, but those whose kind is `withheld`, and with `answers` first.

    `asked` holds all that the copy asked, `anchors` what it gave out to be stored and nobody has
    stored yet, `in_flight` the batches sent and not acknowledged.
    """

    def __init__(
        self, *source: bytes, transform: RecordTransform | None = None, **changed: Any
    ) -> None:
        self.now_s = 1000.0
        self.source = Log(*source)
        self.mirror: list[bytes] = []
        self.leader_epoch = 2
        self.map = OffsetMap()
        self.answers: dict[type, list[Any]] = {}
        self.withheld: set[type] = set()
        self.open: Any = None
        self.asked: list[Any] = []
        self.anchors: list[AppendToFlowState] = []
        self.in_flight: list[bytes] = []
        self.budget = MemoryBudget(1 << 20)
        self.joining = BatchMergeLimits(records=0)
        self._producer = ProducerIdentity(id=7, epoch=-1)
        self._plain_ids = 0
        self.copy = PartitionReplicator(
            taking.where(**changed),
            owner=taking.ME,
            memory_budget=self.budget,
            merge_limits=self.joining,
            random=random.Random(1),
            wall_ms=lambda: scripts.NOW_MS,
            transform=transform,
        )

    # What happens

    def tick(self, after_s: float = 0.0) -> World:
        self.now_s += after_s
        return self.do(self.copy.tick(self.now_s))

    def offer(self, *held: bytes) -> World:
        """A fetch brings these batches, and the source ends behind them."""
        header = record_batch.read_batch_header(memoryview(held[-1]))
        return self.do(
            self.copy.on_records_fetched(
                scripts.records(*held, end=header.last_offset + 1), self.now_s
            )
        )

    def send(self) -> int:
        """Everything that may be sent; how many batches that was."""
        before = len(self.in_flight)
        while self.copy.prepare_next_batch(self.now_s):
            self.in_flight.append(bytes(self.copy.pop_next_batch(self.now_s)))
        return len(self.in_flight) - before

    def acknowledge(self, *, skip: int = 0, append_time: int = -1) -> World:
        """The oldest batch is stored, `skip` offsets further than it would have been."""
        base = self.end + skip
        self.append(self.in_flight.pop(0), base)
        return self.do(self.copy.on_produce_acknowledged(base, append_time, self.now_s))

    def copied(self, *held: bytes) -> World:
        """These are offered, sent and acknowledged."""
        self.offer(*held)
        while self.send():
            while self.in_flight:
                self.acknowledge()
        return self

    def do(self, found: list[Instruction]) -> World:
        for each in found:
            self.asked.append(each)
            if not self.copy.script_runner.is_instruction_outstanding(each):
                if isinstance(each, AppendToFlowState):
                    self.anchors.append(each)
            elif type(each) in self.withheld:
                self.open = each
            else:
                self.do(self.copy.script_runner.on_response(self._answer(each), self.now_s))
        self.copy.check_invariants()
        return self

    # How the world stands

    @property
    def standing(self) -> PartitionState:
        return self.copy.state

    @property
    def end(self) -> int:
        if not self.mirror:
            return 0
        return record_batch.read_batch_header(memoryview(self.mirror[-1])).last_offset + 1

    @property
    def segment(self) -> Any:
        """The newest anchor stored by a script."""
        anchor = self._partition.resume_point
        assert anchor is not None
        return anchor.segment

    def append(self, batch: bytes, base: int) -> None:
        stored = bytearray(batch)
        struct.pack_into(">q", stored, 0, base)
        struct.pack_into(">i", stored, 12, self.leader_epoch)
        self.mirror.append(bytes(stored))

    def forget(self) -> None:
        """What was asked and given out so far is of no interest."""
        self.asked.clear()
        self.anchors.clear()

    @property
    def kinds(self) -> list[type]:
        return [type(each) for each in self.asked]

    @property
    def _partition(self) -> PartitionMap:
        where = self.copy.setup
        return self.map.get_partition(TopicPartition(where.topic, where.partition))

    def _answer(self, question: Any) -> Any:
        if self.answers.get(type(question)):
            return self.answers[type(question)].pop(0)
        match question:
            case ReadTarget():
                return Log(*self.mirror)(question)
            case ReadSource():
                return self.source(question)
            case ReadRecoveredState():
                return recovery_instructions.extract_recovered_state(
                    self._partition, target=question.target_offset
                )
            case FindTargetEnd():
                return TargetEnd(offset=self.end, leader_epoch=self.leader_epoch)
            case FindEpochEnd():
                return EpochEnd(offset=self.end)
            case FindSourceOffset():
                return SourceLogOffset(offset=self.source.start)
            case InitIdempotentProducer():
                self._plain_ids += 1
                return ProducerIdentity(id=100 + self._plain_ids, epoch=0)
            case InitProducer():
                self._producer = ProducerIdentity(id=7, epoch=self._producer.epoch + 1)
                return self._producer
        self._carry_out(question)
        return scripts.DONE

    def _carry_out(self, question: Any) -> None:
        match question:
            case CommitTransaction():
                self.append(scripts.marker(0, (7, self._producer.epoch)), self.end)
            case Delay():
                self.now_s += question.delay_s
            case AppendToFlowState():
                for each in question.items:
                    if not each.incident:
                        self.map.apply_record(each.key, each.value)


def begun(*source: bytes, **changed: Any) -> World:
    """Taken and ready to copy; `changed` goes into the setup."""
    world = World(*source, **changed).tick()
    assert world.standing.phase is PartitionPhase.COPYING, world.standing.reason
    world.forget()
    return world


def batch(offset: int, *values: bytes, timestamp: int = FRESH, **more: Any) -> bytes:
    return scripts.data(offset, *values or (b"v",), timestamp=timestamp, **more)


def damaged(offset: int) -> bytes:
    """A batch whose checksum does not match."""
    whole = bytearray(batch(offset))
    whole[-1] ^= 1
    return bytes(whole)


def unreadable(offset: int, *, codec: int = 1, last_delta: int = 3) -> bytes:
    """A batch whose checksum is right and whose records are not, and that must be opened."""
    stamp = Stamp(base_offset=offset, attributes=codec)
    return batches.assemble(b"garbage", stamp, count=2, last=last_delta, timestamps=(FRESH, FRESH))


def outgoing_of(*sources: int, source_epoch: int = 0, ends: int | None = None) -> Any:
    """A batch for the target of one record from each of these source offsets."""
    found = [BatchRecord(at, FRESH, record_codec.encode_record_body(VALUE)) for at in sources]
    end = sources[-1] + 1 if ends is None else ends
    header = record_batch.read_batch_header(
        memoryview(scripts.data(sources[0], b"v", last_delta=end - 1 - sources[0]))
    )._replace(leader_epoch=source_epoch)
    entry = SourceBatch(header, memoryview(b""), sources[0], "a test made it")
    (made,) = outbound_batches.encode_batches(
        [entry], found, codec=0, batch_bytes=1 << 20, records_max=1 << 20, reason="a test made it"
    )
    return made


VALUE = RecordFields(None, b"v")
