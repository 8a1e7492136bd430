"""The check of anchors must see whatever is not written down."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey
from mm2.offsets.offset_map import OffsetMap
from tests.chaos.checks import anchors

ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


def known(**reached: int) -> OffsetMap:
    """A map with an anchor per partition: `one` and `two` are the next target offsets."""
    found = OffsetMap()
    for partition, target_next in zip((ONE, TWO), reached.values(), strict=False):
        key = MapSegmentKey(
            topic=partition.topic,
            partition=partition.partition,
            era=1,
            ordinal=1,
            epoch=0,
            first_source=0,
        )
        segment = MapSegment(
            leader_epoch=0,
            source_epoch=0,
            owner=b"12345678",
            acquired_from=0,
            through=7,
            target_next=target_next,
            last_crc=None,
            runs=(),
        )
        found.apply_record(
            offset_map_records.encode_map_key(key), offset_map_records.encode_map_value(segment)
        )
    return found


def test_anchors_at_the_ends_of_their_logs_leave_nothing():
    assert anchors.differing(known(one=8, two=21), {ONE: 8, TWO: 21}) == {}


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"one": 7, "two": 21}, {ONE: (7, 8)}),
        ({"one": 8, "two": 22}, {TWO: (22, 21)}),
        ({"one": 8}, {TWO: (None, 21)}),
        ({}, {ONE: (None, 8), TWO: (None, 21)}),
    ],
    ids=["one offset short", "beyond the end", "one is not in the map", "nothing was read"],
)
def test_planted_faults_are_found(recorded, expected):
    assert anchors.differing(known(**recorded), {ONE: 8, TWO: 21}) == expected
