"""What of one partition's map is thrown away, and what is made thinner: a planner.

Its owner carries the changes out in their order, as many as it likes: after each of them readers
are told the truth. Away goes what speaks of the source's records that are gone. Of a map that
outgrows its budget old runs are left out, evenly, and two segments become one; its newer half stays
as it is, for a Take goes on from there.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mm2.core.offsets import era_runs, offset_map, segment_store
from mm2.formats import map_record, run_steps

SEGMENT_BYTES = 2048
"""Two segments that become one are left with so much, or with half of what they had."""


class Change(NamedTuple):
    """What is stored under this key from now on; None deletes it."""

    key: map_record.SegmentKey
    segment: map_record.Segment | None


def plan(
    known: offset_map.PartitionMap,
    *,
    log_start: int,
    budget_bytes: int,
    changes_max: int,
    segment_bytes: int = SEGMENT_BYTES,
) -> list[Change]:
    """The next changes, up to `changes_max` of them or one more: call again until there are none.

    `log_start` is the source's, of the topic of the newest era. The anchor and the newer half of
    the budget are never touched, nor is the last segment of an era deleted.
    """
    found = [Change(key, None) for each in known.segments.owners for key in each.absorbed()]
    found += [Change(key, None) for key in _outlived(known, log_start)]
    if found:
        return found[:changes_max]
    excess, groups = _excess(known, budget_bytes)
    changes: list[Change] = []
    for group in groups:
        if excess <= 0 or len(changes) >= changes_max:
            break
        one, *others = [each.owner.key(each.index) for each in group]
        merged = _merged(
            [each.owner.segment(each.index) for each in group], segment_bytes=segment_bytes
        )
        saved = sum(each.size for each in group) - _stored_bytes(one, merged)
        if saved > 0:
            excess -= saved
            changes += [Change(one, merged), *(Change(each, None) for each in others)]
    return changes


# What is no longer needed


def _outlived(known: offset_map.PartitionMap, log_start: int) -> Iterator[map_record.SegmentKey]:
    eras = known.eras
    todays = eras[max(eras)].source_topic_id if eras else b""
    for number, era in sorted(eras.items()):
        if era.source_topic_id == todays:
            runs = era_runs.EraRuns.of(known.segments, number, era)
            yield from _outlived_of(known, runs, log_start)


def _outlived_of(
    known: offset_map.PartitionMap, runs: era_runs.EraRuns, log_start: int
) -> Iterator[map_record.SegmentKey]:
    """All before the last segment whose first run begins below the log's start: who asks for what
    lies before that run asks for what is gone."""
    needed: tuple[int, int] | None = None
    for place, (mine, end) in enumerate(zip(runs.owners, runs.ends, strict=True)):
        for index in range(len(mine)):
            first_run = mine.head(index).first_run
            if mine.firsts[index] >= min(end, log_start):
                break
            if first_run is not None and first_run < min(end, log_start):
                needed = place, index
    if needed is None:
        return
    for place, mine in enumerate(runs.owners[: needed[0] + 1]):
        all_of_it = place < needed[0]
        if all_of_it and _holds_down(known, mine.name):
            return
        for index in range(len(mine) if all_of_it else needed[1]):
            yield mine.key(index)


def _holds_down(known: offset_map.PartitionMap, owner: map_record.SegmentKey) -> bool:
    """Does this owner's word alone say that an era which another began late does not count?"""
    return any(
        each.era > owner.era and each.owner_order < owner.owner_order for each in known.begun
    )


# What becomes thinner


@dataclass(slots=True)
class _Piece:
    """A segment that may be thinned."""

    owner: segment_store.OwnerSegments
    index: int
    size: int
    slack: int


def _excess(known: offset_map.PartitionMap, budget_bytes: int) -> tuple[int, list[list[_Piece]]]:
    """How many bytes are to be saved, and by which segments, in this order."""
    pieces = [
        _Piece(mine, index, _size(mine, index), mine.head(index).slack)
        for mine in known.segments.owners
        for index in range(len(mine))
    ]
    excess = sum(each.size for each in pieces) - budget_bytes
    if excess <= 0:
        return 0, []
    return excess + budget_bytes // 8, _groups(_older(pieces, budget_bytes // 2))


def _size(mine: segment_store.OwnerSegments, index: int) -> int:
    return len(mine.values[index]) + len(map_record.encode_key(mine.name))


def _stored_bytes(key: map_record.SegmentKey, segment: map_record.Segment) -> int:
    return len(map_record.encode_key(key)) + len(map_record.encode_value(segment))


def _older(pieces: Sequence[_Piece], exact_bytes: int) -> list[_Piece]:
    """Without the newest ones, of so many bytes together, the anchor among them."""
    kept = 0
    for place in range(len(pieces) - 1, -1, -1):
        kept += pieces[place].size
        if kept > exact_bytes:
            return list(pieces[: min(place + 1, len(pieces) - 1)])
    return []


def _groups(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Neighbours that become one, those of which the least was left out first, then the oldest;
    where there are none, single ones that can be thinned by themselves.

    None is in two groups, and none differs much from the others: they are thinned again in turn.
    """
    pairs = [[one, two] for one, two in itertools.pairwise(pieces) if one.owner is two.owner]
    groups = pairs or [[each] for each in pieces]
    groups.sort(key=_slack)
    found: list[list[_Piece]] = []
    used: set[int] = set()
    for group in groups:
        if _slack(group) > 2 * _slack(groups[0]):
            break
        if used.isdisjoint(map(id, group)):
            used.update(map(id, group))
            found.append(group)
    return found


def _slack(group: Sequence[_Piece]) -> int:
    return max(each.slack for each in group)


class _Dense(NamedTuple):
    """A run as it stands in a segment, with that segment's bounds."""

    run: map_record.Run
    below: int
    above: int


def _merged(segments: Sequence[map_record.Segment], *, segment_bytes: int) -> map_record.Segment:
    """One that covers all of these neighbours; of two one every second run is left out, where
    there is no room for all."""
    runs = [_Dense(run, each.below, each.above) for each in segments for run in each.runs]
    whole = _run_bytes([each.run for each in runs])
    limit = whole // 2 if len(segments) == 1 else max(segment_bytes, whole // 2)
    step = 1
    while step < len(runs) and _run_bytes([each.run for each in runs[::step]]) > limit:
        step += 1
    below, above = _bounds(runs, step)
    first, last = segments[0], segments[-1]
    return map_record.Segment(
        leader_epoch=last.leader_epoch,
        source_epoch=last.source_epoch,
        owner=last.owner,
        take_start=first.take_start,
        through=last.through,
        target_next=last.target_next,
        last_crc=last.last_crc,
        runs=tuple(each.run for each in runs[::step]),
        closed=True,
        below=below,
        above=above,
    )


def _bounds(runs: Sequence[_Dense], step: int) -> tuple[int, int]:
    """How far below and above the run kept before it any of them may lie."""
    below = above = 0
    for place, each in enumerate(runs):
        apart = each.run.delta - runs[place - place % step].run.delta
        below = max(below, each.below - apart)
        above = max(above, each.above + apart)
    return below, above


def _run_bytes(runs: Sequence[map_record.Run]) -> int:
    out = bytearray()
    run_steps.append(out, runs, previous=None)
    return len(out)
