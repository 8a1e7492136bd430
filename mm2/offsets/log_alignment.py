"""Aligns two logs record by record: which target record is a copy of which source record.

Used where no offset map exists. Records are compared by digests of their whole content. A
digest that occurs once on each side is a match, since copies keep the source's order. What lies
between two matches is paired one to one if it is the same on both sides and nothing is missing.
Of records that were replicated twice the last copy counts. Ambiguous records are left out: the
result for them is a bound, never a guess.
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
    """What one log holds from `start` on, in order: single records, or whole batches whose records
    stand side by side.

    `optional` items may be on the other side or not (what was aborted, which Java copies unless
    told otherwise). A *hole* is where offsets are missing that no marker explains: the cleaner was
    there. Invariant: `end` is behind everything that was added or passed over.
    """

    start: int
    end: int = field(init=False)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    spans: array[int] = field(default_factory=lambda: array("q"))
    digests: array[int] = field(default_factory=lambda: array("q"))
    writers: array[int] = field(default_factory=lambda: array("q"))
    _flags: bytearray = field(default_factory=bytearray)
    _hole: bool = False

    def __post_init__(self) -> None:
        self.end = self.start

    def __len__(self) -> int:
        return len(self.offsets)

    def add(
        self, offset: int, digest: int, *, span: int = 1, optional: bool = False, writer: int = -1
    ) -> None:
        """The next item: `span` offsets from `offset` on. `digest` has 64 bits, signed; `writer` is
        the id of its producer."""
        self.skip_to(offset, hole=True)
        self.offsets.append(offset)
        self.spans.append(span)
        self.digests.append(digest)
        self.writers.append(writer)
        self._flags.append((_OPTIONAL_FLAG if optional else 0) | (_HOLE_FLAG if self._hole else 0))
        self._hole = False
        self.end = offset + span

    def skip_to(self, offset: int, *, hole: bool = False) -> None:
        """There is nothing to copy before `offset`; a hole: nobody knows what was there."""
        if offset > self.end:
            self._hole = self._hole or hole
            self.end = offset

    def behind(self, at: int) -> int:
        """The offset behind an item."""
        return self.offsets[at] + self.spans[at]

    def is_needed(self, at: int) -> bool:
        return not self._flags[at] & _OPTIONAL_FLAG

    def has_hole(self, first: int, last: int) -> bool:
        """Before any of the items from index `first` on up to `last`, that one included?"""
        return any(self._flags[at] & _HOLE_FLAG for at in range(first, last + 1))

    def check_invariants(self) -> None:
        for at in range(1, len(self)):
            assert self.behind(at - 1) <= self.offsets[at], at
        assert not self.offsets or self.behind(len(self) - 1) <= self.end


class MatchedPair(NamedTuple):
    """Indexes of the same item on both sides."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMatches:
    """All `pairs`, in order; those of them before whose copy all stands that comes before them are
    `sure`. Behind those whose indexes (in `sure`) are `unsure`, a bound alone is known until the
    next."""

    pairs: list[MatchedPair]
    sure: list[MatchedPair]
    unsure: Set[int]


class AlignedRange(NamedTuple):
    """From source offset `first` on, up to `through`, everything stands below `target_next`, by
    these runs (source offset, target less source). With `below` or `above`, only the first offset
    is sure: what follows may lie by so much nearer to the beginning, or to the end."""

    first: int
    through: int
    target_next: int
    runs: tuple[tuple[int, int], ...]
    below: int = 0
    above: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAlignment:
    """`first_source` and `first_target` are where what was matched begins; `stretches` follow each
    other without a gap.

    `matched` counts items that have their copy, `unsure` offsets of the source of which a bound
    alone is known, `tail` items of the target behind the last that was matched. `writers` are the
    producers of what was matched, in the order in which they came.
    """

    first_source: int
    first_target: int
    stretches: tuple[AlignedRange, ...]
    matched: int
    unsure: int
    tail: int
    writers: tuple[int, ...]

    @property
    def through(self) -> int:
        return self.stretches[-1].through

    @property
    def target_next(self) -> int:
        return self.stretches[-1].target_next


def build_alignment(source: LogDigests, target: LogDigests, found: LogMatches) -> LogAlignment:
    """`found` holds one sure pair at least."""
    return _AlignmentBuilder(source, target, found).matched()


class _AlignmentBuilder:
    """Makes stretches of pairs."""

    def __init__(self, source: LogDigests, target: LogDigests, found: LogMatches) -> None:
        self._source = source
        self._target = target
        self._pairs = [each for each in found.pairs if each <= found.sure[-1]]
        self._sure = found.sure
        self._unsure = found.unsure
        self._stretches: list[AlignedRange] = []
        self._runs: list[tuple[int, int]] = []
        self._first = self._first_source()

    def matched(self) -> LogAlignment:
        first_source = self._first
        for index, pair in enumerate(self._sure):
            offset, delta = self._place(pair)
            if not self._runs or self._runs[-1][1] != delta:
                self._runs.append((offset, delta))
            if index in self._unsure and index + 1 < len(self._sure):
                self._bound(index)
        self._close(*self._end())
        return LogAlignment(
            first_source=first_source,
            first_target=self._first_target(),
            stretches=tuple(self._stretches),
            matched=sum(self._source.spans[each.source] for each in self._pairs),
            unsure=sum(
                each.through - each.first - 1
                for each in self._stretches
                if each.below or each.above
            ),
            writers=self._writers(),
            tail=len(self._target) - 1 - self._sure[-1].target,
        )

    def _writers(self) -> tuple[int, ...]:
        writers = self._target.writers
        return tuple(dict.fromkeys(writers[each.target] for each in self._pairs))

    def _place(self, pair: MatchedPair) -> tuple[int, int]:
        offset = self._source.offsets[pair.source]
        return offset, self._target.offsets[pair.target] - offset

    def _bound(self, index: int) -> None:
        """Behind the last record of that pair a bound alone is known."""
        pair = self._sure[index]
        _, delta = self._place(pair)
        last = self._source.behind(pair.source) - 1
        through, change = self._place(self._sure[index + 1])
        target_next = through + change
        below = max(0, through - last - 2)
        above = max(0, target_next - (last + 1 + delta))
        if last > self._first:
            self._close(last, last + delta)
        run = (last, delta)
        self._stretches.append(
            AlignedRange(last, through, target_next, (run,), below=below, above=above)
        )
        self._first, self._runs = through, []

    def _close(self, through: int, target_next: int) -> None:
        runs = tuple(each for each in self._runs if each[0] < through)
        self._stretches.append(AlignedRange(self._first, through, target_next, runs))
        self._first, self._runs = through, []

    def _first_source(self) -> int:
        """Where what was copied begins: what lies before it, and is none to copy, is with it."""
        source, at = self._source, self._sure[0].source
        before = any(map(source.is_needed, range(at)))
        if before or source.has_hole(0, at):
            return source.offsets[at]
        return source.start

    def _first_target(self) -> int:
        target, at = self._target, self._sure[0].target
        return target.offsets[at] if at or target.has_hole(0, 0) else target.start

    def _end(self) -> tuple[int, int]:
        """Where what was matched ends on both sides: where something unknown stands behind it on
        the target, right behind the last sure pair; else before what is still to be copied."""
        source, target, last = self._source, self._target, self._sure[-1]
        if last.target + 1 < len(target):
            return source.behind(last.source), target.behind(last.target)
        left = range(last.source + 1, len(source))
        first = next(filter(source.is_needed, left), None)
        return source.end if first is None else source.offsets[first], target.end


_Pair = MatchedPair
_BEFORE_FIRST_PAIR = _Pair(-1, -1)
_BYTES_PER_RECORD = 35
_BYTES_PER_PAIR = 360


def estimate_max_records(memory_bytes: int, *, target: int = 0) -> int:
    """How many records of the source `align_logs` can take in so much memory beside `target` of the
    other log (measured: all digests are held at once, and each pair while it is looked for)."""
    left = max(0, memory_bytes - target * _BYTES_PER_RECORD)
    if left <= target * (_BYTES_PER_RECORD + _BYTES_PER_PAIR):
        return left // (_BYTES_PER_RECORD + _BYTES_PER_PAIR)
    return (left - target * _BYTES_PER_PAIR) // _BYTES_PER_RECORD


def align_logs(
    source: LogDigests, target: LogDigests, *, all_differ: bool = False
) -> LogAlignment | None:
    """None: nothing on the target is known to be from the source.

    `all_differ`: no two records of the source were ever alike, those that are gone neither.
    """
    logs = _LogMatcher(source, target)
    pairs, unknown = logs.filled(_longest_ordered_pairs(logs.told_apart(all_differ=all_differ)))
    found = logs.sure(pairs if all_differ else logs.without_doubt(pairs), unknown)
    return build_alignment(source, target, found) if found.sure else None


def _longest_ordered_pairs(found: Sequence[_Pair]) -> list[_Pair]:
    """The most of them that stand in one order on both sides: what stands before a copy of what
    comes before it on the source, and nowhere else, is no copy."""
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
    """What is found of the one in the other."""

    def __init__(self, source: LogDigests, target: LogDigests) -> None:
        self._source = source
        self._target = target
        self._here = _index_unique_digests(source.digests)

    def told_apart(self, *, all_differ: bool) -> list[_Pair]:
        """What occurs once on either side. Where some of the source is gone, nothing that was
        aborted: the copy may be of an equal record that was committed."""
        source, there = self._source, _index_unique_digests(self._target.digests)
        may_be = all_differ or not (source.start or source.has_hole(0, len(source) - 1))
        found = (
            (at, there.get(digest, -1))
            for digest, at in self._here.items()
            if at >= 0 and (may_be or source.is_needed(at))
        )
        return sorted(_Pair(here, at) for here, at in found if at >= 0)

    def filled(self, chain: Sequence[_Pair]) -> tuple[list[_Pair], set[int]]:
        """The chain with what lies before, between and behind its links, as far as that is sure;
        and the indexes of those pairs behind which something unknown lies before the next."""
        if not chain:
            return self._whole(), set()
        pairs = self._led_back(chain[0])
        unknown: set[int] = set()
        for left, right in itertools.pairwise(chain):
            pairs.append(left)
            inner = self._inner(left, right) or self._again(left, right)
            if inner is None and self._is_unknown(left, right):
                unknown.add(len(pairs) - 1)
            pairs += inner or ()
        pairs.append(chain[-1])
        pairs += self._led_on(chain[-1])
        return pairs, unknown

    def without_doubt(self, pairs: list[_Pair]) -> list[_Pair]:
        """Those before the first that may pass over what was never copied.

        What the source has once now may have stood there before, too, and the copy be from then:
        all behind what was copied last is such, if any of it is paired. So where something is not
        known to have its copy, and no fewer records are gone right before than there are pairs from
        there on, nobody knows whether that was copied. Where it surely has none, whatever is gone
        before may have been copied in place of what follows.
        """
        gone = 0
        for index, (left, right) in enumerate(itertools.pairwise([_BEFORE_FIRST_PAIR, *pairs])):
            here = self._gone_before(left, right)
            gone += here
            among = list(filter(self._source.is_needed, range(left.source + 1, right.source)))
            most = gone if self._has_no_copy(among, left, right) else here if among else -1
            if most >= len(pairs) - index:
                return pairs[:index]
        return pairs

    def _has_no_copy(self, among: Sequence[int], left: _Pair, right: _Pair) -> bool:
        """Has any of these of the source surely no copy between the two?"""
        target = self._target
        if not among or target.has_hole(left.target + 1, right.target):
            return False
        if left == _BEFORE_FIRST_PAIR and target.start > 0:
            return False
        copies = set(target.digests[left.target + 1 : right.target])
        return any(self._source.digests[at] not in copies for at in among)

    def sure(self, pairs: list[_Pair], unknown: Set[int]) -> LogMatches:
        """Where a copy of what comes before a pair stands behind it, that pair is not sure."""
        behind = self._copies_behind()
        sure: list[_Pair] = []
        unsure: set[int] = set()
        for index, pair in enumerate(pairs):
            if behind[pair.source] <= self._target.offsets[pair.target]:
                sure.append(pair)
            elif sure:
                unsure.add(len(sure) - 1)
            if index in unknown and sure:
                unsure.add(len(sure) - 1)
        while sure and behind[sure[-1].source + 1] > self._target.behind(sure[-1].target):
            sure.pop()  # it was copied once more: nothing ends there
        return LogMatches(pairs=pairs, sure=sure, unsure=unsure)

    def _gone_before(self, left: _Pair, right: _Pair) -> int:
        """How many records of the source may be gone between the two; a log that does not begin
        with its first record has lost one at least."""
        source = self._source
        gone = int(left == _BEFORE_FIRST_PAIR and source.start > 0)
        for at in range(left.source + 1, right.source + 1):
            if source.has_hole(at, at):
                gone += source.offsets[at] - (source.behind(at - 1) if at else source.start)
        return gone

    def _whole(self) -> list[_Pair]:
        """Where nothing is told apart by itself, both logs as a whole may be."""
        if self._source.start or self._target.start:
            return []
        return self._inner(_BEFORE_FIRST_PAIR, _Pair(len(self._source), len(self._target))) or []

    def _inner(self, left: _Pair, right: _Pair) -> list[_Pair] | None:
        """What lies between two, item by item; None where it is not the same, or not all there."""
        source, target = self._source, self._target
        here = range(left.source + 1, right.source)
        there = range(left.target + 1, right.target)
        if not here or not there:
            return None if there else []
        last = min(right.source, len(source) - 1), min(right.target, len(target) - 1)
        if source.has_hole(here[0], last[0]) or target.has_hole(there[0], last[1]):
            return None
        needed = [at for at in here if source.is_needed(at)]
        aborted = [at for at in here if not source.is_needed(at)]
        for among in (needed,) if any(map(self._has_twin, aborted)) else (needed, here):
            if len(among) == len(there) and all(
                source.digests[one] == target.digests[other]
                for one, other in zip(among, there, strict=True)
            ):
                return list(map(_Pair, among, there))
        return None

    def _again(self, left: _Pair, right: _Pair) -> list[_Pair] | None:
        """The last copy of all that lies between two, where that was copied more than once."""
        pairs = self._led_back(right, down_to=left)
        begins = pairs[0].source if pairs else right.source
        if self._source.has_hole(left.source + 1, begins):
            return None
        rest = range(left.source + 1, begins)
        return None if any(map(self._source.is_needed, rest)) else pairs

    def _is_unknown(self, left: _Pair, right: _Pair) -> bool:
        """May anything of what stands there be from between the two on the source?"""
        source = self._source
        there = {self._target.digests[at] for at in range(left.target + 1, right.target)}
        if not there:
            return False
        alike = any(source.digests[at] in there for at in range(left.source + 1, right.source))
        return alike or source.has_hole(left.source + 1, right.source)

    def _led_on(self, link: _Pair) -> list[_Pair]:
        """What follows on both sides without a gap, as long as it is the same: all is copied in
        order."""
        source, target = self._source, self._target
        pairs: list[_Pair] = []
        here, there = link.source + 1, link.target + 1
        while here < len(source) and there < len(target):
            if source.has_hole(here, here) or target.has_hole(there, there):
                break
            if source.digests[here] == target.digests[there]:
                if self._has_twin(here):
                    break
                pairs.append(_Pair(here, there))
                there += 1
            elif source.is_needed(here):
                break
            here += 1
        return pairs

    def _has_twin(self, at: int) -> bool:
        """Are there others like it on the source? Whose copy it is one of then nobody can say
        where some was copied twice."""
        return self._here[self._source.digests[at]] != at

    def _led_back(self, link: _Pair, *, down_to: _Pair = _BEFORE_FIRST_PAIR) -> list[_Pair]:
        """What comes before on both sides without a gap, as long as it is the same."""
        source, target = self._source, self._target
        pairs: list[_Pair] = []
        here, there = link
        while here - 1 > down_to.source and there - 1 > down_to.target:
            if source.has_hole(here, here) or target.has_hole(there, there):
                break
            here -= 1
            if source.digests[here] == target.digests[there - 1]:
                if self._has_twin(here):
                    break
                there -= 1
                pairs.append(_Pair(here, there))
            elif source.is_needed(here):
                break
        return pairs[::-1]

    def _copies_behind(self) -> array[int]:
        """By source index, and one more: the target offset behind all copies of what comes before,
        as far as that can be told apart."""
        last = {digest: at for at, digest in enumerate(self._target.digests)}
        highest = self._target.start
        behind = array("q")
        for at, digest in enumerate(self._source.digests):
            behind.append(highest)
            if not self._has_twin(at) and digest in last:
                highest = max(highest, self._target.behind(last[digest]))
        behind.append(highest)
        return behind


def _index_unique_digests(digests: Sequence[int]) -> dict[int, int]:
    """Where each stands that stands in one place only; -1 for the others."""
    found: dict[int, int] = {}
    for at, digest in enumerate(digests):
        found[digest] = -1 if digest in found else at
    return found
