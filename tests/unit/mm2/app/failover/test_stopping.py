"""A flow is stopped from outside: written down, and read back."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import errors, ids
from connect_runtime.core.state import cluster_config, config_records, status_records
from mm2.app.failover import stopping
from mm2.app.looks import workers
from tests.fakes import groups, one_side, plugin_contexts

SOURCE, CHECKPOINT = stopping.STOPPED
HEARTBEAT = "MirrorHeartbeatConnector"
PROPS = {
    "group.id": "east-mm2",
    "config.storage.topic": "configs",
    "status.storage.topic": "statuses",
}
State = status_records.State


def side(*names: str) -> one_side.FakeSide:
    """A worker runs connectors of these names, each with a task."""
    made = one_side.FakeSide("west")
    records, statuses = [], []
    for name in names:
        records += [
            config_records.connector(name, {"name": name}),
            *config_records.task_configs(name, [{}]),
            config_records.commit(name, 1),
        ]
        statuses.append(ids.ConnectorTaskId(name, 0))
    made.topics.topics["configs"] = [(each.key, each.value) for each in records]
    made.cluster.create("configs")
    made.cluster.create("statuses", partitions=5)
    made.group_cluster.groups["east-mm2"] = groups.FakeGroup(protocol="connect", hosts=("h",))
    made.topics.topics["statuses"] = [status(each, State.RUNNING) for each in statuses]
    return made


def status(task: ids.ConnectorTaskId, state: status_records.State) -> tuple[Any, Any]:
    told = status_records.status(
        task, status_records.Status(state=state, worker_id="a:1", generation=3, trace=None)
    )
    return told.key, told.value


def look(made: one_side.FakeSide) -> workers.Workers:
    return workers.look(made, PROPS, clock=plugin_contexts.Clock(), timeout_s=5.0)


def stop(made: one_side.FakeSide) -> list[str]:
    return stopping.stop(made, PROPS, clock=plugin_contexts.Clock(), timeout_s=5.0)


def test_copying_and_checkpoints_are_stopped_and_heartbeats_are_not():
    made = side(SOURCE, CHECKPOINT, HEARTBEAT)
    assert stop(made) == [SOURCE, CHECKPOINT]
    config = look(made).config
    stopped = cluster_config.TargetState.STOPPED
    assert [config.target_state(each) is stopped for each in (SOURCE, CHECKPOINT)] == [True, True]
    assert [config.tasks(each) for each in (SOURCE, CHECKPOINT)] == [[], []]
    assert config.tasks(HEARTBEAT) != []


def test_who_is_stopped_already_is_not_written_again():
    made = side(SOURCE)
    stop(made)
    before = len(made.topics.topics["configs"])
    assert stop(made) == [SOURCE]
    assert len(made.topics.topics["configs"]) == before


def test_of_a_flow_that_nobody_ever_ran_nothing_is_stopped():
    assert stop(side()) == []
    assert stop(one_side.FakeSide("west")) == []


def test_a_refused_write_is_told():
    made = side(SOURCE)
    made.refusal = errors.FatalError("no right to write")
    with pytest.raises(errors.FatalError, match="no right to write"):
        stop(made)


def test_who_resumes_at_the_same_time_is_told():
    made = side(SOURCE)
    real = made.topics.read_topic
    again = config_records.target_state(SOURCE, cluster_config.TargetState.STARTED)

    def read(topic: str, timeout_s: float, *, partitions: int = 1) -> Any:
        if len(made.topics.topics["configs"]) > 3:
            written = made.topics.topics["configs"]
            made.topics.topics["configs"] = [*written, (again.key, again.value)]
        return real(topic, timeout_s, partitions=partitions)

    made.topics.read_topic = read  # type: ignore[method-assign]  # one call alone
    with pytest.raises(errors.RetriableError, match="read back as going on"):
        stop(made)


@pytest.mark.parametrize(
    ("state", "runs"),
    [(State.RUNNING, True), (State.PAUSED, True), (State.UNASSIGNED, False), (State.FAILED, False)],
)
def test_tasks_run_as_long_as_somebody_says_so(state, runs):
    made = side(SOURCE)
    made.topics.topics["statuses"] = [status(ids.ConnectorTaskId(SOURCE, 0), state)]
    assert stopping.running(look(made)) == [f"{SOURCE}-0 on a:1"] * runs


def test_in_a_group_without_members_nothing_runs():
    made = side(SOURCE)
    made.group_cluster.groups.clear()
    assert stopping.running(look(made)) == []


def test_a_state_topic_that_does_not_answer_is_not_taken_for_missing():
    made = side(SOURCE)
    made.cluster.failures["describe_topics", "configs"] = errors.RetriableError("away")
    with pytest.raises(errors.RetriableError, match="away"):
        stop(made)
