"""When topics are looked up again, and what becomes of a look that fails."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from connect_runtime.base import errors
from mm2.connectors import flow_changes, flow_status, source_connector, topic_refresh
from mm2.core import flows

PLAN = source_connector.SourcePlan(partitions=(), findings=())
FULL = errors.RetriableError("16 earlier changes have not been taken up yet")


class World:
    """A flow that looks every 100 s, as the refresh sees it, and its clock."""

    def __init__(self) -> None:
        self.flow = flows.Flow(source="east", target="west", refresh_topics_interval_s=100.0)
        self.status = SimpleNamespace(state=flow_status.FlowState.RUNNING)
        self.at_s = 1000.0
        self.changes: list[Any] = []
        self.connectors: list[Connector] = []
        self.failures: list[Exception] = []
        self.ends_after = 10**9
        self.stop_asked = threading.Event()
        self.refresh = topic_refresh.TopicRefresh(
            cast(Any, self), connect=self._connect, now=cast(Any, self)
        )

    def now_s(self) -> float:
        return self.at_s

    @property
    def ended(self) -> bool:
        self.ends_after -= 1
        return self.ends_after < 0

    def change(self, change: Any) -> None:
        if self.failures and self.failures[0] is FULL:
            raise self.failures.pop(0)
        self.changes.append(change)

    def _connect(self, flow: flows.Flow) -> Any:
        self.connectors.append(Connector(self))
        return self.connectors[-1]

    def after(self, seconds: float) -> int:
        """How many looks there were once so much time has passed."""
        self.at_s += seconds
        self.refresh.run_once()
        return sum(each.looks for each in self.connectors)


class Connector:
    def __init__(self, world: World) -> None:
        self.looks = 0
        self.closed = False
        self._world = world

    def plan(self, timeout_s: float) -> source_connector.SourcePlan:
        self.looks += 1
        failures = self._world.failures
        if failures and isinstance(failures[0], errors.ConnectError):
            raise failures.pop(0)
        return PLAN

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def world() -> World:
    made = World()
    made.refresh.run_once()
    return made


def test_topics_are_looked_up_each_time_the_interval_has_passed(world):
    assert [world.after(each) for each in (99.0, 1.0, 99.0, 1.0)] == [0, 1, 1, 2]
    assert world.changes == [flow_changes.Refreshed(flow=world.flow, plan=PLAN)] * 2
    assert len(world.connectors) == 1


def test_a_flow_that_is_not_to_look_does_not(world):
    world.flow = replace(world.flow, refresh_topics_interval_s=None)
    assert world.after(1e9) == 0


def test_the_interval_begins_when_the_flow_runs(world):
    world.status.state = flow_status.FlowState.PLANNING
    assert world.after(500.0) == 0
    world.status.state = flow_status.FlowState.RUNNING
    assert [world.after(each) for each in (0.0, 99.0, 1.0)] == [0, 0, 1]


@pytest.mark.parametrize(
    "failure",
    [errors.RetriableError("no answer"), errors.FatalError("not allowed"), FULL],
)
def test_a_look_that_fails_is_told_and_made_again_sooner(world, caplog, failure):
    world.failures.append(failure)
    assert world.after(100.0) == 1
    assert world.changes == []
    assert "looking for new topics: " in caplog.text
    assert [world.after(each) for each in (topic_refresh.AGAIN_S - 1.0, 1.0)] == [1, 2]
    assert len(world.changes) == 1


def test_a_look_that_ends_with_its_flow_is_nothing_to_tell(world, caplog):
    world.failures.append(errors.RetriableError("is ending"))
    world.stop_asked.set()
    assert world.after(100.0) == 1
    assert (world.changes, caplog.messages) == ([], [])


def test_another_configuration_has_a_connector_of_its_own(world):
    world.after(100.0)
    world.flow = replace(world.flow, budgets=flows.Budgets(flow=7))
    world.after(100.0)
    assert len(world.connectors) == 1
    world.flow = replace(world.flow, replicate_heartbeats=False)
    assert [world.after(each) for each in (99.0, 100.0)] == [2, 3]
    assert [each.closed for each in world.connectors] == [True, False]


def test_the_thread_ends_with_its_flow_and_leaves_nothing_open(world, monkeypatch):
    monkeypatch.setattr(topic_refresh, "TURN_S", 0.0)
    world.at_s += 100.0
    world.ends_after = 3
    world.refresh.run(threading.Event())
    assert [each.closed for each in world.connectors] == [True]


def test_the_thread_ends_when_it_is_asked_to(world):
    stop = threading.Event()
    stop.set()
    world.refresh.run(stop)
    assert world.connectors == []
