"""The offset map of one flow as a fold over its map topic: eras, ids, anchors and runs per
partition.

Segments of an older owner count only below the source offset at which a newer one's Take began.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.core.offsets import segment_store
from mm2.formats import map_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The newest owner's open segment: how far the partition was copied, and by whom."""

    key: map_record.SegmentKey
    segment: map_record.Segment


@dataclass(slots=True)
class PartitionMap:
    """What the map topic says of one source partition.

    Invariant: an anchor belongs to the newest (ordinal, epoch).
    What an older owner stored late, after a newer one had read the map, counts for nothing.
    """

    begun: dict[map_record.EraKey, map_record.Era] = field(default_factory=dict)
    producers: dict[int, map_record.Producer] = field(default_factory=dict)
    segments: segment_store.SegmentStore = field(default_factory=segment_store.SegmentStore)
    request: map_record.Request | None = None

    @property
    def newest_era(self) -> int:
        """The era of the newest owner; 0 when none was ever begun."""
        return self._owners()[-1][-1] if self.begun or self.segments else 0

    @property
    def eras(self) -> dict[int, map_record.Era]:
        """By number, without those that a late owner began and nobody went on in."""
        begun = {key.owner_order: era for key, era in self.begun.items()}
        found: dict[int, map_record.Era] = {}
        lowest: int | None = None
        for order in reversed(self._owners()):
            number = order[-1]
            if lowest is None or number <= lowest:
                lowest = number
                if order in begun:
                    found.setdefault(number, begun[order])
        return found

    def _owners(self) -> list[tuple[int, int, int]]:
        orders = {each.owner_order for each in self.begun}
        return sorted(orders.union(each.owner_order for each in self.segments))

    @property
    def untaken(self) -> bool:
        """Was an era begun by a newer owner than the anchor's? Nothing was copied in it yet."""
        newest = max((key.owner_order for key in self.begun), default=None)
        if newest is None or not self.segments:
            return False
        return newest > max(key.owner_order for key in self.segments)

    @property
    def anchor(self) -> Anchor | None:
        """The newest owner's, where any has stored one."""
        if not self.segments:
            return None
        key = max(self.segments, key=_segment_order)
        return Anchor(key=key, segment=self.segments[key])

    @property
    def open_request(self) -> map_record.Request | None:
        """The operator's request, unless an era already answers it."""
        if self.request is None:
            return None
        answered = any(era.request == self.request.request for era in self.begun.values())
        return None if answered else self.request

    def runs(self, era: int) -> list[map_record.Run]:
        """The era's runs in source order, each newer owner's Take cutting what older ones say
        above it."""
        runs: list[map_record.Run] = []
        owner: tuple[int, int, int] | None = None
        for key in sorted(self.segments, key=_segment_order):
            if key.era != era:
                continue
            segment = self.segments[key]
            if key.owner_order != owner:
                owner = key.owner_order
                _cut(runs, segment.take_start)
            _extend(runs, segment.runs)
        return runs

    def source_position(self, target: int) -> int | None:
        """The source offset to go on from when the target's log ends at `target`.

        Every copyable record before it was copied and stands below `target`, whichever era it
        belongs to. None when no era was ever begun.
        """
        eras = self.eras
        if not eras:
            return None
        number = max((each for each in eras if eras[each].first_target <= target), default=0)
        sources = [era.first_source for each, era in eras.items() if each > number]
        if number:
            position = self._position_in(number, target)
            sources.append(eras[number].first_source if position is None else position)
        return min(sources)

    def _position_in(self, era: int, target: int) -> int | None:
        """As `source_position`, of the records that this era copied; None before the first."""
        runs = self.runs(era)
        index = bisect_right(runs, target, key=lambda run: run.source + run.delta) - 1
        if index < 0:
            return None
        source = target - runs[index].delta
        if index + 1 < len(runs):
            return min(source, runs[index + 1].source)
        # Behind the last run stand markers: they have no source offsets.
        newest = max((key for key in self.segments if key.era == era), key=_segment_order)
        return min(source, self.segments[newest].through)

    def superseded(self, by: map_record.SegmentKey) -> list[map_record.SegmentKey]:
        """Keys of older owners in `by`'s era that lie wholly at or above where `by`'s Take
        began."""
        start = self.segments[by].take_start
        return [
            key
            for key in self.segments
            if key.era == by.era and key.owner_order < by.owner_order and key.first_source >= start
        ]

    def check_invariants(self) -> None:
        for key, segment in self.segments.items():
            sources = [run.source for run in segment.runs]
            assert sources == sorted(set(sources)), key
            assert segment.through >= key.first_source, key


def _segment_order(key: map_record.SegmentKey) -> tuple[int, int, int, int]:
    return (*key.owner_order, key.first_source)


def _cut(runs: list[map_record.Run], start: int) -> None:
    while runs and runs[-1].source >= start:
        runs.pop()


def _extend(runs: list[map_record.Run], more: tuple[map_record.Run, ...]) -> None:
    for run in more:
        if not runs or runs[-1].delta != run.delta:
            runs.append(run)


@dataclass(slots=True)
class OffsetMap:
    """All partitions of one flow; `apply` takes the map topic's records in order.

    `keeps`: what else is there is passed over.
    """

    keeps: Callable[[map_record.MapKey], bool] = lambda _: True
    _partitions: dict[ids.TopicPartition, PartitionMap] = field(default_factory=dict)

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Fold one record in; None is a tombstone. Raises `map_record.UnknownVersionError`."""
        name = map_record.decode_key(key)
        if not self.keeps(name):
            return
        partition = self._partitions.setdefault(
            ids.TopicPartition(name.topic, name.partition), PartitionMap()
        )
        decoded = map_record.decode_value(name, value) if value is not None else None
        match name:
            case map_record.EraKey():
                _set(partition.begun, name, decoded)
            case map_record.ProducerKey():
                _set(partition.producers, name.producer_id, decoded)
            case map_record.SegmentKey():
                partition.segments.keep(name, value)
            case map_record.RequestKey():
                assert decoded is None or isinstance(decoded, map_record.Request)
                partition.request = decoded

    def partition(self, partition: ids.TopicPartition) -> PartitionMap:
        """An empty map for a partition that was never recorded."""
        return self._partitions.get(partition) or PartitionMap()

    def partitions(self) -> list[ids.TopicPartition]:
        return sorted(self._partitions)

    def check_invariants(self) -> None:
        for partition in self._partitions.values():
            partition.check_invariants()


def _set(table: dict, key: object, value: object) -> None:  # type: ignore[type-arg]  # any of 3
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
