"""The herder in a group of one: what a standalone worker is."""

from __future__ import annotations

import pytest

from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.herder.herder_actions import (
    ConfirmJoinPrepared,
    ForwardTaskConfigs,
    LeaveGroupPermanently,
    RejoinGroup,
    StartConnectorsAndTasks,
)
from connect_runtime.herder.herder_events import HerderShutdownRequested
from connect_runtime.herder.herder_requests import (
    DeleteConnector,
    PutConnector,
    RequestSucceeded,
    RestartTask,
    StopConnector,
)
from connect_runtime.herder.standalone_group import StandaloneGroupStateMachine
from connect_runtime.storage.cluster_config_state import TargetState
from tests.fakes import herder_cluster
from tests.fakes.herder_cluster import Cluster


class Standalone(Cluster):
    """Rounds come from `Alone`."""

    def start(self):
        self.group = StandaloneGroupStateMachine(url="http://a/")
        worker = self.join("a")
        for event in self.group.create_initial_events():
            self.tell(worker, event)
        return worker

    def _meet(self):
        return False

    def _obey_for_group(self, worker, order):
        worker.inbox.extend(self.group.execute_group_action(order, worker.log.snapshot()))
        if not isinstance(order, RejoinGroup | ConfirmJoinPrepared):
            super()._obey_for_group(worker, order)


@pytest.fixture
def world():
    return Standalone(speaks=ConnectProtocol.COMPATIBLE)


def test_connectors_come_change_and_go(world):
    worker = world.start()
    world.create(worker, "c", tasks=2)
    world.create(worker, "d", tasks=1)
    assert sorted(world.owners()) == ["c", "c-0", "c-1", "d", "d-0"]
    started = worker.of(StartConnectorsAndTasks)
    world.plans["c"] = [{"n": "new"}]
    world.ask(worker, PutConnector(connector="c", config={"name": "c", "x": "1"}))
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "new"}
    later = worker.of(StartConnectorsAndTasks)[len(started) :]
    assert not any("d" in str(each.work) for each in later), "what did not change is left alone"
    world.ask(worker, StopConnector("c"))
    assert world.view().target_state("c") is TargetState.STOPPED
    world.ask(worker, DeleteConnector("d"))
    assert sorted(world.owners()) == ["c"]
    world.tell(worker, HerderShutdownRequested())
    assert worker.runs == {}
    assert worker.said[-1] == LeaveGroupPermanently()


def test_nothing_is_signed_and_nobody_else_is_asked(world):
    worker = world.start()
    world.create(worker, "c", tasks=1)
    assert world.view().session_key is None
    assert worker.of(ForwardTaskConfigs) == []
    ticket = world.ask(worker, RestartTask(herder_cluster.task("c", 0)))
    assert worker.replies[ticket] == RequestSucceeded()
