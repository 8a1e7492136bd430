"""Tracks unacknowledged batches and chooses the number of connections to a target broker.

`InFlightBatches` owns the partition's producer, its sequence and the expected target offset of the
next batch. A broker processes one request per connection at a time. While responses are fast, one
connection is best, because its requests carry batches of many partitions. If responses wait for
followers, `ProduceConcurrency` allows more connections.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import NamedTuple

from mm2.formats import record_batch
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import OutboundBatch
from mm2.replication.recovery_instructions import ProducerIdentity

IN_FLIGHT_MAX = 5
"""Number of batches that a broker remembers per producer
(`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`)."""

_PRODUCED_ATTRIBUTES = ~(record_batch.TRANSACTIONAL | record_batch.DELETE_HORIZON)


class SentBatch(NamedTuple):
    """A batch in flight, with its expected target offset, CRC and size in bytes."""

    batch: OutboundBatch
    target: int
    crc: int
    size: int


class InFlightBatches:
    """A partition's unacknowledged batches in the order in which they were sent.

    Invariants: each batch directly follows the previous one in source offsets, expected target
    offsets and sequence numbers; their bytes are reserved in the task's memory budget.
    """

    def __init__(self, memory_budget: MemoryBudget) -> None:
        self._held = memory_budget
        self._in_flight: deque[SentBatch] = deque()
        self.producer = ProducerIdentity(id=-1, epoch=-1)
        self.next_target = -1
        self._sequence = 0

    def begin_epoch(self, producer: ProducerIdentity, *, target: int) -> None:
        """Start a new producer epoch at sequence 0."""
        assert not self._in_flight
        self.producer = producer
        self.next_target = target
        self._sequence = 0

    @property
    def batch_count(self) -> int:
        return len(self._in_flight)

    @property
    def is_full(self) -> bool:
        """Return True if another batch may be sent only after a batch in flight is acknowledged."""
        return len(self._in_flight) >= IN_FLIGHT_MAX

    def set_producer_state_of_batch(self, out: OutboundBatch, *, transactional: bool) -> memoryview:
        """Stamp the batch with the producer id, epoch and sequence, count the batch as in flight,
        and return its bytes."""
        attributes = out.attributes & _PRODUCED_ATTRIBUTES
        if transactional:
            attributes |= record_batch.TRANSACTIONAL
        producer, batch = self.producer, out.batch
        crc = record_batch.stamp_producer_fields(
            batch,
            attributes=attributes,
            producer=(producer.id, producer.epoch, self._sequence),
        )
        self._in_flight.append(SentBatch(out, self.next_target, crc, len(batch)))
        self._sequence = record_batch.compute_next_sequence(self._sequence, out.records)
        self.next_target += out.records
        return batch

    def pop_oldest(self) -> SentBatch:
        """Remove and return the oldest batch after its response or failure, and release its
        memory."""
        sent = self._in_flight.popleft()
        self._held.release(sent.batch.held_bytes, decoded=sent.batch.is_decoded)
        return sent

    def check_stored_offset(
        self, sent: SentBatch, base_offset: int, *, is_only_writer: bool
    ) -> int | None:
        """Verify the base offset of an acknowledged batch. Return the batch's target offset, or
        None if `base_offset` is impossible.

        If other writers are allowed (`is_only_writer` is False), foreign records may precede the
        batch. The expected target offsets of all later batches in flight are then increased
        accordingly.
        """
        if base_offset == sent.target:
            return base_offset
        if is_only_writer or base_offset < sent.target:
            return None
        self.shift_target_offsets(base_offset - sent.target)
        return base_offset

    def shift_target_offsets(self, ahead: int) -> None:
        """Increase the expected target offsets of all batches in flight by `ahead`, the number of
        foreign records stored before them."""
        self.next_target += ahead
        self._in_flight = deque(
            each._replace(target=each.target + ahead) for each in self._in_flight
        )

    def check_invariants(self) -> None:
        assert len(self._in_flight) <= IN_FLIGHT_MAX
        sent = list(self._in_flight)
        for one, two in itertools.pairwise(sent):
            assert two.target == one.target + one.batch.records, sent
            assert two.batch.source >= one.batch.next_source, sent

    @property
    def oldest_timestamp(self) -> int | None:
        """Approximate timestamp (ms) of the first record in flight."""
        return self._in_flight[0].batch.oldest_timestamp if self._in_flight else None

    @property
    def oldest_source_offset(self) -> int | None:
        """Source offset of the oldest batch in flight."""
        return self._in_flight[0].batch.source if self._in_flight else None
