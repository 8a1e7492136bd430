from __future__ import annotations

import pytest

from connect_runtime.core.herder import task_configs
from connect_runtime.core.state import cluster_config

VIEW = cluster_config.ClusterConfig(
    entries={
        "c": cluster_config.ConnectorEntry(
            config={}, task_count=2, task_configs={0: {"a": "${f:x}"}, 1: {"a": "2"}}
        ),
        "half": cluster_config.ConnectorEntry(
            config={}, task_count=1, task_configs={}, inconsistent=True
        ),
        "none": cluster_config.ConnectorEntry(config={}),
    }
)


@pytest.mark.parametrize(
    ("connector", "configs", "applied", "changed"),
    [
        ("c", [{"a": "${f:x}"}, {"a": "2"}], True, False),
        ("c", [{"a": "${f:x}"}, {"a": "2"}], False, True),
        ("c", [{"a": "1"}, {"a": "2"}], True, True),
        ("c", [{"a": "2"}, {"a": "${f:x}"}], True, True),
        ("c", [{"a": "${f:x}"}, {"a": "2", "b": None}], True, True),
        ("c", [{"a": "${f:x}"}], True, True),
        ("c", [], True, True),
        ("half", [{}], True, True),
        ("none", [], True, False),
        ("none", [], False, True),
    ],
)
def test_only_what_changes_something_is_published(connector, configs, applied, changed):
    """AbstractHerderTest.testTaskConfigsChanged*"""
    assert task_configs.changed(VIEW, connector, configs, config_applied=applied) is changed


def test_tries_come_ever_more_slowly_up_to_a_minute():
    delays = [task_configs.retry_delay_s(each) for each in range(1, 12)]
    assert delays == [0.25, 0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert task_configs.retry_delay_s(10**6) == 60
