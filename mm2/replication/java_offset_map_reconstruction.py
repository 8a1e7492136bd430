"""Reconstructs the offset map of a mirror that MirrorMaker 2 wrote, starting from an offset sync.

MirrorMaker 2 resumes from its last stored offset, although it may have replicated beyond that
offset. Its records on the mirror may therefore jump back to earlier source offsets any number of
times, and two of its tasks may even have written concurrently. The result states which source
records are on the mirror (every record up to `position`) and which of them are duplicated.
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
from mm2.formats.record_codec import BatchRecord
from mm2.replication import (
    batch_size_limits,
    outbound_batches,
    read_committed_batch_filter,
    target_log_tail_matching,
)
from mm2.replication.outbound_batches import (
    BatchTooLargeError,
    BatchUnreadableError,
    RecordTransform,
    RecordTransformError,
)
from mm2.replication.read_committed_batch_filter import SourceBatch, UnreadableBatch
from mm2.replication.recovery_instructions import FetchedRecords
from mm2.replication.target_log_tail_matching import RequiredMatchingInput, SegmentSplitPoint

SYNCS_MAX = 2_000
"""Maximum number of offset syncs kept. MirrorMaker 2 writes one per 100 records, and more if the
source has gaps."""
EXACT_RETRACE_MAX = 1_000_000
"""Maximum number of target offsets to compare with the source for an exact offset map (takes about
ten seconds)."""

SyncOffsets = tuple[int, int]
"""Pair of source offset and target offset in an offset sync."""


@dataclass(slots=True)
class JavaOffsetSyncs:
    """The newest offset syncs of one partition, in topic order, which is also the order of their
    target offsets."""

    _syncs: deque[SyncOffsets] = field(default_factory=lambda: deque(maxlen=SYNCS_MAX))

    def __bool__(self) -> bool:
        return bool(self._syncs)

    def add_sync(self, source: int, target: int) -> None:
        """Add the next offset sync. Earlier syncs with the same or a higher target offset are
        discarded, because the mirror topic was recreated or truncated."""
        while self._syncs and self._syncs[-1][1] >= target:
            self._syncs.pop()
        self._syncs.append((source, target))

    def find_sync_below(self, next_offset: int) -> SyncOffsets | None:
        """Choose an offset sync below source offset `next_offset` at which to start comparing the
        mirror topic with the source. Return None if no sync is below it.

        The chosen sync separates the mirror's records by source offset: no earlier mirror record
        has a higher source offset, and no later sync has a lower one. The newest sync may not meet
        this condition, because MirrorMaker 2 may have rewound without reaching its former position
        again. If the chosen sync is too old (`EXACT_RETRACE_MAX`), the newest sync below
        `next_offset` is returned.
        """
        lowest = next_offset
        lowest_behind = []
        for source, _ in reversed(self._syncs):
            lowest = min(lowest, source)
            lowest_behind.append(lowest)
        surest = newest = before = None
        highest = -1
        for sync in self._syncs:
            if before is not None:
                # At most as many records as target offsets may have followed the previous sync.
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
"""Maximum number of source records kept (17 bytes each). A rewind of MirrorMaker 2 to an older
record is not recognized."""
_COMMITTED, _ABORTED_BUT_COPIED = 1, 2
"""States of a source record: committed, or aborted but nevertheless copied to the mirror."""
DUPLICATE_RANGES_MAX = 200
"""Maximum number of duplicate ranges that are reported separately."""
_REPEAT_CANDIDATES_MAX = 256


@dataclass(slots=True, kw_only=True)
class MapReconstruction:
    """Matches each record that MirrorMaker 2 wrote to an equal record of the source.

    The first record at or after target offset `target` matches a source record at or after offset
    `source`. Each later mirror record either matches the next source record, or repeats a source
    record that was already matched.

    Invariant: for each committed source record from `source` up to `position`, the mirror has a
    separate equal record.
    """

    source: int
    target: int
    require_exact_start: bool
    """True if the record at target offset `target` must match the record at source offset
    `source`."""
    likely_step_back: int
    """Source offset to which MirrorMaker 2 probably rewound."""
    copied_from: int = -1
    """Source records from `copied_from` to `source`, or to `copied_to` if that is higher, count as
    already matched. A mirror record that equals one of them may be a duplicate."""
    copied_to: int = -1
    transform: RecordTransform | None = None
    source_epoch_before: int = -1
    max_decoded_bytes: int = compression.DECOMPRESSED_BYTES_MAX
    """Maximum uncompressed size of a batch."""
    read_to: int = field(init=False)
    obstacle: UnreadableBatch | None = None
    too_large: UnreadableBatch | None = None
    """Batch that exceeds `max_decoded_bytes`; None if there is none. Matching stops before this
    batch. An oversized batch does not prove a mismatch."""
    duplicate_count: int = 0
    """Number of duplicate records."""
    duplicate_ranges: list[tuple[int, int]] = field(default_factory=list)
    """Ranges of target offsets whose records repeat earlier records of the mirror."""
    runs: list[OffsetRun] = field(default_factory=list)
    """Offset runs (ranges of offsets with a constant difference) up to the first rewind of
    MirrorMaker 2."""
    junctions: list[SegmentSplitPoint] = field(default_factory=list)
    """Positions at which the reconstructed offset map may be split into segments."""
    mismatch: str = ""
    """Reason why the record at target offset `mismatch_offset` has no match; "" if all records
    match."""
    mismatch_offset: int = field(init=False)
    is_past_source: bool = False
    """True if matching ended at the end of the source: the source contains no further record that
    could match the mirror record."""
    has_match: bool = False
    producer_id: int = -1
    """Producer id of the last batch that was read."""
    _offsets: array[int] = field(default_factory=lambda: array("q"))
    _digests: array[int] = field(default_factory=lambda: array("q"))
    _marks: bytearray = field(default_factory=bytearray)
    _epochs: list[tuple[int, int]] = field(default_factory=list)
    _read_epoch: int = -1
    _undecoded: deque[tuple[SourceBatch, bool]] = field(default_factory=deque)
    _undecoded_end: tuple[int, int] = (-1, -1)
    _mirror_records: deque[BatchRecord] = field(default_factory=deque)
    _has_begun: bool = False
    _stepped_back: bool = False
    _candidates: list[int] = field(default_factory=list)
    _matched_to: int = 0
    _source_ended: bool = False

    def __post_init__(self) -> None:
        self.read_to = self.source if self.copied_from < 0 else self.copied_from
        self.mismatch_offset = self.target

    @property
    def position(self) -> int:
        """Source offset up to which every record is on the mirror."""
        return self._matched_position_and_epoch[0]

    @property
    def source_epoch(self) -> int:
        """Leader epoch of the source batch before `position`; -1 if it was not read."""
        return self._matched_position_and_epoch[1]

    @property
    def _matched_position_and_epoch(self) -> tuple[int, int]:
        if (
            self._has_begun
            and self._matched_to == len(self._offsets)
            and self.read_to > self.source
        ):
            return self.read_to, self._read_epoch
        behind = (
            self._offsets[self._matched_to - 1] + 1 if self._has_begun and self._matched_to else -1
        )
        if behind <= self.source:
            return self.source, self.source_epoch_before
        at = bisect_left(self._epochs, behind, key=lambda each: each[0]) - 1
        return behind, self._epochs[at][1]

    # Input

    def add_source_records(self, answer: FetchedRecords) -> RequiredMatchingInput:
        """Add the records of one source fetch that started at source offset `read_to`.

        Aborted records are also added: MirrorMaker 2 reads uncommitted records by default, so it
        may have copied them.
        """
        kept, found = (
            read_committed_batch_filter.scan_batches(
                answer.records,
                position=self.read_to,
                aborted=aborted,
                end=answer.end,
                max_bytes=self.max_decoded_bytes,
            )
            for aborted in (answer.aborted, ())
        )
        committed = {each.header.base_offset for each in kept.batches}
        for entry in found.batches:
            self._undecoded.append((entry, entry.header.base_offset in committed))
        self._undecoded_end = found.position, found.leader_epoch
        self.obstacle = found.obstacle
        return self.match_available_records()

    def _decode_fetched_batches(self) -> RequiredMatchingInput | None:
        """Decode the fetched source batches, up to a maximum number of records per call. Return
        None once all of them are decoded. Otherwise, return the input that
        matching needs next."""
        taken_in = 0
        while self._undecoded:
            if taken_in >= batch_size_limits.DECODE_PART_RECORDS:
                return RequiredMatchingInput.YIELD
            entry, needed = self._undecoded.popleft()
            taken_in += entry.header.record_count
            try:
                self._add_source_batch(entry, needed=needed)
            except BatchTooLargeError as error:
                self.too_large = target_log_tail_matching.describe_too_large_batch(error, entry)
                return RequiredMatchingInput.NOTHING
            except (BatchUnreadableError, RecordTransformError) as error:
                return self._fail_matching(f"source offset {entry.first}: {error}")
        if self._undecoded_end[0] > self.read_to:
            self.read_to, self._read_epoch = self._undecoded_end
        return None

    def _add_source_batch(self, entry: SourceBatch, *, needed: bool) -> None:
        epoch = entry.header.leader_epoch
        if not self._epochs or self._epochs[-1][1] != epoch:
            self._epochs.append((entry.first, epoch))
        most = self.max_decoded_bytes
        for record in outbound_batches.decode_source_batch(entry, self.transform, max_bytes=most):
            self._offsets.append(record.offset)
            self._digests.append(hash(record[1:]))
            self._marks.append(_COMMITTED if needed else 0)

    def add_target_batch(self, header: BatchHeader, batch: memoryview) -> RequiredMatchingInput:
        """Add the next batch of the mirror. Batches must be added in offset order."""
        entry = SourceBatch(header, batch, header.base_offset, "")
        self.producer_id = header.producer_id
        try:
            opened = outbound_batches.decode_source_batch(entry, max_bytes=self.max_decoded_bytes)
        except BatchTooLargeError as error:
            mirrors = (self.position, header.record_count)
            self.too_large = target_log_tail_matching.describe_too_large_batch(
                error, entry, mirrors=mirrors
            )
            return RequiredMatchingInput.NOTHING
        except BatchUnreadableError as error:
            return self._fail_matching(f"target offset {header.base_offset}: {error}")
        self._mirror_records.extend(each for each in opened if each.offset >= self.target)
        return self.match_available_records()

    def mark_source_ended(self) -> RequiredMatchingInput:
        """Treat `read_to` as the current end of the source's log, and match the records read so
        far."""
        self._source_ended = True
        need = self.match_available_records()
        self._source_ended = False
        return need

    def skip_deleted_source_records(self, log_start: int) -> None:
        """Continue reading the source after records that were deleted. `log_start` is the source's
        log start offset. Records before `source` may be missing, because they only serve to
        recognize duplicates. If a later record was deleted, matching ends with a mismatch."""
        if self.read_to < self.source:
            nearer = log_start if log_start > self.read_to else self.source
            self.read_to = min(nearer, self.source)
        else:
            self.abort_matching(f"the source does not have offset {self.read_to}")

    def abort_matching(self, why: str) -> None:
        """End matching with a mismatch, because the mirror's tail or the source records that it
        should match were deleted."""
        self._fail_matching(why)

    @property
    def is_complete(self) -> bool:
        """Return True if at least one record was read and all records matched in order."""
        return self.has_match and not self.mismatch and not self._stepped_back

    def _fail_matching(self, why: str) -> RequiredMatchingInput:
        self.mismatch = why
        return RequiredMatchingInput.NOTHING

    # Matching

    def match_available_records(self) -> RequiredMatchingInput:
        """Match the mirror and source records read so far; return which side to read next."""
        if not self.mismatch and (need := self._decode_fetched_batches()) is not None:
            return need
        if not self.mismatch and not self._has_begun and not self._begin_matching():
            return RequiredMatchingInput.SOURCE
        while self._mirror_records and not self.mismatch:
            if not self._match_record(self._mirror_records[0]):
                return RequiredMatchingInput.SOURCE
        self._drop_old_records()
        return RequiredMatchingInput.NOTHING if self.mismatch else RequiredMatchingInput.TARGET

    def _begin_matching(self) -> bool:
        """Find the record at which matching begins. Return False if more of the source must be read
        first."""
        last = max(self.source, self.copied_to)
        reached = bisect_left(self._offsets, last)
        if reached == len(self._offsets) and self.read_to <= last and not self._source_ended:
            return False
        at = bisect_left(self._offsets, self.source)
        self._candidates, self._matched_to, self._has_begun = [at], reached, True
        return True

    def _match_record(self, record: BatchRecord) -> bool:
        """Match one mirror record with the source. Return False if more of the source must be read
        first."""
        digest = hash(record[1:])
        matched = self._find_following_matches(digest, self._candidates)
        if matched == [] and self.has_match:
            matched = self._find_following_matches(
                digest, [self._matched_to]
            )  # two tasks may write concurrently
        if matched is None:
            return False
        if self.require_exact_start and not self.has_match:
            begins = matched and (record.offset, self._offsets[matched[0]])
            if begins != (self.target, self.source):
                self.mismatch_offset = record.offset
                self.is_past_source = self._source_ended and self._candidates == [
                    len(self._offsets)
                ]
                self._fail_matching(
                    f"target offset {self.target} does not match source offset {self.source}"
                )
                return True
        matched = matched or self._find_earlier_matches(digest)
        if not matched:
            self.mismatch_offset = record.offset
            self._fail_matching(self._describe_mismatch(record))
            return True
        self._mirror_records.popleft()
        self._store_match(record, max(matched))
        self._candidates = [each + 1 for each in matched]
        return True

    def _find_following_matches(self, digest: int, places: Sequence[int]) -> list[int] | None:
        """Return the indexes of source records that equal the mirror record and directly follow one
        of the candidate matches of the previous mirror record. `places` contains the indexes after
        those candidates. Return None if more of the source must be read first."""
        matched = []
        for place in places:
            at = place
            while at < len(self._digests) and self._digests[at] != digest:
                if self._marks[at] & _COMMITTED:
                    break
                at += 1
            if at < len(self._digests):
                if self._digests[at] == digest:
                    matched.append(at)
            elif not self._source_ended:
                return None
        return matched

    def _find_earlier_matches(self, digest: int) -> list[int]:
        """Return the indexes of already matched source records that equal the mirror record. If
        there are any, the mirror record may be a duplicate."""
        found = []
        likely = bisect_left(self._offsets, self.likely_step_back)
        if likely < self._matched_to and self._digests[likely] == digest:
            found.append(likely)
        at = -1
        while len(found) < _REPEAT_CANDIDATES_MAX:
            try:
                at = self._digests.index(digest, at + 1, self._matched_to)
            except ValueError:
                break
            if at != likely:
                found.append(at)
        return found

    def _describe_mismatch(self, record: BatchRecord) -> str:
        place = max(*self._candidates, self._matched_to)
        self.is_past_source = place == len(self._offsets)
        if not self.is_past_source:
            what = f"the record at source offset {self._offsets[place]} or an earlier one"
        else:
            what = f"any record of the source, which ends at {self.read_to}"
        return f"target offset {record.offset} does not match {what}"

    def _store_match(self, record: BatchRecord, at: int) -> None:
        """Record that a mirror record matches the source record at index `at`."""
        self.has_match = True
        new = not self._marks[at]
        if new:
            self._marks[at] = _ABORTED_BUT_COPIED
        if at < self._matched_to:
            self._stepped_back = True
            if not new:
                self._count_duplicate(record.offset)
            return
        source = self._offsets[at]
        begins = not self.runs or self.runs[-1].delta != record.offset - source
        if begins and not self._stepped_back:
            self._add_segment_split_point_if_due(record.offset)
            self.runs.append(OffsetRun(source, record.offset - source))
        self._matched_to = at + 1

    def _count_duplicate(self, offset: int) -> None:
        self.duplicate_count += 1
        if self.duplicate_ranges and self.duplicate_ranges[-1][1] == offset:
            self.duplicate_ranges[-1] = (self.duplicate_ranges[-1][0], offset + 1)
            return
        self.duplicate_ranges.append((offset, offset + 1))
        if len(self.duplicate_ranges) > DUPLICATE_RANGES_MAX:
            self.mismatch_offset = offset
            self._fail_matching("too many ranges of records are duplicated")

    def _add_segment_split_point_if_due(self, target: int) -> None:
        before = self.junctions[-1].runs if self.junctions else 0
        if len(self.runs) - before >= target_log_tail_matching.JUNCTION_RUNS:
            self.junctions.append(
                SegmentSplitPoint(len(self.runs), self.position, target, self.source_epoch)
            )

    def _drop_old_records(self) -> None:
        """Drop source records that are so old that the mirror is unlikely to repeat them."""
        surplus = len(self._offsets) - REMEMBERED_RECORDS_MAX
        if (
            surplus < REMEMBERED_RECORDS_MAX // 4
            or min(*self._candidates, self._matched_to) < surplus
        ):
            return
        for each in (self._offsets, self._digests, self._marks):
            del each[:surplus]
        self._candidates = [each - surplus for each in self._candidates]
        self._matched_to -= surplus
