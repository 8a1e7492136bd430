from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.primitive_types import MalformedRecordError
from mm2.offsets.offset_syncs import OffsetSyncStore
from mm2.offsets.offset_translation import EarlierOffset, ExactOffset, UntranslatedReason
from tests.support import examples

T2 = TopicPartition("topic1", 2)
NOT_READY = UntranslatedReason.NOT_READY
UNKNOWN = UntranslatedReason.UNKNOWN
TOO_OLD = UntranslatedReason.TOO_OLD


def sync(upstream, downstream=None, partition=T2):
    down = upstream if downstream is None else downstream
    return OffsetSync(partition=partition, upstream=upstream, downstream=down)


def table_of(*loaded, keep_history=False):
    table = OffsetSyncStore(keep_history=keep_history)
    for each in loaded:
        table.add_sync(each if isinstance(each, OffsetSync) else sync(each))
    table.check_invariants()
    table.mark_ready()
    return table


def more(table, *upstreams):
    for each in upstreams:
        table.add_sync(each if isinstance(each, OffsetSync) else sync(each))
        table.check_invariants()
    return table


def downstream(table, upstream, partition=T2):
    """The offset, or why there is none."""
    found = table.translate_downstream(partition, upstream)
    return found if isinstance(found, UntranslatedReason) else found.downstream


def distinct(table):
    """The first slot of each sync that is kept, newest first, with its offset on the source."""
    slots = table.list_syncs(T2)
    starts = [at for at in range(len(slots)) if at == 0 or slots[at] is not slots[at - 1]]
    return {at: slots[at].upstream for at in starts}


def test_offsets_translate_as_in_javas_test():
    table = table_of()
    assert downstream(more(table, sync(100, 200)), 150) == 201
    assert downstream(more(table, sync(150, 251)), 150) == 251
    assert downstream(table, 5) is TOO_OLD
    assert downstream(more(table, sync(200, 10)), 200) == 10
    assert downstream(more(table, sync(20, 20)), 20) == 20


def test_nothing_is_told_before_the_topic_was_read_through():
    table = OffsetSyncStore(keep_history=False)
    assert downstream(table, 100) is NOT_READY
    table.add_sync(sync(100, 200))
    assert not table.is_ready
    assert [downstream(table, each) for each in (0, 100, 200)] == [NOT_READY] * 3
    table.mark_ready()
    assert [downstream(table, each) for each in (0, 100, 200)] == [TOO_OLD, 200, 201]


def test_syncs_of_too_many_partitions_and_of_impossible_topics_are_ignored():
    table = OffsetSyncStore(keep_history=True, partitions_max=2)
    for number in range(4):
        table.add_sync(sync(5, partition=TopicPartition("t", number)))
    table.add_sync(sync(7, partition=TopicPartition("t", 1)))
    assert table.list_partitions() == [TopicPartition("t", number) for number in range(2)]
    assert [each.upstream for each in table.list_syncs(TopicPartition("t", 1))[::63]] == [7, 5]
    assert table.ignored_syncs == 2
    (key, _) = mirrormaker2_records.encode_offset_sync(sync(5, partition=TopicPartition("t", 0)))
    table.apply_record(key, None)
    table.add_sync(sync(5, partition=TopicPartition("a" * 250, 0)))
    assert table.ignored_syncs == 3
    table.add_sync(sync(5, partition=TopicPartition("t", 3)))
    assert len(table.list_partitions()) == 2


def test_the_only_sync_of_a_partition_takes_little_memory():
    loaded = [sync(5, partition=TopicPartition("t", number)) for number in range(1000)]
    tracemalloc.start()
    try:
        table = table_of(*loaded)
        assert tracemalloc.get_traced_memory()[0] < 1000 * 250
    finally:
        tracemalloc.stop()
    assert len(table.list_syncs(TopicPartition("t", 7))) == 64


def test_a_partition_without_syncs_is_unknown():
    table = table_of(sync(5))
    assert downstream(table, 5, TopicPartition("topic1", 3)) is UNKNOWN
    assert table.list_syncs(TopicPartition("topic1", 3)) == ()
    assert table.list_partitions() == [T2]


def test_how_many_records_are_read_again_is_told():
    table = table_of(sync(100, 50))
    assert table.translate_downstream(T2, 100) == ExactOffset(downstream=50)
    assert table.translate_downstream(T2, 101) == ExactOffset(downstream=51)
    assert table.translate_downstream(T2, 102) == EarlierOffset(downstream=51, reread_max=1)
    assert table.translate_downstream(T2, 1100) == EarlierOffset(downstream=51, reread_max=999)


BEFORE = range(0, 1001, 10)
LATER = range(1000, 10_001, 10)


@pytest.mark.parametrize(
    ("loaded", "keep_history", "then", "kept"),
    [
        (
            BEFORE,
            False,
            LATER[1:],
            [10000, 9990, 9970, 9940, 9880, 9640, 9160, 8680, 6760, 4840, 1000],
        ),
        (BEFORE, True, (), [1000, 990, 960, 900, 840, 720, 480, 0]),
        (
            BEFORE,
            True,
            LATER,
            [10000, 9990, 9960, 9900, 9840, 9600, 9120, 8640, 7680, 3840, 0],
        ),
        ((), False, range(21), [20, 19, 18, 16, 8, 0]),
        ((), False, range(101), [100, 99, 98, 96, 88, 80, 64, 0]),
        ((), False, range(1001), [1000, 999, 998, 996, 992, 976, 960, 896, 768, 512, 0]),
        (
            (),
            False,
            range(0, 10_001, 100),
            [10000, 9900, 9800, 9600, 8800, 8000, 6400, 0],
        ),
        ((), False, range(0, 351, 7), [350, 343, 336, 308, 280, 224, 0]),
        ((), False, [0, 1, 2, 3, 50, 51, 52, 53, 54, 1000, 1001, 1002, 5000], [5000, 0]),
    ],
)
def test_what_is_kept_gets_sparse_towards_the_past(loaded, keep_history, then, kept):
    table = more(table_of(*loaded, keep_history=keep_history), *then)
    assert list(distinct(table).values()) == kept


def test_in_which_slots_syncs_stand():
    found = distinct(table_of(*BEFORE, keep_history=True))
    assert found == {0: 1000, 5: 990, 6: 960, 7: 900, 8: 840, 9: 720, 10: 480, 11: 0}


def test_a_sync_that_goes_back_replaces_all():
    table = more(table_of(*BEFORE, keep_history=True), sync(1500, 11_000), sync(1400, 11_100))
    assert distinct(table) == {0: 1400}
    assert downstream(table, 1399) is TOO_OLD
    assert downstream(table, 1400) == 11_100


def test_without_history_only_the_last_sync_read_counts():
    table = table_of(100, 200, 300)
    assert [downstream(table, each) for each in (250, 300, 301)] == [TOO_OLD, 300, 301]
    table = table_of(100, 200, 300, keep_history=True)
    assert [downstream(table, each) for each in (99, 100, 150, 200, 250, 300, 301)] == [
        *(TOO_OLD, 100, 101, 200, 201, 300, 301)
    ]


def test_the_same_offset_may_translate_to_less_later():
    table = table_of(sync(11, 4))
    found = []
    for at in range(12, 18):
        more(table, sync(at, at - 7))
        found.append(downstream(table, 13))
    assert found == [6, 6, 6, 6, 6, 5]


def test_records_are_folded_and_tombstones_forget():
    table = OffsetSyncStore(keep_history=True)
    key, value = mirrormaker2_records.encode_offset_sync(sync(3, 4))
    table.apply_record(key, value)
    table.mark_ready()
    assert downstream(table, 3) == 4
    table.apply_record(key, None)
    assert downstream(table, 3) is UNKNOWN
    table.apply_record(key, None)


def test_bytes_that_are_no_sync_change_nothing():
    table = table_of(sync(3, 4))
    key, value = mirrormaker2_records.encode_offset_sync(sync(9, 9))
    for bad in ((key, value[:-1]), (key[:-1], value), (b"", None)):
        with pytest.raises(MalformedRecordError):
            table.apply_record(*bad)
    assert distinct(table) == {0: 3}


@pytest.mark.parametrize("step", [1, 3, 100, 1 << 20, (1 << 56) - 1])
@pytest.mark.parametrize("first", [0, 1, 29])
def test_evenly_spaced_syncs_push_out_one_at_most(step, first):
    table = table_of()
    kept = 0
    for at in range(100):
        more(table, first + at * step)
        assert (table.list_syncs(T2)[0].upstream, table.list_syncs(T2)[-1].upstream) == (
            first + at * step,
            first,
        )
        assert len(distinct(table)) >= kept
        kept = len(distinct(table))


@pytest.mark.parametrize("least", [0, 1 << 16])
def test_unevenly_spaced_syncs_push_out_few(least):
    rng = random.Random(0)
    for bits in range(1, 54, 4):
        table, upstream, kept = table_of(), 0, 0
        for _ in range(100):
            more(table, upstream)
            assert kept + 1 - len(distinct(table)) <= bits + 2
            kept = len(distinct(table))
            upstream += least + rng.randrange(1 << bits)


steps = st.one_of(st.integers(0, 20), st.integers(0, 1 << 40), st.integers(-5, -1))


@settings(max_examples=examples.of(200))
@given(st.lists(steps, max_size=60), st.integers(0, 60), st.booleans())
def test_later_offsets_never_translate_to_less(moves, loaded, keep_history):
    table = OffsetSyncStore(keep_history=keep_history)
    upstream = 0
    asked = {0}
    for at, move in enumerate(moves):
        if at == loaded:
            table.mark_ready()
        upstream = max(0, upstream + move)
        asked |= {upstream - 1, upstream, upstream + 1}
        table.add_sync(sync(upstream))
        table.check_invariants()
    table.mark_ready()
    told = [downstream(table, each) for each in sorted(asked)]
    offsets = [each for each in told if isinstance(each, int)]
    assert told[: len(told) - len(offsets)].count(TOO_OLD) + told.count(UNKNOWN) == len(told) - len(
        offsets
    )
    assert offsets == sorted(offsets)
    assert all(
        offset <= each
        for each, offset in zip(sorted(asked), told, strict=True)
        if isinstance(offset, int)
    )
