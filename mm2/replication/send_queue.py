"""Queues the fetched, unsent batches of a partition and chooses the batch to send next.

Batches are decoded and merged only when they are about to be sent. Only batches that are already
queued are merged, so no batch waits for more to arrive.

A batch of a few kilobytes may decompress to hundreds of megabytes. If decoding is optional, a batch
is decoded only if its records fit into one batch, and is passed through otherwise. If decoding is
required, a batch may use the task's whole memory budget. It is read in parts, so that the copy loop
can run in between, and its decoded bytes count against the budget.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import NamedTuple

from mm2.formats import compression, record_batch
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_codec import BatchRecord
from mm2.replication import batch_size_limits, outbound_batches
from mm2.replication.batch_size_limits import BatchMergeLimits, PartitionBatchLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import (
    BatchTooLargeError,
    BatchUnreadableError,
    OutboundBatch,
    RecordTransform,
    RecordTransformError,
    SourceBatchDecoder,
)
from mm2.replication.read_committed_batch_filter import SourceBatch, SourceScan, UnreadableBatch


class DroppedBatchPosition(NamedTuple):
    """Source position from which dropped batches must be fetched again: the offset, and the leader
    epoch of the batch that contains it."""

    source: int
    epoch: int


class PartitionSendQueue:
    """Queues a partition's fetched batches, and prepares ("stages") the next batch to send.

    Invariants: this queue has reserved `queued_bytes` in the task's memory budget. A batch that is
    decoded in parts (by `_decoder`) remains first in the queue until all its parts are staged.
    """

    def __init__(
        self,
        memory_budget: MemoryBudget,
        *,
        merge_limits: BatchMergeLimits,
        target_codec: int | None = None,
        transform: RecordTransform | None = None,
    ) -> None:
        self.limits = PartitionBatchLimits(merge_limits=merge_limits)
        self.unreadable: UnreadableBatch | None = None
        """The batch at the head of the queue if it can be neither replicated nor skipped, else
        None."""
        self.queued_bytes = 0
        self._memory_budget = memory_budget
        self._target_codec = target_codec
        self._transform = transform
        self._queue: deque[SourceBatch] = deque()
        self._staged: deque[OutboundBatch] = deque()
        self._decoder: SourceBatchDecoder | None = None
        self._old_before_ms = 0

    def push_batches(self, scan: SourceScan, *, old_before_ms: int) -> None:
        """Add fetched batches. A batch whose newest timestamp is before `old_before_ms` is sent in
        a transaction."""
        self._queue.extend(scan.batches)
        self._reserve_bytes(scan.size)
        self._old_before_ms = old_before_ms

    @property
    def queued_batches(self) -> int:
        """Number of queued and staged batches."""
        return len(self._queue) + len(self._staged)

    @property
    def holds_decoded_bytes(self) -> bool:
        """Return True if decoded bytes are reserved in the memory budget."""
        return self._decoder is not None or any(each.is_decoded for each in self._staged)

    @property
    def staged_batch_needs_transaction(self) -> bool | None:
        """Return True if the staged batch must be sent in a transaction; None if no batch is
        staged."""
        return self._staged[0].max_timestamp < self._old_before_ms if self._staged else None

    @property
    def oldest_timestamp(self) -> int | None:
        """Approximate timestamp (ms) of the first queued record."""
        if self._staged:
            return self._staged[0].oldest_timestamp
        return self._queue[0].header.oldest_timestamp if self._queue else None

    @property
    def staged_batch_size(self) -> int:
        """Size of the staged batch in bytes."""
        return len(self._staged[0].batch)

    def pop_staged_batch(self) -> OutboundBatch:
        """Remove and return the staged batch. The caller releases its `held_bytes`."""
        found = self._staged.popleft()
        self.queued_bytes -= found.held_bytes
        return found

    def drop_all_batches(self) -> DroppedBatchPosition | None:
        """Drop all batches. Return the source position of the first dropped batch, or None if the
        queue was empty."""
        first: DroppedBatchPosition | None = None
        if self._staged:
            first = DroppedBatchPosition(self._staged[0].source, self._staged[0].source_epoch)
        elif self._queue:
            source = self._queue[0].first if self._decoder is None else self._decoder.next_source
            first = DroppedBatchPosition(source, self._queue[0].header.leader_epoch)
        self._close_decoder()
        for staged in self._staged:
            self._release_bytes(staged.held_bytes, opened=staged.is_decoded)
        self._release_bytes(self.queued_bytes)
        self._queue.clear()
        self._staged.clear()
        self.unreadable = None
        return first

    # Choosing the next batch

    def stage_next_batch(self) -> bool:
        """Prepare the next batch and return True if a batch is staged.

        Returns False if the queue is empty, the next batch is `unreadable`, other partitions'
        decoded batches leave no room in the memory budget, or the transform dropped all records
        read so far. In the last case, the caller must return to the copy loop before it calls
        again.
        """
        while not self._staged and self._queue and self.unreadable is None:
            if not self._stage_queue_head():
                break
        return bool(self._staged)

    def _stage_queue_head(self) -> bool:
        """Perform one staging step. Return False if no other step may follow now: a batch is being
        decoded in parts, or other decoded batches leave no room in the memory budget."""
        if self._decoder is not None:
            self._stage_batch_part(self._decoder)
            return False
        head = self._queue[0]
        why = self._get_decode_reason(head)
        if why and not self._memory_budget.may_decode():
            return False
        chosen = [head]
        if self.limits.get_record_limit(head.first) == batch_size_limits.NO_RECORD_LIMIT:
            chosen.extend(self._find_mergeable_batches(head))
        if why:
            self._stage_decoded_batch(chosen, why)
            return self._decoder is None
        if len(chosen) == 1 or not self._stage_merged_batch(chosen):
            self._staged.append(outbound_batches.create_pass_through_batch(self._queue.popleft()))
        return True

    def _get_decode_reason(self, entry: SourceBatch) -> str:
        if entry.reencode_reason:
            return entry.reencode_reason
        if self._transform is not None:
            return f"transform {self._transform.name}"
        header, allowed = entry.header, self.limits
        if allowed.get_record_limit(entry.first) < header.record_count:
            return "the target rejected a record in the batch"
        if header.length + record_batch.LENGTH_END >= allowed.refused_bytes:
            return "the batch is larger than the target accepts"
        return ""

    def _find_mergeable_batches(self, head: SourceBatch) -> list[SourceBatch]:
        """Find the small batches that follow the first batch (`head`) and can be merged with it
        into one batch."""
        joining = self.limits.merge_limits
        most, largest = joining.records, joining.bytes
        first = head.header
        if first.record_count > most or first.length > largest or len(self._queue) == 1:
            return []
        room = self.limits.reencoded_bytes_max - first.length
        old_before_ms = self._old_before_ms
        like = (first.leader_epoch, _get_batch_codec(first), first.max_timestamp < old_before_ms)
        found: list[SourceBatch] = []
        for entry in itertools.islice(self._queue, 1, None):
            _, length, epoch, _, _, flags, _, _, newest, _, _, _, count = entry[0]
            room -= length
            if room < 0 or count > most or length > largest:
                break
            if (epoch, flags & record_batch.CODEC_MASK, newest < old_before_ms) != like:
                break
            found.append(entry)
        return found

    def _stage_merged_batch(self, chosen: list[SourceBatch]) -> bool:
        """Merge as many of the batches `chosen` as fit into one batch, and stage it. Return False
        if none fits after the first, or if the first cannot be decoded."""
        most = self.limits.reencoded_bytes_max
        try:
            found = outbound_batches.decode_source_batch(chosen[0], self._transform, max_bytes=most)
        except (BatchUnreadableError, RecordTransformError):
            return False  # it need not be decoded: pass it through
        done = 1 + self._append_following_records(found, chosen)
        if done == 1:
            return False
        head = chosen[0]
        why = "small batches were merged"
        self._stage_encoded_records(chosen[:done], found, why=why, opened=False, start=head.first)
        return True

    def _stage_decoded_batch(self, chosen: list[SourceBatch], why: str) -> None:
        """Decode the first batch of `chosen`, merge it with the following batches that fit, and
        stage the merged batch."""
        head = chosen[0]
        most = self._memory_budget.largest_decoded_bytes
        plain = _get_batch_codec(head.header) == compression.NONE
        try:
            if plain and head.header.record_count <= batch_size_limits.DECODE_PART_RECORDS:
                found = outbound_batches.decode_source_batch(head, self._transform, max_bytes=most)
            else:
                opened = SourceBatchDecoder(head, self._transform, max_bytes=most)
                found = opened.decode_next_records(
                    batch_size_limits.DECODE_PART_RECORDS,
                    max_bytes=batch_size_limits.DECODE_PART_BYTES,
                )
                if not opened.is_done:
                    self._decoder = opened
                    self._reserve_bytes(opened.size, opened=True)
                    self._stage_encoded_records(
                        [head], found, why=why, opened=True, start=head.first
                    )
                    return
        except (BatchUnreadableError, RecordTransformError) as error:
            self._set_unreadable_batch(error, head.first, why)
            return
        done = 1 + self._append_following_records(found, chosen)
        self._stage_encoded_records(chosen[:done], found, why=why, opened=True, start=head.first)

    def _stage_batch_part(self, opened: SourceBatchDecoder) -> None:
        """Stage the next part of the first batch, and remove that batch from the queue after its
        last part."""
        head, start, size = self._queue[0], opened.next_source, opened.size
        why = self._get_decode_reason(head) or "the batch must be decoded"
        try:
            found = opened.decode_next_records(
                batch_size_limits.DECODE_PART_RECORDS, max_bytes=batch_size_limits.DECODE_PART_BYTES
            )
        except (BatchUnreadableError, RecordTransformError) as error:
            self._set_unreadable_batch(error, start, why)
            return
        finally:
            self._release_bytes(size - opened.size, opened=True)
        self._stage_encoded_records([head], found, why=why, opened=True, start=start)

    def _set_unreadable_batch(self, error: Exception, offset: int, why: str) -> None:
        head = self._queue[0]
        text = str(error)
        if isinstance(error, BatchTooLargeError):
            text = f"the batch must be decoded ({why}), but {error}, the limit set by buffer.memory"
        self.unreadable = UnreadableBatch(
            offset=offset,
            reason=text,
            next_offset=head.header.last_offset + 1,
            has_valid_checksum=True,
            by_transform=isinstance(error, RecordTransformError),
            too_large=isinstance(error, BatchTooLargeError),
        )

    def _append_following_records(self, found: list[BatchRecord], chosen: list[SourceBatch]) -> int:
        """Append the records of the batches after the first, while all records fit into one batch.
        Return the number of appended batches.

        The batches were chosen by compressed size and may decompress to a thousand times that size.
        """
        room = most = self.limits.reencoded_bytes_max
        if len(chosen) > 1 and _get_batch_codec(chosen[0].header) != compression.NONE:
            room -= outbound_batches.count_uncompressed_bytes(found)
        done = 0
        for entry in chosen[1:]:
            if room < 0:
                break
            try:
                more = outbound_batches.decode_source_batch(entry, self._transform, max_bytes=most)
            except (BatchUnreadableError, RecordTransformError):
                break
            if _get_batch_codec(entry.header) != compression.NONE:
                room -= outbound_batches.count_uncompressed_bytes(more)
                if room < 0:
                    break
            found.extend(more)
            done += 1
        return done

    def _stage_encoded_records(
        self,
        entries: list[SourceBatch],
        found: list[BatchRecord],
        *,
        why: str,
        opened: bool,
        start: int,
    ) -> None:
        """Encode and stage records that begin at or after source offset `start`.

        Removes the batches `entries` from the queue, except a batch that is not completely decoded
        yet. If `opened` is True, the encoded batches count as decoded bytes of the memory budget.
        """
        left = self._decoder
        codec = (
            _get_batch_codec(entries[0].header)
            if self._target_codec is None
            else self._target_codec
        )
        made = outbound_batches.encode_batches(
            entries,
            found,
            codec=codec,
            batch_bytes=self.limits.reencoded_bytes_max,
            records_max=self.limits.get_record_limit(start),
            reason=why,
            opened=opened,
            next_source=None if left is None else left.next_source,
        )
        for each in made:
            self._reserve_bytes(each.held_bytes, opened=each.is_decoded)
        self._staged.extend(made)
        if left is not None:
            if not left.is_done:
                return
            self._close_decoder()
        for entry in entries:
            self._queue.popleft()
            self._release_bytes(entry.header.size)

    def _reserve_bytes(self, size: int, *, opened: bool = False) -> None:
        self.queued_bytes += size
        self._memory_budget.reserve(size, decoded=opened)

    def _release_bytes(self, size: int, *, opened: bool = False) -> None:
        self.queued_bytes -= size
        self._memory_budget.release(size, decoded=opened)

    def _close_decoder(self) -> None:
        if self._decoder is not None:
            self._release_bytes(self._decoder.size, opened=True)
            self._decoder = None

    def check_invariants(self) -> None:
        held = sum(each.header.size for each in self._queue) + sum(
            o.held_bytes for o in self._staged
        )
        held += 0 if self._decoder is None else self._decoder.size
        assert held == self.queued_bytes, (held, self.queued_bytes)


def _get_batch_codec(header: BatchHeader) -> int:
    return header.attributes & record_batch.CODEC_MASK
