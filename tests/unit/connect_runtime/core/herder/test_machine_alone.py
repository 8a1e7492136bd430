"""The herder in a group of one: what a standalone worker is."""

from __future__ import annotations

import pytest

from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import alone, events, instructions, requests
from connect_runtime.core.state import cluster_config
from tests.fakes import herder_cluster


class Standalone(herder_cluster.Cluster):
    """Rounds come from `Alone`."""

    def start(self):
        self.group = alone.Alone(url="http://a/")
        worker = self.join("a")
        for event in self.group.begin():
            self.tell(worker, event)
        return worker

    def _meet(self):
        return False

    def _obey_for_group(self, worker, order):
        worker.inbox.extend(self.group.obey(order, worker.log.snapshot()))
        if not isinstance(order, instructions.Rejoin | instructions.Prepared):
            super()._obey_for_group(worker, order)


@pytest.fixture
def world():
    return Standalone(speaks=protocol.Protocol.COMPATIBLE)


def test_connectors_come_change_and_go(world):
    worker = world.start()
    world.create(worker, "c", tasks=2)
    world.create(worker, "d", tasks=1)
    assert sorted(world.owners()) == ["c", "c-0", "c-1", "d", "d-0"]
    started = worker.of(instructions.StartWork)
    world.plans["c"] = [{"n": "new"}]
    world.ask(worker, requests.PutConnector(connector="c", config={"name": "c", "x": "1"}))
    assert worker.runs[herder_cluster.task("c", 0)] == {"n": "new"}
    later = worker.of(instructions.StartWork)[len(started) :]
    assert not any("d" in str(each.work) for each in later), "what did not change is left alone"
    world.ask(worker, requests.StopConnector("c"))
    assert world.view().target_state("c") is cluster_config.TargetState.STOPPED
    world.ask(worker, requests.DeleteConnector("d"))
    assert sorted(world.owners()) == ["c"]
    world.tell(worker, events.ShutdownRequested())
    assert worker.runs == {}
    assert worker.said[-1] == instructions.Close()


def test_nothing_is_signed_and_nobody_else_is_asked(world):
    worker = world.start()
    world.create(worker, "c", tasks=1)
    assert world.view().session_key is None
    assert worker.of(instructions.ForwardTaskConfigs) == []
    ticket = world.ask(worker, requests.RestartTask(herder_cluster.task("c", 0)))
    assert worker.replies[ticket] == requests.Accepted()
