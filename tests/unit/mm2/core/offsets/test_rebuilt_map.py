"""A map written anew: what its readers, and who takes the partition next, find in it."""

from __future__ import annotations

import pytest

from mm2.core.copy import facts
from mm2.core.offsets import (
    map_translation,
    matched_runs,
    offset_map,
    rebuild_plan,
    rebuilt_map,
    translation,
)
from mm2.formats import map_record
from tests.fakes import copied_map

T7 = copied_map.T7
BY = rebuilt_map.Fenced(producer_id=40, epoch=6, marker=27, leader_epoch=3)


def matched(*stretches, writers=(7,), tail=0):
    return matched_runs.Matched(
        first_source=stretches[0].first,
        first_target=2,
        stretches=stretches,
        matched=1,
        unsure=0,
        tail=tail,
        writers=writers,
    )


def fold(records):
    known = offset_map.OffsetMap()
    for key, value in records:
        known.apply(map_record.encode_key(key), map_record.encode_value(value))
    known.check_invariants()
    return known.partition(T7)


SHORT = matched_runs.Stretch(10, 30, 25, ((10, -5),))


def test_who_takes_the_partition_next_finds_an_anchor():
    era = copied_map.era_of(10, 2)
    known = fold(rebuilt_map.lost(T7, matched(SHORT, writers=(7, 40, -1, 9)), era, by=BY))
    found = facts.from_map(known, target=None)
    assert found.era_number == 1
    assert found.producers == {7: 1, 9: 2, 40: 3}
    assert found.anchor is not None
    assert (found.anchor.key.ordinal, found.anchor.key.epoch) == (3, 6)
    segment = found.anchor.segment
    assert (segment.through, segment.target_next, segment.leader_epoch) == (30, 28, 3)
    assert (segment.closed, segment.last_crc) == (False, None)
    assert map_translation.translate(known, 12) == translation.Exact(downstream=7)


def test_what_nobody_knows_behind_it_is_left_to_be_paired():
    records = rebuilt_map.lost(T7, matched(SHORT, tail=2), copied_map.era_of(10, 2), by=BY)
    found = facts.from_map(fold(records), target=None)
    assert found.anchor is not None
    assert found.anchor.segment.target_next == 25


def own_era():
    return [
        (copied_map.era_key(1, epoch=2), copied_map.era_of(30, 25)),
        (
            map_record.SegmentKey(
                topic="orders", partition=7, era=1, ordinal=1, epoch=2, first_source=30
            ),
            map_record.Segment(
                leader_epoch=0,
                source_epoch=0,
                owner=b"12345678",
                take_start=30,
                through=50,
                target_next=45,
                last_crc=None,
                runs=(map_record.Run(30, -5),),
            ),
        ),
    ]


def test_who_is_killed_while_it_is_stored_does_it_again():
    later = matched_runs.Stretch(30, 31, 26, ((30, -5),))
    own, records = own_era(), before_all(SHORT, later)
    for stored in range(len(records)):
        half = fold([*own, *records[:stored]])
        assert rebuild_plan.wanted(half) == rebuild_plan.wanted(fold(own)), stored
        assert map_translation.translate(half, 12) is translation.Untranslated.TOO_OLD
        assert facts.from_map(half, target=40) == facts.from_map(fold(own), target=40)
    assert rebuild_plan.wanted(fold(own)).kind is rebuild_plan.Kind.BEFORE
    assert rebuild_plan.wanted(fold([*own, *records])).kind is rebuild_plan.Kind.REBUILT


def test_an_era_before_all_changes_nothing_for_who_copies():
    own = own_era()
    before, after = fold(own), fold([*own, *before_all(SHORT)])
    assert facts.from_map(before, target=None) == facts.from_map(after, target=None)
    for target in (0, 20, 25, 40):
        assert facts.from_map(before, target=target) == facts.from_map(after, target=target)
    assert map_translation.translate(before, 12) is translation.Untranslated.TOO_OLD
    assert map_translation.translate(after, 12) == translation.Exact(downstream=7)
    assert map_translation.translate(after, 40) == translation.Exact(downstream=35)
    assert map_translation.translate_back(after, 7) == translation.Exact(downstream=12)
    assert map_translation.translate(after, 9) is translation.Untranslated.TOO_OLD


def before_all(*stretches):
    return rebuilt_map.before_all(T7, matched(*stretches), copied_map.era_of(10, 2))


@pytest.mark.parametrize("count", [1, rebuilt_map.RUNS_MAX, 3 * rebuilt_map.RUNS_MAX + 1])
def test_long_stretches_are_cut_into_segments(count):
    runs = tuple((10 + 2 * each, each - 5) for each in range(count))
    stretch = matched_runs.Stretch(8, 10 + 2 * count, 10 + 3 * count, runs)
    records = before_all(stretch)
    assert len(records) == 1 + -(-count // rebuilt_map.RUNS_MAX)
    assert all(len(map_record.encode_value(value)) < 2500 for _, value in records)
    known = fold(records)
    for source, delta in runs:
        assert map_translation.translate(known, source) == translation.Exact(
            downstream=source + delta
        )
        behind = map_translation.translate(known, source + 1)
        assert behind == translation.Exact(downstream=source + delta + 1)
    assert known.copied_to == 10 + 2 * count
