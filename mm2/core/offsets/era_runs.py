"""One era of a partition's map: where an offset belongs on the other side, and how sure that is.

No more of it is decoded than the segments around the offset. Of each owner counts what lies below
where a newer one's Take began. Who does not reach up to there stored that late: the newer one has
gone on from another's word.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from mm2.core.offsets import segment_store
from mm2.formats import map_record


class Between(NamedTuple):
    """The place is not before `lowest`, and not behind `highest`; mostly they are the same."""

    lowest: int
    highest: int


class _Kept(NamedTuple):
    """A run, and how far the deltas of those that were left out behind it may lie from its own."""

    run: map_record.Run
    below: int
    above: int


_Order = Callable[[map_record.Run], int]


def _source(run: map_record.Run) -> int:
    return run.source


def _target(run: map_record.Run) -> int:
    return run.source + run.delta


@dataclass(frozen=True, slots=True, kw_only=True)
class EraRuns:
    """`owners`: the oldest first; `ends`: up to where on the source each one's word counts.

    The era `begins` there on the source, and its map at `floor`, behind it where older segments
    were deleted. It is copied up to `through`, and `target_next` is behind it all.
    """

    owners: list[segment_store.OwnerSegments]
    ends: list[int]
    begins: int
    floor: int
    through: int
    target_next: int

    @classmethod
    def of(cls, segments: segment_store.SegmentStore, number: int, era: map_record.Era) -> EraRuns:
        owners = [each.whole() for each in segments.of_era(number)]
        if not owners:
            return cls(
                owners=[],
                ends=[],
                begins=era.first_source,
                floor=era.first_source,
                through=era.first_source,
                target_next=era.first_target,
            )
        last = owners[-1].head(len(owners[-1]) - 1)
        counted: list[segment_store.OwnerSegments] = []
        ends: list[int] = []
        end = last.through
        for each in reversed(owners):
            if each.head(len(each) - 1).through >= end:
                counted.append(each)
                ends.append(end)
                end = min(end, each.take_start)
        return cls(
            owners=counted[::-1],
            ends=ends[::-1],
            begins=era.first_source,
            floor=min(each.firsts[0] for each in counted),
            through=last.through,
            target_next=last.target_next,
        )

    def place(self, upstream: int) -> Between:
        """The target offset from which on stands all that the source has from `upstream` on, and
        behind all that it has before. `upstream` is not below `floor`."""
        before, behind = self._around(upstream, order=_source)
        limit = self.target_next if behind is None else _target(behind)
        if before is None:
            return Between(limit, limit)
        run = before.run
        if run.source == upstream:
            return Between(_target(run), _target(run))
        here, least = upstream + run.delta, _target(run) + 1
        return Between(
            min(limit, max(least, here - before.below)), min(limit, max(least, here + before.above))
        )

    def place_back(self, downstream: int) -> Between | None:
        """The source offset from which on is copied all that stands at `downstream` and behind,
        and before which all that stands before. None: that was deleted from the map."""
        before, behind = self._around(downstream, order=_target)
        limit = self.through if behind is None else behind.source
        if before is None:
            whole = self.floor == self.begins
            return Between(self.begins, self.begins) if whole else None
        run = before.run
        if _target(run) == downstream:
            return Between(run.source, run.source)
        here, least = downstream - run.delta, run.source + 1
        return Between(
            min(limit, max(least, here - before.above)), min(limit, max(least, here + before.below))
        )

    def sure_before(self, downstream: int) -> tuple[int, int] | None:
        """The last place, not behind `downstream`, of which the map says exactly what is there:
        its source and its target offset. None: none of it is left."""
        found = self.place_back(downstream)
        if found is None or found.lowest == found.highest:
            return None if found is None else (found.lowest, downstream)
        before, _ = self._around(downstream, order=_target)
        assert before is not None
        return before.run.source, _target(before.run)

    def _around(self, at: int, *, order: _Order) -> tuple[_Kept | None, map_record.Run | None]:
        """The last run that counts and does not begin behind `at`, and the first one that does."""
        behind = None
        for mine, end in zip(reversed(self.owners), reversed(self.ends), strict=True):
            before, found = _around_in(mine, at, end=end, order=order)
            behind = found or behind
            if before is not None:
                return before, behind
        return None, behind


def _around_in(
    mine: segment_store.OwnerSegments, at: int, *, end: int, order: _Order
) -> tuple[_Kept | None, map_record.Run | None]:
    """Of one owner's runs below source offset `end`."""
    count = bisect_left(mine.firsts, end)
    if order is _source:
        first = max(0, bisect_right(mine.firsts, at, hi=count) - 1)
    else:
        ends = range(count)
        first = bisect_right(ends, at, key=lambda index: mine.head(index).target_next)
    before = behind = None
    for index in range(first, count):
        runs, below, above = _counted(mine, index, end)
        place = bisect_right(runs, at, key=order)
        if place:
            before = _Kept(runs[place - 1], below, above)
        if place < len(runs):
            behind = runs[place]
            break
    for index in range(first - 1, -1, -1):
        if before is not None:
            break
        runs, below, above = _counted(mine, index, end)
        if runs:
            before = _Kept(runs[-1], below, above)
    return before, behind


def _counted(
    mine: segment_store.OwnerSegments, index: int, end: int
) -> tuple[tuple[map_record.Run, ...], int, int]:
    found = mine.segment(index)
    runs = found.runs
    if runs and runs[-1].source >= end:
        runs = runs[: bisect_left(runs, end, key=_source)]
    return runs, found.below, found.above
