from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.group.leader_assignment import AssignmentOwners
from connect_runtime.herder import herder_request_routing
from connect_runtime.herder.herder_request_routing import HandleRequestLocally, RoutingState
from connect_runtime.herder.herder_requests import (
    CheckHealth,
    DeleteConnector,
    DescribeConnector,
    FenceZombieTasks,
    ForwardRequest,
    ModifyConnectorOffsets,
    PatchConnector,
    PutConnector,
    PutTaskConfigs,
    ReadConnectorOffsets,
    RequestRefused,
    RestartConnector,
    RestartConnectorAndTasks,
    RestartTask,
    StopConnector,
)
from connect_runtime.storage.cluster_config_state import (
    ClusterConfigState,
    ConnectorConfigEntry,
    TargetState,
)
from connect_runtime.storage.config_records import RestartRequest

TASK = ConnectorTaskId("c", 0)
State = TargetState


def entry(state, tasks=1):
    return ConnectorConfigEntry(
        config={}, target_state=state, task_count=tasks,
        task_configs={number: {} for number in range(tasks)},
    )  # fmt: skip


VIEW = ClusterConfigState(
    entries={
        "c": entry(State.STARTED),
        "ours": entry(State.STARTED),
        "stopped": entry(State.STOPPED, 0),
        "half": entry(State.STOPPED, 1),
    }
)
LEADER = RoutingState(
    config=VIEW,
    is_leader=True,
    leader_url="http://leader/",
    assigned=ConnectorsAndTasks(connectors=("ours",), tasks=(ConnectorTaskId("ours", 0),)),
    owners=AssignmentOwners(urls={"m2": "http://two/"}, members={"c": "m2", TASK: "m2"}),
    rebalance_pending=False,
)
FOLLOWER = dataclasses.replace(LEADER, is_leader=False, owners=None)

DESCRIBE, DELETE, STOP = DescribeConnector, DeleteConnector, StopConnector
RESTART = RestartConnector


def restart_task(name, number=0):
    return RestartTask(ConnectorTaskId(name, number))


def restart_all(name):
    return RestartConnectorAndTasks(RestartRequest(connector=name))


def put(name, **more):
    return PutConnector(connector=name, config={}, **more)


ONE_TASK = ({"n": "0"},)


def publish(name, configs=ONE_TASK):
    return PutTaskConfigs(connector=name, configs=configs)


def fence(name, *, is_source=True):
    return FenceZombieTasks(connector=name, is_source=is_source)


def modify(name):
    return ModifyConnectorOffsets(name, None)


def shown(verdict):
    match verdict:
        case HandleRequestLocally():
            return "proceed"
        case ForwardRequest(url):
            return url
        case RequestRefused(status):
            return status


LEADERS, TWO = "http://leader/", "http://two/"


@pytest.mark.parametrize(
    ("request_", "by_leader", "by_follower", "pending"),
    [
        (CheckHealth(), "proceed", "proceed", "proceed"),
        (DESCRIBE("c"), "proceed", "proceed", 409),
        (DESCRIBE("no"), 404, 404, 409),
        (ReadConnectorOffsets("c"), "proceed", "proceed", "proceed"),
        (ReadConnectorOffsets("no"), 404, 404, 404),
        (put("new"), "proceed", LEADERS, "proceed"),
        (put("c"), "proceed", LEADERS, "proceed"),
        (put("c", replace=False), 409, LEADERS, 409),
        (put("new", invalid="3 errors"), 400, 400, 400),
        (PatchConnector(connector="c", patch={}), "proceed", LEADERS, "proceed"),
        (PatchConnector(connector="no", patch={}), 404, LEADERS, 404),
        (DELETE("c"), "proceed", LEADERS, "proceed"),
        (DELETE("no"), 404, LEADERS, 404),
        (STOP("c"), "proceed", LEADERS, "proceed"),
        (STOP("no"), 404, 404, 404),
        (RESTART("ours"), "proceed", "proceed", 409),
        (RESTART("c"), TWO, LEADERS, 409),
        (RESTART("stopped"), None, LEADERS, 409),
        (RESTART("no"), 404, 404, 409),
        (restart_task("ours"), "proceed", "proceed", 409),
        (restart_task("c"), TWO, LEADERS, 409),
        (restart_task("c", 9), 404, 404, 409),
        (restart_task("no"), 404, 404, 409),
        (restart_all("c"), "proceed", LEADERS, 409),
        (restart_all("no"), 404, 404, 409),
        (publish("c"), "proceed", LEADERS, "proceed"),
        (publish("stopped"), 400, LEADERS, 400),
        (publish("stopped", ()), "proceed", LEADERS, "proceed"),
        (publish("no"), 404, LEADERS, 404),
        (fence("c"), "proceed", LEADERS, "proceed"),
        (fence("c", is_source=False), 400, LEADERS, 400),
        (fence("no"), 404, LEADERS, 404),
        (modify("stopped"), "proceed", LEADERS, 409),
        (modify("no"), 404, LEADERS, 409),
    ],
    ids=str,
)
def test_who_answers(request_, by_leader, by_follower, pending):
    """By the leader, by another worker, and by a leader that waits for a rebalance."""
    waiting = dataclasses.replace(LEADER, rebalance_pending=True)
    verdicts = [
        herder_request_routing.route_request(request_, each) for each in (LEADER, FOLLOWER, waiting)
    ]
    assert [shown(each) for each in verdicts] == [by_leader, by_follower, pending]


def test_nobody_is_asked_while_nobody_leads():
    nowhere = dataclasses.replace(FOLLOWER, leader_url=None)
    assert herder_request_routing.route_request(put("c"), nowhere).url is None


def test_texts_are_those_that_clients_know():
    assert (
        herder_request_routing.route_request(put("c", replace=False), LEADER).message
        == "Connector c already exists"
    )
    assert (
        herder_request_routing.route_request(DELETE("no"), LEADER).message
        == "Connector no not found"
    )
    assert (
        herder_request_routing.route_request(STOP("no"), LEADER).message == "Unknown connector no"
    )
    assert (
        herder_request_routing.route_request(restart_task("c", 9), LEADER).message
        == "Unknown task: c-9"
    )


@pytest.mark.parametrize(
    ("name", "verdict"), [("stopped", "proceed"), ("half", 400), ("c", 400), ("no", 404)]
)
def test_offsets_are_modified_of_stopped_connectors_without_tasks(name, verdict):
    assert shown(herder_request_routing.check_offsets_modifiable(name, VIEW)) == verdict
