"""A source task's configuration: what it copies, and what it takes up as it runs."""

from __future__ import annotations

import pytest

from connect_runtime.api import errors
from connect_runtime.base import ids
from mm2.core.configs import task_share
from mm2.core.topics import split

PROPS = {
    "name": "n",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "task.assigned.partitions": "t-0,t-1,u-5",
    "task.index": "2",
    "throttle": "3MB",
}


def test_what_a_task_is_given():
    found = task_share.read({**PROPS, "mm2.task.added.partitions": "t-1"})
    assert found.partitions == (
        ids.TopicPartition("t", 0),
        ids.TopicPartition("t", 1),
        ids.TopicPartition("u", 5),
    )
    assert found.added == {ids.TopicPartition("t", 1)}
    assert found.number == 2
    assert found.config.common.source == "A"


def test_without_a_share_of_the_budget_a_task_has_all_of_it():
    """As a leader of Java's hands it out."""
    assert task_share.read(PROPS).budget == split.TaskBudget(flow=3_000_000, topics={})
    shared = task_share.read({**PROPS, "mm2.task.throttle": "1000"})
    assert shared.budget == split.TaskBudget(flow=1000, topics={})


@pytest.mark.parametrize("given", ["", " ", "t"])
def test_no_partitions_are_a_mistake(given):
    with pytest.raises(errors.ConfigError, match=r"task\.assigned\.partitions"):
        task_share.read({**PROPS, "task.assigned.partitions": given})


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
    assert task_share.goes_on(PROPS, {**PROPS, key: "1"})
    assert task_share.goes_on({**PROPS, key: "1"}, PROPS)


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
    assert not task_share.goes_on(PROPS, {**PROPS, key: "1"})
