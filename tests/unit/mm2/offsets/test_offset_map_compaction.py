"""What is thrown away of a map, and thinned: readers are told the truth after each single change,
and a Take finds what it found before."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mm2.formats import offset_map_records
from mm2.offsets import offset_map_compaction, offset_translation
from mm2.offsets.offset_map import PartitionMap
from mm2.offsets.offset_map_compaction import MapChange
from mm2.offsets.offset_translation import ExactOffset, UntranslatedReason
from tests.fakes import copied_map
from tests.fakes.copied_map import Copied
from tests.support import examples
from tests.support.offset_oracle import Oracle, Verdict

SEGMENT = 24
"""Bytes: a few runs only, as `copied_map` has them."""


def size(known: PartitionMap) -> int:
    return sum(
        len(offset_map_records.encode_map_key(key)) + len(offset_map_records.encode_map_value(each))
        for key, each in known.segments.items()
    )


class Upkeep:
    """A map under upkeep, and all that is known of what it speaks of."""

    def __init__(self, copied: Copied, *, log_start: int, budget: int) -> None:
        self.copied = copied
        self.known = copied.known.get_partition(copied_map.T7)
        self.before = copy.deepcopy(self.known)
        self.log_start, self.budget = log_start, budget
        self.oracle = Oracle(
            {source: source for source in copied.places},
            {place: source for source, place in copied.places.items()},
            source_end=copied.source,
            target_end=copied.target,
        )

    def plan(self, changes_max: int = 4) -> list[MapChange]:
        return offset_map_compaction.plan_compaction(
            self.known,
            log_start=self.log_start,
            budget_bytes=self.budget,
            changes_max=changes_max,
            segment_bytes=SEGMENT,
        )

    def run(self) -> int:
        """To its end; how many changes there were."""
        count = 0
        while changes := self.plan():
            for each in changes:
                self.change(each)
            count += len(changes)
            assert count < 1000
        return count

    def change(self, change: MapChange) -> None:
        value = (
            None if change.segment is None else offset_map_records.encode_map_value(change.segment)
        )
        self.copied.known.apply_record(offset_map_records.encode_map_key(change.key), value)
        self.check()

    def check(self) -> None:
        """Nothing is wrong, and a Take is told the same as before."""
        known, before = self.known, self.before
        known.check_invariants()
        assert known.resume_point == before.resume_point
        assert (known.eras, known.newest_era) == (before.eras, before.newest_era)
        assert (known.is_newest_era_empty, known.producers) == (
            before.is_newest_era_empty,
            before.producers,
        )
        for target in range(0, self.copied.target + 2, 2):
            was, found = before.find_resume_position(target), known.find_resume_position(target)
            assert found == was or found == before.find_resume_position(found.target) != was
            assert found.target <= target
        told = self.judged(range(10, self.copied.source + 1), range(self.copied.target + 1))
        assert not told.wrong, str(told)
        kept = [each for each in range(self.log_start, self.copied.source + 1) if each >= 10]
        assert not self.judged(kept, ()).outcomes["too old"]

    def judged(self, there, back) -> Verdict:
        found = self.oracle.judge(
            lambda at: offset_translation.translate_to_target(self.known, at), there
        )
        found.add(
            self.oracle.judge_back(
                lambda at: offset_translation.translate_to_source(self.known, at), back
            )
        )
        return found


@pytest.mark.timeout(600)
@settings(max_examples=examples.of(40), deadline=None)
@given(copied_map.owners, st.integers(0, 80), st.integers(0, 900))
def test_after_every_change_all_that_is_said_is_true(owners, log_start, budget):
    Upkeep(copied_map.history(owners), log_start=log_start, budget=budget).run()


LONG = [(0, [(2, 1, 2, True)] * 30), (2, [(1, 0, 1, True), (0, 2, 1, True)] * 15)]
"""Two owners, many segments: the source has gaps, the target markers."""


def upkeep(*, log_start=0, budget=1 << 20):
    return Upkeep(copied_map.history(LONG), log_start=log_start, budget=budget)


def test_what_speaks_of_records_that_are_gone_is_thrown_away():
    made = upkeep(log_start=70)
    changes = made.plan(changes_max=1000)
    assert changes
    assert all(each.segment is None for each in changes)
    made.run()
    left = sorted(each.first_source for each in made.known.segments)
    assert sum(first < 70 for first in left) == 1, left
    assert offset_translation.translate_to_target(made.known, 10) is UntranslatedReason.TOO_OLD
    assert offset_translation.translate_to_source(made.known, 5) is UntranslatedReason.TOO_OLD
    assert isinstance(offset_translation.translate_to_target(made.known, 70), ExactOffset)


def test_the_oldest_go_first_so_that_what_is_left_has_no_gap():
    changes = upkeep(log_start=70).plan(changes_max=1000)
    assert [each.key for each in changes] == sorted(
        (each.key for each in changes), key=lambda key: (*key.owner_sort_key, key.first_source)
    )


def test_within_its_budget_a_map_is_left_alone():
    made = upkeep()
    made.budget = size(made.known)
    assert made.plan() == []
    made.budget -= 1
    assert made.plan() != []


def test_beyond_it_old_runs_are_left_out_and_the_newer_half_stays_as_it_is():
    made = upkeep()
    made.budget = size(made.known) * 2 // 3
    exact = made.budget // 2
    newest = sorted(
        made.known.segments, key=lambda key: (*key.owner_sort_key, key.first_source), reverse=True
    )
    untouched = {}
    for key in newest:
        exact -= len(offset_map_records.encode_map_key(key))
        exact -= len(offset_map_records.encode_map_value(made.known.segments[key]))
        if exact < 0:
            break
        untouched[key] = made.known.segments[key]
    assert len(untouched) > 1
    assert made.run() > 0
    assert size(made.known) <= made.budget
    assert {key: made.known.segments.get(key) for key in untouched} == untouched
    found = made.judged(range(10, made.copied.source + 1), range(3, made.copied.target + 1))
    assert found.outcomes["EarlierOffset"] > 0
    assert found.outcomes["ExactOffset"] > 0
    assert set(found.outcomes) == {"EarlierOffset", "ExactOffset"}
    assert 0 < found.again < 30


def test_old_runs_are_left_out_evenly():
    made = upkeep()
    made.budget = size(made.known) // 2
    made.run()
    slacks = [made.known.segments[key].below for key in made.known.segments]
    thinned = [each for each in slacks if each]
    assert len(thinned) > 1
    assert max(thinned) <= 4 * min(thinned), slacks


def test_a_budget_of_nothing_leaves_the_anchor_and_is_still_no_lie():
    made = upkeep(budget=0)
    assert made.run() > 0
    assert made.known.resume_point == made.before.resume_point


@pytest.mark.parametrize("stops_after", range(1, 6))
def test_who_stops_in_the_middle_leaves_what_the_next_one_clears_away(stops_after):
    """A segment that took in the next one is stored; the next one is not deleted yet."""
    made = upkeep(budget=900)
    for each in made.plan(changes_max=8)[:stops_after]:
        made.change(each)
    made.run()
    assert size(made.known) <= max(made.budget, 900)


@pytest.mark.parametrize("seed", range(4))
def test_two_who_tidy_up_at_once_may_lose_old_answers_but_never_tell_wrong_ones(seed):
    """The one was fenced, and does not know it: each carries out what it planned before."""
    made = upkeep(budget=900)
    one = made.plan(changes_max=6)
    for each in one[:2]:
        made.change(each)
    other = made.plan(changes_max=6 + seed)
    late = [*one[2:], *other, *one[: 2 + seed]]
    for each in late:
        value = None if each.segment is None else offset_map_records.encode_map_value(each.segment)
        made.copied.known.apply(offset_map_records.encode_map_key(each.key), value)
        found = made.judged(range(10, made.copied.source + 1), range(made.copied.target + 1))
        assert not found.wrong, str(found)
        assert made.known.resume_point == made.before.resume_point
    while changes := made.plan():
        for each in changes:
            value = (
                None if each.segment is None else offset_map_records.encode_map_value(each.segment)
            )
            made.copied.known.apply(offset_map_records.encode_map_key(each.key), value)
            found = made.judged(range(10, made.copied.source + 1), range(made.copied.target + 1))
            assert not found.wrong, str(found)


def test_an_owner_that_alone_says_what_does_not_count_stays():
    """Era 2 was begun late, by one whom nobody followed: only the next owner's word says so."""
    copied = copied_map.history([(0, [(2, 1, 2, True)] * 4)])
    late = copied_map.era_key(2, epoch=1)
    copied.known.apply_record(
        offset_map_records.encode_map_key(late),
        offset_map_records.encode_map_value(copied_map.era_of(15, 30)),
    )
    copied.own(2, 0, [(2, 1, 2, True)] * 4)
    copied.own(4, 0, [(2, 1, 2, True)] * 4)
    copied.target += 1
    third = copied_map.era_key(3, epoch=5), copied_map.era_of(copied.source, copied.target)
    copied.known.apply_record(
        offset_map_records.encode_map_key(third[0]), offset_map_records.encode_map_value(third[1])
    )
    made = Upkeep(copied, log_start=10_000, budget=1 << 20)
    assert 2 not in made.known.eras
    made.run()
    assert 2 not in made.known.eras
