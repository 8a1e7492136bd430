"""Tracks which source offsets may be committed, based on the acknowledged records.

An offset covers all earlier records of its source partition, so it may be committed only when all
these records are acknowledged. Partitions are independent: a stuck partition delays no other
partition (KAFKA-12226, KAFKA-13469). Java: SubmittedRecords.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from connect_runtime.storage.offset_topic import SourceOffset, SourcePartition


@dataclass(slots=True, eq=False)
class SubmittedRecord:
    """Handle of a submitted record, to pass to `SubmittedRecords.ack` or `drop`. The fields are
    internal."""

    partition: Hashable
    offset: SourceOffset | None
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittableOffsets:
    """Source offsets that can be committed, and how many submitted records are still pending: not
    acknowledged, or behind a record that is not acknowledged."""

    offsets: tuple[tuple[SourcePartition | None, SourceOffset | None], ...] = ()
    """Newest offset of each source partition, in order of first submission. None is a valid
    offset."""
    committable_records: int = 0
    waiting_records: int = 0
    waiting_partitions: int = 0
    stuck_partition: SourcePartition | None = None
    """Source partition with the most pending records. None is a valid source partition."""
    stuck_records: int = 0
    """Number of pending records of `stuck_partition`."""

    @property
    def is_empty(self) -> bool:
        """True if there are no offsets to commit and no pending records."""
        return not (self.offsets or self.committable_records or self.waiting_records)

    def merge_newer_offsets(self, newer: CommittableOffsets) -> CommittableOffsets:
        """Merge these uncommitted offsets with newer offsets, which take precedence for the same
        source partition."""
        merged = {
            _build_partition_key(partition): (partition, offset)
            for partition, offset in self.offsets
        }
        for partition, offset in newer.offsets:
            merged[_build_partition_key(partition)] = (partition, offset)
        return CommittableOffsets(
            offsets=tuple(merged.values()),
            committable_records=self.committable_records + newer.committable_records,
            waiting_records=newer.waiting_records,
            waiting_partitions=newer.waiting_partitions,
            stuck_partition=newer.stuck_partition,
            stuck_records=newer.stuck_records,
        )


NOTHING_COMMITTABLE = CommittableOffsets()


@dataclass(slots=True)
class _PartitionQueue:
    partition: SourcePartition | None
    tickets: deque[SubmittedRecord] = field(default_factory=deque)


@dataclass(slots=True)
class SubmittedRecords:
    """Queues of submitted records, one per source partition, in order of submission.

    `take_committable_offsets` removes the records whose offsets can be committed. Invariants: no
    queue is empty; `unacked` is the number of queued records that are not acknowledged.
    """

    unacked: int = 0
    _queues: dict[Hashable, _PartitionQueue] = field(default_factory=dict)

    def submit(
        self,
        partition: SourcePartition | None,
        offset: SourceOffset | None,
    ) -> SubmittedRecord:
        """Track a record that is about to be sent. Return its handle."""
        name = _build_partition_key(partition)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _PartitionQueue(partition)
        ticket = SubmittedRecord(name, offset)
        queue.tickets.append(ticket)
        self.unacked += 1
        return ticket

    def ack(self, ticket: SubmittedRecord) -> None:
        """Mark a submitted record as acknowledged or filtered.

        Repeated calls, and calls after `drop`, do nothing.
        """
        if not ticket.settled:
            ticket.settled = True
            self.unacked -= 1

    def drop(self, ticket: SubmittedRecord) -> bool:
        """Remove a submitted record that was not sent. Return False if the record is no longer
        tracked."""
        queue = self._queues.get(ticket.partition)
        if queue is None:
            return False
        if queue.tickets[-1] is ticket:
            queue.tickets.pop()  # the usual case: the record just submitted
        elif ticket in queue.tickets:
            queue.tickets.remove(ticket)
        else:
            return False
        if not queue.tickets:
            del self._queues[ticket.partition]
        self.ack(ticket)
        return True

    def take_committable_offsets(self) -> CommittableOffsets:
        """Remove and return the offsets that became committable since the last call."""
        offsets, taken = [], 0
        for name, queue in list(self._queues.items()):
            before = len(queue.tickets)
            newest: SubmittedRecord | None = None
            while queue.tickets and queue.tickets[0].settled:
                newest = queue.tickets.popleft()
            taken += before - len(queue.tickets)
            if newest is not None:
                offsets.append((queue.partition, newest.offset))
            if not queue.tickets:
                del self._queues[name]
        stuck = max(self._queues.values(), key=lambda each: len(each.tickets), default=None)
        return CommittableOffsets(
            offsets=tuple(offsets),
            committable_records=taken,
            waiting_records=sum(len(each.tickets) for each in self._queues.values()),
            waiting_partitions=len(self._queues),
            stuck_partition=None if stuck is None else stuck.partition,
            stuck_records=0 if stuck is None else len(stuck.tickets),
        )

    def check_invariants(self) -> None:
        assert all(each.tickets for each in self._queues.values())
        waiting = [not each.settled for queue in self._queues.values() for each in queue.tickets]
        assert sum(waiting) == self.unacked, (waiting, self.unacked)


def _build_partition_key(partition: Mapping[str, object] | None) -> Hashable:
    """Build a hashable key for a source partition. The order of fields does not matter; 1, 1.0 and
    True are different values.

    Invalid partitions have a key too: the error is raised when their offsets are stored.
    """
    if partition is None:
        return None
    try:
        return frozenset((key, type(value), value) for key, value in partition.items())
    except TypeError:
        return repr(sorted(partition.items(), key=lambda item: str(item[0])))
