"""Tracks which source offsets may be committed, given the records acknowledged so far.

An offset covers everything before it in its source partition, so it may be committed only when all
of that is stored. Partitions are independent: a stuck one delays only itself (KAFKA-12226,
KAFKA-13469). Java: SubmittedRecords.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from connect_runtime.storage.offset_topic import SourceOffset, SourcePartition


@dataclass(slots=True, eq=False)
class SubmittedRecord:
    """Names one submitted record; hand it back to `ack` or `drop`. Its fields are not for you."""

    partition: Hashable
    offset: SourceOffset | None
    settled: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittableOffsets:
    """What may be committed, and what still cannot.

    `offsets`: the newest of each partition that has one, in the order partitions were first
    submitted; a None is an offset too. `stuck_partition` has the most records waiting,
    `stuck_records` of them; None may also be a partition's name.
    """

    offsets: tuple[tuple[SourcePartition | None, SourceOffset | None], ...] = ()
    committable_records: int = 0
    waiting_records: int = 0
    waiting_partitions: int = 0
    stuck_partition: SourcePartition | None = None
    stuck_records: int = 0

    @property
    def empty(self) -> bool:
        """Nothing to commit, nothing to wait for."""
        return not (self.offsets or self.committable_records or self.waiting_records)

    def then(self, newer: CommittableOffsets) -> CommittableOffsets:
        """Both, where this one was taken and not committed: the newer offsets win."""
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
    """Records sent but not yet known to be stored, by partition, in the order of submission.

    Invariants: no queue is empty; `unacked` tickets of all queues are not settled.
    """

    unacked: int = 0
    _queues: dict[Hashable, _PartitionQueue] = field(default_factory=dict)

    def submit(
        self,
        partition: SourcePartition | None,
        offset: SourceOffset | None,
    ) -> SubmittedRecord:
        """A record is about to be sent."""
        name = _build_partition_key(partition)
        queue = self._queues.get(name)
        if queue is None:
            queue = self._queues[name] = _PartitionQueue(partition)
        ticket = SubmittedRecord(name, offset)
        queue.tickets.append(ticket)
        self.unacked += 1
        return ticket

    def ack(self, ticket: SubmittedRecord) -> None:
        """The record is stored, or need not be. A second time, or after `drop`, says nothing."""
        if not ticket.settled:
            ticket.settled = True
            self.unacked -= 1

    def drop(self, ticket: SubmittedRecord) -> bool:
        """The record was not sent after all and does not count; False if it does not wait."""
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

    def take_committable(self) -> CommittableOffsets:
        """What became committable since the last call, which forgets it."""
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
    """The same for equal partitions, whatever the order of their fields; 1, 1.0 and True differ.

    What could never be stored as a partition still needs a name, until somebody tries to.
    """
    if partition is None:
        return None
    try:
        return frozenset((key, type(value), value) for key, value in partition.items())
    except TypeError:
        return repr(sorted(partition.items(), key=lambda item: str(item[0])))
