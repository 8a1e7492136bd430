"""What was fetched of a partition and is not sent yet, and which batch of it goes next.

Batches are opened and joined only when they are about to be sent: what stands in the queue then is
what may be joined, so nothing ever waits for more to come.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from mm2.core.copy import budget, limits, opening, outgoing, source_batches
from mm2.formats import compression, record_batch, records


class Place(NamedTuple):
    """A source offset, and the leader epoch of the batch that it is in."""

    source: int
    epoch: int


class Outbox:
    """Invariant: `queued_bytes` of the task's budget are held here. `unreadable` is the obstacle
    at the head of the queue, which nothing leads past.
    """

    def __init__(
        self,
        held: budget.Budget,
        *,
        joining: limits.Joining,
        target_codec: int | None = None,
        transform: opening.Transform | None = None,
    ) -> None:
        self.limits = limits.Limits(joining=joining)
        self.unreadable: source_batches.Obstacle | None = None
        self.queued_bytes = 0
        self._held = held
        self._target_codec = target_codec
        self._transform = transform
        self._queue: deque[source_batches.Copyable] = deque()
        self._staged: deque[outgoing.Outgoing] = deque()
        self._old_before_ms = 0

    def push(self, found: source_batches.Scan, *, old_before_ms: int) -> None:
        """What a fetch brought; batches whose newest record is older than that are old."""
        self._queue.extend(found.batches)
        self.queued_bytes += found.size
        self._held.hold(found.size)
        self._old_before_ms = old_before_ms

    @property
    def queued(self) -> int:
        """Batches that are here, as they came or made."""
        return len(self._queue) + len(self._staged)

    @property
    def next_is_old(self) -> bool | None:
        """Of the next batch; None when nothing is queued."""
        if self._staged:
            return self._staged[0].max_timestamp < self._old_before_ms
        return self._is_old(self._queue[0]) if self._queue else None

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

    def _is_old(self, entry: source_batches.Copyable) -> bool:
        return entry.header.max_timestamp < self._old_before_ms

    def take(self) -> outgoing.Outgoing:
        """The staged batch; its `held` bytes are the taker's to release."""
        found = self._staged.popleft()
        self.queued_bytes -= found.held
        return found

    def drop(self) -> Place | None:
        """Forget all; where the first of it stands in the source, None for nothing."""
        first: Place | None = None
        if self._staged:
            first = Place(self._staged[0].source, self._staged[0].source_epoch)
        elif self._queue:
            first = Place(self._queue[0].first, self._queue[0].header.leader_epoch)
        self._queue.clear()
        self._staged.clear()
        self._held.release(self.queued_bytes)
        self.queued_bytes = 0
        self.unreadable = None
        return first

    # Which batch is next

    def stage(self) -> bool:
        """Have the next batch ready; False when nothing is left, or the next is `unreadable`."""
        while not self._staged and self._queue and self.unreadable is None:
            self._stage_next()
        return bool(self._staged)

    def _stage_next(self) -> None:
        head = self._queue[0]
        why = self._why_open(head)
        chosen = [head]
        if self.limits.records_at(head.first) == limits.ANY:
            chosen.extend(self._joined_to(head))
        if not why and len(chosen) == 1:
            self._staged.append(outgoing.passed(self._queue.popleft()))
            return
        self._make(chosen, why)

    def _why_open(self, entry: source_batches.Copyable) -> str:
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

    def _joined_to(self, head: source_batches.Copyable) -> list[source_batches.Copyable]:
        """The small batches behind it that go with it into one: like it, and no more than fit."""
        joining = self.limits.joining
        most, largest = joining.records, joining.bytes
        first = head.header
        if first.record_count > most or first.length > largest or len(self._queue) == 1:
            return []
        room = self.limits.made_bytes - first.length
        old_before_ms = self._old_before_ms
        like = (first.leader_epoch, _codec(first), first.max_timestamp < old_before_ms)
        found: list[source_batches.Copyable] = []
        for entry in itertools.islice(self._queue, 1, None):
            _, length, epoch, _, _, flags, _, _, newest, _, _, _, count = entry[0]
            room -= length
            if room < 0 or count > most or length > largest:
                break
            if (epoch, flags & record_batch.CODEC_MASK, newest < old_before_ms) != like:
                break
            found.append(entry)
        return found

    def _make(self, chosen: list[source_batches.Copyable], why: str) -> None:
        opened: list[records.Record] = []
        head = chosen[0]
        done = 0
        try:
            for found in self._opened(chosen):
                opened.extend(found)
                done += 1
        except (opening.UnreadableError, opening.TransformError) as error:
            if not done and why:
                self.unreadable = source_batches.Obstacle(
                    offset=head.first,
                    why=str(error),
                    behind=head.header.last_offset + 1,
                    sound=True,
                    by_transform=isinstance(error, opening.TransformError),
                )
                return
        if done <= 1 and not why:  # there was no need to open it
            self._staged.append(outgoing.passed(self._queue.popleft()))
            return
        for _ in range(done):
            self._queue.popleft()
        made = outgoing.made(
            chosen[:done],
            opened,
            codec=_codec(head.header) if self._target_codec is None else self._target_codec,
            batch_bytes=self.limits.made_bytes,
            records_max=self.limits.records_at(head.first),
            why=why or "small batches are joined",
        )
        if not made:
            size = sum(each.header.size for each in chosen[:done])
            self._held.release(size)
            self.queued_bytes -= size
        self._staged.extend(made)

    def _opened(self, chosen: list[source_batches.Copyable]) -> Iterator[list[records.Record]]:
        """The records of each, as far as together they fit into one batch; of the first anyhow.

        What was chosen by its compressed size may be a thousand times as large.
        """
        room = self.limits.made_bytes
        for entry in chosen:
            if room < 0:
                return
            found = opening.open_batch(entry, self._transform)
            if len(chosen) > 1 and _codec(entry.header) != compression.NONE:
                room -= outgoing.plain_bytes(found)
                if room < 0 and entry is not chosen[0]:
                    return
            yield found

    def check_invariants(self) -> None:
        held = sum(each.header.size for each in self._queue) + sum(o.held for o in self._staged)
        assert held == self.queued_bytes, (held, self.queued_bytes)


def _codec(header: record_batch.BatchHeader) -> int:
    return header.attributes & record_batch.CODEC_MASK
