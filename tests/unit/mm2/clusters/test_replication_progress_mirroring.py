"""How far a flow has mirrored, of what was told."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters import replication_progress
from mm2.clusters.replication_progress import MirrorObservations
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_map import OffsetMap
from mm2.topics import topic_filters
from mm2.topics.flow_config import Flow
from tests.fakes import copied_map

HERE, THERE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
COPIED, DELTA = 100, 5


def looked(**given: Any) -> MirrorObservations:
    known = OffsetMap()
    for key, value in copied_map.log(HERE, through=COPIED, delta=DELTA):
        known.apply_record(key or b"", value)
    return MirrorObservations(offset_map=known, **given)


@pytest.mark.parametrize(
    ("start", "end", "pending", "tail"),
    [(0, 105, 0, 0), (0, 112, 0, 7), (0, 105, 7, 7), (110, 112, 0, 2), (0, 90, 0, 0)],
)
def test_what_stands_behind_the_map_may_be_the_flows(start, end, pending, tail):
    """Also behind a transaction that is open."""
    there = LogBounds(start=start, end=end, pending=pending)
    found = looked(mirror_bounds={THERE: there}).build_partition(HERE, THERE)
    assert (found.unrecorded, found.mirror_bounds, found.copied_to) == (tail, there, COPIED)


def test_what_nobody_told_is_unknown():
    found = looked(source_errors={HERE: "away"}, mirror_errors={THERE: "gone"}).build_partition(
        HERE, THERE
    )
    assert (found.source_bounds, found.mirror_bounds, found.unrecorded) == (None, None, 0)
    assert (found.source_error, found.mirror_error, found.stop_reason) == ("away", "gone", "")


def test_a_partition_that_was_never_begun_waits_from_its_start():
    new = TopicPartition("orders", 1)
    here = {HERE: LogBounds(start=0, end=COPIED), new: LogBounds(start=3, end=9)}
    found = looked(source_bounds=here)
    assert replication_progress.find_unreplicated_offsets(found.offset_map, here) == {new: 3}
    lagging = {HERE: LogBounds(start=0, end=COPIED + 1)}
    assert replication_progress.find_unreplicated_offsets(found.offset_map, lagging) == {
        HERE: COPIED
    }
    assert found.build_partition(new, THERE).copied_to is None


@pytest.mark.parametrize("given", ["source_ids", "target_ids"])
def test_ids_of_other_topics_than_were_copied_stop_it(given):
    known = OffsetMap()
    (key, era), *_ = copied_map.log(HERE, through=COPIED, delta=DELTA)
    known.apply_record(key or b"", (era or b"").replace(bytes(32), b"s" * 16 + b"t" * 16))
    anew: dict[str, Any] = {given: {"orders": uuid.uuid4(), "east.orders": uuid.uuid4()}}
    found = MirrorObservations(offset_map=known, **anew).build_partition(HERE, THERE)
    assert "recreated" in found.stop_reason


@pytest.mark.parametrize(
    ("topic", "missing", "why"),
    [
        ("orders", False, ""),
        ("orders", True, "the topic no longer exists on east"),
        ("other", False, "topics"),
        ("heartbeats", True, ""),
    ],
)
def test_why_a_topic_is_mirrored_no_more(topic, missing, why):
    flow = Flow(
        source="east", target="west", topics=topic_filters.compile_topic_filter(("orders",))
    )
    found = replication_progress.explain_exclusion(flow, topic, missing=missing)
    assert why in found
    assert bool(found) is bool(why)
