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

from mm2.core.copy import instructions, limits, opening, source_batches, tail
from mm2.formats import compression, map_record, record_batch, records

SEGMENT_RUNS = 20_000
"""Where this many runs were learned the map may be cut: together they may take more than the map
topic takes as one record (20 bytes each at most, mostly 2 or 3)."""


class Need(enum.Enum):
    """What pairing goes on with."""

    NOTHING = "every batch of the tail has its source, or none can be found"
    SOURCE = "more of the source, from `position` on"
    TARGET = "the target's batch at `wanted`, opened"


class Seam(NamedTuple):
    """Between two of the tail's batches: what the first `runs` runs say ends before source offset
    `source` and target offset `target`."""

    runs: int
    source: int
    target: int
    source_epoch: int


@dataclass(slots=True, kw_only=True)
class Pairing:
    """Walks the source from `position` until every record of the tail has its source record.

    `runs` are what was learned of the map, `seams` where that may be cut, `mismatch` says why a
    record has none; "" while they pair. `paired_to` is the target offset behind the last that did,
    at first `start`; `matched` counts them. An `obstacle` is damage that was read at
    `position`, and that says nothing of the tail. Invariant: the first `paired` batches of `tail`
    are paired, and `_mine` is what is left of the next, if that was opened. `opposite` and
    `strangers` are as in `source_batches.scan`; strangers stand behind all that was read. A batch
    of either side may unpack to `max_decoded_bytes`; the source's are read in parts.
    """

    tail: list[tail.OurBatch]
    position: int
    start: int
    source_epoch: int = -1
    transform: opening.Transform | None = None
    opposite: Mapping[int, bool] | None = None
    max_decoded_bytes: int = compression.OPENED_BYTES_MAX
    paired: int = 0
    paired_to: int = field(init=False)
    matched: int = 0
    runs: list[map_record.Run] = field(default_factory=list)
    seams: list[Seam] = field(default_factory=list)
    mismatch: str = ""
    obstacle: source_batches.Obstacle | None = None
    strangers: tuple[int, ...] = ()
    _found: deque[source_batches.Copyable] = field(default_factory=deque)
    _theirs: deque[records.Record] = field(default_factory=deque)
    _their_batch: opening.DecodedBatch | None = None
    _their_epoch: int = -1
    _mine: deque[records.Record] = field(default_factory=deque)
    _read_to: int = -1
    _read_epoch: int = -1
    _source_to: int = field(init=False)
    _began: tuple[int, int] = field(init=False)
    _delta: int | None = None

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
        return self._mine[0].offset if self._mine else self.wanted

    def could_be_gone(self, end: int) -> bool:
        """Has a source that ends at `end` had offsets for all records that are not paired?"""
        left = len(self._mine) + sum(each.count for each in self.tail[self.paired :])
        if self._mine:
            left -= self.tail[self.paired].count
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
        return self._go_on()

    def feed_target(self, header: record_batch.BatchHeader, batch: memoryview) -> Need:
        """The batch at `wanted`."""
        entry = source_batches.Copyable(header, batch, header.base_offset, "")
        try:
            self._mine.extend(opening.open_batch(entry, max_bytes=self.max_decoded_bytes))
        except opening.UnreadableError as error:
            self.mismatch = f"target offset {header.base_offset}: {error}"
            return Need.NOTHING
        return self._go_on()

    def _go_on(self) -> Need:
        while not self.complete and not self.mismatch:
            if self._theirs and self._mine:
                self._pair_records()
            elif self._theirs:
                return Need.TARGET
            elif not self._next_part() and not self._next_batch():
                return self._out_of_source()
        return Need.NOTHING

    def _out_of_source(self) -> Need:
        if self.mismatch:
            return Need.NOTHING
        if self._read_to > self.position:
            self.position, self.source_epoch = self._read_to, self._read_epoch
        return Need.SOURCE

    def _next_part(self) -> bool:
        """Read on in the source's batch that is opened; False if nothing is left of it."""
        opened = self._their_batch
        while opened is not None and not opened.done and not self._theirs and not self.mismatch:
            source = opened.next_source
            try:
                found = opened.read(limits.PART_RECORDS, max_bytes=limits.PART_BYTES)
            except (opening.UnreadableError, opening.TransformError) as error:
                self.mismatch = f"source offset {source}: {error}"
                return True
            self._theirs.extend(found)
        return bool(self._theirs)

    def _next_batch(self) -> bool:
        """Pair source batches whole as far as that goes, then open one; False when all are used
        up."""
        while self._found and not self.complete:
            entry = self._found.popleft()
            if not self._mine and self._same(entry):
                mine = self.tail[self.paired]
                self._paired(entry.first, mine.offset, count=mine.count)
                self._step_to(entry.header.last_offset + 1, entry.header.leader_epoch)
                self._batch_paired()
                continue
            try:
                self._their_batch = opening.DecodedBatch(
                    entry, self.transform, max_bytes=self.max_decoded_bytes
                )
            except opening.UnreadableError as error:
                self.mismatch = f"source offset {entry.first}: {error}"
                return False
            self._their_epoch = entry.header.leader_epoch
            if self._next_part():
                return not self.mismatch
        return self.complete

    def _same(self, entry: source_batches.Copyable) -> bool:
        if entry.opening or self.transform is not None:
            return False
        mine = self.tail[self.paired].fingerprint
        return tail.fingerprint(entry.header, entry.batch) == mine

    def _pair_records(self) -> None:
        """As many as stand on both sides."""
        while self._theirs and self._mine:
            one, other = self._theirs[0], self._mine[0]
            if one[1:] != other[1:]:
                self.mismatch = (
                    f"target offset {other.offset} does not hold what source offset "
                    f"{one.offset} holds"
                )
                return
            self._theirs.popleft()
            self._mine.popleft()
            self._paired(one.offset, other.offset)
            assert self._their_batch is not None
            behind = self._theirs[0].offset if self._theirs else self._their_batch.next_source
            self._step_to(behind, self._their_epoch)
        if not self._mine:
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
