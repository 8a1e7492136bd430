from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.replication import transactional_ids
from mm2.topics import replication_policy, topic_filters, topic_selection
from mm2.topics.flow_config import Flow, StartPosition, StartPositionKind, TargetTopicAccess
from mm2.topics.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy


def test_names_of_a_flow():
    flow = Flow(source="east", target="west")
    assert flow.name == "east->west"
    assert flow.format_remote_topic("orders") == "east.orders"
    assert (
        transactional_ids.format_transactional_id(flow.name, TopicPartition("a-b", 7))
        == "mm2-east->west-a-b-7"
    )


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("orders", True),
        ("other", False),
        ("orders.internal", True),
        ("__orders", False),
        ("west.orders", False),
        ("north.west.orders", False),
        ("east.orders", True),
        ("north.orders", True),
        ("heartbeats", True),
        ("north.heartbeats", True),
        ("west.heartbeats", False),
        ("device-heartbeats", False),
    ],
)
def test_which_topics_are_mirrored(topic, expected):
    flow = Flow(
        source="east", target="west", topics=topic_filters.compile_topic_filter([r".*orders.*"], [])
    )
    assert topic_selection.should_replicate_topic(flow, topic) is expected


def test_our_own_internal_topics_are_never_mirrored_whatever_the_filter_says():
    other = Flow(
        source="west", target="east", topics=topic_filters.compile_topic_filter([".*"], [])
    )
    assert not topic_selection.should_replicate_topic(
        other, replication_policy.format_offset_map_topic("east")
    )
    assert not topic_selection.should_replicate_topic(
        other, replication_policy.format_incidents_topic("east")
    )


class _KeepingEveryName(DefaultReplicationPolicy):
    """A policy of a user that renames nothing and knows no internal topics."""

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return topic

    def is_mm2_internal_topic(self, topic: str) -> bool:
        return False


@pytest.mark.parametrize(
    ("source", "policy", "topic"),
    [
        ("east", DefaultReplicationPolicy(), "checkpoints.internal"),
        ("east", DefaultReplicationPolicy(), "north.checkpoints.internal"),
        (
            "east",
            DefaultReplicationPolicy(separator="_", internal_separator="_"),
            "checkpoints_internal",
        ),
        ("east", DefaultReplicationPolicy(separator=""), ".checkpoints.internal"),
        ("east.checkpoints", DefaultReplicationPolicy(), "internal"),
        ("mm2-configs", DefaultReplicationPolicy(), "north.internal"),
        ("heart", DefaultReplicationPolicy(separator=""), "beats"),
        ("east", IdentityReplicationPolicy(source_alias="east"), "east.checkpoints.internal"),
        ("east", _KeepingEveryName(), "heartbeats"),
        ("east", _KeepingEveryName(), "east.checkpoints.internal"),
        ("east", _KeepingEveryName(), "mm2-offset-syncs.east.internal"),
        ("east", _KeepingEveryName(), replication_policy.format_offset_map_topic("east")),
        ("east", _KeepingEveryName(), replication_policy.format_incidents_topic("east")),
        ("east", _KeepingEveryName(), replication_policy.format_connect_topic("status", "north")),
    ],
)
def test_no_mirror_topic_has_the_name_of_a_topic_that_mm2_writes(source, policy, topic):
    flow = Flow(
        source=source,
        target="west",
        policy=policy,
        topics=topic_filters.compile_topic_filter([".*"], []),
    )
    remote = flow.format_remote_topic(topic)
    assert not topic_selection.should_replicate_topic(flow, topic)
    assert topic_selection.explain_mismatch(flow, topic)
    if not replication_policy.is_internal_topic(policy, topic):
        assert topic_selection.has_reserved_mirror_name(flow, topic)
        assert topic_selection.explain_mismatch(flow, topic) == (
            f"its mirror would be {remote}, a topic that only mm2 may write on west"
        )


@pytest.mark.parametrize(
    ("source", "topic"),
    [
        ("east", "checkpoints"),
        ("east", "internal"),
        ("east", "a.internal"),
        ("east", "mm2-a.internal.x"),
        ("mm2prod", "orders.internal"),
    ],
)
def test_names_that_only_resemble_internal_topics_are_mirrored(source, topic):
    flow = Flow(source=source, target="west", topics=topic_filters.compile_topic_filter([".*"], []))
    assert topic_selection.should_replicate_topic(flow, topic)
    assert not topic_selection.has_reserved_mirror_name(flow, topic)


@pytest.mark.parametrize(
    ("taken", "separator", "left_to_filters", "expected"),
    [
        ("nothing", ".", False, (True, True)),
        ("nothing", "_", False, (True, False)),
        ("nothing", ".", True, (False, False)),
        (".*", ".", True, (True, True)),
    ],
    ids=["always", "by the separator", "left to filters", "taken by filters"],
)
def test_heartbeats_are_mirrored_unless_they_are_left_to_the_filters(
    taken, separator, left_to_filters, expected
):
    """MirrorSourceConnectorTest, testReplicatesHeartbeats… and its kin."""
    flow = Flow(
        source="east",
        target="west",
        topics=topic_filters.compile_topic_filter([taken]),
        policy=DefaultReplicationPolicy(separator=separator),
        replicate_heartbeats=not left_to_filters,
    )
    found = tuple(
        topic_selection.should_replicate_topic(flow, each)
        for each in ("heartbeats", "us-west.heartbeats")
    )
    assert found == expected


def test_identity_mirrors_names_as_they_are():
    flow = Flow(
        source="east",
        target="west",
        policy=IdentityReplicationPolicy(source_alias="east"),
        target_topics=TargetTopicAccess.SHARED,
    )
    assert flow.format_remote_topic("orders") == "orders"
    assert topic_selection.should_replicate_topic(flow, "west.orders")
    assert not topic_selection.should_replicate_topic(flow, "west.heartbeats")


def test_a_timestamp_goes_with_a_timestamp_start_only():
    assert StartPosition(StartPositionKind.TIMESTAMP, 0).timestamp_ms == 0
    with pytest.raises(AssertionError):
        StartPosition(StartPositionKind.LATEST, 5)
    with pytest.raises(AssertionError):
        StartPosition(StartPositionKind.TIMESTAMP)


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("orders", ""),
        ("orders-old", "topics.exclude includes .*-old"),
        ("users", "not matched by topics: x, .*orders.*"),
        ("__orders", "internal topics of Kafka and MirrorMaker are never mirrored"),
        ("west.orders", "its name shows that it came from west, so mirroring it would be a loop"),
        ("heartbeats", ""),
    ],
)
def test_why_a_topic_is_not_mirrored(topic, said):
    wanted = topic_filters.compile_topic_filter(["x", ".*orders.*"], ["a", ".*-old"])
    flow = Flow(source="east", target="west", topics=wanted)
    assert topic_selection.explain_mismatch(flow, topic) == said
    assert (said == "") == topic_selection.should_replicate_topic(flow, topic)
    assert bool(topic_selection.explain_match(flow, topic)) == (said == "")


def test_by_which_rule_a_topic_is_mirrored():
    flow = Flow(
        source="east", target="west", topics=topic_filters.compile_topic_filter(["x", ".*orders.*"])
    )
    assert topic_selection.explain_match(flow, "orders") == "topics includes .*orders.*"
    assert "heartbeats.replication.enabled" in topic_selection.explain_match(flow, "heartbeats")


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (StartPosition(), "earliest"),
        (StartPosition(StartPositionKind.LATEST), "latest"),
        (StartPosition(StartPositionKind.TIMESTAMP, timestamp_ms=17), "17"),
    ],
)
def test_a_start_is_said_as_setups_have_it(start, text):
    assert start.config_text == text
