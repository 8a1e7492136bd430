from __future__ import annotations

import logging
from typing import Any

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicMissingError,
    UnreachableError,
)
from connect_runtime.system.system_clock import SystemClock
from mm2.kafka import kafka_client_interfaces
from mm2.kafka.flow_state_topics import FlowStateTopics
from mm2.kafka.kafka_client_interfaces import PerTopicResult, TopicDescription
from tests.fakes.admin import FakeAdmin, FakeCluster

NAMES = list(kafka_client_interfaces.build_flow_state_topic_names("east").values())
WHERE: dict[str, Any] = {"where": "west (h:9092)", "bootstrap": "h:9092"}


def topics(target, replication_factor=1):
    return FlowStateTopics(
        target=target,
        replication_factor=replication_factor,
        clock=SystemClock(),
        **WHERE,
    )


def test_names_carry_the_sources_alias():
    assert NAMES == ["mm2-offset-map.east.internal", "mm2-incidents.east.internal"]


def test_missing_topics_are_created_compacted_with_one_partition():
    cluster = FakeCluster()
    topics(FakeAdmin(cluster)).ensure_topics(NAMES, 1.0)
    assert sorted(cluster.topics) == sorted(NAMES)
    for topic in cluster.topics.values():
        assert topic.partitions == 1
        assert topic.overrides["cleanup.policy"] == "compact"


def test_existing_topics_are_left_alone():
    cluster = FakeCluster()
    for name in NAMES:
        cluster.create(name, cleanup_policy="compact")
    admin = FakeAdmin(cluster)
    topics(admin).ensure_topics(NAMES, 1.0)
    assert "create_topics" not in admin.calls
    assert all(
        topic.overrides == {"cleanup.policy": "compact"} for topic in cluster.topics.values()
    )


def test_a_replication_factor_that_cannot_be_had_is_an_error():
    with pytest.raises(FatalError, match="INVALID_REPLICATION_FACTOR"):
        topics(FakeAdmin(FakeCluster()), replication_factor=3).ensure_topics(NAMES, 1.0)


def test_the_cleanup_policy_counts_wherever_it_comes_from():
    cluster = FakeCluster()
    cluster.create(NAMES[0])  # without an override: the brokers' default, delete
    with pytest.raises(FatalError, match=r"cleanup\.policy is delete.*kafka-configs"):
        topics(FakeAdmin(cluster)).ensure_topics(NAMES, 1.0)


def test_without_the_right_to_look_the_policy_is_trusted_aloud(caplog):
    cluster = FakeCluster()
    refused = NotAuthorizedError("no DESCRIBE_CONFIGS")
    cluster.failures["topic_configs", NAMES[0]] = refused
    with caplog.at_level(logging.WARNING):
        topics(FakeAdmin(cluster)).ensure_topics(NAMES, 1.0)
    assert f"cleanup.policy of topic {NAMES[0]}" in caplog.text


@pytest.mark.parametrize("operation", ["describe_topics", "create_topics", "topic_configs"])
def test_other_failures_are_raised(operation):
    cluster = FakeCluster()
    cluster.failures[operation, NAMES[1]] = FatalError("refused")
    with pytest.raises(FatalError, match="refused"):
        topics(FakeAdmin(cluster)).ensure_topics(NAMES, 0.1)


def test_an_unreachable_cluster_is_raised():
    with pytest.raises(UnreachableError):
        topics(FakeAdmin(FakeCluster(away=True))).ensure_topics(NAMES, 1.0)


class ForgetfulAdmin(FakeAdmin):
    """After a creation, the brokers learn of the topic late, and of its leader later."""

    def __init__(self, cluster):
        super().__init__(cluster)
        self._looks = 0

    def describe_topics(self, names, timeout_s):
        answer = super().describe_topics(names, timeout_s)
        self._looks += 1
        if self._looks <= 3:
            missing = {name: TopicMissingError("not yet") for name in names}
            return PerTopicResult(succeeded={}, failed=missing)
        if self._looks <= 5:
            leaderless = {
                name: TopicDescription(name=name, topic_id=topic.topic_id, leaders=(None,))
                for name, topic in answer.succeeded.items()
            }
            return PerTopicResult(succeeded=leaderless, failed={})
        return answer


def test_a_new_topic_is_waited_for():
    admin = ForgetfulAdmin(FakeCluster())
    topics(admin).ensure_topics(NAMES, 5.0)
    assert admin._looks == 6


def test_somebody_elses_creation_is_as_good():
    class Race(FakeAdmin):
        def create_topics(self, topics, timeout_s, *, validate_only=False):
            super().create_topics(topics, timeout_s, validate_only=validate_only)
            return super().create_topics(topics, timeout_s, validate_only=validate_only)

    topics(Race(FakeCluster())).ensure_topics(NAMES, 1.0)
