"""The check of anchors must see whatever is not written down."""

from __future__ import annotations

import pytest

from connect_runtime.base import ids
from mm2.core.offsets import offset_map
from mm2.formats import map_record
from tests.chaos.checks import anchors

ONE, TWO = ids.TopicPartition("orders", 0), ids.TopicPartition("orders", 1)


def known(**reached: int) -> offset_map.OffsetMap:
    """A map with an anchor per partition: `one` and `two` are the next target offsets."""
    found = offset_map.OffsetMap()
    for partition, target_next in zip((ONE, TWO), reached.values(), strict=False):
        key = map_record.SegmentKey(
            topic=partition.topic,
            partition=partition.partition,
            era=1,
            ordinal=1,
            epoch=0,
            first_source=0,
        )
        segment = map_record.Segment(
            leader_epoch=0,
            source_epoch=0,
            owner=b"12345678",
            take_start=0,
            through=7,
            target_next=target_next,
            last_crc=None,
            runs=(),
        )
        found.apply(map_record.encode_key(key), map_record.encode_value(segment))
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
