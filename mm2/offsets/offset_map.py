"""Builds the offset map of one flow from the map topic: eras, producer ids, resume points and runs
(ranges with a constant offset difference) per partition.

An era is a generation of a mirror topic: within an era, the source's records are replicated to the
target without a gap. An owner is a producer (ordinal and epoch) that acquired the partition, and a
segment is a map record in which an owner stored the runs of a range of source offsets. Segments of
an older owner are valid only below the source offset at which a newer owner acquired the partition.
If the segments of an owner end before that offset, the newer owner had not read them when it
acquired the partition. Such segments are ignored.

Segments remain encoded (two or three bytes per run, a fiftieth of an object's size) and are decoded
when an offset near them is looked up, because the map of a compacted topic or of a topic full of
transactions has millions of runs.
"""

from __future__ import annotations

import functools
import shlex
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import (
    Era,
    EraKey,
    MapKey,
    MapProducer,
    MapProducerKey,
    MapSegment,
    MapSegmentHead,
    MapSegmentKey,
    NewEraRequest,
    NewEraRequestKey,
    OffsetRun,
)

OwnerOrder = tuple[int, int, int]
"""Sort key of a partition's owners, as in `MapSegmentKey.owner_order`: ordinal, epoch, era (mirror
generation)."""
CACHED_SEGMENTS_MAX = 32
"""Maximum number of decoded segments in the cache (about 4 MB)."""
LARGE_SEGMENT_BYTES = 64 * 1024
"""Segments larger than this occupy megabytes of memory each when decoded, so fewer of them are
cached."""
CACHED_LARGE_SEGMENTS_MAX = 2


def _decode_segment(key: MapSegmentKey, value: bytes) -> MapSegment:
    found = offset_map_records.decode_map_value(key, value)
    assert isinstance(found, MapSegment)
    return found


_decode_cached = functools.lru_cache(maxsize=CACHED_SEGMENTS_MAX)(_decode_segment)
_decode_large_cached = functools.lru_cache(maxsize=CACHED_LARGE_SEGMENTS_MAX)(_decode_segment)


class OwnerSegments:
    """Offset map segments that one owner (a producer that acquired the partition) stored, in the
    order of their source offsets.

    Invariants: `firsts` is strictly increasing and has as many entries as `values`.
    """

    __slots__ = ("_valid", "any_key", "firsts", "values")

    def __init__(self, name: MapSegmentKey) -> None:
        """Create an owner without segments. `name` is the record key of any segment of this owner;
        it identifies the partition, the era (mirror generation) and the owner."""
        self.any_key = name
        self.firsts = array("q")
        self.values: list[bytes] = []
        self._valid: OwnerSegments | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def owner(self) -> OwnerOrder:
        """Sort key of this owner. A newer owner has a greater key."""
        return self.any_key.owner_sort_key

    @property
    def acquisition_source_offset(self) -> int:
        """Source offset at which this owner acquired the partition. Segments of older owners are
        valid only below this offset."""
        return self.decode_segment_head(0).acquired_from

    def get_key(self, index: int) -> MapSegmentKey:
        """Return the key of the segment at `index`."""
        name = self.any_key
        return MapSegmentKey(
            topic=name.topic,
            partition=name.partition,
            era=name.era,
            ordinal=name.ordinal,
            epoch=name.epoch,
            first_source=self.firsts[index],
        )

    def get_segment(self, index: int) -> MapSegment:
        """Decode the segment at `index`."""
        value = self.values[index]
        is_large = len(value) > LARGE_SEGMENT_BYTES
        decode = _decode_large_cached if is_large else _decode_cached
        return decode(self.get_key(index), value)

    def decode_segment_head(self, index: int) -> MapSegmentHead:
        """Decode the fixed-size head of the segment at `index`, but not its runs (ranges with a
        constant offset difference)."""
        return offset_map_records.read_segment_head(self.values[index])

    def find_segment_index(self, first_source: int) -> int | None:
        """Find the index of the segment that begins at `first_source`. Returns None if no segment
        begins there."""
        at = bisect_left(self.firsts, first_source)
        return at if at < len(self.firsts) and self.firsts[at] == first_source else None

    def store_segment(self, first_source: int, value: bytes) -> None:
        """Store the encoded segment that begins at `first_source`."""
        at = bisect_left(self.firsts, first_source)
        if at < len(self.firsts) and self.firsts[at] == first_source:
            extends_last = at == len(self.firsts) - 1
            self.values[at] = value
        else:
            extends_last = (
                at == len(self.firsts) > 0
                and self.decode_segment_head(at - 1).through == first_source
            )
            self.firsts.insert(at, first_source)
            self.values.insert(at, value)
        if self._valid is not self or not extends_last:
            self._valid = None

    def remove_segment(self, first_source: int) -> None:
        """Remove the segment that begins at `first_source`, if it exists."""
        at = self.find_segment_index(first_source)
        if at is not None:
            self._valid = None
            del self.firsts[at]
            del self.values[at]

    def select_valid_segments(self) -> OwnerSegments:
        """Select the valid segments. Segments that were merged into an earlier segment, and
        segments before a gap, are excluded.

        The merged segments are about to be deleted. Segments before a gap cannot be trusted: a
        process that lost the partition but still compacted the map may have deleted the missing
        segments.
        """
        if self._valid is None:
            self._valid = self._compute_valid_segments()
        return self._valid

    def list_obsolete_keys(self) -> list[MapSegmentKey]:
        """List the keys of the segments that `select_valid_segments` excludes."""
        if len(self.select_valid_segments()) == len(self):
            return []
        kept = set(self.select_valid_segments().firsts)
        return [self.get_key(at) for at, first in enumerate(self.firsts) if first not in kept]

    def _compute_valid_segments(self) -> OwnerSegments:
        kept: list[int] = []
        through = self.firsts[0]
        for at, first in enumerate(self.firsts):
            if first > through:
                kept.clear()
            if first >= through:
                kept.append(at)
                through = self.decode_segment_head(at).through
        if len(kept) == len(self):
            return self
        found = OwnerSegments(self.any_key)
        found.firsts = array("q", (self.firsts[at] for at in kept))
        found.values = [self.values[at] for at in kept]
        return found


class SegmentStore(Mapping[MapSegmentKey, MapSegment]):
    """Segments of one partition, stored encoded and decoded on access."""

    def __init__(self, segments: Mapping[MapSegmentKey, MapSegment] | None = None) -> None:
        self._list_owners: dict[OwnerOrder, OwnerSegments] = {}
        for key, segment in (segments or {}).items():
            self.store_segment(key, offset_map_records.encode_map_value(segment))

    def store_segment(self, key: MapSegmentKey, value: bytes | None) -> None:
        """Store a segment as encoded in the map topic. A `value` of None deletes the segment."""
        mine = self._list_owners.get(key.owner_sort_key)
        if value is None:
            if mine is not None:
                mine.remove_segment(key.first_source)
                if not mine:
                    del self._list_owners[key.owner_sort_key]
            return
        if mine is None:
            mine = self._list_owners[key.owner_sort_key] = OwnerSegments(key)
        mine.store_segment(key.first_source, value)

    @property
    def owners(self) -> list[OwnerSegments]:
        """All owners that have segments, oldest first."""
        return [self._list_owners[each] for each in sorted(self._list_owners)]

    def list_owners_of_era(self, number: int) -> list[OwnerSegments]:
        """List the owners of one era (mirror generation), oldest first."""
        return [self._list_owners[each] for each in sorted(self._list_owners) if each[-1] == number]

    @property
    def newest_segment_key(self) -> MapSegmentKey | None:
        """Key of the last segment of the newest owner."""
        if not self._list_owners:
            return None
        last = self._list_owners[max(self._list_owners)]
        return last.get_key(len(last) - 1)

    def __getitem__(self, key: MapSegmentKey) -> MapSegment:
        mine = self._list_owners.get(key.owner_sort_key)
        at = None if mine is None else mine.find_segment_index(key.first_source)
        if mine is None or at is None:
            raise KeyError(key)
        return mine.get_segment(at)

    def __iter__(self) -> Iterator[MapSegmentKey]:
        for mine in list(self._list_owners.values()):
            for at in range(len(mine)):
                yield mine.get_key(at)

    def __len__(self) -> int:
        return sum(map(len, self._list_owners.values()))

    def __bool__(self) -> bool:
        return bool(self._list_owners)


class OffsetBounds(NamedTuple):
    """Inclusive bounds of an exact offset, from `lowest` to `highest`. Usually both are equal."""

    lowest: int
    highest: int


class _StoredRun(NamedTuple):
    """An offset run (range with a constant delta), and error bounds for the runs that compaction
    removed after this run. The delta of a removed run is lower than the delta of `run` by at most
    `below`, or higher by at most `above`."""

    run: OffsetRun
    below: int
    above: int


_RunKey = Callable[[OffsetRun], int]


def _get_run_source_offset(run: OffsetRun) -> int:
    return run.source


def _get_run_target_offset(run: OffsetRun) -> int:
    return run.source + run.delta


@dataclass(frozen=True, slots=True, kw_only=True)
class EraRuns:
    """Offset map of one era (mirror generation). All offsets are source offsets unless stated
    otherwise."""

    owners: list[OwnerSegments]
    """Segments of the owners that replicated in this era (mirror generation), oldest owner
    first."""
    ends: list[int]
    """For each entry of `owners`, the source offset up to which its segments are valid."""
    begins: int
    """First source offset of the era (mirror generation)."""
    floor: int
    """First source offset that the map covers. Higher than `begins` if older segments were
    deleted."""
    through: int
    """Source offset up to which the era (mirror generation) was replicated."""
    target_next: int
    """Next target offset for data."""

    @classmethod
    def from_segments(cls, segments: SegmentStore, number: int, era: Era) -> EraRuns:
        """Build the map of era (mirror generation) `number` from its segments."""
        owners = [each.select_valid_segments() for each in segments.list_owners_of_era(number)]
        if not owners:
            return cls(
                owners=[],
                ends=[],
                begins=era.first_source,
                floor=era.first_source,
                through=era.first_source,
                target_next=era.first_target,
            )
        last = owners[-1].decode_segment_head(len(owners[-1]) - 1)
        counted: list[OwnerSegments] = []
        ends: list[int] = []
        end = last.through
        for each in reversed(owners):
            if each.decode_segment_head(len(each) - 1).through >= end:
                counted.append(each)
                ends.append(end)
                end = min(end, each.acquisition_source_offset)
        return cls(
            owners=counted[::-1],
            ends=ends[::-1],
            begins=era.first_source,
            floor=min(each.firsts[0] for each in counted),
            through=last.through,
            target_next=last.target_next,
        )

    def translate_to_target(self, upstream: int) -> OffsetBounds:
        """Translate source offset `upstream`, which must not be below `floor`, to bounds of the
        target offset.

        Copies of source records at or after `upstream` are at or after the exact target offset;
        copies of earlier records are before it.
        """
        before, behind = self._find_runs_around_offset(upstream, order=_get_run_source_offset)
        limit = self.target_next if behind is None else _get_run_target_offset(behind)
        if before is None:
            return OffsetBounds(limit, limit)
        run = before.run
        if run.source == upstream:
            return OffsetBounds(_get_run_target_offset(run), _get_run_target_offset(run))
        here, least = upstream + run.delta, _get_run_target_offset(run) + 1
        return OffsetBounds(
            min(limit, max(least, here - before.below)), min(limit, max(least, here + before.above))
        )

    def translate_to_source(self, downstream: int) -> OffsetBounds | None:
        """Translate target offset `downstream` to bounds of the source offset. Returns None if that
        part of the map was deleted.

        Target records at or after `downstream` are copies of source records at or after the exact
        source offset; earlier target records are copies of earlier source records.
        """
        before, behind = self._find_runs_around_offset(downstream, order=_get_run_target_offset)
        limit = self.through if behind is None else behind.source
        if before is None:
            whole = self.floor == self.begins
            return OffsetBounds(self.begins, self.begins) if whole else None
        run = before.run
        if _get_run_target_offset(run) == downstream:
            return OffsetBounds(run.source, run.source)
        here, least = downstream - run.delta, run.source + 1
        return OffsetBounds(
            min(limit, max(least, here - before.above)), min(limit, max(least, here + before.below))
        )

    def find_exact_pair_before(self, downstream: int) -> tuple[int, int] | None:
        """Find the last pair of source and target offset that is known exactly and whose target
        offset is not higher than `downstream`. Returns None if the map has no such pair."""
        found = self.translate_to_source(downstream)
        if found is None or found.lowest == found.highest:
            return None if found is None else (found.lowest, downstream)
        before, _ = self._find_runs_around_offset(downstream, order=_get_run_target_offset)
        assert before is not None
        return before.run.source, _get_run_target_offset(before.run)

    def _find_runs_around_offset(
        self, at: int, *, order: _RunKey
    ) -> tuple[_StoredRun | None, OffsetRun | None]:
        """Return the last valid offset run (range with a constant delta) that begins at or before
        offset `at`, and the first run after it. `order` selects source or target offsets."""
        behind = None
        for mine, end in zip(reversed(self.owners), reversed(self.ends), strict=True):
            before, found = _find_neighboring_runs(mine, at, end=end, order=order)
            behind = found or behind
            if before is not None:
                return before, behind
        return None, behind


def _find_neighboring_runs(
    mine: OwnerSegments, at: int, *, end: int, order: _RunKey
) -> tuple[_StoredRun | None, OffsetRun | None]:
    """Find the offset runs (ranges with a constant delta) before and after `at` among one owner's
    runs below source offset `end`."""
    count = bisect_left(mine.firsts, end)
    if order is _get_run_source_offset:
        first = max(0, bisect_right(mine.firsts, at, hi=count) - 1)
    else:
        ends = range(count)
        first = bisect_right(
            ends, at, key=lambda index: mine.decode_segment_head(index).target_next
        )
    before = behind = None
    for index in range(first, count):
        runs, below, above = _read_valid_runs(mine, index, end)
        place = bisect_right(runs, at, key=order)
        if place:
            before = _StoredRun(runs[place - 1], below, above)
        if place < len(runs):
            behind = runs[place]
            break
    for index in range(first - 1, -1, -1):
        if before is not None:
            break
        runs, below, above = _read_valid_runs(mine, index, end)
        if runs:
            before = _StoredRun(runs[-1], below, above)
    return before, behind


def _read_valid_runs(
    mine: OwnerSegments, index: int, end: int
) -> tuple[tuple[OffsetRun, ...], int, int]:
    found = mine.get_segment(index)
    runs = found.runs
    if runs and runs[-1].source >= end:
        runs = runs[: bisect_left(runs, end, key=_get_run_source_offset)]
    return runs, found.below, found.above


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePoint:
    """The last segment of a partition's newest owner. The segment contains the source offset up to
    which the partition was replicated, and the owner that replicated it."""

    key: MapSegmentKey
    segment: MapSegment


class MappedOffset(NamedTuple):
    """A source offset and its target offset."""

    source: int
    target: int


@dataclass(slots=True)
class PartitionMap:
    """Offset map of one source partition.

    Invariant: the resume point belongs to the owner with the highest (ordinal, epoch). Segments
    that an older owner stored after a newer owner had read the map are ignored.
    """

    era_records: dict[EraKey, Era] = field(default_factory=dict)
    producers: dict[int, MapProducer] = field(default_factory=dict)
    segments: SegmentStore = field(default_factory=SegmentStore)
    request: NewEraRequest | None = None

    @property
    def newest_era(self) -> int:
        """Era (mirror generation) of the newest owner; 0 if no era was ever begun."""
        return self._list_owners()[-1][-1] if self.era_records or self.segments else 0

    @property
    def has_ever_begun_era(self) -> bool:
        """True if an era (mirror generation) was ever begun. Also true if the only trace of an era
        is an unreadable record that an operator has skipped."""
        request = self.request
        lost = request is not None and request.request.startswith(
            offset_map_records.LOST_ERA_REQUEST_PREFIX
        )
        return self.newest_era > 0 or lost

    @property
    def next_ordinal(self) -> int:
        """Ordinal to assign to the partition's next producer id; greater than all ordinals assigned
        before."""
        owners = [each.any_key.ordinal for each in self.segments.owners]
        eras = [each.ordinal for each in self.era_records]
        return max((0, *owners, *eras, *(each.ordinal for each in self.producers.values()))) + 1

    @property
    def eras(self) -> dict[int, Era]:
        """Valid eras (mirror generations) by number. An era is invalid if the owner that began it
        had already lost the partition to another owner that did not continue this era."""
        begun = {key.owner_sort_key: era for key, era in self.era_records.items()}
        found: dict[int, Era] = {}
        lowest: int | None = None
        for order in reversed(self._list_owners()):
            number = order[-1]
            if lowest is None or number <= lowest:
                lowest = number
                if order in begun:
                    found.setdefault(number, begun[order])
        return found

    def _list_owners(self) -> list[tuple[int, int, int]]:
        orders = {each.owner_sort_key for each in self.era_records}
        return sorted(orders.union(each.owner for each in self.segments.owners))

    @property
    def is_newest_era_empty(self) -> bool:
        """True if an owner newer than the resume point's owner began an era (mirror generation) in
        which nothing has been replicated yet."""
        begun = max((key.owner_sort_key for key in self.era_records), default=None)
        newest = self.segments.newest_segment_key
        return begun is not None and newest is not None and begun > newest.owner_sort_key

    @property
    def resume_point(self) -> ResumePoint | None:
        """Resume point of the newest owner that has stored segments; None if there is none."""
        key = self.segments.newest_segment_key
        if key is None:
            return None
        return ResumePoint(key=key, segment=self.segments[key])

    @property
    def next_source_offset(self) -> int | None:
        """Next source offset to replicate according to the map; None if no era (mirror generation)
        was begun."""
        anchor = self.resume_point
        if anchor is not None:
            return anchor.segment.through
        eras = self.eras
        return eras[max(eras)].first_source if eras else None

    @property
    def pending_era_request(self) -> NewEraRequest | None:
        """The operator's pending request to begin a new era (mirror generation); None if there is
        no request or if it was fulfilled."""
        if self.request is None:
            return None
        answered = any(era.request == self.request.request for era in self.era_records.values())
        return None if answered else self.request

    def find_resume_position(self, target: int) -> MappedOffset | None:
        """Find the source and target offset at which to resume if the target's log ends at
        `target`.

        The returned target offset is `target` or, if the map does not contain the exact source
        offset for `target`, a lower offset. In every era (mirror generation), all records before
        the returned source offset that had to be replicated are on the target below the returned
        target offset. Returns None if no era was ever begun (era 0 of a rebuilt map does not
        count).
        """
        eras = self.eras
        if not eras:
            return None
        number = max((each for each in eras if eras[each].first_target <= target), default=0)
        later = [era.first_source for each, era in eras.items() if each > number]
        if not number:  # no era, or era 0 of a rebuilt map: replication never resumes from era 0
            return MappedOffset(min(later), target) if later else None
        runs = EraRuns.from_segments(self.segments, number, eras[number])
        source, place = runs.find_exact_pair_before(target) or (
            runs.begins,
            eras[number].first_target,
        )
        return MappedOffset(min([*later, source]), place)

    def list_superseded_keys(self, owner: MapSegmentKey) -> list[MapSegmentKey]:
        """List the keys of the segments that `owner` supersedes. These are the segments of older
        owners in the same era (mirror generation) that begin at or after the source offset at which
        `owner` acquired the partition."""
        start = self.segments[owner].acquired_from
        return [
            each.get_key(at)
            for each in self.segments.list_owners_of_era(owner.era)
            if each.owner < owner.owner_sort_key
            for at in range(bisect_left(each.firsts, start), len(each))
        ]

    def check_invariants(self) -> None:
        for key, segment in self.segments.items():
            sources = [run.source for run in segment.runs]
            assert sources == sorted(set(sources)), key
            assert segment.through >= key.first_source, key


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableMapRecord:
    """A record of the map topic that this release cannot read and that no later record has
    replaced."""

    offset: int
    key: bytes
    why: str
    partition: TopicPartition | None
    """Source partition in the record's key. The unreadable record may affect all partitions of that
    partition's topic, because the offset at which a partition starts depends on the eras (mirror
    generations) of the topic's other partitions. None if the key contains no partition: the record
    may then affect every topic."""

    @property
    def decoded_key(self) -> MapKey | None:
        """The record's decoded key; None if the key is unreadable, too."""
        try:
            return offset_map_records.decode_map_key(self.key)
        except offset_map_records.UNREADABLE_RECORD_ERRORS:
            return None

    @property
    def is_era_record(self) -> bool:
        """True if the record is an era (mirror generation) record. If an era record is skipped, its
        partition must be reset."""
        return isinstance(self.decoded_key, EraKey)

    def may_affect_partition(self, partition: TopicPartition) -> bool:
        """Return whether the unreadable record may affect this source partition."""
        return self.partition is None or self.partition.topic == partition.topic

    def format_error(self, *, topic: str, flow: str) -> str:
        """Build the error message about the unreadable record. `topic` is the map topic, `flow` the
        flow's name ("" if unknown)."""
        words = ["mm2", "offsets", "skip", *filter(None, [flow]), "--offset", str(self.offset)]
        if self.is_era_record:
            words += ["--from", "earliest"]
        return (
            f"reading {topic}: the record at offset {self.offset} cannot be read: {self.why}. If a "
            "newer release of mm2 wrote it, run that release. If another program wrote it, skip "
            f"the record with {shlex.join(words)}"
        )


@dataclass(slots=True)
class OffsetMap:
    """Offset maps of all partitions of one flow. Call `apply_record` with each record of the map
    topic, in order."""

    key_filter: Callable[[MapKey], bool] = lambda _: True
    """Function that decides by the record key whether a record is kept. Other records are
    ignored."""
    _partitions: dict[TopicPartition, PartitionMap] = field(default_factory=dict)
    _unreadable: dict[bytes, UnreadableMapRecord] = field(default_factory=dict)
    """Unreadable records by key, in offset order."""

    def apply_record_or_keep_unreadable(
        self, key: bytes, value: bytes | None, *, offset: int
    ) -> None:
        """Apply the next record of the map topic. An unreadable record is kept for
        `list_unreadable_records` until a later record or tombstone with the same key replaces
        it."""
        self._unreadable.pop(key, None)
        try:
            self.apply_record(key, value)
        except offset_map_records.UNREADABLE_RECORD_ERRORS as error:
            if value is None:
                return
            named = offset_map_records.read_partition(key)
            self._unreadable[key] = UnreadableMapRecord(
                offset=offset,
                key=key,
                why=str(error),
                partition=None if named is None else TopicPartition(*named),
            )

    def list_unreadable_records(
        self, partition: TopicPartition | None = None
    ) -> Sequence[UnreadableMapRecord]:
        """List unreadable records by offset. If `partition` is given, list only records that may
        affect it."""
        found = self._unreadable.values()
        if partition is None:
            return list(found)
        return [each for each in found if each.may_affect_partition(partition)]

    def apply_record(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the map topic; a `value` of None is a tombstone. Raises one of
        `offset_map_records.UNREADABLE_RECORD_ERRORS` if the key or the value cannot be decoded."""
        name = offset_map_records.decode_map_key(key)
        if not self.key_filter(name):
            return
        partition = self._partitions.setdefault(
            TopicPartition(name.topic, name.partition), PartitionMap()
        )
        decoded = None
        if isinstance(name, MapSegmentKey):
            if value is not None:
                offset_map_records.check_segment(name, value)
        elif value is not None:
            decoded = offset_map_records.decode_map_value(name, value)
        match name:
            case EraKey():
                _set_or_delete_table_entry(partition.era_records, name, decoded)
            case MapProducerKey():
                _set_or_delete_table_entry(partition.producers, name.producer_id, decoded)
            case MapSegmentKey():
                partition.segments.store_segment(name, value)
            case NewEraRequestKey():
                assert decoded is None or isinstance(decoded, NewEraRequest)
                partition.request = decoded

    def get_partition(self, partition: TopicPartition) -> PartitionMap:
        """Return the offset map of one partition; empty if nothing was recorded for it."""
        return self._partitions.get(partition) or PartitionMap()

    def list_partitions(self) -> list[TopicPartition]:
        """List the partitions that have at least one record, sorted."""
        return sorted(self._partitions)

    def check_invariants(self) -> None:
        for partition in self._partitions.values():
            partition.check_invariants()


def _set_or_delete_table_entry(table: dict, key: object, value: object) -> None:  # type: ignore[type-arg]  # any of 3
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
