"""Matches the target's tail (the batches after the resume point) with the source batches from which
it was copied.

`TailMatcher` compares strictly one to one and in order: whole batches if they are identical, or
record by record if a batch was merged, split or re-encoded.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mm2.formats import compression
from mm2.formats.offset_map_records import OffsetRun
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_codec import BatchRecord
from mm2.replication import batch_size_limits, read_committed_batch_filter, target_log_tail
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import (
    BatchTooLargeError,
    BatchUnreadableError,
    RecordTransform,
    RecordTransformError,
    SourceBatchDecoder,
)
from mm2.replication.read_committed_batch_filter import SourceBatch, UnreadableBatch
from mm2.replication.recovery_instructions import FetchedRecords
from mm2.replication.target_log_tail import TailBatch

JUNCTION_RUNS = 20_000
"""Number of runs (ranges of offsets with a constant difference) after which a junction (split point
of the map) is added, because more runs may exceed the map topic's maximum record size. A run needs
at most 20 bytes, usually 2 or 3."""


class RequiredMatchingInput(enum.Enum):
    """Input that tail matching needs in order to continue."""

    NOTHING = "nothing: all of the tail is matched or cannot be matched"
    SOURCE = "more source records from `position` on"
    TARGET = "the target batch at `next_offset`, in order to decode it"
    YIELD = "one iteration of the copy loop, because a large amount of data was decoded"
    MEMORY = "memory budget for another decoded batch"


class SegmentSplitPoint(NamedTuple):
    """A point between two batches of the tail at which the offset map may be split into segments.
    `runs` is the number of runs (ranges with a constant difference between source and target
    offset) before this point, which is at source offset `source` and target offset `target`."""

    runs: int
    source: int
    target: int
    source_epoch: int


def create_unshared_memory_budget() -> MemoryBudget:
    """Create a memory budget that is not shared with other partitions. A batch may decompress to at
    most `compression.DECOMPRESSED_BYTES_MAX`."""
    return MemoryBudget(compression.DECOMPRESSED_BYTES_MAX)


def describe_too_large_batch(
    error: BatchTooLargeError,
    entry: SourceBatch,
    *,
    mirrors: tuple[int, int] | None = None,
) -> UnreadableBatch:
    """Describe a batch that is too large to be decoded for the comparison.

    `mirrors` is None for a source batch. For a batch of the mirror, `mirrors` contains the source
    offset up to which all records matched, and the batch's record count. The limit is a local
    setting, so a batch that exceeds it does not prove a mismatch.
    """
    what, offset, behind = "the batch", entry.first, entry.header.last_offset + 1
    if mirrors is not None:
        what = f"the mirror's batch at offset {entry.first}"
        offset, behind = mirrors[0], sum(mirrors)
    return UnreadableBatch(
        offset=offset,
        reason=(
            f"{what} must be decoded to compare source and mirror, but {error}, the limit set by "
            "buffer.memory"
        ),
        next_offset=behind,
        has_valid_checksum=True,
        too_large=True,
    )


@dataclass(slots=True, kw_only=True)
class _LogDecodingState:
    """Decoding state of one log (source or target): the batch that is being decoded, and its
    decoded records that are not matched yet."""

    name: str
    batch: SourceBatchDecoder | None = None
    records: deque[BatchRecord] = field(default_factory=deque)
    held_bytes: int = 0
    """Bytes reserved in the memory budget."""

    @property
    def has_undecoded_records(self) -> bool:
        """Return True if the batch has more records to decode."""
        return self.batch is not None and not self.batch.is_done

    @property
    def is_exhausted(self) -> bool:
        return not self.records and not self.has_undecoded_records


@dataclass(slots=True, kw_only=True)
class TailMatcher:
    """Matches every record of the target's tail with a source record. Source records are needed
    from offset `position`.

    Batches of both logs are decoded in parts, which count against the memory budget until `close`
    is called. Invariant: the first `matched_batches` batches of `tail` are matched, and
    `_target_side` contains the unmatched rest of the next batch if it was decoded.
    """

    tail: list[TailBatch]
    """Batches of the target's tail."""
    position: int
    """Next source offset to read."""
    start: int
    source_epoch: int = -1
    transform: RecordTransform | None = None
    reverse_producers: Mapping[int, bool] | None = None
    memory_budget: MemoryBudget = field(default_factory=create_unshared_memory_budget)
    matched_batches: int = 0
    """Number of matched batches."""
    matched_to: int = field(init=False)
    """Target offset after the last matched record, initially `start`."""
    matched_records: int = 0
    """Number of matched records."""
    runs: list[OffsetRun] = field(default_factory=list)
    """Offset map learned by matching."""
    junctions: list[SegmentSplitPoint] = field(default_factory=list)
    """Positions at which the learned offset map may be split into segments."""
    mismatch: str = ""
    """Reason why a record has no match; "" if all records match."""
    obstacle: UnreadableBatch | None = None
    """A damaged source batch at `position`. It does not prove a mismatch."""
    too_large: UnreadableBatch | None = None
    """A batch that is too large to be decoded. It does not prove a mismatch."""
    unresolved_producers: tuple[int, ...] = ()
    """Producer ids at `position` that may belong to the reverse flow and must be resolved."""
    _fetched: deque[SourceBatch] = field(default_factory=deque)
    _reread: SourceBatch | None = None
    _source_side: _LogDecodingState = field(
        default_factory=lambda: _LogDecodingState(name="source")
    )
    _target_side: _LogDecodingState = field(
        default_factory=lambda: _LogDecodingState(name="target")
    )
    _source_side_epoch: int = -1
    _read_to: int = -1
    _read_epoch: int = -1
    _source_to: int = field(init=False)
    _initial_position: tuple[int, int] = field(init=False)
    _delta: int | None = None
    _done_bytes: int = 0

    def __post_init__(self) -> None:
        self.matched_to = self.start
        self._source_to = self.position
        self._initial_position = (self.position, self.source_epoch)

    @property
    def is_complete(self) -> bool:
        """Return True if all batches of the tail are matched."""
        return self.matched_batches == len(self.tail)

    @property
    def next_offset(self) -> int:
        """Target offset of the first unmatched batch."""
        return self.tail[self.matched_batches].offset

    @property
    def mismatch_offset(self) -> int:
        """Target offset of the first unmatched record."""
        mine = self._target_side
        if mine.records:
            return mine.records[0].offset
        return (
            mine.batch.next_source
            if mine.batch is not None and mine.has_undecoded_records
            else self.next_offset
        )

    def can_source_contain_unmatched_records(self, end: int) -> bool:
        """Return True if a source log that ends at offset `end` is long enough to contain all
        unmatched records."""
        left, mine = (
            sum(each.count for each in self.tail[self.matched_batches :]),
            self._target_side,
        )
        if not mine.is_exhausted:
            assert mine.batch is not None
            left += (
                len(mine.records)
                + mine.batch.remaining_records
                - self.tail[self.matched_batches].count
            )
        return end - self._source_to >= left

    def discard_matches(self) -> None:
        """Discard all matches, so that the whole tail is replicated again.

        If several owners wrote concurrently, a batch at a higher target offset may contain older
        source records than the batch before it.
        """
        self.position, self.source_epoch = self._initial_position
        self.matched_to = self.start
        self.matched_records = 0
        self.runs.clear()
        self.junctions.clear()

    def close(self) -> None:
        """Release decoded batches and their memory. Must be called once after matching ends."""
        for side in (self._source_side, self._target_side):
            side.batch = None
            self._update_reserved_bytes(side)

    def add_source_records(self, answer: FetchedRecords) -> RequiredMatchingInput:
        """Add the records of one source fetch that started at offset `position`, and continue
        matching. Return the input that is needed next."""
        found = read_committed_batch_filter.scan_batches(
            answer.records,
            position=self.position,
            aborted=answer.aborted,
            end=answer.end,
            reverse_producers=self.reverse_producers,
            max_bytes=self.memory_budget.largest_decoded_bytes,
        )
        self._fetched.extend(found.batches)
        self._read_to, self._read_epoch = found.position, found.leader_epoch
        self.obstacle, self.unresolved_producers = found.obstacle, found.unresolved_producers
        self._done_bytes = 0
        return self.match_available_records()

    def add_target_batch(self, header: BatchHeader, batch: memoryview) -> RequiredMatchingInput:
        """Add the target batch at `next_offset` in order to decode it."""
        self._reread = SourceBatch(header, batch, header.base_offset, "")
        return self.match_available_records()

    def match_available_records(self) -> RequiredMatchingInput:
        """Match the source and target records read so far; return which side to read next."""
        while not (self.is_complete or self.mismatch or self.too_large):
            theirs, mine = self._source_side, self._target_side
            if theirs.records and mine.records:
                self._match_records()
            elif self._done_bytes >= batch_size_limits.DECODE_PART_BYTES:
                self._done_bytes = 0
                return RequiredMatchingInput.YIELD
            elif theirs.records and mine.has_undecoded_records:
                self._decode_next_batch_part(mine)
            elif theirs.records:
                if self._reread is None:
                    return RequiredMatchingInput.TARGET
                if not self._has_decoding_budget:
                    return RequiredMatchingInput.MEMORY
                entry, self._reread = self._reread, None
                self._begin_decoding(mine, entry, None)
            elif theirs.has_undecoded_records:
                self._decode_next_batch_part(theirs)
            elif not self._fetched:
                return self._request_source_records()
            elif mine.is_exhausted and self._is_identical_batch(self._fetched[0]):
                self._match_whole_batch(self._fetched.popleft())
            elif not self._has_decoding_budget:
                return RequiredMatchingInput.MEMORY
            else:
                entry = self._fetched.popleft()
                self._source_side_epoch = entry.header.leader_epoch
                self._begin_decoding(theirs, entry, self.transform)
        return RequiredMatchingInput.NOTHING

    def _request_source_records(self) -> RequiredMatchingInput:
        if self._read_to > self.position:
            self.position, self.source_epoch = self._read_to, self._read_epoch
        return RequiredMatchingInput.SOURCE

    @property
    def _has_decoding_budget(self) -> bool:
        """Return True if another batch may be decoded.

        If a batch of one log is decoded, a batch of the other log may always be decoded. Otherwise
        two partitions could wait for each other's memory forever.
        """
        holds_one = self._source_side.held_bytes + self._target_side.held_bytes > 0
        return holds_one or self.memory_budget.may_decode()

    def _begin_decoding(
        self, side: _LogDecodingState, entry: SourceBatch, transform: RecordTransform | None
    ) -> None:
        most = self.memory_budget.largest_decoded_bytes
        try:
            side.batch = SourceBatchDecoder(entry, transform, max_bytes=most)
        except BatchTooLargeError as error:
            self._record_too_large_batch(side, entry, error)
        except BatchUnreadableError as error:
            self.mismatch = f"{side.name} offset {entry.first}: {error}"
        else:
            self._done_bytes += side.batch.size
            self._update_reserved_bytes(side)

    def _record_too_large_batch(
        self, side: _LogDecodingState, entry: SourceBatch, error: BatchTooLargeError
    ) -> None:
        if side is self._source_side:
            self.too_large = describe_too_large_batch(error, entry)
        else:
            count = self.tail[self.matched_batches].count
            self.too_large = describe_too_large_batch(error, entry, mirrors=(self.position, count))

    def _decode_next_batch_part(self, side: _LogDecodingState) -> None:
        """Decode the next part of a batch."""
        assert side.batch is not None
        start, left = side.batch.next_source, side.batch.remaining_records
        try:
            found = side.batch.decode_next_records(
                batch_size_limits.DECODE_PART_RECORDS, max_bytes=batch_size_limits.DECODE_PART_BYTES
            )
        except (BatchUnreadableError, RecordTransformError) as error:
            self.mismatch = f"{side.name} offset {start}: {error}"
            return
        finally:
            self._update_reserved_bytes(side)
        read = min(left - side.batch.remaining_records, batch_size_limits.DECODE_PART_RECORDS)
        whole_part = side.has_undecoded_records or read == batch_size_limits.DECODE_PART_RECORDS
        share = batch_size_limits.DECODE_PART_BYTES * read // batch_size_limits.DECODE_PART_RECORDS
        self._done_bytes += batch_size_limits.DECODE_PART_BYTES if whole_part else share
        side.records.extend(found)

    def _update_reserved_bytes(self, side: _LogDecodingState) -> None:
        now = side.batch.size if side.batch is not None else 0
        self.memory_budget.reserve(now - side.held_bytes, decoded=True)
        side.held_bytes = now

    def _is_identical_batch(self, entry: SourceBatch) -> bool:
        if entry.reencode_reason or self.transform is not None:
            return False
        mine = self.tail[self.matched_batches].fingerprint
        return target_log_tail.fingerprint_batch(entry.header, entry.batch) == mine

    def _match_whole_batch(self, entry: SourceBatch) -> None:
        mine = self.tail[self.matched_batches]
        self._store_match(entry.first, mine.offset, count=mine.count)
        self._set_source_position(entry.header.last_offset + 1, entry.header.leader_epoch)
        self._complete_batch()

    def _match_records(self) -> None:
        """Match records while both sides have decoded records."""
        theirs, mine = self._source_side.records, self._target_side.records
        while theirs and mine:
            one, other = theirs[0], mine[0]
            if one[1:] != other[1:]:
                self.mismatch = (
                    f"target offset {other.offset} does not match the record at source offset "
                    f"{one.offset}"
                )
                return
            theirs.popleft()
            mine.popleft()
            self._store_match(one.offset, other.offset)
            assert self._source_side.batch is not None
            behind = theirs[0].offset if theirs else self._source_side.batch.next_source
            self._set_source_position(behind, self._source_side_epoch)
        if self._target_side.is_exhausted:
            self._complete_batch()

    def _complete_batch(self) -> None:
        self.matched_batches += 1
        before = self.junctions[-1].runs if self.junctions else 0
        if len(self.runs) - before >= JUNCTION_RUNS:
            place = (self.position, self.matched_to, self.source_epoch)
            self.junctions.append(SegmentSplitPoint(len(self.runs), *place))

    def _store_match(self, source: int, target: int, *, count: int = 1) -> None:
        self.matched_to = target + count
        self.matched_records += count
        if target - source != self._delta:
            self._delta = target - source
            self.runs.append(OffsetRun(source, self._delta))

    def _set_source_position(self, position: int, epoch: int) -> None:
        self.position = self._source_to = position
        self.source_epoch = epoch
