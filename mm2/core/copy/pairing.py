"""Which source batches the tail that older owners left on the target was copied from.

`Pairing` holds the source's copyable batches against the tail, strictly one to one and in order
(ARCHITECTURE: fence, then pair): whole batches where they are the same, record by record where a
batch was made of others.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mm2.core.copy import budget, instructions, limits, opening, source_batches, tail
from mm2.formats import compression, map_record, record_batch, records

SEGMENT_RUNS = 20_000
"""Where this many runs were learned the map may be cut: together they may take more than the map
topic takes as one record (20 bytes each at most, mostly 2 or 3)."""


class Need(enum.Enum):
    """What pairing goes on with."""

    NOTHING = "every batch of the tail has its source, or none can be found"
    SOURCE = "more of the source, from `position` on"
    TARGET = "the target's batch at `wanted`, opened"
    TURN = "a turn of the copy loop, since much was opened"
    ROOM = "room in the budget for one more opened batch"


class Seam(NamedTuple):
    """Between two of the tail's batches: what the first `runs` runs say ends before source offset
    `source` and target offset `target`."""

    runs: int
    source: int
    target: int
    source_epoch: int


def no_budget() -> budget.Budget:
    """Of whoever has none to share: one batch may unpack to as much as is ever unpacked."""
    return budget.Budget(compression.OPENED_BYTES_MAX)


def too_large(
    error: opening.TooLargeError,
    entry: source_batches.Copyable,
    *,
    mirrors: tuple[int, int] | None = None,
) -> source_batches.Obstacle:
    """This batch of the source would have to be opened; or of the mirror, of so many records, which
    `mirrors` says with the source offset up to which all pairs.

    The limit is ours: it says nothing of whether the rest pairs.
    """
    what, offset, behind = "the batch", entry.first, entry.header.last_offset + 1
    if mirrors is not None:
        what = f"the mirror's batch at offset {entry.first}"
        offset, behind = mirrors[0], sum(mirrors)
    return source_batches.Obstacle(
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
class _Side:
    """The batch of one side that is opened, and those of its records that were read and are not
    paired. `held_bytes` of the budget are held for it."""

    name: str
    batch: opening.DecodedBatch | None = None
    records: deque[records.Record] = field(default_factory=deque)
    held_bytes: int = 0

    @property
    def has_more(self) -> bool:
        return self.batch is not None and not self.batch.done

    @property
    def used_up(self) -> bool:
        return not self.records and not self.has_more


@dataclass(slots=True, kw_only=True)
class Pairing:
    """Walks the source from `position` until every record of the tail has its source record.

    `runs` are what was learned of the map, `seams` where that may be cut, `mismatch` says why a
    record has none; "" while they pair. `paired_to` is the target offset behind the last that did,
    at first `start`; `matched` counts them. An `obstacle` is damage that was read at
    `position`, and that says nothing of the tail; neither does what is `too_large` to be opened.
    Invariant: the first `paired` batches of `tail` are paired, and `_mine` is what is left of the
    next, if that was opened. `opposite` and `strangers` are as in `source_batches.scan`; strangers
    stand behind all that was read.

    Batches of both sides are read in parts, and what they hold counts against the budget `held`
    until `close` is called.
    """

    tail: list[tail.OurBatch]
    position: int
    start: int
    source_epoch: int = -1
    transform: opening.Transform | None = None
    opposite: Mapping[int, bool] | None = None
    held: budget.Budget = field(default_factory=no_budget)
    paired: int = 0
    paired_to: int = field(init=False)
    matched: int = 0
    runs: list[map_record.Run] = field(default_factory=list)
    seams: list[Seam] = field(default_factory=list)
    mismatch: str = ""
    obstacle: source_batches.Obstacle | None = None
    too_large: source_batches.Obstacle | None = None
    strangers: tuple[int, ...] = ()
    _found: deque[source_batches.Copyable] = field(default_factory=deque)
    _reread: source_batches.Copyable | None = None
    _theirs: _Side = field(default_factory=lambda: _Side(name="source"))
    _mine: _Side = field(default_factory=lambda: _Side(name="target"))
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

    def feed(self, answer: instructions.Records) -> Need:
        """One fetch of the source from `position` on."""
        found = source_batches.scan(
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

    def feed_target(self, header: record_batch.BatchHeader, batch: memoryview) -> Need:
        """The batch at `wanted`."""
        self._reread = source_batches.Copyable(header, batch, header.base_offset, "")
        return self.go_on()

    def go_on(self) -> Need:
        """Pair what is at hand; call it again after a turn, or once there is room."""
        while not (self.complete or self.mismatch or self.too_large):
            theirs, mine = self._theirs, self._mine
            if theirs.records and mine.records:
                self._pair_records()
            elif self._done_bytes >= limits.PART_BYTES:
                self._done_bytes = 0
                return Need.TURN
            elif theirs.records and mine.has_more:
                self._read(mine)
            elif theirs.records:
                if self._reread is None:
                    return Need.TARGET
                if not self._has_room:
                    return Need.ROOM
                entry, self._reread = self._reread, None
                self._open(mine, entry, None)
            elif theirs.has_more:
                self._read(theirs)
            elif not self._found:
                return self._out_of_source()
            elif mine.used_up and self._same(self._found[0]):
                self._pair_whole(self._found.popleft())
            elif not self._has_room:
                return Need.ROOM
            else:
                entry = self._found.popleft()
                self._their_epoch = entry.header.leader_epoch
                self._open(theirs, entry, self.transform)
        return Need.NOTHING

    def _out_of_source(self) -> Need:
        if self._read_to > self.position:
            self.position, self.source_epoch = self._read_to, self._read_epoch
        return Need.SOURCE

    @property
    def _has_room(self) -> bool:
        """Whoever holds a batch of one side may decode one of the other, too: two partitions that
        waited for each other's would wait for ever."""
        holds_one = self._theirs.held_bytes + self._mine.held_bytes > 0
        return holds_one or self.held.may_decode()

    def _open(
        self, side: _Side, entry: source_batches.Copyable, transform: opening.Transform | None
    ) -> None:
        most = self.held.largest_decoded_bytes
        try:
            side.batch = opening.DecodedBatch(entry, transform, max_bytes=most)
        except opening.TooLargeError as error:
            self._find_too_large(side, entry, error)
        except opening.UnreadableError as error:
            self.mismatch = f"{side.name} offset {entry.first}: {error}"
        else:
            self._done_bytes += side.batch.size
            self._hold(side)

    def _find_too_large(
        self, side: _Side, entry: source_batches.Copyable, error: opening.TooLargeError
    ) -> None:
        if side is self._theirs:
            self.too_large = too_large(error, entry)
        else:
            count = self.tail[self.paired].count
            self.too_large = too_large(error, entry, mirrors=(self.position, count))

    def _read(self, side: _Side) -> None:
        """The next part."""
        assert side.batch is not None
        start, left = side.batch.next_source, side.batch.left
        try:
            found = side.batch.read(limits.PART_RECORDS, max_bytes=limits.PART_BYTES)
        except (opening.UnreadableError, opening.TransformError) as error:
            self.mismatch = f"{side.name} offset {start}: {error}"
            return
        finally:
            self._hold(side)
        read = min(left - side.batch.left, limits.PART_RECORDS)
        whole_part = side.has_more or read == limits.PART_RECORDS
        share = limits.PART_BYTES * read // limits.PART_RECORDS
        self._done_bytes += limits.PART_BYTES if whole_part else share
        side.records.extend(found)

    def _hold(self, side: _Side) -> None:
        now = side.batch.size if side.batch is not None else 0
        self.held.hold(now - side.held_bytes, opened=True)
        side.held_bytes = now

    def _same(self, entry: source_batches.Copyable) -> bool:
        if entry.opening or self.transform is not None:
            return False
        mine = self.tail[self.paired].fingerprint
        return tail.fingerprint(entry.header, entry.batch) == mine

    def _pair_whole(self, entry: source_batches.Copyable) -> None:
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
        if len(self.runs) - before >= SEGMENT_RUNS:
            place = (self.position, self.paired_to, self.source_epoch)
            self.seams.append(Seam(len(self.runs), *place))

    def _paired(self, source: int, target: int, *, count: int = 1) -> None:
        self.paired_to = target + count
        self.matched += count
        if target - source != self._delta:
            self._delta = target - source
            self.runs.append(map_record.Run(source, self._delta))

    def _step_to(self, position: int, epoch: int) -> None:
        self.position = self._source_to = position
        self.source_epoch = epoch
