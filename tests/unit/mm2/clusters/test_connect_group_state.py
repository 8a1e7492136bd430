from __future__ import annotations

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import config_records, status_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState, RunStatus, StatusSubject
from mm2.clusters import connect_group_state
from mm2.config import flow_connector_configs
from tests.fakes.groups import FakeGroup
from tests.fakes.one_side import FakeSide
from tests.fakes.plugin_contexts import Clock

NAME = flow_connector_configs.SOURCE_CONNECTOR
PROPS = {
    "group.id": "east-mm2",
    "config.storage.topic": "configs",
    "status.storage.topic": "statuses",
}
TASK = ConnectorTaskId(NAME, 0)


@pytest.fixture
def side():
    """A group of one worker, whose connector runs with a task that failed."""
    made = FakeSide("west")
    records = [
        config_records.encode_connector_config(NAME, {"name": NAME}),
        *config_records.encode_task_configs(NAME, [{}]),
        config_records.encode_task_config_commit(NAME, 1),
        config_records.encode_target_state(NAME, TargetState.PAUSED),
    ]
    made.topics.topics["configs"] = [(each.key, each.value) for each in records]
    told: list[tuple[StatusSubject, RunState, str | None]] = [
        (NAME, RunState.RUNNING, None),
        (TASK, RunState.FAILED, "x.FatalError: no right\n at …"),
    ]
    statuses = [
        status_records.encode_status(
            subject,
            RunStatus(state=state, worker_id="a:1", generation=3, trace=trace),
        )
        for subject, state, trace in told
    ]
    made.topics.topics["statuses"] = [(each.key, each.value) for each in statuses]
    made.cluster.create("configs")
    made.cluster.create("statuses", partitions=5)
    made.group_cluster.groups["east-mm2"] = FakeGroup(protocol="connect", hosts=("h",))
    return made


def look(side):
    return connect_group_state.read_connect_group(side, PROPS, clock=Clock(), timeout_s=5.0)


def test_what_is_configured_who_runs_it_and_what_became_of_it(side):
    found = look(side)
    assert found.config.target_state(NAME) is TargetState.PAUSED
    assert found.config.tasks(NAME) == [TASK]
    assert found.hosts == ("h",)
    status = found.statuses.task(TASK)
    assert status is not None
    assert status.worker_id == "a:1"
    assert {
        connect_group_state.build_status_key(NAME),
        connect_group_state.build_status_key(TASK),
    } <= found.changed_ms.keys()
    assert f"target-state-{NAME}" in found.changed_ms


def test_of_a_flow_that_was_never_started_there_is_nothing():
    found = look(FakeSide("west"))
    assert found.config.connectors() == []
    assert found.statuses.connectors() == []
    assert found.hosts == ()


def test_a_group_that_may_not_be_described_is_not_told(side):
    side.group_cluster.failures["members", "east-mm2"] = FatalError("not allowed")
    assert look(side).hosts is None


def test_a_cluster_that_does_not_answer_is_raised(side):
    side.topics.failure = RetriableError("no response")
    with pytest.raises(RetriableError):
        look(side)
