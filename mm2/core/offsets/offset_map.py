"""The offset map of one flow as a fold over its map topic: eras, ids, anchors and runs per
partition.

Segments of an older owner count only below the source offset at which a newer one's Take began.
"""

from __future__ import annotations

import shlex
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import ids
from mm2.core.offsets import era_runs, segment_store
from mm2.formats import map_record


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The newest owner's open segment: how far the partition was copied, and by whom."""

    key: map_record.SegmentKey
    segment: map_record.Segment


class Position(NamedTuple):
    """A source offset and where on the target it belongs."""

    source: int
    target: int


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
    def had_progress(self) -> bool:
        """Was an era ever begun, even if its record was skipped since?"""
        request = self.request
        lost = request is not None and request.request.startswith(map_record.LOST_ERA)
        return self.newest_era > 0 or lost

    @property
    def next_ordinal(self) -> int:
        """The place of the next producer id."""
        owners = [each.name.ordinal for each in self.segments.owners]
        eras = [each.ordinal for each in self.begun]
        return max((0, *owners, *eras, *(each.ordinal for each in self.producers.values()))) + 1

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
        return sorted(orders.union(each.owner for each in self.segments.owners))

    @property
    def untaken(self) -> bool:
        """Was an era begun by a newer owner than the anchor's? Nothing was copied in it yet."""
        begun = max((key.owner_order for key in self.begun), default=None)
        newest = self.segments.newest
        return begun is not None and newest is not None and begun > newest.owner_order

    @property
    def anchor(self) -> Anchor | None:
        """The newest owner's, where any has stored one."""
        key = self.segments.newest
        if key is None:
            return None
        return Anchor(key=key, segment=self.segments[key])

    @property
    def copied_to(self) -> int | None:
        """The next source offset to copy, as far as was written down; None: nothing was begun."""
        anchor = self.anchor
        if anchor is not None:
            return anchor.segment.through
        eras = self.eras
        return eras[max(eras)].first_source if eras else None

    @property
    def open_request(self) -> map_record.Request | None:
        """The operator's request, unless an era already answers it."""
        if self.request is None:
            return None
        answered = any(era.request == self.request.request for era in self.begun.values())
        return None if answered else self.request

    def source_position(self, target: int) -> Position | None:
        """Where to go on when the target's log ends at `target`; None when no era was ever begun.

        Every copyable record before the source offset was copied and stands below the target
        offset, whichever era it belongs to. The latter is `target`, or an earlier one, where the
        map no longer says what exactly stood there.
        """
        eras = self.eras
        if not eras:
            return None
        number = max((each for each in eras if eras[each].first_target <= target), default=0)
        later = [era.first_source for each, era in eras.items() if each > number]
        if not number:
            return Position(min(later), target)
        runs = era_runs.EraRuns.of(self.segments, number, eras[number])
        source, place = runs.sure_before(target) or (runs.begins, eras[number].first_target)
        return Position(min([*later, source]), place)

    def superseded(self, by: map_record.SegmentKey) -> list[map_record.SegmentKey]:
        """Keys of older owners in `by`'s era that lie wholly at or above where `by`'s Take
        began."""
        start = self.segments[by].take_start
        return [
            each.key(at)
            for each in self.segments.of_era(by.era)
            if each.owner < by.owner_order
            for at in range(bisect_left(each.firsts, start), len(each))
        ]

    def check_invariants(self) -> None:
        for key, segment in self.segments.items():
            sources = [run.source for run in segment.runs]
            assert sources == sorted(set(sources)), key
            assert segment.through >= key.first_source, key


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A record of the map topic that this release cannot read, and that nothing has replaced.

    `partition` is the source partition that its key names. It may concern all partitions of that
    topic: where one partition starts depends on the eras of the others. None: the key names no
    partition, so the record may concern any.
    """

    offset: int
    key: bytes
    why: str
    partition: ids.TopicPartition | None

    @property
    def known_key(self) -> map_record.MapKey | None:
        """The key; None if it is unreadable, too."""
        try:
            return map_record.decode_key(self.key)
        except map_record.UNREADABLE:
            return None

    @property
    def is_era(self) -> bool:
        """Without its era, a partition can only begin again."""
        return isinstance(self.known_key, map_record.EraKey)

    def may_concern(self, partition: ids.TopicPartition) -> bool:
        return self.partition is None or self.partition.topic == partition.topic

    def describe(self, *, topic: str, flow: str) -> str:
        """An error's text; `topic` is what was read, `flow` whose it is, "" if not known."""
        words = ["mm2", "offsets", "skip", *filter(None, [flow]), "--offset", str(self.offset)]
        if self.is_era:
            words += ["--from", "earliest"]
        return (
            f"reading {topic}: the record at offset {self.offset} cannot be read: {self.why}. If a "
            "newer release of mm2 wrote it, run that release. If another program wrote it, skip "
            f"the record with {shlex.join(words)}"
        )


@dataclass(slots=True)
class OffsetMap:
    """All partitions of one flow; `fold` takes the map topic's records in order.

    `keeps`: what else is there is passed over.
    """

    keeps: Callable[[map_record.MapKey], bool] = lambda _: True
    _partitions: dict[ids.TopicPartition, PartitionMap] = field(default_factory=dict)
    _unreadable: dict[bytes, Unreadable] = field(default_factory=dict)
    """By key, in the order of offsets."""

    def fold(self, key: bytes, value: bytes | None, *, offset: int) -> None:
        """As `apply`, but an unreadable record is kept in `unreadable` until another record, or a
        tombstone, replaces it: only then is it known to mean nothing."""
        self._unreadable.pop(key, None)
        try:
            self.apply(key, value)
        except map_record.UNREADABLE as error:
            if value is None:
                return
            named = map_record.partition_of(key)
            self._unreadable[key] = Unreadable(
                offset=offset,
                key=key,
                why=str(error),
                partition=None if named is None else ids.TopicPartition(*named),
            )

    def unreadable(self, partition: ids.TopicPartition | None = None) -> Sequence[Unreadable]:
        """By offset; with `partition`, those that may concern it."""
        found = self._unreadable.values()
        if partition is None:
            return list(found)
        return [each for each in found if each.may_concern(partition)]

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Fold one record in; None is a tombstone. Raises as `map_record.decode_key`."""
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
