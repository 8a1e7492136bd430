"""Machines that open, join or map batches wrongly."""

from __future__ import annotations

from typing import Any

from mm2.replication.offset_map_writer import MapWriter
from mm2.replication.outbound_batches import OutboundBatch
from mm2.replication.partition_replicator import Instructions, PartitionReplicator
from mm2.replication.partition_transactions import TransactionModeTracker, TransactionStep
from mm2.replication.read_committed_batch_filter import SourceBatch, SourceScan
from mm2.replication.recovery_outcomes import PartitionAcquired
from mm2.replication.send_queue import DroppedBatchPosition, PartitionSendQueue


class _StartOverlooked(PartitionSendQueue):
    def push_batches(self, scan: SourceScan, *, old_before_ms: int) -> None:
        scan.batches = [
            each._replace(first=each.header.base_offset) if each.reencode_reason else each
            for each in scan.batches
        ]
        super().push_batches(scan, old_before_ms=old_before_ms)


class _GapsUnmapped(PartitionSendQueue):
    def pop_staged_batch(self) -> OutboundBatch:
        return super().pop_staged_batch()._replace(offset_spans=())


class _OneTooMany(PartitionSendQueue):
    def _find_mergeable_batches(self, head: SourceBatch) -> list[SourceBatch]:
        found = super()._find_mergeable_batches(head)
        if found:
            del self._queue[1]
        return found[1:]


class _BackToTheBatch(PartitionSendQueue):
    def drop_all_batches(self) -> DroppedBatchPosition | None:
        opened, staged = self._decoder, bool(self._staged)
        base = self._queue[0].header.base_offset if self._queue else -1
        found = super().drop_all_batches()
        if found is None or opened is None or staged:
            return found
        return found._replace(source=base)


class _AgeOfTheQueue(PartitionSendQueue):
    @property
    def staged_batch_needs_transaction(self) -> bool | None:
        if self._staged or not self._queue:
            return super().staged_batch_needs_transaction
        return self._queue[0].header.max_timestamp < self._old_before_ms


class _Bent(PartitionReplicator):
    outbox_class: type[PartitionSendQueue]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.send_queue.__class__ = self.outbox_class

    def check_invariants(self) -> None:
        """Would notice, but the judge shall."""


class StartOverlooked(_Bent):
    """What stands before the start in the batch that the copy begins in is copied too; the map does
    not take it."""

    outbox_class = _StartOverlooked


class GapsUnmapped(_Bent):
    """Records of a batch that had gaps are taken to follow each other on the source."""

    outbox_class = _GapsUnmapped


class BackToTheBatch(_Bent):
    """What is dropped amid the parts of a batch is read again from the batch's start."""

    outbox_class = _BackToTheBatch


class _OpenForNothing(TransactionModeTracker):
    __slots__ = ()

    def switch_to_next_transaction_step(
        self, *, next_is_old: bool | None, paused: bool, now_s: float
    ) -> TransactionStep | None:
        if self.is_open and next_is_old is None and not self.open_bytes and not paused:
            return None
        return super().switch_to_next_transaction_step(
            next_is_old=next_is_old, paused=paused, now_s=now_s
        )


class AgeOfTheQueue(_Bent):
    """A transaction is opened for a batch of which nothing may be left, or that has to wait, and
    stays open as long as nothing is sent in it."""

    outbox_class = _AgeOfTheQueue

    def _begin_copying(
        self, taken: PartitionAcquired, written: MapWriter, now_s: float
    ) -> Instructions:
        found = super()._begin_copying(taken, written, now_s)
        self.transaction_mode.__class__ = _OpenForNothing
        return found


class OneTooMany(_Bent):
    """Of small batches that are joined one is forgotten."""

    outbox_class = _OneTooMany
