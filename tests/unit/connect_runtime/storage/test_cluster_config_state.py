from __future__ import annotations

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.cluster_config_state import (
    ClusterConfigState,
    ConnectorConfigEntry,
    TargetState,
)

VIEW = ClusterConfigState(
    offset=7,
    entries={
        "b": ConnectorConfigEntry(
            config={"name": "b", "password": "hunter2"},
            target_state=TargetState.PAUSED,
            task_count=2,
            task_configs={0: {"t": "0"}, 1: {"t": "1"}},
            applied_config={"name": "b", "password": "hunter1"},
            generation=3,
            fencing_pending=True,
            fencing_count=1,
        ),
        "a": ConnectorConfigEntry(config={}, task_count=2, task_configs={1: {}}, inconsistent=True),
        "gone": ConnectorConfigEntry(
            target_state=TargetState.STOPPED, task_count=1, inconsistent=True
        ),
    },
)


def test_only_what_has_a_configuration_is_a_connector():
    assert VIEW.connectors() == ["a", "b"]
    assert VIEW.inconsistent_connectors() == ["a"]
    assert [VIEW.has_connector(each) for each in ("a", "b", "gone", "never")] == [
        True,
        True,
        False,
        False,
    ]
    assert VIEW.target_state("gone") is TargetState.STOPPED


def test_a_connector_answers_for_itself():
    assert VIEW.config("b") == {"name": "b", "password": "hunter2"}
    assert VIEW.applied_config("b") == {"name": "b", "password": "hunter1"}
    assert VIEW.task_config(ConnectorTaskId("b", 1)) == {"t": "1"}
    assert VIEW.task_config(ConnectorTaskId("b", 2)) is None
    assert (
        VIEW.task_config_generation("b"),
        VIEW.fencing_count("b"),
        VIEW.fencing_pending("b"),
    ) == (
        3,
        1,
        True,
    )


def test_tasks_are_in_order_and_none_while_inconsistent_or_unknown():
    assert [str(each) for each in VIEW.tasks("b")] == ["b-0", "b-1"]
    assert VIEW.tasks("a") == VIEW.tasks("gone") == VIEW.tasks("never") == []
    assert VIEW.task_count("a") == 2
    assert VIEW.task_count("never") == 0


def test_an_empty_view_is_before_every_record():
    assert cluster_config_state.EMPTY_CONFIG_STATE.offset == -1
    assert cluster_config_state.EMPTY_CONFIG_STATE.connectors() == []
    assert cluster_config_state.EMPTY_CONFIG_STATE.session_key is None


@pytest.mark.parametrize("shown", [repr, str])
def test_what_is_configured_is_in_no_representation(shown):
    assert "hunter" not in shown(VIEW)


@pytest.mark.parametrize(
    ("item", "configured"),
    [
        ("b", True),
        ("gone", False),
        (ConnectorTaskId("b", 1), True),
        (ConnectorTaskId("b", 2), False),
        (ConnectorTaskId("a", 1), False),
    ],
)
def test_what_is_configured(item, configured):
    assert VIEW.has_connector_or_task(item) is configured
