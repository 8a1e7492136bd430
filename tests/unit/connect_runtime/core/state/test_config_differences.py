"""Whoever follows the differences arrives at the new view."""

from __future__ import annotations

from connect_runtime.base import ids
from connect_runtime.core.state import (
    cluster_config,
    config_differences,
    config_log,
    config_records,
)

PAUSED = cluster_config.TargetState.PAUSED
KEY = cluster_config.SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=1)


def view(*records):
    fold = config_log.ConfigLog()
    for offset, record in enumerate(records):
        fold.apply(record.key, record.value, offset=offset)
    fold.finish_replay()
    return fold.snapshot()


def tasks(name, *configs):
    return (*config_records.task_configs(name, configs), config_records.commit(name, len(configs)))


BEFORE = view(
    config_records.connector("same", {"a": "1"}),
    *tasks("same", {"t": "0"}),
    config_records.connector("gone", {}),
    config_records.connector("other", {"a": "1"}),
    *tasks("other", {"t": "0"}, {"t": "1"}),
    config_records.connector("paused", {}),
    config_records.connector("lost", {}),
    *tasks("lost", {}),
)
AFTER = view(
    config_records.session_key(KEY),
    config_records.connector("same", {"a": "1"}),
    *tasks("same", {"t": "0"}),
    config_records.connector("other", {"a": "2"}),
    *tasks("other", {"t": "0"}, {"t": "2"}),
    config_records.target_state("paused", PAUSED),
    config_records.connector("paused", {}),
    config_records.target_state("new", PAUSED),
    config_records.connector("new", {}),
    config_records.connector("lost", {}),
)


def test_all_that_differs_is_told_and_nothing_else():
    assert config_differences.differences(BEFORE, AFTER) == [
        config_log.SessionKeyChanged(KEY),
        config_log.ConnectorRemoved("gone", existed=True),
        config_log.TasksCommitted("lost", ()),
        config_log.ConnectorConfigured("new", created=True),
        config_log.ConnectorConfigured("other", created=False),
        config_log.TasksCommitted(
            "other", (ids.ConnectorTaskId("other", 0), ids.ConnectorTaskId("other", 1))
        ),
        config_log.TargetStateChanged("paused"),
    ]


def test_of_what_is_the_same_nothing_is_told():
    assert config_differences.differences(AFTER, AFTER) == []
    assert config_differences.differences(cluster_config.EMPTY, cluster_config.EMPTY) == []


def test_an_empty_topic_removes_all():
    names = [each.connector for each in config_differences.differences(AFTER, view())]
    assert names == ["lost", "new", "other", "paused", "same"]
