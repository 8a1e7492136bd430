"""A source task's configuration: what it copies, and what it takes up as it runs.

Parsed configurations; what they mean in Java: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.base.ids import TopicPartition
from mm2.config import (
    java_class_placeholders,
    mirror_connector_client_properties,
    mirror_connector_config,
    mirror_connector_config_keys,
)
from mm2.config.mirror_connector_config import OffsetSyncsTopic
from mm2.topics.flow_config import (
    DeliveryMode,
    Flow,
    SourceGapAction,
    StartPosition,
    StartPositionKind,
    TargetTopicAccess,
)
from mm2.topics.task_assignment import TaskThrottle

PROPS = {
    "name": "n",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "task.assigned.partitions": "t-0,t-1,u-5",
    "task.index": "2",
    "throttle": "3MB",
}


def test_what_a_task_is_given():
    found = mirror_connector_config.parse_source_task_config(
        {**PROPS, "mm2.task.added.partitions": "t-1"}
    )
    assert found.partitions == (
        TopicPartition("t", 0),
        TopicPartition("t", 1),
        TopicPartition("u", 5),
    )
    assert found.added_partitions == {TopicPartition("t", 1)}
    assert found.task_index == 2
    assert found.config.common.source == "A"


def test_without_a_share_of_the_budget_a_task_has_all_of_it():
    """As a leader of Java's hands it out."""
    assert mirror_connector_config.parse_source_task_config(PROPS).throttle == TaskThrottle(
        flow=3_000_000, topics={}
    )
    shared = mirror_connector_config.parse_source_task_config(
        {**PROPS, "mm2.task.throttle": "1000"}
    )
    assert shared.throttle == TaskThrottle(flow=1000, topics={})


@pytest.mark.parametrize("given", ["", " ", "t"])
def test_no_partitions_are_a_mistake(given):
    with pytest.raises(ConfigError, match=r"task\.assigned\.partitions"):
        mirror_connector_config.parse_source_task_config(
            {**PROPS, "task.assigned.partitions": given}
        )


@pytest.mark.parametrize(
    "key",
    [
        "live.throttle",
        "live.throttle.topic.t",
        "live.paused.topic.t",
        "mm2.task.throttle",
        "mm2.task.throttle.topics",
        "mm2.task.added.partitions",
        "throttle",
        "topics",
        "topics.exclude",
        "groups",
        "tasks.max",
        "refresh.topics.interval.seconds",
        "sync.topic.acls.enabled",
        "emit.checkpoints.enabled",
    ],
)
def test_what_a_running_task_takes_up(key):
    assert mirror_connector_config.can_reconfigure_live(PROPS, {**PROPS, key: "1"})
    assert mirror_connector_config.can_reconfigure_live({**PROPS, key: "1"}, PROPS)


@pytest.mark.parametrize(
    "key",
    [
        "task.assigned.partitions",
        "task.index",
        "name",
        "start",
        "delivery",
        "buffer.memory",
        "offset.map.bytes",
        "unreachable.after.seconds",
        "offset.lag.max",
        "offset-syncs.topic.location",
        "replication.policy.separator",
        "source.cluster.bootstrap.servers",
        "producer.override.client.id",
        "mm2.engine",
    ],
)
def test_what_needs_another_copy(key):
    assert not mirror_connector_config.can_reconfigure_live(PROPS, {**PROPS, key: "1"})


A = {
    mirror_connector_config_keys.SOURCE_ALIAS: "A",
    mirror_connector_config_keys.TARGET_ALIAS: "B",
    mirror_connector_config_keys.NAME: "n",
}
VALIDATE = {
    "source": mirror_connector_config.validate_source_config,
    "checkpoint": mirror_connector_config.validate_checkpoint_config,
    "heartbeat": mirror_connector_config.validate_heartbeat_config,
}
READ = {
    "source": mirror_connector_config.parse_source_config,
    "checkpoint": mirror_connector_config.parse_checkpoint_config,
    "heartbeat": mirror_connector_config.parse_heartbeat_config,
}


def wrong(kind: str, props: Mapping[str, str]) -> dict[str, list[str]]:
    return {e.name: e.error_messages for e in VALIDATE[kind](props) if e.error_messages}


def test_defaults_of_the_source():
    found = mirror_connector_config.parse_source_config(A)
    assert found.flow == Flow(source="A", target="B")
    assert found.syncs_topic == OffsetSyncsTopic(on_source=True, name="mm2-offset-syncs.B.internal")
    assert (found.lag_max, found.syncs_topic_factor, found.sync_acls_interval_s) == (100, 3, 600)
    assert found.common.metric_formats == ("legacy",)


def test_defaults_of_the_others():
    checkpoint = mirror_connector_config.parse_checkpoint_config(A)
    assert checkpoint.checkpoints_topic == "A.checkpoints.internal"
    assert (checkpoint.emit_interval_s, checkpoint.sync_groups_interval_s) == (60, None)
    assert checkpoint.refresh_groups_interval_s == 600
    assert mirror_connector_config.parse_heartbeat_config(A).interval_s == 1


def test_our_own_keys():
    props = {
        "start": "latest",
        "delivery": "transactional",
        "on.source.gap": "fail",
        "buffer.memory": "2000000",
        "offset.map.bytes": "3000000",
        "unreachable.after.seconds": "30",
        "throttle": "5MB",
        "throttle.topics": "a.*=1MB, b=2MB",
        "mm2.engine": "inline",
        "mm2.spark.conf.spark.driver.memory": "2g",
    }
    found = mirror_connector_config.parse_source_config({**A, **props})
    assert found.flow.start == StartPosition(StartPositionKind.LATEST)
    assert found.flow.delivery is DeliveryMode.TRANSACTIONAL
    assert found.flow.on_source_gap is SourceGapAction.FAIL
    assert found.flow.buffer_bytes == 2_000_000
    assert found.flow.offset_map_bytes_max == 3_000_000
    assert found.flow.unreachable_after_s == 30
    assert found.flow.throttles.flow == 5_000_000
    assert found.flow.throttles.get_topic_throttle("b") == 2_000_000


def test_what_an_operator_sets_while_it_runs_counts_before_the_file():
    file = {**A, "throttle": "5MB", "throttle.topics": "o.*=1MB"}
    live = {"live.throttle": "20MB", "live.throttle.topic.orders": "3MB"}
    live |= {"live.throttle.topic.other": "none"}
    found = mirror_connector_config.parse_source_config(
        {**file, **live, "live.paused.topic.x": "true", "live.paused.topic.y": "true"}
    )
    assert found.paused_topics == {"x", "y"}
    assert found.flow.throttles.flow == 20_000_000
    budgets = [
        found.flow.throttles.get_topic_throttle(each) for each in ("orders", "other", "old", "zoo")
    ]
    assert budgets == [3_000_000, None, 1_000_000, None]
    lifted = mirror_connector_config.parse_source_config({**file, "live.throttle": "none"})
    assert lifted.flow.throttles.flow == 0
    assert lifted.flow.throttles.get_topic_throttle("orders") == 1_000_000


def test_mirror_topics_are_shared_where_they_keep_their_names():
    identity = {**A, mirror_connector_config_keys.POLICY: java_class_placeholders.IDENTITY_POLICY}
    assert (
        mirror_connector_config.parse_source_config(identity).flow.target_topics
        is TargetTopicAccess.SHARED
    )
    given = {**identity, "target.topics": "exclusive"}
    assert (
        mirror_connector_config.parse_source_config(given).flow.target_topics
        is TargetTopicAccess.EXCLUSIVE
    )


@pytest.mark.parametrize("prefix", ["consumer.", "source.consumer."])
def test_where_java_would_begin_ours_begins(prefix):
    props = {**A, f"{prefix}auto.offset.reset": "latest"}
    assert (
        mirror_connector_config.parse_source_config(props).flow.start.kind
        is StartPositionKind.LATEST
    )
    assert mirror_connector_config.parse_source_config(
        {**props, "start": "earliest"}
    ).flow.start.kind is (StartPositionKind.EARLIEST)


def test_a_negative_interval_is_never():
    found = mirror_connector_config.parse_source_config(
        {
            **A,
            mirror_connector_config_keys.REFRESH_TOPICS_S: "-1",
            mirror_connector_config_keys.SYNC_ACLS: "false",
        }
    )
    assert found.flow.refresh_topics_interval_s is None
    assert found.sync_acls_interval_s is None


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("source", mirror_connector_config_keys.REFRESH_TOPICS_S, "0"),
        ("source", mirror_connector_config_keys.REPLICATION_FACTOR, "0"),
        ("source", mirror_connector_config_keys.REPLICATION_FACTOR, "40000"),
        ("source", mirror_connector_config_keys.SYNCS_TOPIC_FACTOR, "-2"),
        ("source", mirror_connector_config_keys.ADMIN_TIMEOUT, "0"),
        ("source", mirror_connector_config_keys.TOPICS, r"\Qx\E"),
        ("source", mirror_connector_config_keys.PROPERTIES_EXCLUDE, "[a"),
        ("source", "source.consumer.auto.offset.reset", "none"),
        ("source", "topics.blacklist", "x"),
        ("source", mirror_connector_config_keys.POLICY, java_class_placeholders.GROUP_FILTER),
        ("checkpoint", mirror_connector_config_keys.GROUPS, "(?<n>a)"),
        ("checkpoint", mirror_connector_config_keys.EMIT_CHECKPOINTS_S, "0"),
        ("checkpoint", mirror_connector_config_keys.TOPICS, "[a"),
        ("heartbeat", mirror_connector_config_keys.EMIT_HEARTBEATS_S, "0"),
        ("heartbeat", mirror_connector_config_keys.HEARTBEATS_FACTOR, "0"),
        ("heartbeat", "header.converter", "org.apache.kafka.connect.json.JsonConverter"),
    ],
)
def test_what_java_would_only_stumble_over_is_refused_by_name(kind, key, value):
    assert list(wrong(kind, {**A, key: value})) == [key]
    with pytest.raises(ConfigError):
        READ[kind]({**A, key: value})


def test_all_mistakes_are_told_at_once():
    props = {
        **A,
        mirror_connector_config_keys.REFRESH_TOPICS_S: "0",
        mirror_connector_config_keys.SYNC_CONFIGS_S: "0",
        "topics.blacklist": "x",
    }
    assert set(wrong("source", props)) == set(props) - set(A)
    assert set(wrong("source", {**props, mirror_connector_config_keys.ENABLED: "perhaps"})) == {
        mirror_connector_config_keys.ENABLED
    }


def test_an_interval_that_is_switched_off_may_be_anything():
    assert (
        wrong(
            "source",
            {
                **A,
                mirror_connector_config_keys.SYNC_ACLS: "false",
                mirror_connector_config_keys.SYNC_ACLS_S: "0",
            },
        )
        == {}
    )


def test_nothing_of_a_configuration_is_shown():
    assert "hunter2" not in repr(
        mirror_connector_config.parse_source_config({**A, "source.consumer.x": "hunter2"})
    )


def test_clients_are_named_as_in_java():
    common = mirror_connector_config.parse_source_config(A).common
    named = common.resolve_client_properties(
        mirror_connector_client_properties.SOURCE_ADMIN, "replication-source-admin"
    )
    assert named["client.id"] == "A->B|n|replication-source-admin"
