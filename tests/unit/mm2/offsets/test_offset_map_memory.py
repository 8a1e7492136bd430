"""The offset map of a flow occupies a bounded amount of memory."""

from __future__ import annotations

import tracemalloc

import pytest

from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey, OffsetRun
from mm2.offsets import offset_map
from mm2.offsets.offset_map import OffsetMap

MIB = 1024 * 1024


def segment_key(partition, first=0, topic="t"):
    return MapSegmentKey(
        topic=topic, partition=partition, era=1, ordinal=1, epoch=0, first_source=first
    )


def encode_segment(runs):
    return offset_map_records.encode_map_value(
        MapSegment(
            leader_epoch=0,
            source_epoch=-1,
            owner=bytes(8),
            acquired_from=0,
            through=10,
            target_next=10,
            last_crc=None,
            runs=tuple(OffsetRun(each, each % 2) for each in range(runs)),
        )
    )


def apply_segments(count, make_value):
    found = OffsetMap()
    for number in range(count):
        key = offset_map_records.encode_map_key(segment_key(number))
        found.apply_record_or_keep_unreadable(key, make_value(), offset=number)
    found.check_invariants()
    return found


def test_a_segment_with_trailing_bytes_is_unreadable():
    value = encode_segment(3) + b"a"
    with pytest.raises(ValueError, match="do not contain exactly two numbers"):
        offset_map_records.decode_map_value(segment_key(0), value)


def test_padded_segments_occupy_little_memory():
    value = encode_segment(0)
    tracemalloc.start()
    try:
        found = apply_segments(3000, lambda: value + bytes(900_000))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 5 * MIB
    # More than 1000 unreadable records: one record stands for all others and affects every topic.
    unreadable = found.list_unreadable_records()
    assert len(unreadable) == offset_map.UNREADABLE_RECORDS_MAX + 1
    assert unreadable[-1].partition is None


def test_records_beyond_the_limit_are_unreadable_until_tombstones_free_room(monkeypatch):
    monkeypatch.setattr(offset_map, "MAP_BYTES_MAX", 100_000)
    value = encode_segment(1000)
    found = apply_segments(60, lambda: value)
    first = found.list_unreadable_records()[0]
    assert "would exceed" in first.why
    assert len(found.list_partitions()) + len(found.list_unreadable_records()) == 60
    tombstone = offset_map_records.encode_map_key(segment_key(0))
    found.apply_record_or_keep_unreadable(tombstone, None, offset=60)
    found.apply_record_or_keep_unreadable(first.key, value, offset=61)
    assert first.key not in [each.key for each in found.list_unreadable_records()]
    found.check_invariants()


def test_long_unreadable_keys_and_foreign_tombstones_occupy_little_memory():
    found = OffsetMap()
    for number in range(500):
        found.apply_record_or_keep_unreadable(b"x%d" % number + bytes(900_000), b"y", offset=number)
        key = offset_map_records.encode_map_key(segment_key(0, topic=f"t{number}"))
        found.apply_record_or_keep_unreadable(key, None, offset=number)
    found.apply_record_or_keep_unreadable(b"", b"", offset=500)
    found.apply_record_or_keep_unreadable(b"", None, offset=501)
    assert [each.offset for each in found.list_unreadable_records()] == [0]
    assert found.list_partitions() == []
