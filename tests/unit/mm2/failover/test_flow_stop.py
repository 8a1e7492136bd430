"""A flow is stopped from outside: written down, and read back."""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import config_records, status_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState, RunStatus
from mm2.clusters import connect_group_state
from mm2.clusters.connect_group_state import ConnectGroupSnapshot
from mm2.failover import flow_stop
from mm2.kafka.kafka_client_interfaces import RecordHandler
from tests.fakes.groups import FakeGroup
from tests.fakes.one_side import FakeSide
from tests.fakes.plugin_contexts import Clock

SOURCE, CHECKPOINT = flow_stop.STOPPED_CONNECTORS
HEARTBEAT = "MirrorHeartbeatConnector"
PROPS = {
    "group.id": "east-mm2",
    "config.storage.topic": "configs",
    "status.storage.topic": "statuses",
}
State = RunState


def side(*names: str) -> FakeSide:
    """A worker runs connectors of these names, each with a task."""
    made = FakeSide("west")
    records, statuses = [], []
    for name in names:
        records += [
            config_records.encode_connector_config(name, {"name": name}),
            *config_records.encode_task_configs(name, [{}]),
            config_records.encode_task_config_commit(name, 1),
        ]
        statuses.append(ConnectorTaskId(name, 0))
    made.topics.topics["configs"] = [(each.key, each.value) for each in records]
    made.cluster.create("configs")
    made.cluster.create("statuses", partitions=5)
    made.group_cluster.groups["east-mm2"] = FakeGroup(protocol="connect", hosts=("h",))
    made.topics.topics["statuses"] = [status(each, State.RUNNING) for each in statuses]
    return made


def status(task: ConnectorTaskId, state: RunState) -> tuple[Any, Any]:
    told = status_records.encode_status(
        task, RunStatus(state=state, worker_id="a:1", generation=3, trace=None)
    )
    return told.key, told.value


def look(made: FakeSide) -> ConnectGroupSnapshot:
    return connect_group_state.read_connect_group(made, PROPS, clock=Clock(), timeout_s=5.0)


def stop(made: FakeSide) -> list[str]:
    return flow_stop.stop_connectors(made, PROPS, clock=Clock(), timeout_s=5.0)


def test_copying_and_checkpoints_are_stopped_and_heartbeats_are_not():
    made = side(SOURCE, CHECKPOINT, HEARTBEAT)
    assert stop(made) == [SOURCE, CHECKPOINT]
    config = look(made).config
    stopped = TargetState.STOPPED
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
    assert stop(FakeSide("west")) == []


def test_a_refused_write_is_told():
    made = side(SOURCE)
    made.refusal = FatalError("no right to write")
    with pytest.raises(FatalError, match="no right to write"):
        stop(made)


def test_who_resumes_at_the_same_time_is_told():
    made = side(SOURCE)
    real = made.topics.read_topic
    again = config_records.encode_target_state(SOURCE, TargetState.STARTED)

    def read(topic: str, timeout_s: float, take: RecordHandler, *, partitions: int = 1) -> None:
        if len(made.topics.topics["configs"]) > 3:
            written = made.topics.topics["configs"]
            made.topics.topics["configs"] = [*written, (again.key, again.value)]
        real(topic, timeout_s, take, partitions=partitions)

    made.topics.read_topic = read  # type: ignore[method-assign]  # one call alone
    with pytest.raises(RetriableError, match="but was then replaced: the flow was probably"):
        stop(made)


@pytest.mark.parametrize(
    ("state", "runs"),
    [(State.RUNNING, True), (State.PAUSED, True), (State.UNASSIGNED, False), (State.FAILED, False)],
)
def test_tasks_run_as_long_as_somebody_says_so(state, runs):
    made = side(SOURCE)
    made.topics.topics["statuses"] = [status(ConnectorTaskId(SOURCE, 0), state)]
    assert flow_stop.list_running_tasks(look(made)) == [f"{SOURCE}-0 on a:1"] * runs


def test_in_a_group_without_members_nothing_runs():
    made = side(SOURCE)
    made.group_cluster.groups.clear()
    assert flow_stop.list_running_tasks(look(made)) == []


def test_a_state_topic_that_does_not_answer_is_not_taken_for_missing():
    made = side(SOURCE)
    made.cluster.failures["describe_topics", "configs"] = RetriableError("away")
    with pytest.raises(RetriableError, match="away"):
        stop(made)
