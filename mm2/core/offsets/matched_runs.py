"""From pairs of the same records on both sides to runs of the offset map, and bounds in between."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import NamedTuple

from mm2.core.offsets import log_items


class Pair(NamedTuple):
    """Indexes of the same item on both sides."""

    source: int
    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All `pairs`, in order; those of them before whose copy all stands that comes before them are
    `sure`. Behind those whose indexes (in `sure`) are `unsure`, a bound alone is known until the
    next."""

    pairs: list[Pair]
    sure: list[Pair]
    unsure: Set[int]


class Stretch(NamedTuple):
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
class Matched:
    """`first_source` and `first_target` are where what was matched begins; `stretches` follow each
    other without a gap.

    `matched` counts items that have their copy, `unsure` offsets of the source of which a bound
    alone is known, `tail` items of the target behind the last that was matched. `writers` are the
    producers of what was matched, in the order in which they came.
    """

    first_source: int
    first_target: int
    stretches: tuple[Stretch, ...]
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


def fold(source: log_items.Items, target: log_items.Items, found: Found) -> Matched:
    """`found` holds one sure pair at least."""
    return _Folding(source, target, found).matched()


class _Folding:
    """Makes stretches of pairs."""

    def __init__(self, source: log_items.Items, target: log_items.Items, found: Found) -> None:
        self._source = source
        self._target = target
        self._pairs = [each for each in found.pairs if each <= found.sure[-1]]
        self._sure = found.sure
        self._unsure = found.unsure
        self._stretches: list[Stretch] = []
        self._runs: list[tuple[int, int]] = []
        self._first = self._first_source()

    def matched(self) -> Matched:
        first_source = self._first
        for index, pair in enumerate(self._sure):
            offset, delta = self._place(pair)
            if not self._runs or self._runs[-1][1] != delta:
                self._runs.append((offset, delta))
            if index in self._unsure and index + 1 < len(self._sure):
                self._bound(index)
        self._close(*self._end())
        return Matched(
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

    def _place(self, pair: Pair) -> tuple[int, int]:
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
            Stretch(last, through, target_next, (run,), below=below, above=above)
        )
        self._first, self._runs = through, []

    def _close(self, through: int, target_next: int) -> None:
        runs = tuple(each for each in self._runs if each[0] < through)
        self._stretches.append(Stretch(self._first, through, target_next, runs))
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
