"""Matches the target's tail with the source batches that it was copied from.

`TailMatcher` compares strictly one to one and in order: whole batches where they are identical,
record by record where a batch was merged, split or re-encoded.
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
from mm2.formats.records import BatchRecord
from mm2.replication import batch_limits, read_committed, target_tail
from mm2.replication.memory_budget import MemoryBudget
from mm2.replication.outbound_batches import (
    BatchTooLargeError,
    BatchUnreadableError,
    RecordTransform,
    RecordTransformError,
    SourceBatchDecoder,
)
from mm2.replication.read_committed import SourceBatch, UnreadableBatch
from mm2.replication.recovery_instructions import FetchedRecords
from mm2.replication.target_tail import TailBatch

JUNCTION_RUNS = 20_000
"""Where this many runs were learned the map may be cut: together they may take more than the map
topic takes as one record (20 bytes each at most, mostly 2 or 3)."""


class MissingInput(enum.Enum):
    """What pairing goes on with."""

    NOTHING = "every batch of the tail has its source, or none can be found"
    SOURCE = "more of the source, from `position` on"
    TARGET = "the target's batch at `wanted`, opened"
    TURN = "a turn of the copy loop, since much was opened"
    ROOM = "room in the budget for one more opened batch"


class Junction(NamedTuple):
    """Between two of the tail's batches: what the first `runs` runs say ends before source offset
    `source` and target offset `target`."""

    runs: int
    source: int
    target: int
    source_epoch: int


def create_unshared_budget() -> MemoryBudget:
    """Of whoever has none to share: one batch may unpack to as much as is ever unpacked."""
    return MemoryBudget(compression.DECOMPRESSED_BYTES_MAX)


def describe_too_large(
    error: BatchTooLargeError,
    entry: SourceBatch,
    *,
    mirrors: tuple[int, int] | None = None,
) -> UnreadableBatch:
    """This batch of the source would have to be opened; or of the mirror, of so many records, which
    `mirrors` says with the source offset up to which all pairs.

    The limit is ours: it says nothing of whether the rest pairs.
    """
    what, offset, behind = "the batch", entry.first, entry.header.last_offset + 1
    if mirrors is not None:
        what = f"the mirror's batch at offset {entry.first}"
        offset, behind = mirrors[0], sum(mirrors)
    return UnreadableBatch(
        offset=offset,
        why=(
            f"{what} must be decoded to compare source and mirror, but {error}, the limit set by "
            "buffer.memory"
        ),
        behind=behind,
        sound=True,
        too_large=True,
    )


@dataclass(slots=True, kw_only=True)
class _MatchSide:
    """The batch of one side that is opened, and those of its records that were read and are not
    paired. `held_bytes` of the budget are held for it."""

    name: str
    batch: SourceBatchDecoder | None = None
    records: deque[BatchRecord] = field(default_factory=deque)
    held_bytes: int = 0

    @property
    def has_more(self) -> bool:
        return self.batch is not None and not self.batch.done

    @property
    def used_up(self) -> bool:
        return not self.records and not self.has_more


@dataclass(slots=True, kw_only=True)
class TailMatcher:
    """Walks the source from `position` until every record of the tail has its source record.

    `runs` are what was learned of the map, `seams` where that may be cut, `mismatch` says why a
    record has none; "" while they pair. `paired_to` is the target offset behind the last that did,
    at first `start`; `matched` counts them. An `obstacle` is damage that was read at `position`,
    and that says nothing of the tail; neither does what is `describe_too_large` to be opened.
    Invariant: the first `paired` batches of `target_tail` are paired, and `_mine` is what is left
    of the next, if that was opened. `opposite` and `strangers` are as in
    `read_committed.scan_batches`; strangers stand behind all that was read.

    Batches of both sides are read in parts, and what they hold counts against the budget `held`
    until `close` is called.
    """

    tail: list[TailBatch]
    position: int
    start: int
    source_epoch: int = -1
    transform: RecordTransform | None = None
    opposite: Mapping[int, bool] | None = None
    held: MemoryBudget = field(default_factory=create_unshared_budget)
    paired: int = 0
    paired_to: int = field(init=False)
    matched: int = 0
    runs: list[OffsetRun] = field(default_factory=list)
    seams: list[Junction] = field(default_factory=list)
    mismatch: str = ""
    obstacle: UnreadableBatch | None = None
    too_large: UnreadableBatch | None = None
    strangers: tuple[int, ...] = ()
    _found: deque[SourceBatch] = field(default_factory=deque)
    _reread: SourceBatch | None = None
    _theirs: _MatchSide = field(default_factory=lambda: _MatchSide(name="source"))
    _mine: _MatchSide = field(default_factory=lambda: _MatchSide(name="target"))
    _their_epoch: int = -1
    _read_to: int = -1
    _read_epoch: int = -1
    _source_to: int = field(init=False)
    _began: tuple[int, int] = field(init=False)
    _delta: int | None = None
    _done_bytes: int = 0

    def __post_init__(self) -> None:
        self.paired_to = self.start
        self._source_to = self.position
        self._began = (self.position, self.source_epoch)

    @property
    def complete(self) -> bool:
        return self.paired == len(self.tail)

    @property
    def wanted(self) -> int:
        """Target offset of the first batch that is not paired."""
        return self.tail[self.paired].offset

    @property
    def unpaired_from(self) -> int:
        """Target offset of the first record that is not paired."""
        mine = self._mine
        if mine.records:
            return mine.records[0].offset
        return mine.batch.next_source if mine.batch is not None and mine.has_more else self.wanted

    def could_be_gone(self, end: int) -> bool:
        """Has a source that ends at `end` had offsets for all records that are not paired?"""
        left, mine = sum(each.count for each in self.tail[self.paired :]), self._mine
        if not mine.used_up:
            assert mine.batch is not None
            left += len(mine.records) + mine.batch.left - self.tail[self.paired].count
        return end - self._source_to >= left

    def start_over(self) -> None:
        """Nothing paired, as far as anybody needs to know: all of the tail is copied again.

        Where several wrote side by side, what stands last may be older than what stands before it.
        """
        self.position, self.source_epoch = self._began
        self.paired_to = self.start
        self.matched = 0
        self.runs.clear()
        self.seams.clear()

    def close(self) -> None:
        """Nothing is paired any more: what was opened is forgotten. Must be called in the end."""
        for side in (self._theirs, self._mine):
            side.batch = None
            self._hold(side)

    def feed(self, answer: FetchedRecords) -> MissingInput:
        """One fetch of the source from `position` on."""
        found = read_committed.scan_batches(
            answer.records,
            position=self.position,
            aborted=answer.aborted,
            opposite=self.opposite,
        )
        self._found.extend(found.batches)
        self._read_to, self._read_epoch = found.position, found.leader_epoch
        self.obstacle, self.strangers = found.obstacle, found.strangers
        self._done_bytes = 0
        return self.go_on()

    def feed_target(self, header: BatchHeader, batch: memoryview) -> MissingInput:
        """The batch at `wanted`."""
        self._reread = SourceBatch(header, batch, header.base_offset, "")
        return self.go_on()

    def go_on(self) -> MissingInput:
        """Pair what is at hand; call it again after a turn, or once there is room."""
        while not (self.complete or self.mismatch or self.too_large):
            theirs, mine = self._theirs, self._mine
            if theirs.records and mine.records:
                self._pair_records()
            elif self._done_bytes >= batch_limits.DECODE_PART_BYTES:
                self._done_bytes = 0
                return MissingInput.TURN
            elif theirs.records and mine.has_more:
                self._read(mine)
            elif theirs.records:
                if self._reread is None:
                    return MissingInput.TARGET
                if not self._has_room:
                    return MissingInput.ROOM
                entry, self._reread = self._reread, None
                self._open(mine, entry, None)
            elif theirs.has_more:
                self._read(theirs)
            elif not self._found:
                return self._out_of_source()
            elif mine.used_up and self._same(self._found[0]):
                self._pair_whole(self._found.popleft())
            elif not self._has_room:
                return MissingInput.ROOM
            else:
                entry = self._found.popleft()
                self._their_epoch = entry.header.leader_epoch
                self._open(theirs, entry, self.transform)
        return MissingInput.NOTHING

    def _out_of_source(self) -> MissingInput:
        if self._read_to > self.position:
            self.position, self.source_epoch = self._read_to, self._read_epoch
        return MissingInput.SOURCE

    @property
    def _has_room(self) -> bool:
        """Whoever holds a batch of one side may decode one of the other, too: two partitions that
        waited for each other's would wait for ever."""
        holds_one = self._theirs.held_bytes + self._mine.held_bytes > 0
        return holds_one or self.held.may_decode()

    def _open(
        self, side: _MatchSide, entry: SourceBatch, transform: RecordTransform | None
    ) -> None:
        most = self.held.largest_decoded_bytes
        try:
            side.batch = SourceBatchDecoder(entry, transform, max_bytes=most)
        except BatchTooLargeError as error:
            self._find_too_large(side, entry, error)
        except BatchUnreadableError as error:
            self.mismatch = f"{side.name} offset {entry.first}: {error}"
        else:
            self._done_bytes += side.batch.size
            self._hold(side)

    def _find_too_large(
        self, side: _MatchSide, entry: SourceBatch, error: BatchTooLargeError
    ) -> None:
        if side is self._theirs:
            self.too_large = describe_too_large(error, entry)
        else:
            count = self.tail[self.paired].count
            self.too_large = describe_too_large(error, entry, mirrors=(self.position, count))

    def _read(self, side: _MatchSide) -> None:
        """The next part."""
        assert side.batch is not None
        start, left = side.batch.next_source, side.batch.left
        try:
            found = side.batch.read(
                batch_limits.DECODE_PART_RECORDS, max_bytes=batch_limits.DECODE_PART_BYTES
            )
        except (BatchUnreadableError, RecordTransformError) as error:
            self.mismatch = f"{side.name} offset {start}: {error}"
            return
        finally:
            self._hold(side)
        read = min(left - side.batch.left, batch_limits.DECODE_PART_RECORDS)
        whole_part = side.has_more or read == batch_limits.DECODE_PART_RECORDS
        share = batch_limits.DECODE_PART_BYTES * read // batch_limits.DECODE_PART_RECORDS
        self._done_bytes += batch_limits.DECODE_PART_BYTES if whole_part else share
        side.records.extend(found)

    def _hold(self, side: _MatchSide) -> None:
        now = side.batch.size if side.batch is not None else 0
        self.held.hold(now - side.held_bytes, opened=True)
        side.held_bytes = now

    def _same(self, entry: SourceBatch) -> bool:
        if entry.opening or self.transform is not None:
            return False
        mine = self.tail[self.paired].fingerprint
        return target_tail.fingerprint_batch(entry.header, entry.batch) == mine

    def _pair_whole(self, entry: SourceBatch) -> None:
        mine = self.tail[self.paired]
        self._paired(entry.first, mine.offset, count=mine.count)
        self._step_to(entry.header.last_offset + 1, entry.header.leader_epoch)
        self._batch_paired()

    def _pair_records(self) -> None:
        """As many as stand on both sides."""
        theirs, mine = self._theirs.records, self._mine.records
        while theirs and mine:
            one, other = theirs[0], mine[0]
            if one[1:] != other[1:]:
                self.mismatch = (
                    f"target offset {other.offset} does not hold what source offset "
                    f"{one.offset} holds"
                )
                return
            theirs.popleft()
            mine.popleft()
            self._paired(one.offset, other.offset)
            assert self._theirs.batch is not None
            behind = theirs[0].offset if theirs else self._theirs.batch.next_source
            self._step_to(behind, self._their_epoch)
        if self._mine.used_up:
            self._batch_paired()

    def _batch_paired(self) -> None:
        self.paired += 1
        before = self.seams[-1].runs if self.seams else 0
        if len(self.runs) - before >= JUNCTION_RUNS:
            place = (self.position, self.paired_to, self.source_epoch)
            self.seams.append(Junction(len(self.runs), *place))

    def _paired(self, source: int, target: int, *, count: int = 1) -> None:
        self.paired_to = target + count
        self.matched += count
        if target - source != self._delta:
            self._delta = target - source
            self.runs.append(OffsetRun(source, self._delta))

    def _step_to(self, position: int, epoch: int) -> None:
        self.position = self._source_to = position
        self.source_epoch = epoch
