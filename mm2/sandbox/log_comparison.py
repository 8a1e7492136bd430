"""Compares two logs in one pass and classifies their differences. Pure: logs are iterators.

While the logs are equal, records are compared as they are read. After the first difference, long
keys and values are replaced by digests, and both logs are read ahead in windows, which
`mm2.sandbox.patience_diff` aligns. A window grows until the logs match again.

Records without a counterpart are classified after both logs have been read to their ends. A
reordered record must not be counted as one missing and one extra record, and a duplicate may be
arbitrarily far from the original. `str()` formats the result as a short table.
"""

from __future__ import annotations

import enum
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2.sandbox import compared_records, patience_diff
from mm2.sandbox.compared_records import ComparedRecord, RawRecord, RecordChunk, RecordContent
from mm2.sandbox.patience_diff import MatchedItems

_MEGABYTE = 1_000_000
_DETAILED_PARTITIONS_MAX = 4
"""Maximum number of partitions per topic whose differences are printed in detail."""


class DifferenceKind(enum.Enum):
    """Kinds of differences between the records of a mirror topic and its source, such as missing,
    altered or duplicated records."""

    MISSING = "missing"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    ALTERED = "altered"
    EXTRA = "extra"
    STALE = "not the latest value for its key:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDifference:
    """All records of a partition with the same kind of difference.

    `source_offset` and `target_offset` are the offsets of the first such record in both logs. A log
    that lacks the record has another record in its position, and the offset of this other record is
    used. The offset is None at the end of the log.
    """

    kind: DifferenceKind
    count: int
    source_offset: int | None
    target_offset: int | None
    fields: tuple[str, ...] = ()
    """Names of the record parts that differ: key, value, headers, timestamp or timestamp type."""

    def __str__(self) -> str:
        what = f" ({', '.join(self.fields)})" if self.fields else ""
        return (
            f"{self.kind.value} {self.count:,}{what}, the first at source offset "
            f"{_format_offset(self.source_offset)}, "
            f"target offset {_format_offset(self.target_offset)}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionComparison:
    """Comparison result for one partition."""

    source: TopicPartition
    target: TopicPartition
    source_records: int
    target_records: int
    size: int
    """Total bytes of keys and values on the source."""
    differences: tuple[RecordDifference, ...] = ()
    is_truncated: bool = False
    """True if a log has more than `KEPT_UNMATCHED_MAX` records without a counterpart. The
    additional records are not classified, but only counted as missing or extra."""

    @property
    def is_equal(self) -> bool:
        return not self.differences

    def count_differences(self, kind: DifferenceKind) -> int:
        """Return the number of records with this kind of difference."""
        return sum(each.count for each in self.differences if each.kind is kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicsComparison:
    """Comparison results for all partitions. `str()` formats them as a table with one line per
    topic."""

    partitions: tuple[PartitionComparison, ...]

    @property
    def is_equal(self) -> bool:
        return all(each.is_equal for each in self.partitions)

    @property
    def differing_partitions(self) -> tuple[PartitionComparison, ...]:
        return tuple(each for each in self.partitions if not each.is_equal)

    @property
    def records(self) -> int:
        """Total number of records on the source."""
        return sum(each.source_records for each in self.partitions)

    @property
    def size(self) -> int:
        """Total bytes of keys and values on the source."""
        return sum(each.size for each in self.partitions)

    def count_differences(self, kind: DifferenceKind) -> int:
        """Return the number of records with this kind of difference in all partitions."""
        return sum(each.count_differences(kind) for each in self.partitions)

    def __str__(self) -> str:
        return "\n".join(_render_comparison(self))


def _render_comparison(comparison: TopicsComparison) -> Iterator[str]:
    topics = sorted({each.source.topic for each in comparison.partitions})
    width = max(len(topic) for topic in [*topics, "topic"])
    yield f"{'topic':<{width}}  partitions     records        MB  result"
    for topic in topics:
        parts = [each for each in comparison.partitions if each.source.topic == topic]
        yield (
            f"{topic:<{width}}  {len(parts):>10}  {sum(each.source_records for each in parts):>10,}"
            f"  {sum(each.size for each in parts) / _MEGABYTE:>8,.1f}  {_describe_result(parts)}"
        )
        yield from _render_details(parts)


def _describe_result(parts: Sequence[PartitionComparison]) -> str:
    if not any(each.source_records or each.target_records for each in parts):
        return "empty on both sides"
    wrong = sum(1 for each in parts if not each.is_equal)
    return f"DIFFERENT in {wrong} of {len(parts)}" if wrong else "all records equal"


def _render_details(parts: Sequence[PartitionComparison]) -> Iterator[str]:
    wrong = [part for part in parts if not part.is_equal]
    for part in wrong[:_DETAILED_PARTITIONS_MAX]:
        for difference in part.differences:
            yield f"  {part.source}: {difference}"
        if part.is_truncated:
            yield f"  {part.source}: further differences were counted, but not classified"
    if len(wrong) > _DETAILED_PARTITIONS_MAX:
        more = plurals.format_count(len(wrong) - _DETAILED_PARTITIONS_MAX, "more partition")
        yield f"  and {more}"


def _format_offset(offset: int | None) -> str:
    return "end" if offset is None else str(offset)


KEPT_UNMATCHED_MAX = 100_000
"""Maximum number of records per side kept for classification; additional records are only
counted."""

_SEARCH_AHEAD_RECORDS = 16

FindOriginals = Callable[[frozenset[RecordContent]], dict[RecordContent, int]]
"""Function that reads the source again and returns the first offset at which each of the given
record contents occurs."""

IsAllowedToLack = Callable[[int], bool]
"""Predicate on source offsets that returns True if the target may lack the record."""

_DifferenceLabel = tuple[DifferenceKind, tuple[str, ...]]
_IndexPairs = Sequence[tuple[int, int]]


def allow_no_missing_records(_: int) -> bool:
    """Return False for every offset. `IsAllowedToLack` predicate for mirror topics that must
    contain all source records."""
    return False


def find_original_offsets(
    source: Iterable[RecordChunk], wanted: Collection[RecordContent]
) -> dict[RecordContent, int]:
    """Find the first offset of each wanted record content in a log. Implements `FindOriginals`."""
    found: dict[RecordContent, int] = {}
    for chunk in source:
        contents = map(compared_records.condense_record, chunk.contents)
        for offset, content in zip(chunk.offsets, contents, strict=True):
            if content in wanted:
                found.setdefault(content, offset)
    return found


@dataclass(frozen=True, slots=True)
class _UnmatchedRecord:
    """A record without a counterpart in the other log; `gap` is the number of the section between
    two matching records that contains this record."""

    record: ComparedRecord
    gap: int
    other_offset: int | None


@dataclass(slots=True)
class UnmatchedRecords:
    """Records without a counterpart: `lost` records are only on the source, `added` records only on
    the target.

    At most `KEPT_UNMATCHED_MAX` records are kept per side; additional records are only counted.
    """

    is_allowed_to_lack: IsAllowedToLack = allow_no_missing_records
    _lost: list[_UnmatchedRecord] = field(default_factory=list)
    _added: list[_UnmatchedRecord] = field(default_factory=list)
    _more_lost: int = 0
    _more_added: int = 0
    _gap: int = 0

    @property
    def is_truncated(self) -> bool:
        return bool(self._more_lost or self._more_added)

    def start_next_gap(self) -> None:
        """Start a new gap, that is, a section between two matching records. Unmatched records that
        are added afterwards belong to this gap."""
        self._gap += 1

    def add_lost_record(self, record: ComparedRecord, other_offset: int | None) -> None:
        """Add a record that only the source has; `other_offset` is the offset of the target's
        record in the same position."""
        if self.is_allowed_to_lack(record.offset):
            return
        if len(self._lost) < KEPT_UNMATCHED_MAX:
            self._lost.append(_UnmatchedRecord(record, self._gap, other_offset))
        else:
            self._more_lost += 1

    def add_extra_record(self, record: ComparedRecord, other_offset: int | None) -> None:
        """Add a record that only the target has; `other_offset` is the offset of the source's
        record in the same position."""
        if len(self._added) < KEPT_UNMATCHED_MAX:
            self._added.append(_UnmatchedRecord(record, self._gap, other_offset))
        else:
            self._more_added += 1

    def classify_records(self, find_originals: FindOriginals) -> tuple[RecordDifference, ...]:
        """Classify all unmatched records. Return the differences in the order of
        `DifferenceKind`."""
        tally = _DifferenceCounts()
        lost: Sequence[_UnmatchedRecord] = self._lost
        added: Sequence[_UnmatchedRecord] = self._added
        lost, added = _remove_pairs(
            lost, added, pairs=_pair_moved_records(lost, added), tally=tally
        )
        added = _remove_duplicates(added, find_originals, tally=tally)
        lost, added = _remove_pairs(
            lost, added, pairs=_pair_altered_records(lost, added), tally=tally
        )
        for each in lost:
            tally.add_difference(DifferenceKind.MISSING, each.record.offset, each.other_offset)
        for each in added:
            tally.add_difference(DifferenceKind.EXTRA, each.other_offset, each.record.offset)
        tally.add_differences_without_offsets(DifferenceKind.MISSING, self._more_lost)
        tally.add_differences_without_offsets(DifferenceKind.EXTRA, self._more_added)
        return tally.list_differences()


@dataclass(slots=True)
class _DifferenceCounts:
    """Difference counts by kind and altered fields, each with the source and target offset of its
    first record."""

    _counts: defaultdict[_DifferenceLabel, int] = field(default_factory=lambda: defaultdict(int))
    _first: dict[_DifferenceLabel, tuple[int | None, int | None]] = field(default_factory=dict)

    def add_difference(
        self,
        kind: DifferenceKind,
        source_offset: int | None,
        target_offset: int | None,
        *,
        fields: tuple[str, ...] = (),
    ) -> None:
        self._counts[kind, fields] += 1
        self._first.setdefault((kind, fields), (source_offset, target_offset))

    def add_differences_without_offsets(self, kind: DifferenceKind, count: int) -> None:
        """Count `count` records with the given kind of difference, whose offsets are unknown."""
        if count:
            self._counts[kind, ()] += count

    def list_differences(self) -> tuple[RecordDifference, ...]:
        kinds = list(DifferenceKind)
        return tuple(
            RecordDifference(
                kind=kind,
                count=self._counts[kind, fields],
                source_offset=self._first.get((kind, fields), (None, None))[0],
                target_offset=self._first.get((kind, fields), (None, None))[1],
                fields=fields,
            )
            for kind, fields in sorted(
                self._counts, key=lambda label: (kinds.index(label[0]), label[1])
            )
        )


def _pair_moved_records(
    lost: Sequence[_UnmatchedRecord], added: Sequence[_UnmatchedRecord]
) -> _IndexPairs:
    """Pair lost and added records that have the same content in different positions."""
    places: defaultdict[RecordContent, deque[int]] = defaultdict(deque)
    for index, each in enumerate(lost):
        places[each.record.content].append(index)
    return [
        (places[each.record.content].popleft(), index)
        for index, each in enumerate(added)
        if places.get(each.record.content)
    ]


def _pair_altered_records(
    lost: Sequence[_UnmatchedRecord], added: Sequence[_UnmatchedRecord]
) -> _IndexPairs:
    """Pair lost and added records of the same gap as altered records.

    Records are paired in order if both sides have the same number of records in the gap; otherwise
    only similar records are paired.
    """
    by_gap: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for index, each in enumerate(lost):
        by_gap[each.gap][0].append(index)
    for index, each in enumerate(added):
        by_gap[each.gap][1].append(index)
    pairs: list[tuple[int, int]] = []
    for left, right in by_gap.values():
        if len(left) == len(right):
            pairs.extend(zip(left, right, strict=True))
        else:
            pairs.extend(_pair_similar_records_in_order(lost, added, left=left, right=right))
    return pairs


def _pair_similar_records_in_order(
    lost: Sequence[_UnmatchedRecord],
    added: Sequence[_UnmatchedRecord],
    *,
    left: Sequence[int],
    right: Sequence[int],
) -> _IndexPairs:
    pairs: list[tuple[int, int]] = []
    start = 0
    for index in left:
        for place in range(start, min(start + _SEARCH_AHEAD_RECORDS, len(right))):
            if _are_records_similar(lost[index].record.content, added[right[place]].record.content):
                pairs.append((index, right[place]))
                start = place + 1
                break
    return pairs


def _are_records_similar(left: RecordContent, right: RecordContent) -> bool:
    """Return True if two records have the same timestamp, the same non-empty key or the same
    non-empty value."""
    return (
        left.timestamp == right.timestamp
        or (bool(left.key) and left.key == right.key)
        or (bool(left.value) and left.value == right.value)
    )


def _remove_pairs(
    lost: Sequence[_UnmatchedRecord],
    added: Sequence[_UnmatchedRecord],
    *,
    pairs: _IndexPairs,
    tally: _DifferenceCounts,
) -> tuple[Sequence[_UnmatchedRecord], Sequence[_UnmatchedRecord]]:
    """Remove paired records from both sides, and count them as reordered or altered. Return the
    unpaired records of both sides."""
    for left, right in sorted(pairs):
        source, target = lost[left].record, added[right].record
        fields = compared_records.list_differing_fields(source.content, target.content)
        kind = DifferenceKind.ALTERED if fields else DifferenceKind.REORDERED
        tally.add_difference(kind, source.offset, target.offset, fields=fields)
    taken_left, taken_right = {left for left, _ in pairs}, {right for _, right in pairs}
    return (
        [each for index, each in enumerate(lost) if index not in taken_left],
        [each for index, each in enumerate(added) if index not in taken_right],
    )


def _remove_duplicates(
    added: Sequence[_UnmatchedRecord], find_originals: FindOriginals, *, tally: _DifferenceCounts
) -> Sequence[_UnmatchedRecord]:
    wanted = frozenset(each.record.content for each in added)
    found = find_originals(wanted) if wanted else {}
    left: list[_UnmatchedRecord] = []
    for each in added:
        original = found.get(each.record.content)
        if original is None:
            left.append(each)
        else:
            tally.add_difference(DifferenceKind.DUPLICATED, original, each.record.offset)
    return left


WINDOW_RECORDS = 8_192
WINDOW_RECORDS_MAX = 131_072

_AnyContent = RawRecord | RecordContent


@dataclass(frozen=True, slots=True, kw_only=True)
class LogComparison:
    """Comparison result for two logs."""

    source_records: int
    target_records: int
    size: int
    """Total bytes of keys and values on the source."""
    differences: tuple[RecordDifference, ...] = ()
    is_truncated: bool = False
    """True if a log has more than `KEPT_UNMATCHED_MAX` records without a counterpart. The
    additional records are not classified, but only counted as missing or extra."""


@dataclass(slots=True)
class _LogWindow:
    """The part of a log that has been read ahead. The next record to compare is at index `at`.
    After the first difference, long record contents are replaced by digests.

    Invariant: `offsets` and `contents` have the same length, and `at` does not exceed that length.
    """

    chunks: Iterator[RecordChunk]
    offsets: list[int] = field(default_factory=list)
    contents: list[_AnyContent] = field(default_factory=list)
    at: int = 0
    condensing: bool = False
    ended: bool = False
    records: int = 0
    size: int = 0

    @property
    def buffered_record_count(self) -> int:
        return len(self.contents) - self.at

    def read_ahead(self, count: int) -> None:
        """Read ahead until `count` records are buffered, or until the log ends."""
        while self.buffered_record_count < count and not self.ended:
            chunk = next(self.chunks, None)
            if chunk is None:
                self.ended = True
                return
            self._forget_passed_records()
            self.records += len(chunk.offsets)
            self.size += chunk.size
            self.offsets += chunk.offsets
            self.contents += (
                map(compared_records.condense_record, chunk.contents)
                if self.condensing
                else chunk.contents
            )

    def condense_records(self) -> None:
        """Store only condensed record contents (small and hashable) from now on. Call this on the
        windows of both logs."""
        self._forget_passed_records()
        if not self.condensing:
            self.condensing = True
            self.contents = [
                compared_records.condense_record(each) for each in self._get_raw_records()
            ]

    def get_offset_at(self, index: int) -> int | None:
        return self.offsets[index] if index < len(self.offsets) else None

    def get_record_at(self, index: int) -> ComparedRecord:
        content = self.contents[index]
        assert isinstance(content, RecordContent)
        return ComparedRecord(self.offsets[index], content)

    def _get_raw_records(self) -> list[RawRecord]:
        return cast("list[RawRecord]", self.contents)

    def _forget_passed_records(self) -> None:
        del self.offsets[: self.at]
        del self.contents[: self.at]
        self.at = 0


def compare_logs(
    source: Iterable[RecordChunk],
    target: Iterable[RecordChunk],
    *,
    find_originals: FindOriginals,
    is_allowed_to_lack: IsAllowedToLack = allow_no_missing_records,
) -> LogComparison:
    """Compare two logs to their ends, in bounded memory.

    `is_allowed_to_lack` returns True for source offsets that may be missing in the target, so that
    their absence is not reported as a difference.
    """
    left, right = _LogWindow(iter(source)), _LogWindow(iter(target))
    found = UnmatchedRecords(is_allowed_to_lack)
    while _skip_equal_records(left, right):
        _align_windows(left, right, found=found)
    return LogComparison(
        source_records=left.records,
        target_records=right.records,
        size=left.size,
        differences=found.classify_records(find_originals),
        is_truncated=found.is_truncated,
    )


def _skip_equal_records(left: _LogWindow, right: _LogWindow) -> bool:
    """Skip records that are equal on both sides. Return False if both logs have ended."""
    while True:
        left.read_ahead(1)
        right.read_ahead(1)
        common = min(left.buffered_record_count, right.buffered_record_count)
        if common == 0:
            return bool(left.buffered_record_count or right.buffered_record_count)
        mine = left.contents[left.at : left.at + common]
        theirs = right.contents[right.at : right.at + common]
        same = common if mine == theirs else _count_common_leading_records(mine, theirs)
        left.at += same
        right.at += same
        if same < common:
            return True


def _count_common_leading_records(
    mine: Sequence[_AnyContent], theirs: Sequence[_AnyContent]
) -> int:
    pairs = enumerate(zip(mine, theirs, strict=True))
    return next(index for index, (one, other) in pairs if one != other)


def _align_windows(left: _LogWindow, right: _LogWindow, *, found: UnmatchedRecords) -> None:
    """Read ahead until at least one source record matches a target record. Then add the records
    before the last match that only one log contains to `found`.

    Records after the last match remain in the windows, because their counterparts may not have been
    read.
    """
    left.condense_records()
    right.condense_records()
    window = WINDOW_RECORDS
    while True:
        left.read_ahead(window)
        right.read_ahead(window)
        pairs = patience_diff.align_sequences(left.contents, right.contents)
        if left.ended and right.ended:
            _add_unmatched_records(
                left,
                right,
                pairs=[*pairs, (left.buffered_record_count, right.buffered_record_count)],
                found=found,
            )
            return
        if pairs:
            _add_unmatched_records(left, right, pairs=pairs, found=found)
            return
        if left.ended or right.ended or window >= WINDOW_RECORDS_MAX:
            _add_unmatched_records(
                left, right, pairs=[_count_records_to_skip(left, right)], found=found
            )
            return
        window *= 2


def _count_records_to_skip(left: _LogWindow, right: _LogWindow) -> MatchedItems:
    """Return how many records to skip on each side if the windows have no match.

    If one log has ended, all records read from the other log are skipped. Otherwise half of each
    window is skipped, so that the next windows overlap the current windows.
    """
    if left.ended or right.ended:
        return (
            0 if left.ended else left.buffered_record_count,
            0 if right.ended else right.buffered_record_count,
        )
    return left.buffered_record_count // 2, right.buffered_record_count // 2


def _add_unmatched_records(
    left: _LogWindow,
    right: _LogWindow,
    *,
    pairs: Sequence[MatchedItems],
    found: UnmatchedRecords,
) -> None:
    """Record the unmatched records between the matched pairs, and skip everything before the last
    match."""
    start_left = start_right = 0
    for end_left, end_right in pairs:
        if end_left > start_left or end_right > start_right:
            found.start_next_gap()
            for index in range(start_left, end_left):
                found.add_lost_record(left.get_record_at(index), right.get_offset_at(end_right))
            for index in range(start_right, end_right):
                found.add_extra_record(right.get_record_at(index), left.get_offset_at(end_left))
        start_left, start_right = end_left + 1, end_right + 1
    left.at, right.at = pairs[-1]
