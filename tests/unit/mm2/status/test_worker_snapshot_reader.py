"""What is read of a worker: whose tasks run here, of which configuration they are."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import cast

import pytest

from connect_runtime.app.multi_worker_process import FleetMember
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.storage import config_records
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.status_records import RunState
from mm2.config import (
    config_loader,
    flow_connector_configs,
    pause_and_throttle_overrides,
)
from mm2.config.flow_connector_configs import FlowPlan
from mm2.config.pause_and_throttle_overrides import OverrideKind
from mm2.connectors.status_registry import ConnectorSnapshot, RegistrySnapshot
from mm2.status import flow_status
from mm2.status.flow_status import FlowWorkerState, GroupStatus, WorkerSnapshot
from mm2.status.worker_snapshot_reader import WorkerSnapshotReader
from tests.fakes.rest_herder import FakeHerder

NAME = flow_connector_configs.SOURCE_CONNECTOR
FILE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
emit.heartbeats.enabled=false
"""
NOWHERE = RegistrySnapshot()


@dataclass
class Member:
    is_leader: bool = True
    assignment: ConnectorsAndTasks = field(
        default_factory=lambda: ConnectorsAndTasks(connectors=(NAME,))
    )
    assignment_offset: int = 1_000
    herder: FakeHerder = field(default_factory=FakeHerder)


@pytest.fixture
def plan() -> FlowPlan:
    found = config_loader.parse_mm2_properties(
        FILE, file="mm2", folder=pathlib.Path("/"), environment={}
    )
    (made,) = flow_connector_configs.plan_flows(
        found, flow_connector_configs.ALL_FLOWS, environment={}
    )
    return made


@pytest.fixture
def member(plan: FlowPlan) -> Member:
    """It runs the connector, which has one task, elsewhere."""
    made = Member()
    write(made, plan.connectors[NAME], "t-0,t-1")
    made.herder.say(NAME, RunState.RUNNING)
    failed = RunState.FAILED
    made.herder.say(ConnectorTaskId(NAME, 0), failed, trace="x.FatalError: no right")
    return made


def write(of: Member, config, partitions: str) -> None:
    of.herder.write(config_records.encode_connector_creation(NAME, dict(config), None))
    task = {**config, "task.assigned.partitions": partitions}
    of.herder.write(config_records.encode_task_configs(NAME, [task]))
    of.herder.write([config_records.encode_task_config_commit(NAME, 1)])


def see(member: Member | None, plan, snapshot=NOWHERE, view=None) -> WorkerSnapshot:
    return (view or WorkerSnapshotReader()).read_snapshot(
        None if member is None else cast(FleetMember, member),
        snapshot,
        life=FlowWorkerState.WORKING,
        reason="",
        given_up="",
        refused="",
        plan=plan,
    )


def test_what_a_worker_says_of_its_flow(member, plan):
    found = see(member, plan)
    assert found.has_joined
    assert (found.connector.state, found.connector.is_local) == ("RUNNING", True)
    assert found.connector.node == "127.0.0.1:8083"
    failed = GroupStatus(state="FAILED", reason="no right", node=found.tasks[0].node)
    assert found.tasks == {0: failed}
    assert found.configured == {0: frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})}
    assert found.is_config_current
    assert found.is_assigned


def test_without_a_worker_there_is_the_board_alone(plan):
    shown = ConnectorSnapshot(is_planned=True)
    found = see(None, plan, RegistrySnapshot(connectors={"a->b": shown}))
    assert (found.connector_snapshot, found.has_joined, dict(found.tasks)) == (shown, False, {})


def test_tasks_that_make_checkpoints_are_counted_however_they_are(member, plan):
    assert see(member, plan).checkpoint_tasks == 0
    tasks = [
        ConnectorTaskId(flow_connector_configs.CHECKPOINT_CONNECTOR, number) for number in range(2)
    ]
    member.assignment = ConnectorsAndTasks.from_items(
        [NAME, flow_connector_configs.CHECKPOINT_CONNECTOR, *tasks]
    )
    assert see(member, plan).checkpoint_tasks == 2
    assert see(None, plan).checkpoint_tasks == 0


def test_what_another_file_says_is_not_current_for_who_leads(member, plan):
    write(member, {**plan.connectors[NAME], "topics": "x"}, "t-0")
    assert not see(member, plan).is_config_current
    member.is_leader = False
    assert see(member, plan).is_config_current


def test_what_operators_set_makes_no_difference(member, plan):
    write(member, {**plan.connectors[NAME], "live.throttle": "1MB"}, "t-0")
    assert see(member, plan).is_config_current


def test_tasks_are_handed_out_by_a_round_that_knew_them(member, plan):
    view = WorkerSnapshotReader()
    member.assignment_offset = member.herder.get_config_state().offset
    assert see(member, plan, view=view).is_assigned
    write(member, plan.connectors[NAME], "t-0,t-1,t-2")
    assert not see(member, plan, view=view).is_assigned
    member.assignment_offset = member.herder.get_config_state().offset
    assert see(member, plan, view=view).is_assigned


def test_a_connector_of_before_is_not_the_plans(member, plan):
    def shown(**props: str) -> RegistrySnapshot:
        made = ConnectorSnapshot(is_planned=True, props={**plan.source_config, **props})
        return RegistrySnapshot(connectors={"a->b": made})

    assert see(member, plan, shown()).is_plan_current
    assert see(member, plan, shown(**{"live.throttle": "1MB"})).is_plan_current
    assert not see(member, plan, shown(topics="x")).is_plan_current


def test_what_holds_a_flow_back_is_as_the_group_says(member, plan):
    view = WorkerSnapshotReader()
    assert see(member, plan, view=view).overrides == pause_and_throttle_overrides.NO_OVERRIDES
    write(member, {**plan.connectors[NAME], "live.throttle": "1MB"}, "t-0")
    found = see(member, plan, view=view).overrides
    assert (found.paused, found.budgets.flow) == (False, 1_000_000)
    member.herder.set_target_state(NAME, TargetState.PAUSED)
    assert see(member, plan, view=view).overrides.kind is OverrideKind.PAUSED
    member.herder.set_target_state(NAME, TargetState.STOPPED)
    assert see(member, plan, view=view).overrides.kind is OverrideKind.STOPPED


def test_what_operators_hold_beside_the_source_connector(member, plan):
    view, name = WorkerSnapshotReader(), flow_connector_configs.CHECKPOINT_CONNECTOR
    member.herder.write(
        config_records.encode_connector_creation(name, dict(plan.connectors[name]), None)
    )
    assert see(member, plan, view=view).overrides.other_connectors == {}
    member.herder.set_target_state(name, TargetState.PAUSED)
    found = see(member, plan, view=view).overrides
    assert (found.kind, found.other_connectors) == (None, {name: OverrideKind.PAUSED})


def test_failed_connectors_and_checkpoint_tasks_of_this_node_are_reported(member, plan):
    mine = [
        ConnectorTaskId(flow_connector_configs.CHECKPOINT_CONNECTOR, number) for number in range(2)
    ]
    elsewhere = ConnectorTaskId(flow_connector_configs.CHECKPOINT_CONNECTOR, 2)
    member.assignment = ConnectorsAndTasks(connectors=(NAME,), tasks=tuple(mine))
    member.herder.say(mine[0], RunState.RUNNING)
    for each in (mine[1], elsewhere):
        member.herder.say(each, RunState.FAILED, trace="x.FatalError: no right")
    seen = see(member, plan)
    assert seen.connector_failures == ("checkpoint task 1 failed: no right",)
    member.herder.say(NAME, RunState.FAILED, trace="x.DataError: no key")
    seen = see(member, plan)
    assert seen.connector_failures == (
        f"connector {NAME} failed: no key",
        "checkpoint task 1 failed: no right",
    )
    shown = flow_status.compute_flow_status(seen)
    assert shown.connector_failures == seen.connector_failures
