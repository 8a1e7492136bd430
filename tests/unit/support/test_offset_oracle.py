"""The judge of offsets sees every kind of wrong answer; of a good map it finds none."""

from __future__ import annotations

import dataclasses
import itertools

import pytest
from hypothesis import given, settings

from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import OffsetRun
from mm2.offsets import offset_translation
from mm2.offsets.offset_map import PartitionMap
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset
from tests.fakes import copied_map
from tests.support import examples
from tests.support.offset_oracle import Oracle

OWNERS = [
    (0, [(0, 0, 3, True), (2, 1, 2, False), (1, 0, 3, True)]),
    (2, [(0, 2, 3, True), (2, 0, 1, True), (2, 1, 3, False)]),
    (1, [(2, 1, 2, True)] * 9),
]
"""Three owners; the source has gaps, the target markers, and the map more than one segment."""


class World:
    def __init__(self, owners):
        self.copied = copied_map.history(owners)
        self.places = self.copied.places
        self.target = {place: source for source, place in self.places.items()}
        self.known = self.copied.known.get_partition(copied_map.T7)

    def judged(self, known=None):
        return self.judged_of(
            lambda offset: offset_translation.translate_to_target(known or self.known, offset),
            lambda offset: offset_translation.translate_to_source(known or self.known, offset),
        )

    def judged_of(self, there, back):
        oracle = Oracle(
            {source: source for source in self.places},
            self.target,
            source_end=self.copied.source,
            target_end=self.copied.target,
        )
        found = oracle.judge(there, range(10, self.copied.source + 1))
        found.add(oracle.judge_back(back, range(3, self.copied.target + 1)))
        return found


@settings(max_examples=examples.of(100), deadline=None)
@given(copied_map.owners)
def test_a_map_as_owners_write_it_is_right_everywhere(owners):
    found = World(owners).judged()
    assert not found.wrong, str(found)
    assert set(found.outcomes) == {"ExactOffset"}


def exact(answer, by):
    return ExactOffset(downstream=answer.downstream + by)


@pytest.mark.parametrize("way", ["there", "back"])
@pytest.mark.parametrize(("by", "wrong"), [(1, "ahead"), (-1, "read again")])
def test_an_answer_that_is_off_by_one_is_found(way, by, wrong):
    world = World(OWNERS)

    def told(translate, off):
        return lambda offset: exact(translate(world.known, offset), by if off else 0)

    found = world.judged_of(
        told(offset_translation.translate_to_target, way == "there"),
        told(offset_translation.translate_to_source, way == "back"),
    )
    assert set(found.wrong) == {wrong}, str(found)


def test_one_wrong_answer_among_all_is_found():
    world = World(OWNERS)
    at = world.copied.batches[3][0]

    def there(offset):
        answer = offset_translation.translate_to_target(world.known, offset)
        return exact(answer, 1) if offset == at else answer

    found = world.judged_of(
        there, lambda back: offset_translation.translate_to_source(world.known, back)
    )
    assert found.wrong == {"ahead": 1}


def test_a_bound_that_is_too_small_is_found_and_a_good_one_is_not():
    world = World(OWNERS)

    def early(again_max):
        start = world.copied.batches[0]
        return lambda _: EarlierOffset(downstream=start[2], reread_max=again_max)

    def back(offset):
        return offset_translation.translate_to_source(world.known, offset)

    records = len(world.places)
    assert not world.judged_of(early(records), back).wrong
    found = world.judged_of(early(records - 1), back)
    assert found.wrong == {"bound too small": 1}, str(found)
    assert found.again == records


def changed(known, which, other):
    """The map with another value, or none, for one segment."""
    made = PartitionMap(era_records=known.era_records, producers=known.producers)
    for key, segment in known.segments.items():
        made.segments.store_segment(key, offset_map_records.encode_map_value(segment))
    made.segments.store_segment(
        which, None if other is None else offset_map_records.encode_map_value(other)
    )
    return made


def moved(segment, at, by):
    run = segment.runs[at]
    runs = (*segment.runs[:at], OffsetRun(run.source, run.delta + by), *segment.runs[at + 1 :])
    return dataclasses.replace(segment, runs=runs)


def counted_runs(known, key):
    """Places of the segment's runs that no newer owner's Take has cut."""
    newer = [each for each in known.segments if each.owner_sort_key > key.owner_sort_key]
    segment = known.segments[key]
    end = min((known.segments[each].acquired_from for each in newer), default=segment.through)
    return [at for at, run in enumerate(segment.runs) if run.source < end]


@pytest.mark.judges
def test_whichever_segment_is_lost_or_run_is_moved_it_is_found():
    world = World(OWNERS)
    segments = dict(world.known.segments)
    assert len(segments) > len(OWNERS)
    for key, segment in segments.items():
        counted = counted_runs(world.known, key)
        if counted:
            found = world.judged(changed(world.known, key, None))
            assert found.wrong or found.outcomes["EarlierOffset"] or found.outcomes["too old"], key
        for at, by in itertools.product(counted, (-1, 1)):
            other = changed(world.known, key, moved(segment, at, by))
            assert world.judged(other).wrong, (key, at, by)


def test_what_stands_elsewhere_on_the_target_is_found():
    world = World(OWNERS)
    one, other = sorted(world.target)[2:4]
    world.target[one], world.target[other] = world.target[other], world.target[one]
    assert world.judged().wrong


def test_others_records_at_the_end_are_not_passed_over():
    oracle = Oracle({0: "a", 1: "b"}, {0: "a", 1: "b", 2: "theirs"}, source_end=2, target_end=3)
    assert not oracle.judge(lambda _: ExactOffset(downstream=2), [2]).wrong
    found = oracle.judge(lambda _: ExactOffset(downstream=3), [2])
    assert found.wrong == {"ahead": 1}


def test_of_a_record_that_was_copied_twice_the_last_place_counts():
    """Source 1 and 2 stand in the target twice: what an era left behind, and the next one's."""
    oracle = Oracle(
        {0: "a", 1: "b", 2: "c"},
        {0: "a", 1: "b", 2: "c", 4: "b", 5: "c"},
        source_end=3,
        target_end=6,
    )
    assert oracle.twice == 2
    places = {0: 0, 1: 4, 2: 5, 3: 6}
    there = oracle.judge(lambda at: ExactOffset(downstream=places[at]), places)
    assert not there.wrong, str(there)
    before = {1: 1, 2: 1, 3: 1, 4: 1, 5: 2, 6: 3}
    back = oracle.judge_back(lambda at: ExactOffset(downstream=before[at]), before)
    assert not back.wrong, str(back)
    assert oracle.judge_back(lambda _: ExactOffset(downstream=2), [1]).wrong


def test_what_is_gone_from_the_source_may_be_missed_and_is_nobody_elses():
    source, target = {0: "a", 1: "b", 2: "c"}, {0: "a", 1: "b", 2: "c"}
    strict = Oracle(source, target, source_end=3, target_end=3)
    lenient = Oracle(source, target, source_end=3, target_end=3, gone={1, 2})
    assert strict.judge(lambda _: ExactOffset(downstream=3), [1]).wrong
    assert not lenient.judge(lambda _: ExactOffset(downstream=3), [1]).wrong
