from __future__ import annotations

import pytest

from mm2.core.copy import facts
from mm2.core.offsets import offset_map, segment_store
from mm2.formats import map_record

ERA_KEY = map_record.EraKey(topic="orders", partition=7, era=1, ordinal=1, epoch=0)
ERA = map_record.Era(
    source_cluster="a",
    target_cluster="b",
    source_topic_id=bytes(16),
    target_topic_id=bytes(16),
    first_source=0,
    first_target=1,
    request="answered",
)
SEGMENT_KEY = map_record.SegmentKey(
    topic="orders", partition=7, era=1, ordinal=1, epoch=0, first_source=0
)
SEGMENT = map_record.Segment(
    leader_epoch=0,
    source_epoch=0,
    owner=b"12345678",
    take_start=0,
    through=20,
    target_next=22,
    last_crc=None,
    runs=(map_record.Run(0, 1), map_record.Run(10, 2)),
)


SEGMENTS = segment_store.SegmentStore({SEGMENT_KEY: SEGMENT})


def known(**more):
    return offset_map.PartitionMap(begun={ERA_KEY: ERA}, segments=SEGMENTS, **more)


def test_of_a_partition_that_was_never_taken_nothing_is_known():
    for target in (None, 5):
        assert facts.from_map(offset_map.PartitionMap(), target=target) == facts.Facts()


def test_the_newest_era_and_anchor_are_told():
    found = facts.from_map(known(), target=None)
    assert (found.era_number, found.era) == (1, ERA)
    assert found.anchor == offset_map.Anchor(key=SEGMENT_KEY, segment=SEGMENT)
    assert not found.untaken


def test_an_era_begun_by_a_newer_owner_than_the_anchors_is_told():
    newer = map_record.EraKey(topic="orders", partition=7, era=1, ordinal=3, epoch=1)
    partition = known()
    partition.begun[newer] = ERA
    found = facts.from_map(partition, target=None)
    assert (found.untaken, found.era_ordinal) == (True, 3)


def test_producer_ids_come_with_their_ordinals():
    producers = {
        4711: map_record.Producer(ordinal=1, era=1),
        9: map_record.Producer(ordinal=2, era=1),
    }
    assert facts.from_map(known(producers=producers), target=None).producers == {4711: 1, 9: 2}


@pytest.mark.parametrize(("request_id", "told"), [("answered", False), ("new", True)])
def test_only_an_unanswered_request_is_told(request_id, told):
    asked = map_record.Request(request=request_id, position="latest")
    found = facts.from_map(known(request=asked), target=None)
    assert found.request == (asked if told else None)


@pytest.mark.parametrize(("target", "source"), [(None, None), (0, 0), (5, 4), (13, 11), (22, 20)])
def test_a_source_position_is_told_for_the_target_offset_that_was_asked_about(target, source):
    found = facts.from_map(known(), target=target)
    assert (found.source_position, found.target_position) == (source, target)
