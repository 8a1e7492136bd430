"""Where to look for what never left a cluster, and what is made of what was seen."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import ids
from mm2.core import naming
from mm2.core.failover import tails, whose
from mm2.core.offsets import log_ends, offset_map
from tests.fakes import copied_map

EAST, WEST = ids.TopicPartition("orders", 0), ids.TopicPartition("east.orders", 0)
ENDS = log_ends.Ends(start=0, end=30)


def begin(**given: Any) -> tails.Begin:
    usual: dict[str, Any] = {
        "ends": ENDS,
        "through": 10,
        "ours": frozenset({70}),
        "mirror": WEST,
        "mirror_ends": log_ends.Ends(start=0, end=17),
        "mirror_next": 12,
        "theirs": frozenset({80}),
    }
    return tails.Begin(**usual | given)


def begins(here: dict[ids.TopicPartition, Any], **given: Any) -> dict[Any, tails.Begin]:
    opposite = offset_map.OffsetMap()
    for key, value in copied_map.log(EAST, through=10, delta=2):
        opposite.apply(key or b"", value)
    usual: dict[str, Any] = {"name_here": lambda _: WEST, "there": {EAST: ENDS}, "here": here}
    return tails.begins(opposite, offset_map.OffsetMap(), **usual | given)


def test_where_to_look_is_what_both_maps_say():
    found = begins({WEST: ENDS})[EAST]
    assert (found.through, found.mirror_next, found.mirror) == (10, 12, WEST)
    assert (found.ours, found.mirror_ends) == (frozenset(), ENDS)


def test_what_cannot_be_asked_for_is_not_looked_at_and_what_is_not_there_is():
    assert begins({}) == {}
    assert begins({WEST: None})[EAST].mirror_ends is None


def test_heartbeats_are_nobodys_loss():
    opposite = offset_map.OffsetMap()
    for partition in (EAST, ids.TopicPartition("heartbeats", 0)):
        for key, value in copied_map.log(partition, through=10, delta=2):
            opposite.apply(key or b"", value)
    assert tails.begun(opposite, naming.DefaultReplicationPolicy()) == {EAST}


def test_what_is_looked_at_of_the_mirror():
    behind = begin().behind_the_map()
    assert behind is not None
    assert (behind.start, behind.end, behind.ours) == (12, 17, frozenset({80}))
    assert begin(mirror_ends=None).behind_the_map() is None
    before = begin(mirror_next=5_000).before_the_map_ends()
    assert before is not None
    assert (before.start, before.end) == (5_000 - tails.LAST_OFFSETS, 5_000)
    gone = begin(mirror_ends=log_ends.Ends(start=12, end=17))
    assert gone.before_the_map_ends() is None


def test_what_is_looked_at_of_the_log_itself():
    found = begin().born()
    assert (found.start, found.end, found.ours) == (10, 30, frozenset({70}))
    assert begin(ends=log_ends.Ends(start=25, end=30)).born().start == 25


STRETCHES = [whose.Stretch(10, 14, 5, 1, 2), whose.Stretch(20, 29, 10, 3, 4)]


@pytest.mark.parametrize(
    ("arrived", "behind", "counted"),
    [(tails.Arrived(0, 12), 12, 15), (tails.Arrived(3, 15), 15, 12), (None, 17, 15)],
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
