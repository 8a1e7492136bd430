"""When things are done again."""

from __future__ import annotations

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.config import mirror_connector_config
from mm2.connectors import topic_refresh
from mm2.connectors.topic_refresh import RefreshSchedule

PROPS = {"name": "n", "source.cluster.alias": "A", "target.cluster.alias": "B"}
SECONDS = {
    "refresh.topics.interval.seconds": "30",
    "sync.topic.configs.interval.seconds": "5",
    "sync.topic.acls.interval.seconds": "70",
}
OFF = {
    "refresh.topics.enabled": "false",
    "sync.topic.configs.enabled": "false",
    "sync.topic.acls.enabled": "false",
}


def rounds(**more: str) -> RefreshSchedule:
    props = {**PROPS, **SECONDS, **{name.replace("_", "."): each for name, each in more.items()}}
    return topic_refresh.build_refresh_schedule(
        mirror_connector_config.parse_source_config(props), now_s=100.0
    )


def test_looks_and_acls_are_due_at_once_and_settings_after_they_followed_with_the_look():
    made = rounds()
    assert [each.due_s for each in (made.topics, made.configs, made.acls)] == [100.0, 105.0, 100.0]
    assert made.compute_delay_s(90.0) == 10.0
    assert made.compute_delay_s(120.0) == 0.0


def test_loads_are_looked_at_where_there_may_be_several_tasks():
    assert rounds().loads.due_s is None
    made = rounds(tasks_max="2")
    assert made.loads.due_s == 100.0 + topic_refresh.LOAD_CHECK_INTERVAL_S
    for each in (made.topics, made.configs, made.acls):
        each.due_s = None
    assert made.compute_delay_s(100.0) == topic_refresh.LOAD_CHECK_INTERVAL_S


def test_what_was_done_is_done_again_after_its_interval_and_what_failed_sooner():
    made = rounds()
    for each in (made.topics, made.configs, made.acls):
        each.record_success(200.0)
    assert [each.due_s for each in (made.topics, made.configs, made.acls)] == [230.0, 205.0, 270.0]
    assert not made.topics.is_due(229.9)
    assert made.topics.is_due(230.0)
    for each in (made.topics, made.configs, made.acls):
        each.record_failure(300.0)
    assert [each.due_s for each in (made.topics, made.configs, made.acls)] == [310.0, 305.0, 310.0]


@pytest.mark.parametrize("off", [{}, SECONDS])
def test_what_is_off_is_done_once_or_never(off):
    made = topic_refresh.build_refresh_schedule(
        mirror_connector_config.parse_source_config({**PROPS, **off, **OFF}), now_s=100.0
    )
    assert [each.due_s for each in (made.topics, made.configs, made.acls)] == [100.0, None, None]
    made.topics.record_failure(100.0)
    assert made.compute_delay_s(100.0) == topic_refresh.REFRESH_RETRY_DELAY_S
    made.topics.record_success(110.0)
    assert made.compute_delay_s(110.0) is None


def some(*names: str) -> list[TopicPartition]:
    pairs = (each.rpartition("-") for each in names)
    return [TopicPartition(topic, int(number)) for topic, _, number in pairs]


def test_topics_that_come_and_grow_are_told_once_each():
    before = some("a-0", "b-0")
    now = some("a-0", "a-1", "a-2", "b-0", "c-0", "c-1")
    assert list(topic_refresh.describe_new_partitions(before, now)) == [
        "topic a: 2 partitions added, replicated from the first record on",
        "topic c: now mirrored (2 partitions)",
    ]
    assert list(topic_refresh.describe_new_partitions(now, before)) == []


def test_topics_that_have_gone_are_told():
    (line,) = topic_refresh.describe_missing_topics(["a", "b"], ["b", "c"])
    assert line.startswith("topic a is no longer listed by the source")
