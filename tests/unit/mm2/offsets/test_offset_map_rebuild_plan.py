"""A map written anew: what its readers, and who takes the partition next, find in it."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey, OffsetRun
from mm2.offsets import offset_map_rebuild_plan, offset_translation
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_map_rebuild_plan import FencingProducer, RebuildPlan, RebuildScope
from mm2.offsets.offset_translation import ExactOffset, UntranslatedReason
from mm2.offsets.partition_log_alignment import AlignedRange, LogAlignment
from mm2.replication import recovery_instructions
from tests.fakes import copied_map

T7 = copied_map.T7
BY = FencingProducer(producer_id=40, epoch=6, marker=27, leader_epoch=3)


def matched(*stretches, writers=(7,), tail=0):
    return LogAlignment(
        first_source=stretches[0].first,
        first_target=2,
        ranges=stretches,
        matched_offsets=1,
        bounded_offsets=0,
        unmatched_tail=tail,
        producer_ids=writers,
    )


def fold(records):
    known = OffsetMap()
    for key, value in records:
        known.apply_record(
            offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(value)
        )
    known.check_invariants()
    return known.get_partition(T7)


SHORT = AlignedRange(10, 30, 25, ((10, -5),))


def test_who_takes_the_partition_next_finds_an_anchor():
    era = copied_map.era_of(10, 2)
    known = fold(
        offset_map_rebuild_plan.rebuild_lost_map(
            T7, matched(SHORT, writers=(7, 40, -1, 9)), era, fencing_owner=BY
        )
    )
    found = recovery_instructions.extract_recovered_state(known, target=None)
    assert found.era_number == 1
    assert found.producers == {7: 1, 9: 2, 40: 3}
    assert found.resume_point is not None
    assert (found.resume_point.key.ordinal, found.resume_point.key.epoch) == (3, 6)
    segment = found.resume_point.segment
    assert (segment.through, segment.target_next, segment.leader_epoch) == (30, 28, 3)
    assert (segment.closed, segment.last_crc) == (False, None)
    assert offset_translation.translate_to_target(known, 12) == ExactOffset(downstream=7)


def test_what_nobody_knows_behind_it_is_left_to_be_paired():
    records = offset_map_rebuild_plan.rebuild_lost_map(
        T7, matched(SHORT, tail=2), copied_map.era_of(10, 2), fencing_owner=BY
    )
    found = recovery_instructions.extract_recovered_state(fold(records), target=None)
    assert found.resume_point is not None
    assert found.resume_point.segment.target_next == 25


def own_era():
    return [
        (copied_map.era_key(1, epoch=2), copied_map.era_of(30, 25)),
        (
            MapSegmentKey(topic="orders", partition=7, era=1, ordinal=1, epoch=2, first_source=30),
            MapSegment(
                leader_epoch=0,
                source_epoch=0,
                owner=b"12345678",
                acquired_from=30,
                through=50,
                target_next=45,
                last_crc=None,
                runs=(OffsetRun(30, -5),),
            ),
        ),
    ]


def test_who_is_killed_while_it_is_stored_does_it_again():
    later = AlignedRange(30, 31, 26, ((30, -5),))
    own, records = own_era(), before_all(SHORT, later)
    for stored in range(len(records)):
        half = fold([*own, *records[:stored]])
        assert offset_map_rebuild_plan.plan_rebuild(half) == offset_map_rebuild_plan.plan_rebuild(
            fold(own)
        ), stored
        assert offset_translation.translate_to_target(half, 12) is UntranslatedReason.TOO_OLD
        assert recovery_instructions.extract_recovered_state(
            half, target=40
        ) == recovery_instructions.extract_recovered_state(fold(own), target=40)
    assert offset_map_rebuild_plan.plan_rebuild(fold(own)).kind is RebuildScope.BEFORE
    assert offset_map_rebuild_plan.plan_rebuild(fold([*own, *records])).kind is RebuildScope.REBUILT


def test_an_era_before_all_changes_nothing_for_who_copies():
    own = own_era()
    before, after = fold(own), fold([*own, *before_all(SHORT)])
    assert recovery_instructions.extract_recovered_state(
        before, target=None
    ) == recovery_instructions.extract_recovered_state(after, target=None)
    for target in (0, 20, 25, 40):
        assert recovery_instructions.extract_recovered_state(
            before, target=target
        ) == recovery_instructions.extract_recovered_state(after, target=target)
    assert offset_translation.translate_to_target(before, 12) is UntranslatedReason.TOO_OLD
    assert offset_translation.translate_to_target(after, 12) == ExactOffset(downstream=7)
    assert offset_translation.translate_to_target(after, 40) == ExactOffset(downstream=35)
    assert offset_translation.translate_to_source(after, 7) == ExactOffset(downstream=12)
    assert offset_translation.translate_to_target(after, 9) is UntranslatedReason.TOO_OLD


def before_all(*stretches):
    return offset_map_rebuild_plan.rebuild_first_era(
        T7, matched(*stretches), copied_map.era_of(10, 2)
    )


@pytest.mark.parametrize(
    "count",
    [1, offset_map_rebuild_plan.SEGMENT_RUNS_MAX, 3 * offset_map_rebuild_plan.SEGMENT_RUNS_MAX + 1],
)
def test_long_stretches_are_cut_into_segments(count):
    runs = tuple((10 + 2 * each, each - 5) for each in range(count))
    stretch = AlignedRange(8, 10 + 2 * count, 10 + 3 * count, runs)
    records = before_all(stretch)
    assert len(records) == 1 + -(-count // offset_map_rebuild_plan.SEGMENT_RUNS_MAX)
    assert all(len(offset_map_records.encode_map_value(value)) < 2500 for _, value in records)
    known = fold(records)
    for source, delta in runs:
        assert offset_translation.translate_to_target(known, source) == ExactOffset(
            downstream=source + delta
        )
        behind = offset_translation.translate_to_target(known, source + 1)
        assert behind == ExactOffset(downstream=source + delta + 1)
    assert known.next_source_offset == 10 + 2 * count


Kind = RebuildScope


def known(*eras, anchor=True):
    """`eras`: numbers, reasons, and the first byte of the source topic's id."""
    made = OffsetMap()
    for number, reason, topic in eras:
        era = dataclasses.replace(
            copied_map.era_of(10 * number, 7 * number),
            reason=reason,
            source_topic_id=bytes([topic]) * 16,
        )
        key = copied_map.era_key(number, epoch=number)
        made.apply_record(
            offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(era)
        )
    if anchor:
        key = MapSegmentKey(topic="orders", partition=7, era=1, ordinal=1, epoch=1, first_source=10)
        segment = MapSegment(
            leader_epoch=0,
            source_epoch=0,
            owner=b"12345678",
            acquired_from=10,
            through=12,
            target_next=9,
            last_crc=None,
            runs=(),
        )
        made.apply_record(
            offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(segment)
        )
    return made.get_partition(copied_map.T7)


def test_of_nothing_all_is_lost():
    empty = OffsetMap().get_partition(copied_map.T7)
    assert offset_map_rebuild_plan.plan_rebuild(empty) == RebuildPlan(kind=Kind.LOST)
    assert offset_map_rebuild_plan.plan_rebuild(empty).is_rebuild_needed


def test_what_others_copied_before_the_first_era_is_due():
    found = offset_map_rebuild_plan.plan_rebuild(known((1, "taken over from MirrorMaker 2", 1)))
    assert found == RebuildPlan(kind=Kind.BEFORE, source_to=10, target_to=7)
    found = offset_map_rebuild_plan.plan_rebuild(known((1, "requested", 1), (2, "lost", 1)))
    assert (found.kind, found.source_to) == (Kind.BEFORE, 10)


def test_a_topic_that_was_made_anew_has_no_before():
    found = offset_map_rebuild_plan.plan_rebuild(
        known((1, offset_map_records.FIRST_START_REASON, 1), (2, "other", 2))
    )
    assert (found.kind, found.source_to) == (Kind.BEFORE, 20)


def test_what_began_empty_or_was_made_anew_is_whole():
    assert (
        offset_map_rebuild_plan.plan_rebuild(
            known((1, offset_map_records.FIRST_START_REASON, 1))
        ).kind
        is Kind.KNOWN
    )
    assert (
        offset_map_rebuild_plan.plan_rebuild(
            known((1, offset_map_rebuild_plan.REBUILD_REASON, 1))
        ).kind
        is Kind.KNOWN
    )
    assert (
        offset_map_rebuild_plan.plan_rebuild(known((0, "any", 1), (1, "any", 1))).kind
        is Kind.REBUILT
    )
    assert not offset_map_rebuild_plan.plan_rebuild(
        known((0, "any", 1), (1, "any", 1))
    ).is_rebuild_needed


def test_without_an_anchor_nothing_may_stand_below_it():
    found = offset_map_rebuild_plan.plan_rebuild(known((1, "taken over", 1), anchor=False))
    assert (found.kind, found.is_rebuild_needed) == (Kind.NOT_STARTED, False)
