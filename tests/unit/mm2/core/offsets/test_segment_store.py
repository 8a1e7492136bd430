"""The segments of one partition's map, kept as they were stored."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.core.offsets import segment_store
from mm2.formats import map_record

KEY = map_record.SegmentKey(topic="t", partition=1, era=1, ordinal=1, epoch=0, first_source=0)
SEGMENT = map_record.Segment(
    leader_epoch=1,
    source_epoch=0,
    owner=bytes(8),
    take_start=0,
    through=9,
    target_next=8,
    last_crc=None,
    runs=(map_record.Run(0, 0), map_record.Run(5, -2)),
    closed=False,
)
LATER = dataclasses.replace(SEGMENT, through=11, target_next=10)


def test_a_segment_is_what_was_stored_last():
    store = segment_store.SegmentStore({KEY: SEGMENT})
    assert dict(store) == {KEY: SEGMENT}
    store.keep(KEY, map_record.encode_value(LATER))
    assert (len(store), store[KEY]) == (1, LATER)


def test_a_tombstone_takes_it_away():
    store = segment_store.SegmentStore({KEY: SEGMENT})
    for _ in range(2):
        store.keep(KEY, None)
    assert (len(store), list(store)) == (0, [])
    with pytest.raises(KeyError):
        store[KEY]
