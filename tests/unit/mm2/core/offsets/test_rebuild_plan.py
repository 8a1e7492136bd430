from __future__ import annotations

import dataclasses

from mm2.core.offsets import offset_map, rebuild_plan
from mm2.formats import map_record
from tests.fakes import copied_map

Kind = rebuild_plan.Kind


def known(*eras, anchor=True):
    """`eras`: numbers, reasons, and the first byte of the source topic's id."""
    made = offset_map.OffsetMap()
    for number, reason, topic in eras:
        era = dataclasses.replace(
            copied_map.era_of(10 * number, 7 * number),
            reason=reason,
            source_topic_id=bytes([topic]) * 16,
        )
        key = copied_map.era_key(number, epoch=number)
        made.apply(map_record.encode_key(key), map_record.encode_value(era))
    if anchor:
        key = map_record.SegmentKey(
            topic="orders", partition=7, era=1, ordinal=1, epoch=1, first_source=10
        )
        segment = map_record.Segment(
            leader_epoch=0,
            source_epoch=0,
            owner=b"12345678",
            take_start=10,
            through=12,
            target_next=9,
            last_crc=None,
            runs=(),
        )
        made.apply(map_record.encode_key(key), map_record.encode_value(segment))
    return made.partition(copied_map.T7)


def test_of_nothing_all_is_lost():
    empty = offset_map.OffsetMap().partition(copied_map.T7)
    assert rebuild_plan.wanted(empty) == rebuild_plan.Wanted(kind=Kind.LOST)
    assert rebuild_plan.wanted(empty).is_due


def test_what_others_copied_before_the_first_era_is_due():
    found = rebuild_plan.wanted(known((1, "taken over from MirrorMaker 2", 1)))
    assert found == rebuild_plan.Wanted(kind=Kind.BEFORE, source_to=10, target_to=7)
    found = rebuild_plan.wanted(known((1, "requested", 1), (2, "lost", 1)))
    assert (found.kind, found.source_to) == (Kind.BEFORE, 10)


def test_a_topic_that_was_made_anew_has_no_before():
    found = rebuild_plan.wanted(known((1, map_record.FIRST_START, 1), (2, "other", 2)))
    assert (found.kind, found.source_to) == (Kind.BEFORE, 20)


def test_what_began_empty_or_was_made_anew_is_whole():
    assert rebuild_plan.wanted(known((1, map_record.FIRST_START, 1))).kind is Kind.KNOWN
    assert rebuild_plan.wanted(known((1, rebuild_plan.REASON, 1))).kind is Kind.KNOWN
    assert rebuild_plan.wanted(known((0, "any", 1), (1, "any", 1))).kind is Kind.REBUILT
    assert not rebuild_plan.wanted(known((0, "any", 1), (1, "any", 1))).is_due


def test_without_an_anchor_nothing_may_stand_below_it():
    found = rebuild_plan.wanted(known((1, "taken over", 1), anchor=False))
    assert (found.kind, found.is_due) == (Kind.UNTAKEN, False)
