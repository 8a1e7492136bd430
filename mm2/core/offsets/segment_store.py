"""The segments of one partition's map, kept as they were stored, in the order of their owners.

A run takes two or three bytes so, and fifty times that as an object: the map of a compacted topic,
or of one full of transactions, has millions of them, of which hardly any is ever looked at.
"""

from __future__ import annotations

import functools
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from mm2.formats import map_record

Owner = tuple[int, int, int]
"""`SegmentKey.owner_order`: ordinal, epoch, era."""
DECODED_MAX = 32
"""Segments that many offsets are looked up in, one after the other: some 4 MB at most."""


@functools.lru_cache(maxsize=DECODED_MAX)
def _decoded(key: map_record.SegmentKey, value: bytes) -> map_record.Segment:
    found = map_record.decode_value(key, value)
    assert isinstance(found, map_record.Segment)
    return found


class OwnerSegments:
    """What one owner stored, in the order of the source.

    Invariants: `firsts` increases, and has as many entries as there are values.
    """

    __slots__ = ("_whole", "firsts", "name", "values")

    def __init__(self, name: map_record.SegmentKey) -> None:
        """`name`: the key of any of them."""
        self.name = name
        self.firsts = array("q")
        self.values: list[bytes] = []
        self._whole: OwnerSegments | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def owner(self) -> Owner:
        return self.name.owner_order

    @property
    def take_start(self) -> int:
        """Where on the source its Take began: older owners' segments count below it only."""
        return self.head(0).take_start

    def key(self, index: int) -> map_record.SegmentKey:
        name = self.name
        return map_record.SegmentKey(
            topic=name.topic,
            partition=name.partition,
            era=name.era,
            ordinal=name.ordinal,
            epoch=name.epoch,
            first_source=self.firsts[index],
        )

    def segment(self, index: int) -> map_record.Segment:
        return _decoded(self.key(index), self.values[index])

    def head(self, index: int) -> map_record.SegmentHead:
        return map_record.segment_head(self.values[index])

    def index_of(self, first_source: int) -> int | None:
        at = bisect_left(self.firsts, first_source)
        return at if at < len(self.firsts) and self.firsts[at] == first_source else None

    def put(self, first_source: int, value: bytes) -> None:
        at = bisect_left(self.firsts, first_source)
        if at < len(self.firsts) and self.firsts[at] == first_source:
            goes_on = at == len(self.firsts) - 1
            self.values[at] = value
        else:
            goes_on = at == len(self.firsts) > 0 and self.head(at - 1).through == first_source
            self.firsts.insert(at, first_source)
            self.values.insert(at, value)
        if self._whole is not self or not goes_on:
            self._whole = None

    def drop(self, first_source: int) -> None:
        at = self.index_of(first_source)
        if at is not None:
            self._whole = None
            del self.firsts[at]
            del self.values[at]

    def whole(self) -> OwnerSegments:
        """Without those that one before them has taken in, and without all that lies before a gap.

        The former are about to be deleted. The latter nobody may rely on: whoever worked at the map
        while it was another's already may have taken from it what he thought was in his own.
        """
        if self._whole is None:
            self._whole = self._without_gaps()
        return self._whole

    def absorbed(self) -> list[map_record.SegmentKey]:
        """The keys of those that `whole` leaves out."""
        if len(self.whole()) == len(self):
            return []
        kept = set(self.whole().firsts)
        return [self.key(at) for at, first in enumerate(self.firsts) if first not in kept]

    def _without_gaps(self) -> OwnerSegments:
        kept: list[int] = []
        through = self.firsts[0]
        for at, first in enumerate(self.firsts):
            if first > through:
                kept.clear()
            if first >= through:
                kept.append(at)
                through = self.head(at).through
        if len(kept) == len(self):
            return self
        found = OwnerSegments(self.name)
        found.firsts = array("q", (self.firsts[at] for at in kept))
        found.values = [self.values[at] for at in kept]
        return found


class SegmentStore(Mapping[map_record.SegmentKey, map_record.Segment]):
    """A segment is decoded whenever it is asked for. All are of one partition."""

    def __init__(
        self, segments: Mapping[map_record.SegmentKey, map_record.Segment] | None = None
    ) -> None:
        self._owners: dict[Owner, OwnerSegments] = {}
        for key, segment in (segments or {}).items():
            self.keep(key, map_record.encode_value(segment))

    def keep(self, key: map_record.SegmentKey, value: bytes | None) -> None:
        """The value as it stands in the map topic; None for none any more."""
        mine = self._owners.get(key.owner_order)
        if value is None:
            if mine is not None:
                mine.drop(key.first_source)
                if not mine:
                    del self._owners[key.owner_order]
            return
        if mine is None:
            mine = self._owners[key.owner_order] = OwnerSegments(key)
        mine.put(key.first_source, value)

    @property
    def owners(self) -> list[OwnerSegments]:
        """The oldest first."""
        return [self._owners[each] for each in sorted(self._owners)]

    def of_era(self, number: int) -> list[OwnerSegments]:
        """Those of one era, the oldest owner first."""
        return [self._owners[each] for each in sorted(self._owners) if each[-1] == number]

    @property
    def newest(self) -> map_record.SegmentKey | None:
        """The last segment of the newest owner."""
        if not self._owners:
            return None
        last = self._owners[max(self._owners)]
        return last.key(len(last) - 1)

    def __getitem__(self, key: map_record.SegmentKey) -> map_record.Segment:
        mine = self._owners.get(key.owner_order)
        at = None if mine is None else mine.index_of(key.first_source)
        if mine is None or at is None:
            raise KeyError(key)
        return mine.segment(at)

    def __iter__(self) -> Iterator[map_record.SegmentKey]:
        for mine in list(self._owners.values()):
            for at in range(len(mine)):
                yield mine.key(at)

    def __len__(self) -> int:
        return sum(map(len, self._owners.values()))

    def __bool__(self) -> bool:
        return bool(self._owners)
