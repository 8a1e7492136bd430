"""Pairs of offsets out of anchors, against a log that is copied record by record."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey, OffsetRun
from mm2.offsets.offset_syncs import OffsetSyncWriter, ReplicatedSpanTracker
from mm2.replication.offset_map_writer import MapWriter
from tests.support import examples

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def sync(upstream, downstream, partition=T0):
    return OffsetSync(partition=partition, upstream=upstream, downstream=downstream)


def due(emitter, *acknowledged):
    """Of each record, whether a sync was due at once."""
    found = []
    for upstream, downstream in acknowledged:
        emitter.record_acknowledgement(T0, upstream=upstream, downstream=downstream)
        found.append(emitter.due_syncs.get(T0) == sync(upstream, downstream))
        assert (T0 in emitter.delayed_syncs) is not found[-1]
    emitter.check_invariants()
    return found


def test_when_a_sync_is_due_with_a_lag_of_ten():
    records = [(0, 100), (1, 101), (2, 110), (3, 111), (4, 112), (6, 113), (7, 114), (7, 115)]
    records += [(8, 116), (5, 117), (6, 118), (7, 40), (8, 41), (9, 50), (10, 51)]
    assert due(OffsetSyncWriter(10), *records) == [
        *(True, False, False, True, False, True, False, True),  # first, stale, gap, gap
        *(False, True, False, True, False, False, True),  # gap, truncated, stale
    ]


def test_when_a_sync_is_due_with_a_lag_of_fifty():
    records = [(0, 100), (2, 102), (3, 152), (4, 153), (5, 154), (6, 203), (7, 204), (2, 206)]
    records += [(3, 207), (4, 3), (5, 4)]
    expected = [True, True, False, True, False, False, True, True, False, True, False]
    assert due(OffsetSyncWriter(50), *records) == expected


def test_without_lag_every_record_makes_one_due():
    assert due(OffsetSyncWriter(0), (0, 1), (1, 2), (2, 3)) == [True] * 3


def test_the_newest_counts_and_what_is_due_replaces_what_is_delayed():
    emitter = OffsetSyncWriter(2)
    emitter.record_acknowledgement(T0, upstream=0, downstream=1)
    emitter.record_acknowledgement(T0, upstream=1, downstream=2)
    assert dict(emitter.due_syncs) == {T0: sync(0, 1)}
    assert dict(emitter.delayed_syncs) == {T0: sync(1, 2)}
    emitter.record_acknowledgement(T0, upstream=3, downstream=3)
    assert dict(emitter.due_syncs) == {T0: sync(3, 3)}
    assert not emitter.delayed_syncs


def test_what_is_delayed_goes_out_after_a_commit():
    emitter = OffsetSyncWriter(50)
    emitter.record_acknowledgement(T0, upstream=0, downstream=100)
    emitter.record_acknowledgement(T0, upstream=1, downstream=101)
    emitter.promote_delayed_syncs()
    assert not emitter.delayed_syncs
    assert emitter.take_due_syncs() == [sync(1, 101)]
    assert not emitter.due_syncs


def test_only_so_many_are_under_way_and_the_oldest_go_first():
    emitter = OffsetSyncWriter(50, in_flight_max=1)
    emitter.record_acknowledgement(T0, upstream=0, downstream=1)
    emitter.record_acknowledgement(T1, upstream=0, downstream=5)
    first = emitter.take_due_syncs()
    assert first == [sync(0, 1)]
    emitter.record_acknowledgement(T0, upstream=9, downstream=102)
    assert emitter.take_due_syncs() == []
    emitter.check_invariants()
    emitter.record_write_result(first[0], stored=True)
    assert emitter.take_due_syncs() == [sync(0, 5, T1)]
    assert emitter.in_flight_count == 1


def test_a_lost_sync_goes_out_at_the_next_commit():
    emitter = OffsetSyncWriter(50)
    emitter.record_acknowledgement(T0, upstream=0, downstream=1)
    (lost,) = emitter.take_due_syncs()
    emitter.record_write_result(lost, stored=False)
    assert emitter.take_due_syncs() == []
    emitter.promote_delayed_syncs()
    assert emitter.take_due_syncs() == [lost]


@pytest.mark.parametrize("newer", [(1, 2), (7, 8)])
def test_a_lost_sync_never_follows_a_newer_one(newer):
    emitter = OffsetSyncWriter(50)
    emitter.record_acknowledgement(T0, upstream=0, downstream=1)
    (lost,) = emitter.take_due_syncs()
    emitter.record_acknowledgement(T0, upstream=newer[0], downstream=newer[1])
    emitter.record_write_result(lost, stored=False)
    emitter.promote_delayed_syncs()
    assert emitter.take_due_syncs() == [sync(*newer)]


def test_a_stored_sync_is_done():
    emitter = OffsetSyncWriter(50)
    emitter.record_acknowledgement(T0, upstream=0, downstream=1)
    (stored,) = emitter.take_due_syncs()
    emitter.record_write_result(stored, stored=True)
    emitter.promote_delayed_syncs()
    assert (emitter.take_due_syncs(), emitter.in_flight_count) == ([], 0)


def test_a_partition_that_left_is_forgotten_and_begins_anew():
    emitter = OffsetSyncWriter(50)
    emitter.record_acknowledgement(T0, upstream=0, downstream=1)
    (lost,) = emitter.take_due_syncs()
    emitter.record_acknowledgement(T0, upstream=1, downstream=2)
    emitter.record_acknowledgement(T0, upstream=5, downstream=6)
    emitter.forget_partition(T0)
    emitter.record_write_result(lost, stored=False)
    emitter.promote_delayed_syncs()
    assert emitter.take_due_syncs() == []
    assert due(emitter, (6, 7), (7, 8)) == [True, False]


moves = st.tuples(st.sampled_from([1, 1, 1, 2, 0, -3]), st.sampled_from([1, 1, 1, 3, 40, 0, -7]))


@settings(max_examples=examples.of(300))
@given(st.integers(0, 12), st.lists(st.tuples(moves, st.integers(1, 40)), max_size=12))
def test_many_records_at_once_are_as_one_after_the_other(lag, stretches):
    whole, single = OffsetSyncWriter(lag), OffsetSyncWriter(lag)
    upstream = downstream = 100
    for (up, down), records in stretches:
        upstream, downstream = max(0, upstream + up), max(0, downstream + down)
        whole.record_acknowledgement(T0, upstream=upstream, downstream=downstream, records=records)
        for each in range(records):
            single.record_acknowledgement(
                T0, upstream=upstream + each, downstream=downstream + each
            )
        assert dict(whole.due_syncs) == dict(single.due_syncs)
        assert dict(whole.delayed_syncs) == dict(single.delayed_syncs)
        upstream, downstream = upstream + records - 1, downstream + records - 1


def key(era: int = 1, first: int = 0) -> MapSegmentKey:
    return MapSegmentKey(topic="t", partition=0, era=era, ordinal=1, epoch=0, first_source=first)


def segment(through: int, target_next: int, *runs: tuple[int, int]) -> MapSegment:
    return MapSegment(
        leader_epoch=0,
        source_epoch=0,
        owner=bytes(8),
        acquired_from=0,
        through=through,
        target_next=target_next,
        last_crc=None,
        runs=tuple(OffsetRun(*each) for each in runs),
    )


def test_the_first_anchor_says_where_it_begins():
    steps = ReplicatedSpanTracker()
    assert steps.extract_new_spans(key(), segment(10, 11, (0, 1))) == []
    assert steps.extract_new_spans(key(), segment(15, 16, (0, 1))) == [(10, 11, 5)]
    assert steps.extract_new_spans(key(), segment(15, 17, (0, 1))) == []


def test_gaps_of_either_side_are_left_out():
    steps = ReplicatedSpanTracker()
    steps.extract_new_spans(key(), segment(0, 1))
    found = steps.extract_new_spans(key(), segment(12, 14, (0, 1), (6, 0), (8, 3)))
    # a marker of the source at 5, then markers of ours on the target behind 7
    assert found == [(0, 1, 5), (6, 6, 2), (8, 11, 3)]


def test_a_new_segment_goes_on_where_the_one_before_ended():
    steps = ReplicatedSpanTracker()
    steps.extract_new_spans(key(), segment(0, 1))
    assert steps.extract_new_spans(key(), segment(5, 6, (0, 1))) == [(0, 1, 5)]
    assert steps.extract_new_spans(key(first=5), segment(5, 6)) == []
    assert steps.extract_new_spans(key(first=5), segment(9, 10, (5, 1))) == [(5, 6, 4)]


def test_where_all_was_skipped_nothing_was_copied():
    steps = ReplicatedSpanTracker()
    steps.extract_new_spans(key(), segment(0, 1))
    assert steps.extract_new_spans(key(), segment(5, 1)) == []
    assert steps.extract_new_spans(key(), segment(9, 5, (5, -4))) == [(5, 1, 4)]


def test_another_era_begins_anew_and_nothing_is_told_twice():
    steps = ReplicatedSpanTracker()
    steps.extract_new_spans(key(), segment(0, 1))
    steps.extract_new_spans(key(), segment(5, 6, (0, 1)))
    assert steps.extract_new_spans(key(era=2), segment(3, 20)) == []
    assert steps.extract_new_spans(key(era=2), segment(4, 21, (3, 17))) == [(3, 20, 1)]
    assert steps.extract_new_spans(key(era=2), segment(2, 21)) == [], "an owner that was cut back"


def test_partitions_do_not_know_of_each_other():
    steps = ReplicatedSpanTracker()
    steps.extract_new_spans(key(), segment(5, 6))
    other = MapSegmentKey(topic="t", partition=1, era=1, ordinal=1, epoch=0, first_source=0)
    assert steps.extract_new_spans(other, segment(9, 9)) == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["record", "source gap", "target gap", "anchor", "full"]),
            st.integers(1, 4),
        ),
        max_size=60,
    )
)
def test_every_record_is_told_once(events):
    """Against the writer that copies use."""
    writer = MapWriter(
        topic="t",
        partition=0,
        era=1,
        ordinal=1,
        epoch=0,
        leader_epoch=0,
        owner=bytes(8),
        take_start=0,
        through=0,
        target_next=1,
    )
    steps = ReplicatedSpanTracker()
    told: list[tuple[int, int]] = []
    copied: list[tuple[int, int]] = []

    def anchor() -> None:
        for item in writer.create_write_instruction(0.0).items:
            name = offset_map_records.decode_map_key(item.key)
            assert isinstance(name, MapSegmentKey)
            value = offset_map_records.decode_map_value(name, item.value or b"")
            assert isinstance(value, MapSegment)
            for found in steps.extract_new_spans(name, value):
                told.extend((found[0] + n, found[1] + n) for n in range(found[2]))

    anchor()
    source, target = 0, 1
    gaps = {"source gap": (1, 0), "target gap": (0, 1)}
    for kind, count in events:
        if kind == "record":
            for _ in range(count):
                writer._add_offset_run(source, target - source)
                writer.through, writer.target_next = source + 1, target + 1
                copied.append((source, target))
                source, target = source + 1, target + 1
        elif kind in gaps:
            more = gaps[kind]
            source, target = source + more[0] * count, target + more[1] * count
        elif kind == "anchor":
            anchor()
        else:
            writer.close_segment(through=writer.through, target_next=target, source_epoch=0)
    anchor()
    assert told == sorted(told)
    assert set(copied) <= set(told)
    assert len(told) == len(set(told))
