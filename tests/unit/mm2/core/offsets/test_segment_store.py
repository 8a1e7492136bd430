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


def stored(first, through, **more):
    key = dataclasses.replace(KEY, first_source=first)
    changed = {"through": through, "runs": (map_record.Run(first, 0),), **more}
    return key, map_record.encode_value(dataclasses.replace(SEGMENT, **changed))


def firsts(store):
    (mine,) = store.owners
    return list(mine.whole().firsts), [key.first_source for key in mine.absorbed()]


def test_what_goes_on_where_the_one_before_ended_is_whole():
    store = segment_store.SegmentStore()
    for first in (0, 10, 20):
        store.keep(*stored(first, first + 5))
        store.keep(*stored(first, first + 10))
        assert firsts(store) == (list(range(0, first + 1, 10)), [])


def test_what_another_has_taken_in_does_not_count():
    store = segment_store.SegmentStore()
    for first in (0, 10, 20):
        store.keep(*stored(first, first + 10))
    assert firsts(store) == ([0, 10, 20], [])
    store.keep(*stored(0, 20, below=1))
    assert firsts(store) == ([0, 20], [10])
    store.keep(stored(10, 20)[0], None)
    assert firsts(store) == ([0, 20], [])


def test_before_a_gap_nothing_counts():
    store = segment_store.SegmentStore()
    for first in (0, 10, 20, 30):
        store.keep(*stored(first, first + 10))
    store.keep(stored(10, 20)[0], None)
    assert firsts(store) == ([20, 30], [0])
    store.keep(*stored(40, 50))
    assert firsts(store) == ([20, 30, 40], [0])
    store.keep(*stored(55, 60))
    assert firsts(store) == ([55], [0, 20, 30, 40])


def test_owners_are_told_in_their_order_and_the_newest_has_the_anchor():
    assert segment_store.SegmentStore().newest is None
    store = segment_store.SegmentStore()
    for epoch, era in ((2, 1), (0, 1), (1, 2)):
        key, value = stored(0, 9)
        store.keep(dataclasses.replace(key, epoch=epoch, era=era), value)
    assert [each.owner for each in store.owners] == [(1, 0, 1), (1, 1, 2), (1, 2, 1)]
    assert [each.owner for each in store.of_era(1)] == [(1, 0, 1), (1, 2, 1)]
    newest = store.newest
    assert newest is not None
    assert newest.epoch == 2
