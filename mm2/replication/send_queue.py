"""Fetched batches of a partition that are not sent yet, and which batch is sent next.

Batches are decoded and merged only when they are about to be sent: whatever is queued then may be
merged, so nothing ever waits for more to arrive.

A batch of a few kilobytes may decompress to hundreds of megabytes. One that need not be decoded
is decoded only if its records fit into one batch, and is passed through otherwise. One that must
be decoded may use the task's whole memory budget: it is read in parts, so that the copy loop runs
in between, and what it holds counts against the budget.
"""

from __future__ import annotations

import itertools
from collections import deque
from typing import NamedTuple

from mm2.formats import compression, record_batch
from mm2.formats.record_batch import BatchHeader
from mm2.formats.records import BatchRecord
from mm2.replication import batch_limits, outbound_batches
from mm2.replication.batch_limits import BatchMergeLimits, PartitionBatchLimits
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import (
    BatchTooLargeError,
    BatchUnreadableError,
    OutboundBatch,
    RecordTransform,
    RecordTransformError,
    SourceBatchDecoder,
)
from mm2.replication.read_committed import SourceBatch, SourceScan, UnreadableBatch


class DroppedPosition(NamedTuple):
    """A source offset, and the leader epoch of the batch that it is in."""

    source: int
    epoch: int


class PartitionSendQueue:
    """Invariant: `queued_bytes` of the task's budget are held here. `unreadable` is the obstacle
    at the head of the queue, which nothing leads past. The head stays in the queue until all parts
    of `_opened`, its opened form, are staged.
    """

    def __init__(
        self,
        held: MemoryBudget,
        *,
        joining: BatchMergeLimits,
        target_codec: int | None = None,
        transform: RecordTransform | None = None,
    ) -> None:
        self.limits = PartitionBatchLimits(joining=joining)
        self.unreadable: UnreadableBatch | None = None
        self.queued_bytes = 0
        self._held = held
        self._target_codec = target_codec
        self._transform = transform
        self._queue: deque[SourceBatch] = deque()
        self._staged: deque[OutboundBatch] = deque()
        self._opened: SourceBatchDecoder | None = None
        self._old_before_ms = 0

    def push(self, found: SourceScan, *, old_before_ms: int) -> None:
        """What a fetch brought; batches whose newest record is older than that are old."""
        self._queue.extend(found.batches)
        self._hold(found.size)
        self._old_before_ms = old_before_ms

    @property
    def queued(self) -> int:
        """Batches that are here, as they came or made."""
        return len(self._queue) + len(self._staged)

    @property
    def holds_opened(self) -> bool:
        """Does it keep opened bytes of the budget?"""
        return self._opened is not None or any(each.opened for each in self._staged)

    @property
    def next_is_old(self) -> bool | None:
        """Of the staged batch; None when none is staged: then nothing can be sent yet."""
        return self._staged[0].max_timestamp < self._old_before_ms if self._staged else None

    @property
    def oldest_timestamp(self) -> int | None:
        """Timestamp (ms) of the first record that is queued, or about that."""
        if self._staged:
            return self._staged[0].oldest_timestamp
        return self._queue[0].header.oldest_timestamp if self._queue else None

    @property
    def next_size(self) -> int:
        """Of the staged batch, in bytes."""
        return len(self._staged[0].batch)

    def pop_staged(self) -> OutboundBatch:
        """The staged batch; its `held` bytes are the taker's to release."""
        found = self._staged.popleft()
        self.queued_bytes -= found.held
        return found

    def drop(self) -> DroppedPosition | None:
        """Forget all; where the first of it stands in the source, None for nothing."""
        first: DroppedPosition | None = None
        if self._staged:
            first = DroppedPosition(self._staged[0].source, self._staged[0].source_epoch)
        elif self._queue:
            source = self._queue[0].first if self._opened is None else self._opened.next_source
            first = DroppedPosition(source, self._queue[0].header.leader_epoch)
        self._close_opened()
        for staged in self._staged:
            self._release(staged.held, opened=staged.opened)
        self._release(self.queued_bytes)
        self._queue.clear()
        self._staged.clear()
        self.unreadable = None
        return first

    # Which batch is next

    def stage(self) -> bool:
        """Have the next batch ready. False when nothing is left, when the next is `unreadable`, and
        when it has to wait: other partitions' opened batches leave no room in the budget, or the
        records read so far are all left out and the copy loop has to run before the next part."""
        while not self._staged and self._queue and self.unreadable is None:
            if not self._stage_next():
                break
        return bool(self._staged)

    def _stage_next(self) -> bool:
        """False if the next call has to wait."""
        if self._opened is not None:
            self._stage_part(self._opened)
            return False
        head = self._queue[0]
        why = self._why_open(head)
        if why and not self._held.may_decode():
            return False
        chosen = [head]
        if self.limits.records_at(head.first) == batch_limits.NO_RECORD_LIMIT:
            chosen.extend(self._joined_to(head))
        if why:
            self._open(chosen, why)
            return self._opened is None
        if len(chosen) == 1 or not self._join(chosen):
            self._staged.append(outbound_batches.pass_through(self._queue.popleft()))
        return True

    def _why_open(self, entry: SourceBatch) -> str:
        if entry.opening:
            return entry.opening
        if self._transform is not None:
            return f"transform {self._transform.name}"
        header, allowed = entry.header, self.limits
        if allowed.records_at(entry.first) < header.record_count:
            return "the target refused a record in it"
        if header.length + record_batch.LENGTH_END >= allowed.refused_bytes:
            return "it is larger than the target takes"
        return ""

    def _joined_to(self, head: SourceBatch) -> list[SourceBatch]:
        """The small batches behind it that go with it into one: like it, and no more than fit."""
        joining = self.limits.joining
        most, largest = joining.records, joining.bytes
        first = head.header
        if first.record_count > most or first.length > largest or len(self._queue) == 1:
            return []
        room = self.limits.made_bytes - first.length
        old_before_ms = self._old_before_ms
        like = (first.leader_epoch, _batch_codec(first), first.max_timestamp < old_before_ms)
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

    def _join(self, chosen: list[SourceBatch]) -> bool:
        """Stage one batch made of those that fit into it together; False if only the first does."""
        most = self.limits.made_bytes
        try:
            found = outbound_batches.decode_source_batch(chosen[0], self._transform, max_bytes=most)
        except (BatchUnreadableError, RecordTransformError):
            return False  # there is no need to open it
        done = 1 + self._add_following(found, chosen)
        if done == 1:
            return False
        head = chosen[0]
        why = "small batches are merged"
        self._stage_made(chosen[:done], found, why=why, opened=False, start=head.first)
        return True

    def _open(self, chosen: list[SourceBatch], why: str) -> None:
        """Stage what must be made of the first, and with it of those that fit into one batch."""
        head = chosen[0]
        most = self._held.largest_decoded_bytes
        plain = _batch_codec(head.header) == compression.NONE
        try:
            if plain and head.header.record_count <= batch_limits.DECODE_PART_RECORDS:
                found = outbound_batches.decode_source_batch(head, self._transform, max_bytes=most)
            else:
                opened = SourceBatchDecoder(head, self._transform, max_bytes=most)
                found = opened.read(
                    batch_limits.DECODE_PART_RECORDS, max_bytes=batch_limits.DECODE_PART_BYTES
                )
                if not opened.done:
                    self._opened = opened
                    self._hold(opened.size, opened=True)
                    self._stage_made([head], found, why=why, opened=True, start=head.first)
                    return
        except (BatchUnreadableError, RecordTransformError) as error:
            self._find_unreadable(error, head.first, why)
            return
        done = 1 + self._add_following(found, chosen)
        self._stage_made(chosen[:done], found, why=why, opened=True, start=head.first)

    def _stage_part(self, opened: SourceBatchDecoder) -> None:
        """Stage the next part of the head; its last one takes it out of the queue."""
        head, start, size = self._queue[0], opened.next_source, opened.size
        why = self._why_open(head) or "it is decoded"
        try:
            found = opened.read(
                batch_limits.DECODE_PART_RECORDS, max_bytes=batch_limits.DECODE_PART_BYTES
            )
        except (BatchUnreadableError, RecordTransformError) as error:
            self._find_unreadable(error, start, why)
            return
        finally:
            self._release(size - opened.size, opened=True)
        self._stage_made([head], found, why=why, opened=True, start=start)

    def _find_unreadable(self, error: Exception, offset: int, why: str) -> None:
        head = self._queue[0]
        text = str(error)
        if isinstance(error, BatchTooLargeError):
            text = f"the batch must be decoded ({why}), but {error}, the limit set by buffer.memory"
        self.unreadable = UnreadableBatch(
            offset=offset,
            why=text,
            behind=head.header.last_offset + 1,
            sound=True,
            by_transform=isinstance(error, RecordTransformError),
            too_large=isinstance(error, BatchTooLargeError),
        )

    def _add_following(self, found: list[BatchRecord], chosen: list[SourceBatch]) -> int:
        """Add the records of those behind the first to its own, as far as together they fit into
        one batch; returns how many batches do.

        What was chosen by its compressed size may be a thousand times as large.
        """
        room = most = self.limits.made_bytes
        if len(chosen) > 1 and _batch_codec(chosen[0].header) != compression.NONE:
            room -= outbound_batches.count_plain_bytes(found)
        done = 0
        for entry in chosen[1:]:
            if room < 0:
                break
            try:
                more = outbound_batches.decode_source_batch(entry, self._transform, max_bytes=most)
            except (BatchUnreadableError, RecordTransformError):
                break
            if _batch_codec(entry.header) != compression.NONE:
                room -= outbound_batches.count_plain_bytes(more)
                if room < 0:
                    break
            found.extend(more)
            done += 1
        return done

    def _stage_made(
        self,
        entries: list[SourceBatch],
        found: list[BatchRecord],
        *,
        why: str,
        opened: bool,
        start: int,
    ) -> None:
        """Stage batches of these records, which begin at source offset `start` or behind it. The
        entries leave the queue, unless they are a batch of which parts are left. `opened`: what is
        made counts as opened bytes of the budget."""
        left = self._opened
        codec = (
            _batch_codec(entries[0].header) if self._target_codec is None else self._target_codec
        )
        made = outbound_batches.encode_batches(
            entries,
            found,
            codec=codec,
            batch_bytes=self.limits.made_bytes,
            records_max=self.limits.records_at(start),
            why=why,
            opened=opened,
            next_source=None if left is None else left.next_source,
        )
        for each in made:
            self._hold(each.held, opened=each.opened)
        self._staged.extend(made)
        if left is not None:
            if not left.done:
                return
            self._close_opened()
        for entry in entries:
            self._queue.popleft()
            self._release(entry.header.size)

    def _hold(self, size: int, *, opened: bool = False) -> None:
        self.queued_bytes += size
        self._held.hold(size, opened=opened)

    def _release(self, size: int, *, opened: bool = False) -> None:
        self.queued_bytes -= size
        self._held.release(size, opened=opened)

    def _close_opened(self) -> None:
        if self._opened is not None:
            self._release(self._opened.size, opened=True)
            self._opened = None

    def check_invariants(self) -> None:
        held = sum(each.header.size for each in self._queue) + sum(o.held for o in self._staged)
        held += 0 if self._opened is None else self._opened.size
        assert held == self.queued_bytes, (held, self.queued_bytes)


def _batch_codec(header: BatchHeader) -> int:
    return header.attributes & record_batch.CODEC_MASK
