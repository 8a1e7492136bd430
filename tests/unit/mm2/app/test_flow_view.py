"""What is read of a worker: whose tasks run here, of which configuration they are."""

from __future__ import annotations

import pathlib
from dataclasses import dataclass, field
from typing import cast

import pytest

from connect_runtime.app import fleet_member
from connect_runtime.base import ids
from connect_runtime.core.assignment import work
from connect_runtime.core.state import cluster_config, config_records, status_records
from mm2.app import flow_plan, flow_statuses, flow_view
from mm2.app.settings import load
from mm2.connectors import board
from mm2.core import holds as holding
from tests.fakes import rest_herder

NAME = flow_plan.SOURCE
FILE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
emit.heartbeats.enabled=false
"""
NOWHERE = board.Snapshot()


@dataclass
class Member:
    leads: bool = True
    assigned: work.Work = field(default_factory=lambda: work.Work(connectors=(NAME,)))
    assigned_offset: int = 1_000
    herder: rest_herder.FakeHerder = field(default_factory=rest_herder.FakeHerder)


@pytest.fixture
def plan() -> flow_plan.FlowPlan:
    found = load.parse_properties(FILE, file="mm2", folder=pathlib.Path("/"), environment={})
    (made,) = flow_plan.plans(found, flow_plan.EVERYTHING, environment={})
    return made


@pytest.fixture
def member(plan: flow_plan.FlowPlan) -> Member:
    """It runs the connector, which has one task, elsewhere."""
    made = Member()
    write(made, plan.connectors[NAME], "t-0,t-1")
    made.herder.say(NAME, status_records.State.RUNNING)
    failed = status_records.State.FAILED
    made.herder.say(ids.ConnectorTaskId(NAME, 0), failed, trace="x.FatalError: no right")
    return made


def write(of: Member, config, partitions: str) -> None:
    of.herder.write(config_records.creation(NAME, dict(config), None))
    task = {**config, "task.assigned.partitions": partitions}
    of.herder.write(config_records.task_configs(NAME, [task]))
    of.herder.write([config_records.commit(NAME, 1)])


def see(member: Member | None, plan, snapshot=NOWHERE, view=None) -> flow_statuses.Seen:
    return (view or flow_view.FlowView()).see(
        None if member is None else cast(fleet_member.Member, member),
        snapshot,
        life=flow_statuses.Life.WORKING,
        reason="",
        given_up="",
        refused="",
        plan=plan,
    )


def test_what_a_worker_says_of_its_flow(member, plan):
    found = see(member, plan)
    assert found.met
    assert (found.connector.state, found.connector.here) == ("RUNNING", True)
    assert found.connector.node == "127.0.0.1:8083"
    failed = flow_statuses.Told(state="FAILED", reason="no right", node=found.tasks[0].node)
    assert found.tasks == {0: failed}
    assert found.configured == {
        0: frozenset({ids.TopicPartition("t", 0), ids.TopicPartition("t", 1)})
    }
    assert found.current
    assert found.handed_out


def test_without_a_worker_there_is_the_board_alone(plan):
    shown = board.ConnectorShown(planned=True)
    found = see(None, plan, board.Snapshot(connectors={"a->b": shown}))
    assert (found.shown, found.met, dict(found.tasks)) == (shown, False, {})


def test_tasks_that_make_checkpoints_are_counted_however_they_are(member, plan):
    assert see(member, plan).checkpoint_tasks == 0
    tasks = [ids.ConnectorTaskId(flow_plan.CHECKPOINT, number) for number in range(2)]
    member.assigned = work.Work.of([NAME, flow_plan.CHECKPOINT, *tasks])
    assert see(member, plan).checkpoint_tasks == 2
    assert see(None, plan).checkpoint_tasks == 0


def test_what_another_file_says_is_not_current_for_who_leads(member, plan):
    write(member, {**plan.connectors[NAME], "topics": "x"}, "t-0")
    assert not see(member, plan).current
    member.leads = False
    assert see(member, plan).current


def test_what_operators_set_makes_no_difference(member, plan):
    write(member, {**plan.connectors[NAME], "live.throttle": "1MB"}, "t-0")
    assert see(member, plan).current


def test_tasks_are_handed_out_by_a_round_that_knew_them(member, plan):
    view = flow_view.FlowView()
    member.assigned_offset = member.herder.config().offset
    assert see(member, plan, view=view).handed_out
    write(member, plan.connectors[NAME], "t-0,t-1,t-2")
    assert not see(member, plan, view=view).handed_out
    member.assigned_offset = member.herder.config().offset
    assert see(member, plan, view=view).handed_out


def test_a_connector_of_before_is_not_the_plans(member, plan):
    def shown(**props: str) -> board.Snapshot:
        made = board.ConnectorShown(planned=True, props={**plan.source, **props})
        return board.Snapshot(connectors={"a->b": made})

    assert see(member, plan, shown()).planned_anew
    assert see(member, plan, shown(**{"live.throttle": "1MB"})).planned_anew
    assert not see(member, plan, shown(topics="x")).planned_anew


def test_what_holds_a_flow_back_is_as_the_group_says(member, plan):
    view = flow_view.FlowView()
    assert see(member, plan, view=view).holds == holding.NOTHING
    write(member, {**plan.connectors[NAME], "live.throttle": "1MB"}, "t-0")
    found = see(member, plan, view=view).holds
    assert (found.paused, found.budgets.flow) == (False, 1_000_000)
    member.herder.set_target_state(NAME, cluster_config.TargetState.PAUSED)
    assert see(member, plan, view=view).holds.by is holding.By.PAUSED
    member.herder.set_target_state(NAME, cluster_config.TargetState.STOPPED)
    assert see(member, plan, view=view).holds.by is holding.By.STOPPED


def test_what_operators_hold_beside_the_source_connector(member, plan):
    view, name = flow_view.FlowView(), flow_plan.CHECKPOINT
    member.herder.write(config_records.creation(name, dict(plan.connectors[name]), None))
    assert see(member, plan, view=view).holds.beside == {}
    member.herder.set_target_state(name, cluster_config.TargetState.PAUSED)
    found = see(member, plan, view=view).holds
    assert (found.by, found.beside) == (None, {name: holding.By.PAUSED})
