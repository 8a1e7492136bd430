"""Outcomes are told apart by what they are, never by the numbers in them.

Offsets by the complete map: against every record's real place, over owners and eras."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right

import pytest
from hypothesis import given, settings

from mm2.formats import offset_map_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey, OffsetRun
from mm2.offsets import offset_translation
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset, MapTranslator
from tests.fakes import copied_map
from tests.support import examples, map_runs


def test_an_exact_answer_is_no_earlier_one_even_where_nothing_is_read_again():
    exact = ExactOffset(downstream=7)
    earlier = EarlierOffset(downstream=7, reread_max=0)
    outcomes = {exact, earlier, *offset_translation.UntranslatedReason}
    assert len(outcomes) == 2 + len(offset_translation.UntranslatedReason)


EXACT = ExactOffset(downstream=7)
EARLIER = EarlierOffset(downstream=7, reread_max=2)
LESS = ExactOffset(downstream=5)
UNKNOWN, OLD = (
    offset_translation.UntranslatedReason.UNKNOWN,
    offset_translation.UntranslatedReason.TOO_OLD,
)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (EARLIER, LESS, EARLIER),
        (LESS, EARLIER, LESS),
        (EARLIER, EXACT, EXACT),
        (EXACT, EARLIER, EXACT),
        (UNKNOWN, LESS, LESS),
        (LESS, UNKNOWN, LESS),
        (OLD, UNKNOWN, OLD),
    ],
)
def test_what_is_farther_counts_and_what_is_exact_before_what_is_not(one, other, expected):
    assert offset_translation.choose_closest_translation(one, other) == expected


Exact = ExactOffset
UntranslatedReason = offset_translation.UntranslatedReason


def segment(first, *runs, through, target_next, era=1, epoch=0, take_start=0):
    key = MapSegmentKey(
        topic="orders", partition=7, era=era, ordinal=1, epoch=epoch, first_source=first
    )
    value = MapSegment(
        leader_epoch=0,
        source_epoch=0,
        owner=b"12345678",
        acquired_from=take_start,
        through=through,
        target_next=target_next,
        last_crc=None,
        runs=tuple(OffsetRun(*run) for run in runs),
    )
    return key, value


def known(*records):
    made = OffsetMap()
    for key, value in records:
        made.apply(
            offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(value)
        )
    return made.get_partition(copied_map.T7)


def era(number, first_source, first_target, **more):
    value = copied_map.era_of(first_source, first_target)
    return copied_map.era_key(number, epoch=number), dataclasses.replace(value, **more)


def test_of_what_was_never_copied_nothing_is_known():
    assert offset_translation.translate_to_target(known(), 5) is UntranslatedReason.UNKNOWN


GAPS = (era(1, 10, 3), segment(10, (12, -5), (20, -8), through=30, target_next=24))
"""From 12 on the source stands at 7 and on, from 20 on at 12 and on, and then there is a marker."""


@pytest.mark.parametrize(
    ("upstream", "expected"),
    [
        (9, UntranslatedReason.TOO_OLD),
        (10, Exact(downstream=7)),
        (12, Exact(downstream=7)),
        (14, Exact(downstream=9)),
        (19, Exact(downstream=12)),
        (20, Exact(downstream=12)),
        (29, Exact(downstream=21)),
        (30, Exact(downstream=22)),
        (37, EarlierOffset(downstream=24, reread_max=7)),
    ],
    ids=["before", "start", "first", "in a run", "gap", "run", "last", "end", "not copied yet"],
)
def test_where_a_group_goes_on(upstream, expected):
    assert offset_translation.translate_to_target(known(*GAPS), upstream) == expected


def test_an_era_in_which_nothing_was_copied_yet_begins_where_it_says():
    found = known(era(1, 10, 3))
    assert offset_translation.translate_to_target(found, 10) == Exact(downstream=3)
    later = offset_translation.translate_to_target(found, 12)
    assert later == EarlierOffset(downstream=3, reread_max=2)


TWO = (
    era(1, 0, 0),
    segment(0, (0, 0), through=50, target_next=50, era=1),
    era(2, 70, 61),
    segment(70, (70, -9), through=90, target_next=81, era=2, epoch=2, take_start=70),
)


@pytest.mark.parametrize(
    ("upstream", "downstream"), [(0, 0), (20, 20), (50, 50), (70, 61), (80, 71)]
)
def test_older_eras_still_hold(upstream, downstream):
    assert offset_translation.translate_to_target(known(*TWO), upstream) == Exact(
        downstream=downstream
    )


@pytest.mark.parametrize("upstream", [51, 69])
def test_between_two_eras_nothing_is_passed_over_that_nobody_wrote_down(upstream):
    found = offset_translation.translate_to_target(known(*TWO), upstream)
    assert found == EarlierOffset(downstream=50, reread_max=10)
    (first, was), *others = TWO
    key, begun = others[1]
    then = (key, dataclasses.replace(begun, first_target=51))
    marker_alone = known((first, was), others[0], then)
    assert offset_translation.translate_to_target(marker_alone, upstream) == Exact(downstream=50)


def test_what_an_older_era_says_of_what_the_target_lost_leads_to_the_newer_one():
    """It was cut back to 60, and the source had nothing below 90 any more."""
    cut = known(
        era(1, 0, 0),
        segment(0, (0, 0), through=100, target_next=100),
        era(2, 90, 62),
        segment(90, (90, -28), through=120, target_next=92, era=2, epoch=2, take_start=90),
    )
    assert offset_translation.translate_to_target(cut, 60) == Exact(downstream=60)
    for upstream in (70, 89, 90):
        assert offset_translation.translate_to_target(cut, upstream) == Exact(downstream=62), (
            upstream
        )
    assert offset_translation.translate_to_source(cut, 61) == Exact(downstream=61)
    assert offset_translation.translate_to_source(cut, 62) == Exact(downstream=90)


def test_where_two_eras_copied_the_same_the_later_one_counts():
    again = known(
        era(1, 0, 0),
        segment(0, (0, 0), through=50, target_next=50),
        era(2, 30, 50),
        segment(30, (30, 20), through=60, target_next=80, era=2, epoch=2, take_start=30),
    )
    assert offset_translation.translate_to_target(again, 29) == Exact(downstream=29)
    assert offset_translation.translate_to_target(again, 40) == Exact(downstream=60)


BACK = {
    2: UntranslatedReason.TOO_OLD,
    3: Exact(downstream=10),
    7: Exact(downstream=12),
    9: Exact(downstream=14),
    11: Exact(downstream=16),
    12: Exact(downstream=20),
    21: Exact(downstream=29),
    22: Exact(downstream=30),
    24: Exact(downstream=30),
    27: EarlierOffset(downstream=30, reread_max=3),
}


@pytest.mark.parametrize("downstream", list(BACK))
def test_where_a_group_goes_on_that_comes_back(downstream):
    assert offset_translation.translate_to_source(known(*GAPS), downstream) == BACK[downstream]


def test_nothing_of_ours_stood_before_the_first_start():
    first = era(1, 10, 3, reason=offset_map_records.FIRST_START_REASON)
    assert offset_translation.translate_to_source(known(first), 0) == Exact(downstream=10)
    assert offset_translation.translate_to_source(known(first, GAPS[1]), 0) == Exact(downstream=10)
    assert offset_translation.translate_to_source(known(), 0) is UntranslatedReason.UNKNOWN


@pytest.mark.parametrize(
    ("downstream", "upstream"), [(0, 0), (20, 20), (50, 50), (61, 70), (65, 74), (81, 90)]
)
def test_coming_back_each_era_says_what_it_copied(downstream, upstream):
    assert offset_translation.translate_to_source(known(*TWO), downstream) == Exact(
        downstream=upstream
    )


def test_between_two_eras_stands_what_may_be_ours():
    found = offset_translation.translate_to_source(known(*TWO), 60)
    assert found == EarlierOffset(downstream=50, reread_max=10)


def test_what_the_target_may_have_lost_before_a_newer_era_is_read_again():
    again = known(
        era(1, 0, 0),
        segment(0, (0, 0), through=50, target_next=50),
        era(2, 30, 50),
        segment(30, (30, 20), through=60, target_next=80, era=2, epoch=2, take_start=30),
    )
    assert offset_translation.translate_to_source(again, 29) == Exact(downstream=29)
    found = offset_translation.translate_to_source(again, 40)
    assert found == EarlierOffset(downstream=30, reread_max=10)
    assert offset_translation.translate_to_source(again, 55) == Exact(downstream=35)


@pytest.mark.parametrize("side", ["source_topic_id", "target_topic_id"])
def test_eras_of_topics_that_are_gone_say_nothing(side):
    first, stored, second, more = TWO
    other = (second[0], dataclasses.replace(second[1], **{side: b"another topic id"}))
    found = known(first, stored, other, more)
    assert offset_translation.translate_to_target(found, 20) is UntranslatedReason.TOO_OLD
    assert offset_translation.translate_to_target(found, 80) == Exact(downstream=71)
    assert offset_translation.translate_to_source(found, 20) is UntranslatedReason.TOO_OLD
    assert offset_translation.translate_to_source(found, 71) == Exact(downstream=80)
    assert MapTranslator(found).find_first_after(20) is None


def test_behind_what_is_too_old_stands_what_is_known_first():
    assert MapTranslator(known(*GAPS)).find_first_after(9) == 7
    assert MapTranslator(known(era(1, 10, 3))).find_first_after(9) == 3
    assert MapTranslator(known()).find_first_after(9) is None
    later = segment(80, (80, -9), through=90, target_next=81, era=2, epoch=2, take_start=70)
    forgotten = MapTranslator(known(*TWO[:3], later))
    assert forgotten.translate(75) is UntranslatedReason.TOO_OLD
    assert forgotten.find_first_after(75) == 71


@pytest.mark.parametrize(
    ("upstream", "downstream", "agrees"),
    [(14, 9, True), (14, 10, False), (14, 0, False), (5, 5, True), (35, 40, True)],
    ids=["same", "another", "anew", "before", "behind"],
)
def test_a_map_that_syncs_contradict_is_of_another_topic(upstream, downstream, agrees):
    sync = OffsetSync(partition=copied_map.T7, upstream=upstream, downstream=downstream)
    assert offset_translation.agrees_with_sync(known(*GAPS), sync) is agrees


@settings(max_examples=examples.of(150), deadline=None)
@given(copied_map.owners)
def test_nothing_is_missed_and_nothing_comes_again(owners):
    copied = copied_map.history(owners)
    found = copied.known.get_partition(copied_map.T7)
    places = copied.places
    for upstream in range(10, copied.source + 1):
        answer = offset_translation.translate_to_target(found, upstream)
        assert isinstance(answer, Exact), upstream
        before = [target for source, target in places.items() if source < upstream]
        after = [target for source, target in places.items() if source >= upstream]
        assert max(before, default=-1) < answer.downstream, upstream
        assert answer.downstream <= min(after, default=copied.target), upstream
    for source, target in places.items():
        sync = OffsetSync(partition=copied_map.T7, upstream=source, downstream=target)
        assert offset_translation.agrees_with_sync(found, sync)


@settings(max_examples=examples.of(150), deadline=None)
@given(copied_map.owners)
def test_coming_back_nothing_is_missed_and_nothing_comes_again(owners):
    copied = copied_map.history(owners)
    found = copied.known.get_partition(copied_map.T7)
    places = copied.places
    for downstream in range(3, copied.target + 1):
        answer = offset_translation.translate_to_source(found, downstream)
        assert isinstance(answer, Exact), downstream
        before = [source for source, target in places.items() if target < downstream]
        behind = [source for source, target in places.items() if target >= downstream]
        assert max(before, default=-1) < answer.downstream, downstream
        assert answer.downstream <= min(behind, default=copied.source), downstream


@settings(max_examples=examples.of(80), deadline=None)
@given(copied_map.owners)
def test_it_is_what_all_runs_together_say(owners):
    copied = copied_map.history(owners)
    found = copied.known.get_partition(copied_map.T7)
    runs, anchor = map_runs.runs(found, 1), found.resume_point
    for upstream in range(10, anchor.segment.through + 1):
        at = bisect_right(runs, upstream, key=lambda run: run.source)
        behind = runs[at].source + runs[at].delta if at < len(runs) else anchor.segment.target_next
        expected = min(behind, upstream + runs[at - 1].delta) if at else behind
        assert offset_translation.translate_to_target(found, upstream) == Exact(downstream=expected)
