from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.base import ids
from mm2.core.offsets import sync_emitter
from mm2.formats import offset_sync
from tests.support import examples

T0 = ids.TopicPartition("t", 0)
T1 = ids.TopicPartition("t", 1)


def sync(upstream, downstream, partition=T0):
    return offset_sync.OffsetSync(partition=partition, upstream=upstream, downstream=downstream)


def due(emitter, *acknowledged):
    """Of each record, whether a sync was due at once."""
    found = []
    for upstream, downstream in acknowledged:
        emitter.acknowledge(T0, upstream=upstream, downstream=downstream)
        found.append(emitter.pending.get(T0) == sync(upstream, downstream))
        assert (T0 in emitter.delayed) is not found[-1]
    emitter.check_invariants()
    return found


def test_when_a_sync_is_due_with_a_lag_of_ten():
    records = [(0, 100), (1, 101), (2, 110), (3, 111), (4, 112), (6, 113), (7, 114), (7, 115)]
    records += [(8, 116), (5, 117), (6, 118), (7, 40), (8, 41), (9, 50), (10, 51)]
    assert due(sync_emitter.SyncEmitter(10), *records) == [
        *(True, False, False, True, False, True, False, True),  # first, stale, gap, gap
        *(False, True, False, True, False, False, True),  # gap, truncated, stale
    ]


def test_when_a_sync_is_due_with_a_lag_of_fifty():
    records = [(0, 100), (2, 102), (3, 152), (4, 153), (5, 154), (6, 203), (7, 204), (2, 206)]
    records += [(3, 207), (4, 3), (5, 4)]
    expected = [True, True, False, True, False, False, True, True, False, True, False]
    assert due(sync_emitter.SyncEmitter(50), *records) == expected


def test_without_lag_every_record_makes_one_due():
    assert due(sync_emitter.SyncEmitter(0), (0, 1), (1, 2), (2, 3)) == [True] * 3


def test_the_newest_counts_and_what_is_due_replaces_what_is_delayed():
    emitter = sync_emitter.SyncEmitter(2)
    emitter.acknowledge(T0, upstream=0, downstream=1)
    emitter.acknowledge(T0, upstream=1, downstream=2)
    assert dict(emitter.pending) == {T0: sync(0, 1)}
    assert dict(emitter.delayed) == {T0: sync(1, 2)}
    emitter.acknowledge(T0, upstream=3, downstream=3)
    assert dict(emitter.pending) == {T0: sync(3, 3)}
    assert not emitter.delayed


def test_what_is_delayed_goes_out_after_a_commit():
    emitter = sync_emitter.SyncEmitter(50)
    emitter.acknowledge(T0, upstream=0, downstream=100)
    emitter.acknowledge(T0, upstream=1, downstream=101)
    emitter.promote_delayed()
    assert not emitter.delayed
    assert emitter.take_due() == [sync(1, 101)]
    assert not emitter.pending


def test_only_so_many_are_under_way_and_the_oldest_go_first():
    emitter = sync_emitter.SyncEmitter(50, under_way_max=1)
    emitter.acknowledge(T0, upstream=0, downstream=1)
    emitter.acknowledge(T1, upstream=0, downstream=5)
    first = emitter.take_due()
    assert first == [sync(0, 1)]
    emitter.acknowledge(T0, upstream=9, downstream=102)
    assert emitter.take_due() == []
    emitter.check_invariants()
    emitter.answered(first[0], stored=True)
    assert emitter.take_due() == [sync(0, 5, T1)]
    assert emitter.under_way == 1


def test_a_lost_sync_goes_out_at_the_next_commit():
    emitter = sync_emitter.SyncEmitter(50)
    emitter.acknowledge(T0, upstream=0, downstream=1)
    (lost,) = emitter.take_due()
    emitter.answered(lost, stored=False)
    assert emitter.take_due() == []
    emitter.promote_delayed()
    assert emitter.take_due() == [lost]


@pytest.mark.parametrize("newer", [(1, 2), (7, 8)])
def test_a_lost_sync_never_follows_a_newer_one(newer):
    emitter = sync_emitter.SyncEmitter(50)
    emitter.acknowledge(T0, upstream=0, downstream=1)
    (lost,) = emitter.take_due()
    emitter.acknowledge(T0, upstream=newer[0], downstream=newer[1])
    emitter.answered(lost, stored=False)
    emitter.promote_delayed()
    assert emitter.take_due() == [sync(*newer)]


def test_a_stored_sync_is_done():
    emitter = sync_emitter.SyncEmitter(50)
    emitter.acknowledge(T0, upstream=0, downstream=1)
    (stored,) = emitter.take_due()
    emitter.answered(stored, stored=True)
    emitter.promote_delayed()
    assert (emitter.take_due(), emitter.under_way) == ([], 0)


def test_a_partition_that_left_is_forgotten_and_begins_anew():
    emitter = sync_emitter.SyncEmitter(50)
    emitter.acknowledge(T0, upstream=0, downstream=1)
    (lost,) = emitter.take_due()
    emitter.acknowledge(T0, upstream=1, downstream=2)
    emitter.acknowledge(T0, upstream=5, downstream=6)
    emitter.forget(T0)
    emitter.answered(lost, stored=False)
    emitter.promote_delayed()
    assert emitter.take_due() == []
    assert due(emitter, (6, 7), (7, 8)) == [True, False]


moves = st.tuples(st.sampled_from([1, 1, 1, 2, 0, -3]), st.sampled_from([1, 1, 1, 3, 40, 0, -7]))


@settings(max_examples=examples.of(300))
@given(st.integers(0, 12), st.lists(st.tuples(moves, st.integers(1, 40)), max_size=12))
def test_many_records_at_once_are_as_one_after_the_other(lag, stretches):
    whole, single = sync_emitter.SyncEmitter(lag), sync_emitter.SyncEmitter(lag)
    upstream = downstream = 100
    for (up, down), records in stretches:
        upstream, downstream = max(0, upstream + up), max(0, downstream + down)
        whole.acknowledge(T0, upstream=upstream, downstream=downstream, records=records)
        for each in range(records):
            single.acknowledge(T0, upstream=upstream + each, downstream=downstream + each)
        assert dict(whole.pending) == dict(single.pending)
        assert dict(whole.delayed) == dict(single.delayed)
        upstream, downstream = upstream + records - 1, downstream + records - 1
