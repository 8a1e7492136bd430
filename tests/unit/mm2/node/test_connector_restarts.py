"""What has failed is started again, ever more rarely, and in the end no more.

Which failures count against a flow, and what is started again."""

from __future__ import annotations

import itertools
import pathlib

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.storage import config_records
from connect_runtime.storage.status_records import RunState
from connect_runtime.worker.worker import StartedConnectorsAndTasks
from mm2.config import config_loader, flow_connector_configs
from mm2.node import connector_restarts
from mm2.node.connector_restarts import (
    ConnectorOrTaskRun,
    FailureTracker,
    RestartDecision,
    RestartPlanner,
)
from tests.fakes.rest_herder import FakeHerder

State = RunState


def look(planner: RestartPlanner, now_s: float, *, failed: bool, number: int = 1) -> list[str]:
    return saw(planner, now_s, State.FAILED if failed else State.RUNNING, number=number)


def saw(
    planner: RestartPlanner, now_s: float, state: State | None, *, number: int = 1
) -> list[str]:
    return planner.find_due_restarts({"task 0": ConnectorOrTaskRun(number, state)}, now_s)


def crashes(planner: RestartPlanner, until_s: float) -> list[float]:
    """When something is started again that fails at once, each time."""
    found: list[float] = []
    now_s = 0.0
    while now_s < until_s:
        if look(planner, now_s, failed=True, number=len(found)):
            found.append(now_s)
        now_s += 0.5
    return found


def test_each_pause_is_longer_than_the_last_up_to_a_minute():
    found = crashes(RestartPlanner(connector_restarts.UNLIMITED_RESTARTS), 400.0)
    pauses = [b - a for a, b in itertools.pairwise(found)]
    assert found[0] == 1.0
    assert pauses == sorted(pauses)
    assert 60.0 <= pauses[-1] <= 61.0


def test_in_the_end_it_is_given_up():
    planner = RestartPlanner(3)
    assert len(crashes(planner, 400.0)) == 3
    assert planner.find_items_failed_too_often(["task 0", "task 1"]) == ["task 0"]


def test_nothing_is_started_again_where_that_is_off():
    planner = RestartPlanner(0)
    assert crashes(planner, 100.0) == []
    assert planner.find_items_failed_too_often(["task 0"]) == ["task 0"]


def test_what_failed_is_started_once_until_its_state_is_news():
    planner = RestartPlanner(5)
    assert look(planner, 0.0, failed=True) == []
    assert look(planner, 1.0, failed=True) == ["task 0"]
    assert look(planner, 50.0, failed=True) == []
    planner.record_restart_result("task 0", failed=True)
    assert look(planner, 51.0, failed=True) == []
    assert look(planner, 53.0, failed=True) == ["task 0"]


def test_an_attempt_that_was_refused_is_made_again_and_counts_for_nothing():
    planner = RestartPlanner(1)
    assert look(planner, 0.0, failed=True) == []
    for now_s in (1.0, 2.0, 3.0):
        assert look(planner, now_s, failed=True) == ["task 0"]
        planner.record_restart_rejection("task 0", now_s)
        assert look(planner, now_s + 0.5, failed=True) == []
    assert planner.find_items_failed_too_often(["task 0"]) == []


def test_who_ran_for_long_has_no_failures_behind_it():
    planner = RestartPlanner(1)
    assert look(planner, 0.0, failed=True) == []
    assert look(planner, 1.0, failed=True) == ["task 0"]
    look(planner, 2.0, failed=False)
    look(planner, 990.0, failed=False)
    look(planner, 1000.0, failed=True)
    assert planner.find_items_failed_too_often(["task 0"]) == []
    assert look(planner, 1001.0, failed=True) == ["task 0"]


@pytest.mark.parametrize("state", [None, State.UNASSIGNED, State.RESTARTING, State.PAUSED])
def test_who_waited_for_long_has_not_run(state):
    planner = RestartPlanner(1)
    look(planner, 0.0, failed=True)
    assert look(planner, 1.0, failed=True) == ["task 0"]
    look(planner, 2.0, failed=False)
    for now_s in (3.0, 500.0, 1000.0):
        saw(planner, now_s, state)
    look(planner, 1001.0, failed=True)
    assert planner.find_items_failed_too_often(["task 0"]) == ["task 0"]


def test_what_ran_in_parts_has_run():
    """A rebalance, say, is no failure."""
    planner = RestartPlanner(1)
    look(planner, 0.0, failed=True)
    for at_s in (1.0, 400.0):
        look(planner, at_s, failed=False)
        look(planner, at_s + 300.0, failed=False)
        saw(planner, at_s + 301.0, State.UNASSIGNED)
    look(planner, 710.0, failed=True)
    assert planner.find_items_failed_too_often(["task 0"]) == []


def test_what_is_gone_is_forgotten():
    planner = RestartPlanner(0)
    look(planner, 0.0, failed=True)
    planner.find_due_restarts({}, 1.0)
    assert planner.find_items_failed_too_often(["task 0"]) == []


def test_a_failure_between_two_looks_is_another():
    planner = RestartPlanner(5)
    look(planner, 0.0, failed=True)
    assert look(planner, 1.0, failed=True) == ["task 0"]
    assert look(planner, 2.0, failed=True, number=2) == []
    assert look(planner, 3.5, failed=True, number=2) == []
    assert look(planner, 4.0, failed=True, number=2) == ["task 0"]


NAME = flow_connector_configs.SOURCE_CONNECTOR
TASKS = [ConnectorTaskId(NAME, number) for number in range(2)]
TASK, LATER = TASKS
FILE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
emit.heartbeats.enabled=false
"""
RUNNING, FAILED = RunState.RUNNING, RunState.FAILED


class Flow:
    """What the group's topics hold, and what this node's worker has begun of it."""

    def __init__(self, *, leads: bool = True, most: int = 3) -> None:
        found = config_loader.parse_mm2_properties(
            FILE, file="mm2", folder=pathlib.Path("/"), environment={}
        )
        (self.plan,) = flow_connector_configs.plan_flows(
            found, flow_connector_configs.ALL_FLOWS, environment={}
        )
        self.leads = leads
        self.herder = FakeHerder()
        self.worker = StartedConnectorsAndTasks()
        self.failures = FailureTracker(RestartPlanner(most))
        self.now_s = 0.0

    def configure(self, **more: str) -> None:
        """By a leader; its tasks are made anew."""
        config = {**self.plan.connectors[NAME], **more}
        self.herder.write(config_records.encode_connector_creation(NAME, dict(config), None))
        tasks = [{**config, "task.assigned.partitions": f"t-{each.task}"} for each in TASKS]
        self.herder.write(config_records.encode_task_configs(NAME, tasks))
        self.herder.write([config_records.encode_task_config_commit(NAME, len(tasks))])

    def begin(self, item, state=None) -> None:
        view = self.herder.get_config_state()
        config = view.config(item) if isinstance(item, str) else view.task_config(item)
        assert config is not None
        self.worker.record_start(item, config)
        if state is not None:
            self.worker.record_status(
                item, state, "x.ConfigError: no such file" if state is FAILED else ""
            )

    def look(self, after_s: float = 0.0) -> RestartDecision:
        self.now_s += after_s
        found = connector_restarts.list_started_work_items(
            [NAME, *TASKS, "MirrorHeartbeatConnector"],
            self.worker.snapshot(),
            config=self.herder.get_config_state(),
            plan=self.plan,
            is_leader=self.leads,
        )
        return self.failures.decide_restarts(found, self.now_s)

    def started_again(self, within_s: float) -> int:
        """How often the task is, if it fails at once each time."""
        found, until_s = 0, self.now_s + within_s
        while self.now_s < until_s:
            if [each.item for each in self.look(0.5).due] == [TASK]:
                found += 1
                self.begin(TASK, FAILED)
        return found


@pytest.mark.parametrize("item", [NAME, TASK])
def test_what_fails_from_the_beginning_is_given_up_at_once(item):
    flow = Flow()
    flow.configure()
    flow.begin(item, FAILED)
    assert flow.look() == RestartDecision(give_up_reason="no such file")
    assert flow.look(5.0).due == ()


@pytest.mark.parametrize("item", [NAME, TASK])
@pytest.mark.parametrize("most", [0, 3])
def test_what_was_configured_before_may_fail_until_the_leader_has_written(item, most):
    flow = Flow(most=most)
    flow.configure(topics="of before")
    flow.begin(item, FAILED)
    assert flow.look().give_up_reason == ""
    flow.configure()
    assert flow.look().give_up_reason == "", "it is still that of before that has failed"
    flow.begin(item)
    assert flow.look().give_up_reason == "", "it has said nothing yet"
    flow.begin(item, FAILED)
    assert flow.look().give_up_reason == "no such file"


def test_tasks_made_of_a_configuration_of_before_are_of_before():
    flow = Flow()
    flow.configure(topics="of before")
    flow.begin(TASK, FAILED)
    flow.herder.write(
        config_records.encode_connector_creation(NAME, dict(flow.plan.connectors[NAME]), None)
    )
    assert flow.look().give_up_reason == ""


def test_what_ran_once_is_started_again_before_it_is_given_up():
    flow = Flow()
    flow.configure()
    flow.begin(TASK, RUNNING)
    assert flow.look() == RestartDecision()
    flow.begin(TASK, FAILED)
    assert flow.look().give_up_reason == ""
    assert flow.started_again(200.0) == 3
    assert flow.look().give_up_reason == "no such file"


def test_a_task_that_comes_here_later_and_begins_badly_is_started_again():
    flow = Flow()
    flow.configure()
    flow.begin(NAME, RUNNING)
    flow.begin(TASK, RUNNING)
    assert flow.look() == RestartDecision()
    flow.begin(LATER, FAILED)
    assert flow.look().give_up_reason == ""
    assert [each.item for each in flow.look(5.0).due] == [LATER]


def test_a_task_that_begins_badly_beside_a_connector_that_runs_is_given_up_at_once():
    flow = Flow()
    flow.configure()
    flow.begin(NAME, RUNNING)
    flow.begin(TASK, FAILED)
    assert flow.look().give_up_reason == "no such file"


def test_a_leader_with_another_file_has_its_failures_tried_again():
    flow = Flow(leads=False)
    flow.configure(topics="of the leader")
    flow.begin(TASK, FAILED)
    assert flow.look().give_up_reason == ""
    assert flow.started_again(200.0) == 3
    assert flow.look().give_up_reason == "no such file"


def test_what_operators_set_does_not_make_it_another():
    flow = Flow()
    flow.configure(**{"live.throttle": "1MB"})
    flow.begin(NAME, FAILED)
    assert flow.look().give_up_reason == "no such file"


def test_heartbeats_that_fail_are_started_again_and_stop_nothing():
    flow = Flow(most=1)
    flow.herder.write(
        config_records.encode_connector_creation("MirrorHeartbeatConnector", {}, None)
    )
    flow.begin("MirrorHeartbeatConnector", FAILED)
    assert flow.look().due == ()
    assert [each.item for each in flow.look(1.0).due] == ["MirrorHeartbeatConnector"]
    flow.begin("MirrorHeartbeatConnector", FAILED)
    assert flow.look(600.0) == RestartDecision()


def test_what_this_node_was_not_given_is_not_its_to_start():
    flow = Flow()
    flow.configure()
    other = ConnectorTaskId(NAME, 7)
    flow.worker.record_start(other, {})
    flow.worker.record_status(other, FAILED, "x: y")
    assert flow.look(5.0) == RestartDecision()
