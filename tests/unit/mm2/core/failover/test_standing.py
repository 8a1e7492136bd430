"""Where a group stands that cannot tell it, or not now."""

from __future__ import annotations

import pytest

from connect_runtime.base import ids
from mm2.core import filters, flows
from mm2.core.failover import seen, standing
from mm2.core.offsets import checkpoints
from mm2.formats import checkpoint

FLOW = flows.Flow(source="east", target="west", topics=filters.topic_filter(("orders",)))
HERE, THERE = ids.TopicPartition("orders", 0), ids.TopicPartition("east.orders", 0)
BORN, BROUGHT = ids.TopicPartition("local", 0), ids.TopicPartition("west.local", 0)


def at(offset: int, metadata: str = "") -> checkpoints.OffsetAndMetadata:
    return checkpoints.OffsetAndMetadata(offset=offset, metadata=metadata)


@pytest.mark.parametrize(
    ("topic", "concerned"), [("orders", True), ("west.local", True), ("other", False)]
)
def test_what_concerns_a_flow_is_what_it_mirrors_or_came_from_its_target(topic, concerned):
    assert standing.concerns(FLOW, topic) is concerned


def test_who_cannot_be_asked_stands_where_its_checkpoints_say():
    points = {
        place: checkpoint.Checkpoint(
            group="g", partition=place, upstream=40, downstream=45, metadata="m"
        )
        for place in (THERE, BORN)
    }
    found = standing.checkpointed(FLOW, "g", points, {THERE: 7})
    assert found.written_ms == {HERE: 7}
    assert found.origin is seen.Origin.CHECKPOINTED
    assert found.positions == {HERE: at(40, "m"), BROUGHT: at(40, "m")}
    assert found.pairs == standing.pairs(FLOW, points)
    assert found.pairs[HERE] == seen.Pair(upstream=40, downstream=45)


@pytest.mark.parametrize(
    ("origin", "offset"), [(seen.Origin.COMMITTED, 40), (seen.Origin.CHECKPOINTED, 50)]
)
def test_where_it_was_before_counts_unless_it_told_itself(origin, offset):
    group = seen.Group(name="g", origin=origin, positions={HERE: at(40)})
    assert standing.with_before(group, {HERE: at(50)}).positions == {HERE: at(offset)}


@pytest.mark.parametrize(("offset", "written_ms"), [(50, {}), (30, {HERE: 7})])
def test_a_position_of_before_is_no_checkpoints(offset, written_ms):
    group = seen.Group(
        name="g",
        origin=seen.Origin.CHECKPOINTED,
        positions={HERE: at(40)},
        written_ms={HERE: 7},
    )
    assert standing.with_before(group, {HERE: at(offset)}).written_ms == written_ms


def test_streams_applications_are_those_that_name_internal_topics():
    topics = ("web-eu-by-day-changelog", "mail-x-repartition", "mail-notes", "changelog", "a--b")
    groups = ("web", "web-eu", "mail", "a", "changelog")
    assert standing.streams_applications(groups, topics) == {"web-eu", "mail"}
