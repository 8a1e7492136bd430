"""Where to look for what never left a cluster, and what is made of what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.failover import unreplicated_tails
from mm2.failover.divergence import RecordRange
from mm2.failover.unreplicated_tails import ReplicatedBack, ScanStart, TailScan
from mm2.formats.mm2_records import OffsetSync
from mm2.offsets.log_bounds import LogBounds
from mm2.offsets.offset_map import OffsetMap
from mm2.topics import filters
from mm2.topics.flow_config import Flow
from mm2.topics.naming import DefaultReplicationPolicy
from tests.fakes import copied_map

EAST, WEST = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
NEW, WEST_NEW = TopicPartition("new", 0), TopicPartition("east.new", 0)
ENDS = LogBounds(start=0, end=30)


def begin(**given: Any) -> ScanStart:
    usual: dict[str, Any] = {
        "ends": ENDS,
        "through": 10,
        "ours": frozenset({70}),
        "mirror": WEST,
        "mirror_ends": LogBounds(start=0, end=17),
        "mirror_next": 12,
        "theirs": frozenset({80}),
    }
    return ScanStart(**usual | given)


def looked(here: dict[TopicPartition, Any], **given: Any) -> TailScan:
    opposite = OffsetMap()
    for key, value in copied_map.log(EAST, through=10, delta=2):
        opposite.apply(key or b"", value)
    usual: dict[str, Any] = {
        "opposite": opposite,
        "known": OffsetMap(),
        "mirror": {EAST: WEST, NEW: WEST_NEW},
        "there": {EAST: ENDS},
        "here": here,
    }
    return TailScan(**usual | given)


def test_where_to_look_is_what_both_maps_say():
    found = looked({WEST: ENDS}).begins()[EAST]
    assert (found.through, found.mirror_next, found.mirror) == (10, 12, WEST)
    assert (found.ours, found.mirror_ends) == (frozenset(), ENDS)


def test_what_cannot_be_asked_for_is_not_looked_at_and_what_is_not_there_is():
    assert looked({}).begins() == {}
    assert looked({WEST: None}).begins()[EAST].mirror_ends is None


def test_of_a_topic_that_was_made_anew_nothing_has_arrived():
    found = looked({WEST: ENDS}, stopped={EAST}).begins()[EAST]
    assert (found.through, found.mirror_next, found.mirror_ends) == (0, 0, None)
    assert found.born().start == 0


@pytest.mark.parametrize("here", [{}, {WEST_NEW: None}, {WEST_NEW: LogBounds(start=0, end=0)}])
def test_what_was_never_begun_has_all_of_it_left(here):
    found = looked(here, there={NEW: ENDS})
    assert found.uncounted({}) == {}
    begin = found.begins()[NEW]
    assert (begin.through, begin.ends, begin.mirror_ends) == (0, ENDS, None)


SYNC = OffsetSync(partition=NEW, upstream=7, downstream=9)


@pytest.mark.parametrize(
    ("here", "syncs", "start"), [({WEST_NEW: ENDS}, {}, 0), ({}, {NEW: (SYNC,)}, 7)]
)
def test_what_others_have_brought_over_nobody_counts(here, syncs, start):
    found = looked(here, there={NEW: ENDS}, syncs=syncs)
    assert found.begins() == {}
    told = found.uncounted({})[NEW].told()
    assert (told.records, told.start, told.end) == (None, start, 30)
    assert "without a map of how far" in told.why


def test_under_one_name_a_log_of_that_name_says_nothing():
    found = looked({NEW: ENDS}, there={NEW: ENDS}, mirror={NEW: NEW})
    assert set(found.begins()) == {NEW}


def test_what_does_not_answer_is_not_counted():
    here = {WEST: LogBounds(start=0, end=17, pending=3)}
    found = looked(here, there={}).uncounted({EAST: "away"})[EAST]
    assert (found.through, found.end, found.behind, found.first) == (10, 10, 20, None)
    assert (found.told().records, found.told().why) == (None, "away")


def test_what_is_to_be_mirrored_counts_whether_or_not_it_was_begun():
    back = Flow(source="west", target="east", topics=filters.compile_topic_filter(("orders.*",)))
    listed = {"orders", "orders-new", "other", "heartbeats", "east.orders", "__consumer_offsets"}
    assert unreplicated_tails.select_topics_to_replicate(back, listed) == {"orders", "orders-new"}


def test_heartbeats_are_nobodys_loss():
    opposite = OffsetMap()
    for partition in (EAST, TopicPartition("heartbeats", 0)):
        for key, value in copied_map.log(partition, through=10, delta=2):
            opposite.apply(key or b"", value)
    assert unreplicated_tails.list_reverse_flow_partitions(
        opposite, DefaultReplicationPolicy()
    ) == {EAST}


def test_what_is_looked_at_of_the_mirror():
    behind = begin().behind_the_map()
    assert behind is not None
    assert (behind.start, behind.end, behind.ours) == (12, 17, frozenset({80}))
    assert begin(mirror_ends=None).behind_the_map() is None
    before = begin(mirror_next=5_000).before_the_map_ends()
    assert before is not None
    assert (before.start, before.end) == (5_000 - unreplicated_tails.LOOKBACK_OFFSETS, 5_000)
    gone = begin(mirror_ends=LogBounds(start=12, end=17))
    assert gone.before_the_map_ends() is None


def test_what_is_looked_at_of_the_log_itself():
    found = begin().born()
    assert (found.start, found.end, found.ours) == (10, 30, frozenset({70}))
    assert begin(ends=LogBounds(start=25, end=30)).born().start == 25


STRETCHES = [RecordRange(10, 14, 5, 1, 2), RecordRange(20, 29, 10, 3, 4)]


@pytest.mark.parametrize(
    ("arrived", "behind", "counted"),
    [(ReplicatedBack(0, 12), 12, 15), (ReplicatedBack(3, 15), 15, 12), (None, 17, 15)],
)
def test_what_had_arrived_is_not_left(arrived, behind, counted):
    found = begin().born()
    found.others += STRETCHES
    tail = begin().tail(EAST, found, arrived, whole=True)
    assert (tail.behind, tail.counted, tail.end, tail.through) == (behind, counted, 30, 10)
    assert tail.first == 13 if arrived and arrived.records else tail.first == 10
    told = tail.told()
    assert (told.records, told.at_least, told.last_ms) == (counted, counted, 4)


def test_what_was_not_read_whole_is_not_counted():
    found = begin().born()
    found.others += STRETCHES[:1]
    tail = begin(mirror_ends=None).tail(EAST, found, None, whole=False)
    assert (tail.stretches, tail.first, tail.counted, tail.behind) == (None, None, 5, 12)
    assert (tail.told().records, tail.told().at_least) == (None, 5)
