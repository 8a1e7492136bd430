"""Which records of two logs are the same, when nobody wrote down who was copied where.

Records are known by digests of all that they hold. What occurs once on either side is the same, for
copies stand in the order of the source; what lies between two such is paired one to one where it is
the same on both sides, and nothing is missing there; of what was copied twice the last copy counts.
What cannot be told apart is left out: the answer for it is a bound, never a guess.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_left
from collections.abc import Sequence, Set

from mm2.core.offsets import log_items, matched_runs

Pair = matched_runs.Pair
_BEGIN = Pair(-1, -1)
_RECORD_BYTES = 35
_PAIR_BYTES = 360


def records_max(memory_bytes: int, *, target: int = 0) -> int:
    """How many records of the source `match` can take in so much memory beside `target` of the
    other log (measured: all digests are held at once, and each pair while it is looked for)."""
    left = max(0, memory_bytes - target * _RECORD_BYTES)
    if left <= target * (_RECORD_BYTES + _PAIR_BYTES):
        return left // (_RECORD_BYTES + _PAIR_BYTES)
    return (left - target * _PAIR_BYTES) // _RECORD_BYTES


def match(
    source: log_items.Items, target: log_items.Items, *, all_differ: bool = False
) -> matched_runs.Matched | None:
    """None: nothing on the target is known to be from the source.

    `all_differ`: no two records of the source were ever alike, those that are gone neither.
    """
    logs = _Logs(source, target)
    pairs, unknown = logs.filled(_in_order(logs.told_apart(all_differ=all_differ)))
    found = logs.sure(pairs if all_differ else logs.without_doubt(pairs), unknown)
    return matched_runs.fold(source, target, found) if found.sure else None


def _in_order(found: Sequence[Pair]) -> list[Pair]:
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
    kept: list[Pair] = []
    index = at_end[-1] if at_end else -1
    while index >= 0:
        kept.append(found[index])
        index = before[index]
    return kept[::-1]


class _Logs:
    """What is found of the one in the other."""

    def __init__(self, source: log_items.Items, target: log_items.Items) -> None:
        self._source = source
        self._target = target
        self._here = _single(source.digests)

    def told_apart(self, *, all_differ: bool) -> list[Pair]:
        """What occurs once on either side. Where some of the source is gone, nothing that was
        aborted: the copy may be of an equal record that was committed."""
        source, there = self._source, _single(self._target.digests)
        may_be = all_differ or not (source.start or source.has_hole(0, len(source) - 1))
        found = (
            (at, there.get(digest, -1))
            for digest, at in self._here.items()
            if at >= 0 and (may_be or source.is_needed(at))
        )
        return sorted(Pair(here, at) for here, at in found if at >= 0)

    def filled(self, chain: Sequence[Pair]) -> tuple[list[Pair], set[int]]:
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

    def without_doubt(self, pairs: list[Pair]) -> list[Pair]:
        """Those before the first that may pass over what was never copied.

        What the source has once now may have stood there before, too, and the copy be from then:
        all behind what was copied last is such, if any of it is paired. So where something is not
        known to have its copy, and no fewer records are gone right before than there are pairs from
        there on, nobody knows whether that was copied. Where it surely has none, whatever is gone
        before may have been copied in place of what follows.
        """
        gone = 0
        for index, (left, right) in enumerate(itertools.pairwise([_BEGIN, *pairs])):
            here = self._gone_before(left, right)
            gone += here
            among = list(filter(self._source.is_needed, range(left.source + 1, right.source)))
            most = gone if self._has_no_copy(among, left, right) else here if among else -1
            if most >= len(pairs) - index:
                return pairs[:index]
        return pairs

    def _has_no_copy(self, among: Sequence[int], left: Pair, right: Pair) -> bool:
        """Has any of these of the source surely no copy between the two?"""
        target = self._target
        if not among or target.has_hole(left.target + 1, right.target):
            return False
        if left == _BEGIN and target.start > 0:
            return False
        copies = set(target.digests[left.target + 1 : right.target])
        return any(self._source.digests[at] not in copies for at in among)

    def sure(self, pairs: list[Pair], unknown: Set[int]) -> matched_runs.Found:
        """Where a copy of what comes before a pair stands behind it, that pair is not sure."""
        behind = self._copies_behind()
        sure: list[Pair] = []
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
        return matched_runs.Found(pairs=pairs, sure=sure, unsure=unsure)

    def _gone_before(self, left: Pair, right: Pair) -> int:
        """How many records of the source may be gone between the two; a log that does not begin
        with its first record has lost one at least."""
        source = self._source
        gone = int(left == _BEGIN and source.start > 0)
        for at in range(left.source + 1, right.source + 1):
            if source.has_hole(at, at):
                gone += source.offsets[at] - (source.behind(at - 1) if at else source.start)
        return gone

    def _whole(self) -> list[Pair]:
        """Where nothing is told apart by itself, both logs as a whole may be."""
        if self._source.start or self._target.start:
            return []
        return self._inner(_BEGIN, Pair(len(self._source), len(self._target))) or []

    def _inner(self, left: Pair, right: Pair) -> list[Pair] | None:
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
                return list(map(Pair, among, there))
        return None

    def _again(self, left: Pair, right: Pair) -> list[Pair] | None:
        """The last copy of all that lies between two, where that was copied more than once."""
        pairs = self._led_back(right, down_to=left)
        begins = pairs[0].source if pairs else right.source
        if self._source.has_hole(left.source + 1, begins):
            return None
        rest = range(left.source + 1, begins)
        return None if any(map(self._source.is_needed, rest)) else pairs

    def _is_unknown(self, left: Pair, right: Pair) -> bool:
        """May anything of what stands there be from between the two on the source?"""
        source = self._source
        there = {self._target.digests[at] for at in range(left.target + 1, right.target)}
        if not there:
            return False
        alike = any(source.digests[at] in there for at in range(left.source + 1, right.source))
        return alike or source.has_hole(left.source + 1, right.source)

    def _led_on(self, link: Pair) -> list[Pair]:
        """What follows on both sides without a gap, as long as it is the same: all is copied in
        order."""
        source, target = self._source, self._target
        pairs: list[Pair] = []
        here, there = link.source + 1, link.target + 1
        while here < len(source) and there < len(target):
            if source.has_hole(here, here) or target.has_hole(there, there):
                break
            if source.digests[here] == target.digests[there]:
                if self._has_twin(here):
                    break
                pairs.append(Pair(here, there))
                there += 1
            elif source.is_needed(here):
                break
            here += 1
        return pairs

    def _has_twin(self, at: int) -> bool:
        """Are there others like it on the source? Whose copy it is one of then nobody can say
        where some was copied twice."""
        return self._here[self._source.digests[at]] != at

    def _led_back(self, link: Pair, *, down_to: Pair = _BEGIN) -> list[Pair]:
        """What comes before on both sides without a gap, as long as it is the same."""
        source, target = self._source, self._target
        pairs: list[Pair] = []
        here, there = link
        while here - 1 > down_to.source and there - 1 > down_to.target:
            if source.has_hole(here, here) or target.has_hole(there, there):
                break
            here -= 1
            if source.digests[here] == target.digests[there - 1]:
                if self._has_twin(here):
                    break
                there -= 1
                pairs.append(Pair(here, there))
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


def _single(digests: Sequence[int]) -> dict[int, int]:
    """Where each stands that stands in one place only; -1 for the others."""
    found: dict[int, int] = {}
    for at, digest in enumerate(digests):
        found[digest] = -1 if digest in found else at
    return found
