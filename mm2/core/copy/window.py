"""Batches on their way to the target: a queue of what was fetched and a window of what was sent.

Owns the partition's producer, its sequence and the target offset that the next batch must get.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import NamedTuple

from mm2.core.copy import budget, instructions, source_batches
from mm2.formats import record_batch

IN_FLIGHT_MAX = 5
"""What a broker remembers of a producer (`ProducerStateEntry.NUM_BATCHES_TO_RETAIN`)."""

_CLEARED = ~(record_batch.TRANSACTIONAL | record_batch.DELETE_HORIZON)


class Sent(NamedTuple):
    """A batch in flight: source [`source`, `next_source`) is to stand at `target`."""

    source: int
    next_source: int
    target: int
    records: int
    crc: int
    size: int
    base_timestamp: int
    max_timestamp: int
    source_epoch: int


class _Queued(NamedTuple):
    header: record_batch.BatchHeader
    batch: memoryview
    old: bool


class Window:
    """Invariants: batches in flight follow each other in source, target and sequence; `held` counts
    the bytes of all that is queued or in flight.
    """

    def __init__(self, held: budget.Budget) -> None:
        self._held = held
        self._queue: deque[_Queued] = deque()
        self._in_flight: deque[Sent] = deque()
        self.producer = instructions.ProducerIdentity(id=-1, epoch=-1)
        self.next_target = -1
        self._sequence = 0
        self.queued_bytes = 0

    def begin(self, producer: instructions.ProducerIdentity, *, target: int) -> None:
        """A new epoch starts with sequence 0."""
        assert not self._queue
        assert not self._in_flight
        self.producer = producer
        self.next_target = target
        self._sequence = 0

    @property
    def queued(self) -> int:
        return len(self._queue)

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def full(self) -> bool:
        return len(self._in_flight) >= IN_FLIGHT_MAX

    @property
    def head_is_old(self) -> bool:
        return self._queue[0].old

    @property
    def next_is_old(self) -> bool | None:
        """`head_is_old`, None when nothing is queued."""
        return self._queue[0].old if self._queue else None

    @property
    def next_size(self) -> int:
        return self._queue[0].header.size

    def push(self, found: source_batches.Copyable, *, old: bool) -> None:
        self._queue.append(_Queued(found.header, found.batch, old))
        self.queued_bytes += found.header.size
        self._held.hold(found.header.size)

    def drop_queue(self) -> record_batch.BatchHeader | None:
        """Forget what was not sent; the header of the first of it, None for nothing."""
        first = self._queue[0].header if self._queue else None
        for queued in self._queue:
            self._held.release(queued.header.size)
        self._queue.clear()
        self.queued_bytes = 0
        return first

    def send(self, *, transactional: bool) -> memoryview:
        """The next batch, stamped as ours; it counts as in flight from here on."""
        header, batch, _ = self._queue.popleft()
        self.queued_bytes -= header.size
        attributes = header.attributes & _CLEARED
        if transactional:
            attributes |= record_batch.TRANSACTIONAL
        producer = self.producer
        crc = record_batch.stamp(
            batch,
            attributes=attributes,
            producer=(producer.id, producer.epoch, self._sequence),
        )
        records = header.record_count
        base = header.base_offset
        sent = Sent(
            base,
            base + records,
            self.next_target,
            records,
            crc,
            header.size,
            header.base_timestamp,
            header.max_timestamp,
            header.leader_epoch,
        )
        self._in_flight.append(sent)
        self._sequence = record_batch.next_sequence(self._sequence, records)
        self.next_target += records
        return batch

    def pop(self) -> Sent:
        """The oldest batch in flight: something was heard of it."""
        sent = self._in_flight.popleft()
        self._held.release(sent.size)
        return sent

    def landed(self, sent: Sent, base_offset: int, *, alone: bool) -> int | None:
        """Where a batch stands for good; None where it cannot be.

        `alone`: nobody else writes there. Others may have written before it, and so before all
        that is in flight.
        """
        if base_offset == sent.target:
            return base_offset
        if alone or base_offset < sent.target:
            return None
        self.shift(base_offset - sent.target)
        return base_offset

    def shift(self, ahead: int) -> None:
        """Somebody else wrote `ahead` offsets before what is in flight."""
        self.next_target += ahead
        self._in_flight = deque(
            each._replace(target=each.target + ahead) for each in self._in_flight
        )

    def check_invariants(self) -> None:
        assert len(self._in_flight) <= IN_FLIGHT_MAX
        batches = list(self._in_flight)
        for one, two in itertools.pairwise(batches):
            assert two.target == one.target + one.records, batches
            assert two.source >= one.next_source, batches

    @property
    def oldest_timestamp(self) -> int | None:
        """Timestamp (ms) of the first record that is queued or in flight."""
        if self._in_flight:
            return self._in_flight[0].base_timestamp
        return self._queue[0].header.base_timestamp if self._queue else None

    @property
    def oldest_source(self) -> int | None:
        """Source offset of the oldest batch in flight."""
        return self._in_flight[0].source if self._in_flight else None
