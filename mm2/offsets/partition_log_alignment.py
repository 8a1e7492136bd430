"""Aligns a source log and a target log: finds the source record that each target record copies.

Used if there is no offset map. Records are compared by digests of their entire content. Two records
match if their digest occurs exactly once in each log and if their order agrees with the other
matches, because replication preserves the source's order. The records between two matches are
paired one by one, in log order, if the two sequences of records are equal and no record is missing.
If records were replicated more than once, the last copy counts. Ambiguous records are not paired;
only bounds of their target offsets are determined.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple

_OPTIONAL_FLAG = 1
_HOLE_FLAG = 2


@dataclass(slots=True, kw_only=True)
class LogDigests:
    """Digests of one log's items from offset `start` on, in order. An item is a record or a batch
    of consecutive records.

    `optional` items may have no counterpart in the other log. These are aborted records:
    MirrorMaker 2 replicates them by default, mm2 does not. A *hole* is a gap in the offsets that
    compaction left and that no transaction marker explains. Invariant: `end` is greater than every
    offset that was added or skipped.
    """

    start: int
    end: int = field(init=False)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    spans: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("q"))
    producer_ids: array[int] = field(default_factory=lambda: array("q"))
    _flags: bytearray = field(default_factory=bytearray)
    _hole: bool = False

    def __post_init__(self) -> None:
        self.end = self.start

    def __len__(self) -> int:
        return len(self.offsets)

    def add_item_digest(
        self,
        offset: int,
        digest: int,
        *,
        span: int = 1,
        optional: bool = False,
        producer_id: int = -1,
    ) -> None:
        """Add the digest of the log's next item, which covers `span` offsets starting at `offset`.

        `digest` is a signed 64-bit number.
        """
        self.skip_to_offset(offset, hole=True)
        self.offsets.append(offset)
        self.spans.append(span)
        self.digests.append(digest)
        self.producer_ids.append(producer_id)
        self._flags.append((_OPTIONAL_FLAG if optional else 0) | (_HOLE_FLAG if self._hole else 0))
        self._hole = False
        self.end = offset + span

    def skip_to_offset(self, offset: int, *, hole: bool = False) -> None:
        """Skip to `offset`. If `hole` is True, the skipped offsets are a hole; otherwise nothing at
        these offsets is to be replicated."""
        if offset > self.end:
            self._hole = self._hole or hole
            self.end = offset

    def get_end_offset(self, at: int) -> int:
        """Return the offset after the log's item at index `at`."""
        return self.offsets[at] + self.spans[at]

    def is_counterpart_required(self, at: int) -> bool:
        """Return whether the item at index `at` must have a counterpart in the other log."""
        return not self._flags[at] & _OPTIONAL_FLAG

    def has_compaction_gap(self, first: int, last: int) -> bool:
        """Return whether offsets are missing because of compaction (a hole) immediately before any
        of the items from index `first` to `last` (inclusive)."""
        return any(self._flags[at] & _HOLE_FLAG for at in range(first, last + 1))

    def check_invariants(self) -> None:
        for at in range(1, len(self)):
            assert self.get_end_offset(at - 1) <= self.offsets[at], at
        assert not self.offsets or self.get_end_offset(len(self) - 1) <= self.end


class MatchedIndexPair(NamedTuple):
    """Indexes of a source item and the target item that it matches."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatches:
    """Result of matching the items of two logs."""

    pairs: list[MatchedIndexPair]
    """All matched pairs, in log order."""
    certain: list[MatchedIndexPair]
    """Matched pairs for which all known copies of earlier source records precede the pair's target
    item."""
    bounded: Set[int]
    """Indexes in `certain`. For the source offsets between such a pair and the next pair in
    `certain`, only bounds of the target offsets are known."""


class AlignedRange(NamedTuple):
    """A range of source offsets from `first` to `through` (exclusive), with the target offsets. All
    copies of its records are below target offset `target_next`. `runs` contains (source offset,
    delta) pairs: from that source offset on, target offset = source offset + delta.

    If `below` or `above` is not 0, only the target offset of `first` is exact. The target offsets
    of later source offsets may be lower by up to `below` or higher by up to `above`.
    """

    first: int
    through: int
    target_next: int
    runs: tuple[tuple[int, int], ...]
    below: int = 0
    above: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAlignment:
    """Aligned offset ranges of a source and a target log. The ranges are consecutive without
    gaps."""

    first_source: int
    first_target: int
    ranges: tuple[AlignedRange, ...]
    matched_offsets: int
    """Number of source offsets that have a copy on the target."""
    bounded_offsets: int
    """Number of source offsets for which only bounds of the target offset are known."""
    unmatched_tail: int
    """Number of target items after the last matched item."""
    producer_ids: tuple[int, ...]
    """Producer ids of matched items, in order of appearance."""

    @property
    def source_end(self) -> int:
        return self.ranges[-1].through

    @property
    def target_end(self) -> int:
        return self.ranges[-1].target_next


def build_alignment(source: LogDigests, target: LogDigests, matches: LogMatches) -> LogAlignment:
    """Build the alignment of two logs from their matches. `matches.certain` must not be empty."""
    return _AlignmentBuilder(source, target, matches).build()


class _AlignmentBuilder:
    """Builds aligned ranges from matched pairs."""

    def __init__(self, source: LogDigests, target: LogDigests, found: LogMatches) -> None:
        self._source = source
        self._target = target
        self._pairs = [each for each in found.pairs if each <= found.certain[-1]]
        self._sure = found.certain
        self._unsure = found.bounded
        self._ranges: list[AlignedRange] = []
        self._runs: list[tuple[int, int]] = []
        self._first = self._find_first_source_offset()

    def build(self) -> LogAlignment:
        first_source = self._first
        for index, pair in enumerate(self._sure):
            offset, delta = self._get_source_offset_and_delta(pair)
            if not self._runs or self._runs[-1][1] != delta:
                self._runs.append((offset, delta))
            if index in self._unsure and index + 1 < len(self._sure):
                self._add_bounded_range(index)
        self._add_exact_range(*self._find_alignment_end())
        return LogAlignment(
            first_source=first_source,
            first_target=self._find_first_target_offset(),
            ranges=tuple(self._ranges),
            matched_offsets=sum(self._source.spans[each.source] for each in self._pairs),
            bounded_offsets=sum(
                each.through - each.first - 1 for each in self._ranges if each.below or each.above
            ),
            producer_ids=self._list_producer_ids(),
            unmatched_tail=len(self._target) - 1 - self._sure[-1].target,
        )

    def _list_producer_ids(self) -> tuple[int, ...]:
        writers = self._target.producer_ids
        return tuple(dict.fromkeys(writers[each.target] for each in self._pairs))

    def _get_source_offset_and_delta(self, pair: MatchedIndexPair) -> tuple[int, int]:
        offset = self._source.offsets[pair.source]
        return offset, self._target.offsets[pair.target] - offset

    def _add_bounded_range(self, index: int) -> None:
        """Add the range of offsets after the pair at `index` in `LogMatches.certain`. The range
        starts at the last record of that pair, whose target offset is exact; for later offsets only
        bounds are known."""
        pair = self._sure[index]
        _, delta = self._get_source_offset_and_delta(pair)
        last = self._source.get_end_offset(pair.source) - 1
        through, change = self._get_source_offset_and_delta(self._sure[index + 1])
        target_next = through + change
        below = max(0, through - last - 2)
        above = max(0, target_next - (last + 1 + delta))
        if last > self._first:
            self._add_exact_range(last, last + delta)
        run = (last, delta)
        self._ranges.append(
            AlignedRange(last, through, target_next, (run,), below=below, above=above)
        )
        self._first, self._runs = through, []

    def _add_exact_range(self, through: int, target_next: int) -> None:
        runs = tuple(each for each in self._runs if each[0] < through)
        self._ranges.append(AlignedRange(self._first, through, target_next, runs))
        self._first, self._runs = through, []

    def _find_first_source_offset(self) -> int:
        """Find the first source offset of the alignment, including preceding offsets that need no
        copy."""
        source, at = self._source, self._sure[0].source
        before = any(map(source.is_counterpart_required, range(at)))
        if before or source.has_compaction_gap(0, at):
            return source.offsets[at]
        return source.start

    def _find_first_target_offset(self) -> int:
        target, at = self._target, self._sure[0].target
        return target.offsets[at] if at or target.has_compaction_gap(0, 0) else target.start

    def _find_alignment_end(self) -> tuple[int, int]:
        """Find the source and target offset at which the alignment ends.

        If target items follow the last pair in `LogMatches.certain`, the alignment ends right after
        that pair. Otherwise it ends before the next source record to replicate.
        """
        source, target, last = self._source, self._target, self._sure[-1]
        if last.target + 1 < len(target):
            return source.get_end_offset(last.source), target.get_end_offset(last.target)
        left = range(last.source + 1, len(source))
        first = next(filter(source.is_counterpart_required, left), None)
        return source.end if first is None else source.offsets[first], target.end


_Pair = MatchedIndexPair
_BEFORE_FIRST_PAIR = _Pair(-1, -1)
_BYTES_PER_RECORD = 35
_BYTES_PER_PAIR = 360


def estimate_max_records(memory_bytes: int, *, target: int = 0) -> int:
    """Estimate the maximum number of source records that `align_logs` can process with
    `memory_bytes` of memory if the target log has `target` records. The digests of both logs and
    all matched pairs are in memory at the same time; the bytes per record and pair were
    measured."""
    left = max(0, memory_bytes - target * _BYTES_PER_RECORD)
    if left <= target * (_BYTES_PER_RECORD + _BYTES_PER_PAIR):
        return left // (_BYTES_PER_RECORD + _BYTES_PER_PAIR)
    return (left - target * _BYTES_PER_PAIR) // _BYTES_PER_RECORD


def align_logs(
    source: LogDigests, target: LogDigests, *, assume_unique: bool = False
) -> LogAlignment | None:
    """Align a source and a target log. Returns None if no target record is known to be a copy of a
    source record.

    Set `assume_unique` only if no two source records, including deleted records, were ever equal.
    """
    logs = _LogMatcher(source, target)
    pairs, unknown = logs.extend_matched_pairs(
        _find_longest_ordered_pairs(logs.find_unique_pairs(all_differ=assume_unique))
    )
    found = logs.build_log_matches(
        pairs if assume_unique else logs.drop_unreliable_pairs(pairs), unknown
    )
    return build_alignment(source, target, found) if found.certain else None


def _find_longest_ordered_pairs(found: Sequence[_Pair]) -> list[_Pair]:
    """Find the longest sequence of matched pairs that are in the same order in both logs.

    Pairs outside this sequence are coincidences: a target record before the copy of an earlier
    source record cannot be a copy, because replication preserves the order.
    """
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for index, pair in enumerate(found):
        at = bisect_left(ends, pair.target)
        if at == len(ends):
            ends.append(pair.target)
            at_end.append(index)
        else:
            ends[at], at_end[at] = pair.target, index
        before.append(at_end[at - 1] if at else -1)
    kept: list[_Pair] = []
    index = at_end[-1] if at_end else -1
    while index >= 0:
        kept.append(found[index])
        index = before[index]
    return kept[::-1]


class _LogMatcher:
    """Matches equal items of a source and a target log in pairs."""

    def __init__(self, source: LogDigests, target: LogDigests) -> None:
        self._source = source
        self._target = target
        self._source_index = _index_unique_digests(source.digests)

    def find_unique_pairs(self, *, all_differ: bool) -> list[_Pair]:
        """Match the items that occur exactly once in each log.

        If source records were deleted, aborted source records are excluded: an equal target record
        may be the copy of a deleted committed record. They are included if `all_differ` is True
        (see `assume_unique` in `align_logs`).
        """
        source, there = self._source, _index_unique_digests(self._target.digests)
        may_be = all_differ or not (source.start or source.has_compaction_gap(0, len(source) - 1))
        found = (
            (at, there.get(digest, -1))
            for digest, at in self._source_index.items()
            if at >= 0 and (may_be or source.is_counterpart_required(at))
        )
        return sorted(_Pair(here, at) for here, at in found if at >= 0)

    def extend_matched_pairs(self, chain: Sequence[_Pair]) -> tuple[list[_Pair], set[int]]:
        """Add the pairs before, between and after the pairs of `chain` that can be matched
        unambiguously. Return all pairs, and the indexes of ambiguous pairs. An ambiguous pair is
        followed by target items that may be copies but cannot be matched."""
        if not chain:
            return self._match_whole_logs(), set()
        pairs = self._extend_pairs_backward(chain[0])
        unknown: set[int] = set()
        for left, right in itertools.pairwise(chain):
            pairs.append(left)
            inner = self._match_items_between(left, right) or self._match_last_copies_between(
                left, right
            )
            if inner is None and self._has_unknown_items_between(left, right):
                unknown.add(len(pairs) - 1)
            pairs += inner or ()
        pairs.append(chain[-1])
        pairs += self._extend_pairs_forward(chain[-1])
        return pairs, unknown

    def drop_unreliable_pairs(self, pairs: list[_Pair]) -> list[_Pair]:
        """Return the matched pairs before the first dubious pair.

        A source record may have had an equal predecessor that was deleted. The target record may
        then be a copy of the predecessor, not of the source record. Pairs that follow an unmatched
        source record are dubious if at least as many source records were deleted as there are such
        pairs. All records deleted before these pairs count if the unmatched record is known to have
        no copy. Otherwise only the records deleted since the preceding pair count.
        """
        gone = 0
        for index, (left, right) in enumerate(itertools.pairwise([_BEFORE_FIRST_PAIR, *pairs])):
            here = self._count_missing_items_before(left, right)
            gone += here
            among = list(
                filter(self._source.is_counterpart_required, range(left.source + 1, right.source))
            )
            most = gone if self._has_uncopied_item(among, left, right) else here if among else -1
            if most >= len(pairs) - index:
                return pairs[:index]
        return pairs

    def _has_uncopied_item(self, among: Sequence[int], left: _Pair, right: _Pair) -> bool:
        """Return whether at least one of the source items with the indexes `among` certainly has no
        copy between the target items of the two matched pairs. Return False if target records may
        have been deleted there."""
        target = self._target
        if not among or target.has_compaction_gap(left.target + 1, right.target):
            return False
        if left == _BEFORE_FIRST_PAIR and target.start > 0:
            return False
        copies = set(target.digests[left.target + 1 : right.target])
        return any(self._source.digests[at] not in copies for at in among)

    def build_log_matches(self, pairs: list[_Pair], unknown: Set[int]) -> LogMatches:
        """Build the matches from `pairs`. `LogMatches.certain` receives each pair unless a copy of
        an earlier source record follows it on the target. `unknown` contains the indexes that
        `extend_matched_pairs` returned."""
        behind = self._compute_target_ends_of_copies()
        sure: list[_Pair] = []
        unsure: set[int] = set()
        for index, pair in enumerate(pairs):
            if behind[pair.source] <= self._target.offsets[pair.target]:
                sure.append(pair)
            elif sure:
                unsure.add(len(sure) - 1)
            if index in unknown and sure:
                unsure.add(len(sure) - 1)
        while sure and behind[sure[-1].source + 1] > self._target.get_end_offset(sure[-1].target):
            sure.pop()  # copies of earlier source records follow this pair's target item
        return LogMatches(pairs=pairs, certain=sure, bounded=unsure)

    def _count_missing_items_before(self, left: _Pair, right: _Pair) -> int:
        """Return the number of source records that compaction may have deleted between two matched
        pairs. If `left` is `_BEFORE_FIRST_PAIR` and the log start offset is higher than 0, one more
        record is counted for the deleted start of the log."""
        source = self._source
        gone = int(left == _BEFORE_FIRST_PAIR and source.start > 0)
        for at in range(left.source + 1, right.source + 1):
            if source.has_compaction_gap(at, at):
                gone += source.offsets[at] - (source.get_end_offset(at - 1) if at else source.start)
        return gone

    def _match_whole_logs(self) -> list[_Pair]:
        """Match all items of both logs one to one. Used if no item is unique."""
        if self._source.start or self._target.start:
            return []
        return (
            self._match_items_between(
                _BEFORE_FIRST_PAIR, _Pair(len(self._source), len(self._target))
            )
            or []
        )

    def _match_items_between(self, left: _Pair, right: _Pair) -> list[_Pair] | None:
        """Match the items between two already matched pairs one to one, in order. Returns None if
        the items differ or some are missing."""
        source, target = self._source, self._target
        here = range(left.source + 1, right.source)
        there = range(left.target + 1, right.target)
        if not here or not there:
            return None if there else []
        last = min(right.source, len(source) - 1), min(right.target, len(target) - 1)
        if source.has_compaction_gap(here[0], last[0]) or target.has_compaction_gap(
            there[0], last[1]
        ):
            return None
        needed = [at for at in here if source.is_counterpart_required(at)]
        aborted = [at for at in here if not source.is_counterpart_required(at)]
        for among in (needed,) if any(map(self._has_equal_record, aborted)) else (needed, here):
            if len(among) == len(there) and all(
                source.digests[one] == target.digests[other]
                for one, other in zip(among, there, strict=True)
            ):
                return list(map(_Pair, among, there))
        return None

    def _match_last_copies_between(self, left: _Pair, right: _Pair) -> list[_Pair] | None:
        """Match the source items between two already matched pairs with the last of their copies on
        the target, because they may have been replicated more than once. Returns None if the last
        copy is incomplete."""
        pairs = self._extend_pairs_backward(right, down_to=left)
        begins = pairs[0].source if pairs else right.source
        if self._source.has_compaction_gap(left.source + 1, begins):
            return None
        rest = range(left.source + 1, begins)
        return None if any(map(self._source.is_counterpart_required, rest)) else pairs

    def _has_unknown_items_between(self, left: _Pair, right: _Pair) -> bool:
        """Return whether any target item between the two matched pairs may be a copy of a source
        item between them. The source item may have been deleted by compaction."""
        source = self._source
        there = {self._target.digests[at] for at in range(left.target + 1, right.target)}
        if not there:
            return False
        alike = any(source.digests[at] in there for at in range(left.source + 1, right.source))
        return alike or source.has_compaction_gap(left.source + 1, right.source)

    def _extend_pairs_forward(self, link: _Pair) -> list[_Pair]:
        """Match the items after the matched pair `link` one by one, as long as the items are equal
        and no offsets are missing (no holes) in either log."""
        source, target = self._source, self._target
        pairs: list[_Pair] = []
        here, there = link.source + 1, link.target + 1
        while here < len(source) and there < len(target):
            if source.has_compaction_gap(here, here) or target.has_compaction_gap(there, there):
                break
            if source.digests[here] == target.digests[there]:
                if self._has_equal_record(here):
                    break
                pairs.append(_Pair(here, there))
                there += 1
            elif source.is_counterpart_required(here):
                break
            here += 1
        return pairs

    def _has_equal_record(self, at: int) -> bool:
        """Return whether another source item is equal to the item at index `at`, so that it is
        ambiguous which one a target item copies."""
        return self._source_index[self._source.digests[at]] != at

    def _extend_pairs_backward(
        self, link: _Pair, *, down_to: _Pair = _BEFORE_FIRST_PAIR
    ) -> list[_Pair]:
        """Match the items before the matched pair `link` one by one, backwards, as long as the
        items are equal and no offsets are missing (no holes) in either log."""
        source, target = self._source, self._target
        pairs: list[_Pair] = []
        here, there = link
        while here - 1 > down_to.source and there - 1 > down_to.target:
            if source.has_compaction_gap(here, here) or target.has_compaction_gap(there, there):
                break
            here -= 1
            if source.digests[here] == target.digests[there - 1]:
                if self._has_equal_record(here):
                    break
                there -= 1
                pairs.append(_Pair(here, there))
            elif source.is_counterpart_required(here):
                break
        return pairs[::-1]

    def _compute_target_ends_of_copies(self) -> array[int]:
        """Compute an array with one more entry than there are source items. Entry i is the target
        offset after all known copies of the source items before index i."""
        last = {digest: at for at, digest in enumerate(self._target.digests)}
        highest = self._target.start
        behind = array("q")
        for at, digest in enumerate(self._source.digests):
            behind.append(highest)
            if not self._has_equal_record(at) and digest in last:
                highest = max(highest, self._target.get_end_offset(last[digest]))
        behind.append(highest)
        return behind


def _index_unique_digests(digests: Sequence[int]) -> dict[int, int]:
    """Map each digest to the index of the only item that has it, or to -1 if several items have
    it."""
    found: dict[int, int] = {}
    for at, digest in enumerate(digests):
        found[digest] = -1 if digest in found else at
    return found
