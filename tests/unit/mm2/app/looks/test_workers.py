from __future__ import annotations

import pytest

from connect_runtime.base import errors, ids
from connect_runtime.core.state import cluster_config, config_records, status_records
from mm2.app import flow_plan
from mm2.app.looks import workers
from tests.fakes import groups, one_side, plugin_contexts

NAME = flow_plan.SOURCE
PROPS = {
    "group.id": "east-mm2",
    "config.storage.topic": "configs",
    "status.storage.topic": "statuses",
}
TASK = ids.ConnectorTaskId(NAME, 0)


@pytest.fixture
def side():
    """A group of one worker, whose connector runs with a task that failed."""
    made = one_side.FakeSide("west")
    records = [
        config_records.connector(NAME, {"name": NAME}),
        *config_records.task_configs(NAME, [{}]),
        config_records.commit(NAME, 1),
        config_records.target_state(NAME, cluster_config.TargetState.PAUSED),
    ]
    made.topics.topics["configs"] = [(each.key, each.value) for each in records]
    told: list[tuple[status_records.Subject, status_records.State, str | None]] = [
        (NAME, status_records.State.RUNNING, None),
        (TASK, status_records.State.FAILED, "x.FatalError: no right\n at …"),
    ]
    statuses = [
        status_records.status(
            subject,
            status_records.Status(state=state, worker_id="a:1", generation=3, trace=trace),
        )
        for subject, state, trace in told
    ]
    made.topics.topics["statuses"] = [(each.key, each.value) for each in statuses]
    made.cluster.create("configs")
    made.cluster.create("statuses", partitions=5)
    made.group_cluster.groups["east-mm2"] = groups.FakeGroup(protocol="connect", hosts=("h",))
    return made


def look(side):
    return workers.look(side, PROPS, clock=plugin_contexts.Clock(), timeout_s=5.0)


def test_what_is_configured_who_runs_it_and_what_became_of_it(side):
    found = look(side)
    assert found.config.target_state(NAME) is cluster_config.TargetState.PAUSED
    assert found.config.tasks(NAME) == [TASK]
    assert found.hosts == ("h",)
    status = found.statuses.task(TASK)
    assert status is not None
    assert status.worker_id == "a:1"
    assert {workers.status_key(NAME), workers.status_key(TASK)} <= found.changed_ms.keys()
    assert f"target-state-{NAME}" in found.changed_ms


def test_of_a_flow_that_was_never_started_there_is_nothing():
    found = look(one_side.FakeSide("west"))
    assert found.config.connectors() == []
    assert found.statuses.connectors() == []
    assert found.hosts == ()


def test_a_group_that_may_not_be_described_is_not_told(side):
    side.group_cluster.failures["members", "east-mm2"] = errors.FatalError("not allowed")
    assert look(side).hosts is None


def test_a_cluster_that_does_not_answer_is_raised(side):
    side.topics.failure = errors.RetriableError("no answer")
    with pytest.raises(errors.RetriableError):
        look(side)
