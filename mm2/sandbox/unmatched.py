"""Records of two logs that found no counterpart, and what became of them. Pure.

They are told apart when all of them are known: a record that only moved is not one lost and one too
many, and one of which the source has a single copy was doubled, however far away that copy lies.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from mm2.sandbox import comparison, record

KEPT_MAX = 100_000
"""Of each side; further ones are counted only."""

_SEARCH_AHEAD = 16

FindOriginals = Callable[[frozenset[record.Content]], dict[record.Content, int]]
"""Reads the source once more: where it has each of these condensed contents first."""

MayLack = Callable[[int], bool]
"""Of a source offset: is it no fault when the target has not got this record?"""

_Label = tuple[comparison.Kind, tuple[str, ...]]
_Pairs = Sequence[tuple[int, int]]


def nothing(_: int) -> bool:
    """The `MayLack` of a mirror that has to have everything."""
    return False


def originals(
    source: Iterable[record.Chunk], wanted: Collection[record.Content]
) -> dict[record.Content, int]:
    """What a `FindOriginals` answers, from the chunks of a log."""
    found: dict[record.Content, int] = {}
    for chunk in source:
        contents = map(record.condensed, chunk.contents)
        for offset, content in zip(chunk.offsets, contents, strict=True):
            if content in wanted:
                found.setdefault(content, offset)
    return found


@dataclass(frozen=True, slots=True)
class _Stray:
    """A record without counterpart; `gap` numbers the stretch between two matches it lies in."""

    record: record.Record
    gap: int
    other_offset: int | None


@dataclass(slots=True)
class Unmatched:
    """`lost` are the source's, `added` the target's. Bounded by `KEPT_MAX`."""

    may_lack: MayLack = nothing
    _lost: list[_Stray] = field(default_factory=list)
    _added: list[_Stray] = field(default_factory=list)
    _more_lost: int = 0
    _more_added: int = 0
    _gap: int = 0

    @property
    def cut_short(self) -> bool:
        return bool(self._more_lost or self._more_added)

    def open_gap(self) -> None:
        """What is noted from now on lies together, up to the next call."""
        self._gap += 1

    def note_lost(self, one: record.Record, other_offset: int | None) -> None:
        """`other_offset`: of the target's record in its place."""
        if self.may_lack(one.offset):
            return
        if len(self._lost) < KEPT_MAX:
            self._lost.append(_Stray(one, self._gap, other_offset))
        else:
            self._more_lost += 1

    def note_added(self, one: record.Record, other_offset: int | None) -> None:
        """`other_offset`: of the source's record in its place."""
        if len(self._added) < KEPT_MAX:
            self._added.append(_Stray(one, self._gap, other_offset))
        else:
            self._more_added += 1

    def tell(self, find_originals: FindOriginals) -> tuple[comparison.Difference, ...]:
        """What became of each, in the order of `comparison.Kind`."""
        tally = _Tally()
        lost: Sequence[_Stray] = self._lost
        added: Sequence[_Stray] = self._added
        lost, added = _take_out(lost, added, pairs=_moved(lost, added), tally=tally)
        added = _take_out_doubled(added, find_originals, tally=tally)
        lost, added = _take_out(lost, added, pairs=_altered(lost, added), tally=tally)
        for each in lost:
            tally.count(comparison.Kind.MISSING, each.record.offset, each.other_offset)
        for each in added:
            tally.count(comparison.Kind.EXTRA, each.other_offset, each.record.offset)
        tally.add(comparison.Kind.MISSING, self._more_lost)
        tally.add(comparison.Kind.EXTRA, self._more_added)
        return tally.told()


@dataclass(slots=True)
class _Tally:
    """Counts by kind and fields, each with the offsets (source, target) of its first record."""

    _counts: defaultdict[_Label, int] = field(default_factory=lambda: defaultdict(int))
    _first: dict[_Label, tuple[int | None, int | None]] = field(default_factory=dict)

    def count(
        self,
        kind: comparison.Kind,
        source_offset: int | None,
        target_offset: int | None,
        *,
        fields: tuple[str, ...] = (),
    ) -> None:
        self._counts[kind, fields] += 1
        self._first.setdefault((kind, fields), (source_offset, target_offset))

    def add(self, kind: comparison.Kind, count: int) -> None:
        """More of a kind, whose offsets are no longer known."""
        if count:
            self._counts[kind, ()] += count

    def told(self) -> tuple[comparison.Difference, ...]:
        kinds = list(comparison.Kind)
        return tuple(
            comparison.Difference(
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


def _moved(lost: Sequence[_Stray], added: Sequence[_Stray]) -> _Pairs:
    """The same content on both sides, in another place."""
    places: defaultdict[record.Content, deque[int]] = defaultdict(deque)
    for index, each in enumerate(lost):
        places[each.record.content].append(index)
    return [
        (places[each.record.content].popleft(), index)
        for index, each in enumerate(added)
        if places.get(each.record.content)
    ]


def _altered(lost: Sequence[_Stray], added: Sequence[_Stray]) -> _Pairs:
    """Records in the same gap: as many on one side as on the other, or alike in something."""
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
            pairs.extend(_alike_in_order(lost, added, left=left, right=right))
    return pairs


def _alike_in_order(
    lost: Sequence[_Stray], added: Sequence[_Stray], *, left: Sequence[int], right: Sequence[int]
) -> _Pairs:
    pairs: list[tuple[int, int]] = []
    start = 0
    for index in left:
        for place in range(start, min(start + _SEARCH_AHEAD, len(right))):
            if _alike(lost[index].record.content, added[right[place]].record.content):
                pairs.append((index, right[place]))
                start = place + 1
                break
    return pairs


def _alike(left: record.Content, right: record.Content) -> bool:
    """Do they share something that tells records apart?"""
    return (
        left.timestamp == right.timestamp
        or (bool(left.key) and left.key == right.key)
        or (bool(left.value) and left.value == right.value)
    )


def _take_out(
    lost: Sequence[_Stray], added: Sequence[_Stray], *, pairs: _Pairs, tally: _Tally
) -> tuple[Sequence[_Stray], Sequence[_Stray]]:
    """Count these pairs, as reordered or altered, and return what is left of both sides."""
    for left, right in sorted(pairs):
        source, target = lost[left].record, added[right].record
        fields = record.differing_fields(source.content, target.content)
        kind = comparison.Kind.ALTERED if fields else comparison.Kind.REORDERED
        tally.count(kind, source.offset, target.offset, fields=fields)
    taken_left, taken_right = {left for left, _ in pairs}, {right for _, right in pairs}
    return (
        [each for index, each in enumerate(lost) if index not in taken_left],
        [each for index, each in enumerate(added) if index not in taken_right],
    )


def _take_out_doubled(
    added: Sequence[_Stray], find_originals: FindOriginals, *, tally: _Tally
) -> Sequence[_Stray]:
    wanted = frozenset(each.record.content for each in added)
    found = find_originals(wanted) if wanted else {}
    left: list[_Stray] = []
    for each in added:
        original = found.get(each.record.content)
        if original is None:
            left.append(each)
        else:
            tally.count(comparison.Kind.DUPLICATED, original, each.record.offset)
    return left
