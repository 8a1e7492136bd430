"""Plans which records of one partition's offset map are deleted or merged to save space.

A segment is a map record that covers a range of source offsets. Segments for source records that no
longer exist are deleted. If the map exceeds its size budget, old runs (ranges with a constant
offset difference) are removed evenly and neighboring segments are merged. The newest segments, up
to half of the budget, are never changed, because the next acquisition resumes from there. The
process that owns the partition applies the changes in order, and the map is correct after each
change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey, OffsetRun
from mm2.offsets.offset_map import EraRuns, OwnerSegments, PartitionMap

MERGED_SEGMENT_BYTES = 2048
"""Maximum size of the encoded runs in a segment merged from two segments, in bytes. If the runs of
both segments occupy more than twice this size, half of their size is the maximum."""


class MapChange(NamedTuple):
    """A change to a record of the offset map topic: the record's key and its new value. A value of
    None deletes the record."""

    key: MapSegmentKey
    segment: MapSegment | None


def plan_compaction(
    partition_map: PartitionMap,
    *,
    log_start: int,
    budget_bytes: int,
    changes_max: int,
    segment_bytes: int = MERGED_SEGMENT_BYTES,
) -> list[MapChange]:
    """Plan the next changes that compact a partition's offset map. Apply the changes and call again
    until the list is empty.

    Returns at most `changes_max` changes, plus one if the last merge would otherwise be incomplete.

    `log_start` is the log start offset of the source topic of the newest era (mirror generation).
    The resume point and the newest segments, up to half of `budget_bytes`, are never changed, and
    the last segment of an era is never deleted.
    """
    found = [
        MapChange(key, None)
        for each in partition_map.segments.owners
        for key in each.list_obsolete_keys()
    ]
    found += [MapChange(key, None) for key in _find_expired_segments(partition_map, log_start)]
    if found:
        return found[:changes_max]
    excess, groups = _find_excess_segments(partition_map, budget_bytes)
    changes: list[MapChange] = []
    for group in groups:
        if excess <= 0 or len(changes) >= changes_max:
            break
        one, *others = [each.owner.get_key(each.index) for each in group]
        merged = _merge_segments(
            [each.owner.get_segment(each.index) for each in group], segment_bytes=segment_bytes
        )
        saved = sum(each.size for each in group) - _count_stored_bytes(one, merged)
        if saved > 0:
            excess -= saved
            changes += [MapChange(one, merged), *(MapChange(each, None) for each in others)]
    return changes


# Deleting expired segments


def _find_expired_segments(known: PartitionMap, log_start: int) -> Iterator[MapSegmentKey]:
    eras = known.eras
    current_id = eras[max(eras)].source_topic_id if eras else b""
    for number, era in sorted(eras.items()):
        if era.source_topic_id == current_id:
            runs = EraRuns.from_segments(known.segments, number, era)
            yield from _find_expired_segments_in_era(known, runs, log_start)


def _find_expired_segments_in_era(
    known: PartitionMap, runs: EraRuns, log_start: int
) -> Iterator[MapSegmentKey]:
    """Find the segments of an era (mirror generation) that are no longer needed, because all their
    source records were deleted.

    These are the segments before the last segment whose first run begins below the log start
    offset.
    """
    needed: tuple[int, int] | None = None
    for place, (mine, end) in enumerate(zip(runs.owners, runs.ends, strict=True)):
        for index in range(len(mine)):
            first_run = mine.decode_segment_head(index).first_run
            if mine.firsts[index] >= min(end, log_start):
                break
            if first_run is not None and first_run < min(end, log_start):
                needed = place, index
    if needed is None:
        return
    for place, mine in enumerate(runs.owners[: needed[0] + 1]):
        all_of_it = place < needed[0]
        if all_of_it and _proves_later_era_invalid(known, mine.any_key):
            return
        for index in range(len(mine) if all_of_it else needed[1]):
            yield mine.get_key(index)


def _proves_later_era_invalid(known: PartitionMap, owner: MapSegmentKey) -> bool:
    """Return whether the segments of `owner` prove that a later era (mirror generation) is invalid:
    an older owner began the later era after it had lost the partition. These segments must be
    kept."""
    return any(
        each.era > owner.era and each.owner_sort_key < owner.owner_sort_key
        for each in known.era_records
    )


# Thinning out


@dataclass(slots=True)
class _PrunableSegment:
    """A segment of the offset map from which runs (ranges with a constant offset difference) may be
    removed."""

    owner: OwnerSegments
    index: int
    size: int
    slack: int


def _find_excess_segments(
    known: PartitionMap, budget_bytes: int
) -> tuple[int, list[list[_PrunableSegment]]]:
    """Return the number of bytes by which the map must shrink, and the groups of segments to merge.
    Returns (0, []) if the map does not exceed `budget_bytes`."""
    pieces = [
        _PrunableSegment(
            mine, index, _count_segment_bytes(mine, index), mine.decode_segment_head(index).slack
        )
        for mine in known.segments.owners
        for index in range(len(mine))
    ]
    excess = sum(each.size for each in pieces) - budget_bytes
    if excess <= 0:
        return 0, []
    return excess + budget_bytes // 8, _pair_neighboring_segments(
        _exclude_newest_segments(pieces, budget_bytes // 2)
    )


def _count_segment_bytes(mine: OwnerSegments, index: int) -> int:
    return len(mine.values[index]) + len(offset_map_records.encode_map_key(mine.any_key))


def _count_stored_bytes(key: MapSegmentKey, segment: MapSegment) -> int:
    return len(offset_map_records.encode_map_key(key)) + len(
        offset_map_records.encode_map_value(segment)
    )


def _exclude_newest_segments(
    pieces: Sequence[_PrunableSegment], exact_bytes: int
) -> list[_PrunableSegment]:
    """Return all segments except the newest ones, which are kept unchanged: at most `exact_bytes`
    bytes of segments, and always the segment with the resume point."""
    kept = 0
    for place in range(len(pieces) - 1, -1, -1):
        kept += pieces[place].size
        if kept > exact_bytes:
            return list(pieces[: min(place + 1, len(pieces) - 1)])
    return []


def _pair_neighboring_segments(
    pieces: Sequence[_PrunableSegment],
) -> list[list[_PrunableSegment]]:
    """Group neighboring segments of the same owner in pairs to merge. Pairs with smaller error
    bounds come first; among equal pairs, the oldest comes first. Returns groups of one segment if
    no owner has two segments.

    A segment is in at most one group. Groups whose error bounds are more than twice as wide as
    those of the first group are left out, so that all segments lose precision evenly.
    """
    pairs = [[one, two] for one, two in itertools.pairwise(pieces) if one.owner is two.owner]
    groups = pairs or [[each] for each in pieces]
    groups.sort(key=_get_max_translation_error)
    found: list[list[_PrunableSegment]] = []
    used: set[int] = set()
    for group in groups:
        if _get_max_translation_error(group) > 2 * _get_max_translation_error(groups[0]):
            break
        if used.isdisjoint(map(id, group)):
            used.update(map(id, group))
            found.append(group)
    return found


def _get_max_translation_error(group: Sequence[_PrunableSegment]) -> int:
    """Return the largest uncertainty of an offset translation in these segments, in offsets."""
    return max(each.slack for each in group)


class _RunWithErrorBounds(NamedTuple):
    """An offset run (range with a constant offset difference) with the error bounds that apply in
    its segment."""

    run: OffsetRun
    below: int
    above: int


def _merge_segments(segments: Sequence[MapSegment], *, segment_bytes: int) -> MapSegment:
    """Merge neighboring offset map segments. If the runs (ranges with a constant offset difference)
    exceed the maximum size, keep every n-th run, with the lowest n that is sufficient."""
    runs = [
        _RunWithErrorBounds(run, each.below, each.above) for each in segments for run in each.runs
    ]
    whole = _compute_encoded_runs_size([each.run for each in runs])
    limit = whole // 2 if len(segments) == 1 else max(segment_bytes, whole // 2)
    step = 1
    while (
        step < len(runs) and _compute_encoded_runs_size([each.run for each in runs[::step]]) > limit
    ):
        step += 1
    below, above = _compute_removed_bounds(runs, step)
    first, last = segments[0], segments[-1]
    return MapSegment(
        leader_epoch=last.leader_epoch,
        source_epoch=last.source_epoch,
        owner=last.owner,
        acquired_from=first.acquired_from,
        through=last.through,
        target_next=last.target_next,
        last_crc=last.last_crc,
        runs=tuple(each.run for each in runs[::step]),
        closed=True,
        below=below,
        above=above,
    )


def _compute_removed_bounds(runs: Sequence[_RunWithErrorBounds], step: int) -> tuple[int, int]:
    """Compute the error bounds of a segment that keeps every run whose index is a multiple of
    `step`: the largest amounts by which the delta (target minus source offset) of a removed run may
    be lower and higher than the delta of the preceding kept run."""
    below = above = 0
    for place, each in enumerate(runs):
        difference = each.run.delta - runs[place - place % step].run.delta
        below = max(below, each.below - difference)
        above = max(above, each.above + difference)
    return below, above


def _compute_encoded_runs_size(runs: Sequence[OffsetRun]) -> int:
    out = bytearray()
    offset_map_records.append_offset_runs(out, runs, previous=None)
    return len(out)
