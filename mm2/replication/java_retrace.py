"""Reconstructs the offset map of a mirror that Java MirrorMaker 2 wrote, from an offset sync on.

Java resumes where it last stored progress, after whatever it had replicated since. So what it
wrote may step back any number of times, and two of its tasks may even have written side by side.
The result is which source records are on the mirror (every one up to `position`) and which are
there twice.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mm2.formats import compression
from mm2.formats.offset_map_records import OffsetRun
from mm2.formats.record_batch import BatchHeader
from mm2.formats.records import BatchRecord
from mm2.replication import batch_limits, outbound_batches, read_committed, tail_matching
from mm2.replication.outbound_batches import (
    BatchTooLargeError,
    BatchUnreadableError,
    RecordTransform,
    RecordTransformError,
)
from mm2.replication.read_committed import SourceBatch, UnreadableBatch
from mm2.replication.recovery_instructions import FetchedRecords
from mm2.replication.tail_matching import Junction, MissingInput

SYNCS_MAX = 2_000
"""Java writes one for each 100 records, and more where the source has gaps."""
EXACT_RETRACE_MAX = 1_000_000
"""Target offsets that are retraced at most to be exact: some ten seconds."""

SyncOffsets = tuple[int, int]
"""Source offset, target offset."""


@dataclass(slots=True)
class JavaOffsetSyncs:
    """The newest OffsetSyncs of one partition, in the topic's order, which is that of their target
    offsets."""

    _known: deque[SyncOffsets] = field(default_factory=lambda: deque(maxlen=SYNCS_MAX))

    def __bool__(self) -> bool:
        return bool(self._known)

    def apply(self, source: int, target: int) -> None:
        """The next record. Where the target goes back, its log is another one or was cut."""
        while self._known and self._known[-1][1] >= target:
            self._known.pop()
        self._known.append((source, target))

    def below(self, next_offset: int) -> SyncOffsets | None:
        """The newest below this source offset that parts what was copied: nothing higher can stand
        before it, nothing lower is known behind. None without any below.

        Java may have stepped back, and may not have come as far again as it was: what it had copied
        first stands before its newer OffsetSyncs. Where that reaches too far back, just the newest.
        """
        lowest = next_offset
        lowest_behind = []
        for source, _ in reversed(self._known):
            lowest = min(lowest, source)
            lowest_behind.append(lowest)
        surest = newest = before = None
        highest = -1
        for sync in self._known:
            if before is not None:
                # As many records as there is room for may have followed the one before.
                highest = max(highest, before[0] + sync[1] - before[1] - 1)
            if sync[0] < next_offset:
                newest = sync
                if highest <= sync[0] <= lowest_behind[-1]:
                    surest = sync
            lowest_behind.pop()
            highest = max(highest, sync[0])
            before = sync
        if surest is None or newest is None or newest[1] - surest[1] > EXACT_RETRACE_MAX:
            return newest
        return surest


REMEMBERED_RECORDS_MAX = 4_000_000
"""So many source records are remembered (17 bytes each): stepping back reaches no further."""
_COMMITTED_MARK, _FOUND_MARK = 1, 2
"""It was committed; it was found on the mirror, although it was not."""
DUPLICATE_RANGES_MAX = 200
"""More stretches than this that stand twice are no longer told apart."""
_CANDIDATES_MAX = 256


@dataclass(slots=True, kw_only=True)
class MapReconstruction:
    """Finds for each record of the stretch an equal one on the source.

    The first one, from target offset `target` on, is the next from source offset `source` on, and
    if `exact` those two. Each other follows the one before it, or is one that was found before.
    Records from `copied_from` on up to `source`, or up to `copied_to` if that is higher, count as
    found: they stand before it.

    `likely` is where Java probably stepped back to. `doubled` are the ranges of target offsets
    whose records stand before them too, `count` how many records those are. `runs` and `seams`
    are what was learned of the map before Java stepped back. `mismatch` says why the record at
    target offset `unpaired_from` has no equal; "" while all have. `beyond`: the source has none
    left that it could be. `writer` is the producer id of the batch that was looked at last. A batch
    may unpack to `max_decoded_bytes`; one that is `too_large` says nothing of what has an equal.

    Invariant: an equal record of its own stands in the stretch for each committed source record
    from `source` on and before `position`.
    """

    source: int
    target: int
    exact: bool
    likely: int
    copied_from: int = -1
    copied_to: int = -1
    transform: RecordTransform | None = None
    source_epoch_before: int = -1
    max_decoded_bytes: int = compression.DECOMPRESSED_BYTES_MAX
    read_to: int = field(init=False)
    obstacle: UnreadableBatch | None = None
    too_large: UnreadableBatch | None = None
    count: int = 0
    doubled: list[tuple[int, int]] = field(default_factory=list)
    runs: list[OffsetRun] = field(default_factory=list)
    seams: list[Junction] = field(default_factory=list)
    mismatch: str = ""
    unpaired_from: int = field(init=False)
    beyond: bool = False
    found_any: bool = False
    writer: int = -1
    _offsets: array[int] = field(default_factory=lambda: array("q"))
    _digests: array[int] = field(default_factory=lambda: array("q"))
    _marks: bytearray = field(default_factory=bytearray)
    _epochs: list[tuple[int, int]] = field(default_factory=list)
    _read_epoch: int = -1
    _unread: deque[tuple[SourceBatch, bool]] = field(default_factory=deque)
    _unread_to: tuple[int, int] = (-1, -1)
    _mine: deque[BatchRecord] = field(default_factory=deque)
    _begun: bool = False
    _stepped_back: bool = False
    _places: list[int] = field(default_factory=list)
    _reached: int = 0
    _ended: bool = False

    def __post_init__(self) -> None:
        self.read_to = self.source if self.copied_from < 0 else self.copied_from
        self.unpaired_from = self.target

    @property
    def position(self) -> int:
        """The source offset behind all that is there."""
        return self._place[0]

    @property
    def source_epoch(self) -> int:
        """Leader epoch of the source's batch before `position`, -1 where it was not read."""
        return self._place[1]

    @property
    def _place(self) -> tuple[int, int]:
        if self._begun and self._reached == len(self._offsets) and self.read_to > self.source:
            return self.read_to, self._read_epoch
        behind = self._offsets[self._reached - 1] + 1 if self._begun and self._reached else -1
        if behind <= self.source:
            return self.source, self.source_epoch_before
        at = bisect_left(self._epochs, behind, key=lambda each: each[0]) - 1
        return behind, self._epochs[at][1]

    # Feeding

    def feed_source(self, answer: FetchedRecords) -> MissingInput:
        """One fetch of the source from `read_to` on.

        What was aborted may have been copied, too: Java reads uncommitted unless told otherwise.
        """
        kept = read_committed.scan_batches(
            answer.records, position=self.read_to, aborted=answer.aborted
        )
        found = read_committed.scan_batches(answer.records, position=self.read_to, aborted=())
        committed = {each.header.base_offset for each in kept.batches}
        for entry in found.batches:
            self._unread.append((entry, entry.header.base_offset in committed))
        self._unread_to = found.position, found.leader_epoch
        self.obstacle = found.obstacle
        return self.go_on()

    def _take_in(self) -> MissingInput | None:
        """Remember what was fetched of the source; None once that is done."""
        taken_in = 0
        while self._unread:
            if taken_in >= batch_limits.DECODE_PART_RECORDS:
                return MissingInput.TURN
            entry, needed = self._unread.popleft()
            taken_in += entry.header.record_count
            try:
                self._add(entry, needed=needed)
            except BatchTooLargeError as error:
                self.too_large = tail_matching.describe_too_large(error, entry)
                return MissingInput.NOTHING
            except (BatchUnreadableError, RecordTransformError) as error:
                return self._fail(f"source offset {entry.first}: {error}")
        if self._unread_to[0] > self.read_to:
            self.read_to, self._read_epoch = self._unread_to
        return None

    def _add(self, entry: SourceBatch, *, needed: bool) -> None:
        epoch = entry.header.leader_epoch
        if not self._epochs or self._epochs[-1][1] != epoch:
            self._epochs.append((entry.first, epoch))
        most = self.max_decoded_bytes
        for record in outbound_batches.decode_source_batch(entry, self.transform, max_bytes=most):
            self._offsets.append(record.offset)
            self._digests.append(hash(record[1:]))
            self._marks.append(_COMMITTED_MARK if needed else 0)

    def feed_target(self, header: BatchHeader, batch: memoryview) -> MissingInput:
        """The next batch of the stretch, in offset order."""
        entry = SourceBatch(header, batch, header.base_offset, "")
        self.writer = header.producer_id
        try:
            opened = outbound_batches.decode_source_batch(entry, max_bytes=self.max_decoded_bytes)
        except BatchTooLargeError as error:
            mirrors = (self.position, header.record_count)
            self.too_large = tail_matching.describe_too_large(error, entry, mirrors=mirrors)
            return MissingInput.NOTHING
        except BatchUnreadableError as error:
            return self._fail(f"target offset {header.base_offset}: {error}")
        self._mine.extend(each for each in opened if each.offset >= self.target)
        return self.go_on()

    def source_ends(self) -> MissingInput:
        """There is nothing behind `read_to`, for now."""
        self._ended = True
        need = self.go_on()
        self._ended = False
        return need

    def source_gone(self, log_start: int) -> None:
        """The source has no `read_to`; what lies before `source` was a help only."""
        if self.read_to < self.source:
            nearer = log_start if log_start > self.read_to else self.source
            self.read_to = min(nearer, self.source)
        else:
            self.lost(f"the source does not have offset {self.read_to}")

    def lost(self, why: str) -> None:
        """The stretch, or the source along it, is gone."""
        self._fail(why)

    @property
    def whole(self) -> bool:
        """Does all of the stretch pair, in order, and is there any?"""
        return self.found_any and not self.mismatch and not self._stepped_back

    def _fail(self, why: str) -> MissingInput:
        self.mismatch = why
        return MissingInput.NOTHING

    # Finding

    def go_on(self) -> MissingInput:
        """What is wanted next; `TARGET` is the next batch of the stretch, where there is one."""
        if not self.mismatch and (need := self._take_in()) is not None:
            return need
        if not self.mismatch and not self._begun and not self._begin():
            return MissingInput.SOURCE
        while self._mine and not self.mismatch:
            if not self._find(self._mine[0]):
                return MissingInput.SOURCE
        self._forget()
        return MissingInput.NOTHING if self.mismatch else MissingInput.TARGET

    def _begin(self) -> bool:
        """Is the source read as far as the stretch's first record, and what was copied?"""
        last = max(self.source, self.copied_to)
        reached = bisect_left(self._offsets, last)
        if reached == len(self._offsets) and self.read_to <= last and not self._ended:
            return False
        at = bisect_left(self._offsets, self.source)
        self._places, self._reached, self._begun = [at], reached, True
        return True

    def _find(self, record: BatchRecord) -> bool:
        """False where more of the source must be read first."""
        digest = hash(record[1:])
        matched = self._following(digest, self._places)
        if matched == [] and self.found_any:
            matched = self._following(digest, [self._reached])  # two may write side by side
        if matched is None:
            return False
        if self.exact and not self.found_any:
            begins = matched and (record.offset, self._offsets[matched[0]])
            if begins != (self.target, self.source):
                self.unpaired_from = record.offset
                self.beyond = self._ended and self._places == [len(self._offsets)]
                self._fail(f"target offset {self.target} does not hold source offset {self.source}")
                return True
        matched = matched or self._before(digest)
        if not matched:
            self.unpaired_from = record.offset
            self._fail(self._unlike(record))
            return True
        self._mine.popleft()
        self._note(record, max(matched))
        self._places = [each + 1 for each in matched]
        return True

    def _following(self, digest: int, places: Sequence[int]) -> list[int] | None:
        """Where an equal record follows; None where that is not read yet."""
        matched = []
        for place in places:
            at = place
            while at < len(self._digests) and self._digests[at] != digest:
                if self._marks[at] & _COMMITTED_MARK:
                    break
                at += 1
            if at < len(self._digests):
                if self._digests[at] == digest:
                    matched.append(at)
            elif not self._ended:
                return None
        return matched

    def _before(self, digest: int) -> list[int]:
        """Where equal records stand that were found before: it is one of those again."""
        found = []
        likely = bisect_left(self._offsets, self.likely)
        if likely < self._reached and self._digests[likely] == digest:
            found.append(likely)
        at = -1
        while len(found) < _CANDIDATES_MAX:
            try:
                at = self._digests.index(digest, at + 1, self._reached)
            except ValueError:
                break
            if at != likely:
                found.append(at)
        return found

    def _unlike(self, record: BatchRecord) -> str:
        place = max(*self._places, self._reached)
        self.beyond = place == len(self._offsets)
        if not self.beyond:
            what = f"what source offset {self._offsets[place]} holds, nor what stands before it"
        else:
            what = f"anything that the source holds before {self.read_to}, where it ends"
        return f"target offset {record.offset} does not hold {what}"

    def _note(self, record: BatchRecord, at: int) -> None:
        """The record is the one at this place."""
        self.found_any = True
        new = not self._marks[at]
        if new:
            self._marks[at] = _FOUND_MARK
        if at < self._reached:
            self._stepped_back = True
            if not new:
                self._note_double(record.offset)
            return
        source = self._offsets[at]
        begins = not self.runs or self.runs[-1].delta != record.offset - source
        if begins and not self._stepped_back:
            self._cut_map(record.offset)
            self.runs.append(OffsetRun(source, record.offset - source))
        self._reached = at + 1

    def _note_double(self, offset: int) -> None:
        self.count += 1
        if self.doubled and self.doubled[-1][1] == offset:
            self.doubled[-1] = (self.doubled[-1][0], offset + 1)
            return
        self.doubled.append((offset, offset + 1))
        if len(self.doubled) > DUPLICATE_RANGES_MAX:
            self.unpaired_from = offset
            self._fail("too many stretches of it stand twice")

    def _cut_map(self, target: int) -> None:
        before = self.seams[-1].runs if self.seams else 0
        if len(self.runs) - before >= tail_matching.JUNCTION_RUNS:
            self.seams.append(Junction(len(self.runs), self.position, target, self.source_epoch))

    def _forget(self) -> None:
        """What lies too far back to be stepped back to."""
        surplus = len(self._offsets) - REMEMBERED_RECORDS_MAX
        if surplus < REMEMBERED_RECORDS_MAX // 4 or min(*self._places, self._reached) < surplus:
            return
        for each in (self._offsets, self._digests, self._marks):
            del each[:surplus]
        self._places = [each - surplus for each in self._places]
        self._reached -= surplus
