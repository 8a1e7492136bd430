"""Which failures count against a flow, and what is started again."""

from __future__ import annotations

import pathlib

import pytest

from connect_runtime.base import ids
from connect_runtime.core.state import config_records, status_records
from connect_runtime.runtime import begun
from mm2.app import failures, flow_plan, restarts
from mm2.app.settings import load
from tests.fakes import rest_herder

NAME = flow_plan.SOURCE
TASKS = [ids.ConnectorTaskId(NAME, number) for number in range(2)]
TASK, LATER = TASKS
FILE = """clusters=a,b
a.bootstrap.servers=a:1
b.bootstrap.servers=b:1
a->b.enabled=true
emit.heartbeats.enabled=false
"""
RUNNING, FAILED = status_records.State.RUNNING, status_records.State.FAILED


class Flow:
    """What the group's topics hold, and what this node's worker has begun of it."""

    def __init__(self, *, leads: bool = True, most: int = 3) -> None:
        found = load.parse_properties(FILE, file="mm2", folder=pathlib.Path("/"), environment={})
        (self.plan,) = flow_plan.plans(found, flow_plan.EVERYTHING, environment={})
        self.leads = leads
        self.herder = rest_herder.FakeHerder()
        self.worker = begun.Beginnings()
        self.failures = failures.Failures(restarts.Restarts(most))
        self.now_s = 0.0

    def configure(self, **more: str) -> None:
        """By a leader; its tasks are made anew."""
        config = {**self.plan.connectors[NAME], **more}
        self.herder.write(config_records.creation(NAME, dict(config), None))
        tasks = [{**config, "task.assigned.partitions": f"t-{each.task}"} for each in TASKS]
        self.herder.write(config_records.task_configs(NAME, tasks))
        self.herder.write([config_records.commit(NAME, len(tasks))])

    def begin(self, item, state=None) -> None:
        view = self.herder.config()
        config = view.config(item) if isinstance(item, str) else view.task_config(item)
        assert config is not None
        self.worker.begin(item, config)
        if state is not None:
            self.worker.said(item, state, "x.ConfigError: no such file" if state is FAILED else "")

    def look(self, after_s: float = 0.0) -> failures.Verdict:
        self.now_s += after_s
        found = failures.parts(
            [NAME, *TASKS, "MirrorHeartbeatConnector"],
            self.worker.seen(),
            config=self.herder.config(),
            plan=self.plan,
            leads=self.leads,
        )
        return self.failures.look(found, self.now_s)

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
    assert flow.look() == failures.Verdict(given_up="no such file")
    assert flow.look(5.0).due == ()


@pytest.mark.parametrize("item", [NAME, TASK])
@pytest.mark.parametrize("most", [0, 3])
def test_what_was_configured_before_may_fail_until_the_leader_has_written(item, most):
    flow = Flow(most=most)
    flow.configure(topics="of before")
    flow.begin(item, FAILED)
    assert flow.look().given_up == ""
    flow.configure()
    assert flow.look().given_up == "", "it is still that of before that has failed"
    flow.begin(item)
    assert flow.look().given_up == "", "it has said nothing yet"
    flow.begin(item, FAILED)
    assert flow.look().given_up == "no such file"


def test_tasks_made_of_a_configuration_of_before_are_of_before():
    flow = Flow()
    flow.configure(topics="of before")
    flow.begin(TASK, FAILED)
    flow.herder.write(config_records.creation(NAME, dict(flow.plan.connectors[NAME]), None))
    assert flow.look().given_up == ""


def test_what_ran_once_is_started_again_before_it_is_given_up():
    flow = Flow()
    flow.configure()
    flow.begin(TASK, RUNNING)
    assert flow.look() == failures.Verdict()
    flow.begin(TASK, FAILED)
    assert flow.look().given_up == ""
    assert flow.started_again(200.0) == 3
    assert flow.look().given_up == "no such file"


def test_a_task_that_comes_here_later_and_begins_badly_is_started_again():
    flow = Flow()
    flow.configure()
    flow.begin(NAME, RUNNING)
    flow.begin(TASK, RUNNING)
    assert flow.look() == failures.Verdict()
    flow.begin(LATER, FAILED)
    assert flow.look().given_up == ""
    assert [each.item for each in flow.look(5.0).due] == [LATER]


def test_a_task_that_begins_badly_beside_a_connector_that_runs_is_given_up_at_once():
    flow = Flow()
    flow.configure()
    flow.begin(NAME, RUNNING)
    flow.begin(TASK, FAILED)
    assert flow.look().given_up == "no such file"


def test_a_leader_with_another_file_has_its_failures_tried_again():
    flow = Flow(leads=False)
    flow.configure(topics="of the leader")
    flow.begin(TASK, FAILED)
    assert flow.look().given_up == ""
    assert flow.started_again(200.0) == 3
    assert flow.look().given_up == "no such file"


def test_what_operators_set_does_not_make_it_another():
    flow = Flow()
    flow.configure(**{"live.throttle": "1MB"})
    flow.begin(NAME, FAILED)
    assert flow.look().given_up == "no such file"


def test_heartbeats_that_fail_are_started_again_and_stop_nothing():
    flow = Flow(most=1)
    flow.herder.write(config_records.creation("MirrorHeartbeatConnector", {}, None))
    flow.begin("MirrorHeartbeatConnector", FAILED)
    assert flow.look().due == ()
    assert [each.item for each in flow.look(1.0).due] == ["MirrorHeartbeatConnector"]
    flow.begin("MirrorHeartbeatConnector", FAILED)
    assert flow.look(600.0) == failures.Verdict()


def test_what_this_node_was_not_given_is_not_its_to_start():
    flow = Flow()
    flow.configure()
    other = ids.ConnectorTaskId(NAME, 7)
    flow.worker.begin(other, {})
    flow.worker.said(other, FAILED, "x: y")
    assert flow.look(5.0) == failures.Verdict()
