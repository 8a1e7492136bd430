"""Where a group stands that cannot tell it, or not now."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.clusters import consumer_group_state
from mm2.clusters.cluster_pair_snapshot import CheckpointPair, GroupSnapshot, PositionBasis
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.offsets.checkpoint_rules import OffsetAndMetadata
from mm2.topics import topic_filters
from mm2.topics.flow_config import Flow

FLOW = Flow(source="east", target="west", topics=topic_filters.compile_topic_filter(("orders",)))
HERE, THERE = TopicPartition("orders", 0), TopicPartition("east.orders", 0)
BORN, BROUGHT = TopicPartition("local", 0), TopicPartition("west.local", 0)


def at(offset: int, metadata: str = "") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset=offset, metadata=metadata)


@pytest.mark.parametrize(
    ("topic", "concerned"), [("orders", True), ("west.local", True), ("other", False)]
)
def test_what_concerns_a_flow_is_what_it_mirrors_or_came_from_its_target(topic, concerned):
    assert consumer_group_state.is_flow_topic(FLOW, topic) is concerned


def test_who_cannot_be_asked_stands_where_its_checkpoints_say():
    points = {
        place: Checkpoint(group="g", partition=place, upstream=40, downstream=45, metadata="m")
        for place in (THERE, BORN)
    }
    found = consumer_group_state.build_checkpointed_group(FLOW, "g", points, {THERE: 7})
    assert found.checkpoint_times_ms == {HERE: 7}
    assert found.basis is PositionBasis.CHECKPOINTED
    assert found.positions == {HERE: at(40, "m"), BROUGHT: at(40, "m")}
    assert found.checkpoints == consumer_group_state.build_checkpoint_pairs(FLOW, points)
    assert found.checkpoints[HERE] == CheckpointPair(upstream=40, downstream=45)


@pytest.mark.parametrize(
    ("origin", "offset"), [(PositionBasis.COMMITTED, 40), (PositionBasis.CHECKPOINTED, 50)]
)
def test_where_it_was_before_counts_unless_it_told_itself(origin, offset):
    group = GroupSnapshot(name="g", basis=origin, positions={HERE: at(40)})
    assert consumer_group_state.merge_earlier_positions(group, {HERE: at(50)}).positions == {
        HERE: at(offset)
    }


@pytest.mark.parametrize(("offset", "written_ms"), [(50, {}), (30, {HERE: 7})])
def test_a_position_of_before_is_no_checkpoints(offset, written_ms):
    group = GroupSnapshot(
        name="g",
        basis=PositionBasis.CHECKPOINTED,
        positions={HERE: at(40)},
        checkpoint_times_ms={HERE: 7},
    )
    assert (
        consumer_group_state.merge_earlier_positions(group, {HERE: at(offset)}).checkpoint_times_ms
        == written_ms
    )


def test_streams_applications_are_those_that_name_internal_topics():
    topics = ("web-eu-by-day-changelog", "mail-x-repartition", "mail-notes", "changelog", "a--b")
    groups = ("web", "web-eu", "mail", "a", "changelog")
    assert consumer_group_state.find_streams_applications(groups, topics) == {"web-eu", "mail"}
