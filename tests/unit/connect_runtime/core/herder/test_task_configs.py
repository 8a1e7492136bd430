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


@pytest.mark.parametrize(
    ("value", "refers"),
    [
        ('"${::}"', True),
        ("${::}", True),
        ('"${:/a:somevar}"', True),
        ('"${file::somevar}"', True),
        ("${file:/a/b/c:}", True),
        ("${env:HOME}", True),
        ("plain.Module required username=${file:/tmp/x:a} password=${file:/tmp/x:b}", True),
        ("plain.PlainLoginModule required username", False),
        ("${name}", False),
        ("$${", False),
        ("", False),
        (None, False),
    ],
)
def test_which_values_refer_to_providers(value, refers):
    """AbstractHerderTest.testConfigProviderRegex."""
    assert bool(task_configs.referring({"key": value})) is refers


def test_references_of_the_connector_stand_in_its_task_configs():
    """testReverseTransformConfigs: by name, whatever the value is by now."""
    config = {"a": "${file:/x:a}", "b": "${file:/x:b}", "c": "${file:/x:c}", "d": "plain"}
    written = task_configs.keep_references([{"a": "secret", "d": "other"}, {"b": None}], config)
    assert written == [{"a": "${file:/x:a}", "d": "other"}, {"b": "${file:/x:b}"}]
