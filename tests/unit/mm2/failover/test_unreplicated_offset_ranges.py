"""Where to look for what never left a cluster, and what is made of what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.failover import unreplicated_offset_ranges
from mm2.failover.foreign_record_scan import RecordRange
from mm2.failover.unreplicated_offset_ranges import (
    PartitionScanInputs,
    RecordsReplicatedBack,
    TailScanInputs,
)
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_map import OffsetMap
from mm2.topics import topic_filters
from mm2.topics.flow_config import Flow
from mm2.topics.replication_policy import DefaultReplicationPolicy
from tests.fakes import copied_map

EAST, WEST = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
NEW, WEST_NEW = TopicPartition("new", 0), TopicPartition("east.new", 0)
ENDS = LogBounds(start=0, end=30)


def begin(**given: Any) -> PartitionScanInputs:
    usual: dict[str, Any] = {
        "ends": ENDS,
        "map_end": 10,
        "flow_producers": frozenset({70}),
        "mirror": WEST,
        "mirror_ends": LogBounds(start=0, end=17),
        "mirror_next": 12,
        "reverse_producers": frozenset({80}),
    }
    return PartitionScanInputs(**usual | given)


def looked(here: dict[TopicPartition, Any], **given: Any) -> TailScanInputs:
    opposite = OffsetMap()
    for key, value in copied_map.log(EAST, through=10, delta=2):
        opposite.apply_record(key or b"", value)
    usual: dict[str, Any] = {
        "reverse_map": opposite,
        "offset_map": OffsetMap(),
        "mirrors": {EAST: WEST, NEW: WEST_NEW},
        "target_bounds": {EAST: ENDS},
        "mirror_bounds": here,
    }
    return TailScanInputs(**usual | given)


def test_where_to_look_is_what_both_maps_say():
    found = looked({WEST: ENDS}).build_partition_scan_inputs()[EAST]
    assert (found.map_end, found.mirror_next, found.mirror) == (10, 12, WEST)
    assert (found.flow_producers, found.mirror_ends) == (frozenset(), ENDS)


def test_what_cannot_be_asked_for_is_not_looked_at_and_what_is_not_there_is():
    assert looked({}).build_partition_scan_inputs() == {}
    assert looked({WEST: None}).build_partition_scan_inputs()[EAST].mirror_ends is None


def test_of_a_topic_that_was_made_anew_nothing_has_arrived():
    found = looked({WEST: ENDS}, outdated={EAST}).build_partition_scan_inputs()[EAST]
    assert (found.map_end, found.mirror_next, found.mirror_ends) == (0, 0, None)
    assert found.build_local_record_scan().start == 0


@pytest.mark.parametrize("here", [{}, {WEST_NEW: None}, {WEST_NEW: LogBounds(start=0, end=0)}])
def test_what_was_never_begun_has_all_of_it_left(here):
    found = looked(here, target_bounds={NEW: ENDS})
    assert found.build_tails_of_unknown_size({}) == {}
    begin = found.build_partition_scan_inputs()[NEW]
    assert (begin.map_end, begin.ends, begin.mirror_ends) == (0, ENDS, None)


SYNC = OffsetSync(partition=NEW, upstream=7, downstream=9)


@pytest.mark.parametrize(
    ("here", "syncs", "start"), [({WEST_NEW: ENDS}, {}, 0), ({}, {NEW: (SYNC,)}, 7)]
)
def test_what_others_have_brought_over_nobody_counts(here, syncs, start):
    found = looked(here, target_bounds={NEW: ENDS}, syncs=syncs)
    assert found.build_partition_scan_inputs() == {}
    told = found.build_tails_of_unknown_size({})[NEW].summarize_records()
    assert (told.records, told.start, told.end) == (None, start, 30)
    assert "by a tool other than this flow, without a record of its progress" in told.unknown_reason


def test_under_one_name_a_log_of_that_name_says_nothing():
    found = looked({NEW: ENDS}, target_bounds={NEW: ENDS}, mirrors={NEW: NEW})
    assert set(found.build_partition_scan_inputs()) == {NEW}


def test_what_does_not_answer_is_not_counted():
    here = {WEST: LogBounds(start=0, end=17, pending=3)}
    found = looked(here, target_bounds={}).build_tails_of_unknown_size({EAST: "away"})[EAST]
    assert (found.map_end, found.end, found.origin_end, found.first_unreplicated_offset) == (
        10,
        10,
        20,
        None,
    )
    assert (found.summarize_records().records, found.summarize_records().unknown_reason) == (
        None,
        "away",
    )


def test_what_is_to_be_mirrored_counts_whether_or_not_it_was_begun():
    back = Flow(
        source="west", target="east", topics=topic_filters.compile_topic_filter(("orders.*",))
    )
    listed = {"orders", "orders-new", "other", "heartbeats", "east.orders", "__consumer_offsets"}
    assert unreplicated_offset_ranges.select_topics_to_replicate(back, listed) == {
        "orders",
        "orders-new",
    }


def test_heartbeats_are_nobodys_loss():
    opposite = OffsetMap()
    for partition in (EAST, TopicPartition("heartbeats", 0)):
        for key, value in copied_map.log(partition, through=10, delta=2):
            opposite.apply_record(key or b"", value)
    assert unreplicated_offset_ranges.list_reverse_flow_partitions(
        opposite, DefaultReplicationPolicy()
    ) == {EAST}


def test_what_is_looked_at_of_the_mirror():
    behind = begin().build_mirror_scan_after_map_end()
    assert behind is not None
    assert (behind.start, behind.end, behind.flow_producers) == (12, 17, frozenset({80}))
    assert begin(mirror_ends=None).build_mirror_scan_after_map_end() is None
    before = begin(mirror_next=5_000).build_mirror_scan_before_map_end()
    assert before is not None
    assert (before.start, before.end) == (
        5_000 - unreplicated_offset_ranges.LOOKBACK_OFFSETS,
        5_000,
    )
    gone = begin(mirror_ends=LogBounds(start=12, end=17))
    assert gone.build_mirror_scan_before_map_end() is None


def test_what_is_looked_at_of_the_log_itself():
    found = begin().build_local_record_scan()
    assert (found.start, found.end, found.flow_producers) == (10, 30, frozenset({70}))
    assert begin(ends=LogBounds(start=25, end=30)).build_local_record_scan().start == 25


STRETCHES = [RecordRange(10, 14, 5, 1, 2), RecordRange(20, 29, 10, 3, 4)]


@pytest.mark.parametrize(
    ("arrived", "behind", "counted"),
    [
        (RecordsReplicatedBack(0, 12), 12, 15),
        (RecordsReplicatedBack(3, 15), 15, 12),
        (None, 17, 15),
    ],
)
def test_what_had_arrived_is_not_left(arrived, behind, counted):
    found = begin().build_local_record_scan()
    found.foreign += STRETCHES
    tail = begin().build_tail(EAST, found, arrived, whole=True)
    assert (tail.origin_end, tail.counted, tail.end, tail.map_end) == (behind, counted, 30, 10)
    assert (
        tail.first_unreplicated_offset == 13
        if arrived and arrived.records
        else tail.first_unreplicated_offset == 10
    )
    told = tail.summarize_records()
    assert (told.records, told.at_least, told.last_ms) == (counted, counted, 4)


def test_what_was_not_read_whole_is_not_counted():
    found = begin().build_local_record_scan()
    found.foreign += STRETCHES[:1]
    tail = begin(mirror_ends=None).build_tail(EAST, found, None, whole=False)
    assert (tail.ranges, tail.first_unreplicated_offset, tail.counted, tail.origin_end) == (
        None,
        None,
        5,
        12,
    )
    assert (tail.summarize_records().records, tail.summarize_records().at_least) == (None, 5)
