from __future__ import annotations

import dataclasses
import math

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.group import connect_protocol, connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectAssignment, ConnectProtocol
from connect_runtime.herder.group_session import GroupSessionFailed
from connect_runtime.herder.herder_events import AssignmentReceived, CoordinatorLost, JoinRequested
from connect_runtime.worker import connect_metrics_registry
from connect_runtime.worker.rebalance_metrics import RebalanceMetrics, RebalanceStats
from tests.fakes.plugin_contexts import Clock

ASSIGNMENT = ConnectAssignment(leader="m", leader_url="http://a:1/", config_offset=3)
ROUND = AssignmentReceived(
    generation=7,
    protocol=ConnectProtocol.COMPATIBLE,
    assignment=ASSIGNMENT,
    items_to_stop=connectors_and_tasks.NO_WORK,
    is_leader=False,
)
MISMATCH = dataclasses.replace(
    ROUND, assignment=dataclasses.replace(ASSIGNMENT, error=connect_protocol.CONFIG_MISMATCH)
)
ASKED = JoinRequested(connectors_and_tasks.NO_WORK)


class World:
    def __init__(self):
        self.clock = Clock()
        self.metrics = RebalanceMetrics(clock=self.clock, sampling=SampleWindows())

    def tell(self, *news):
        for each in news:
            self.metrics.record_event(each)
            self.clock.now += 2.0

    def read(self):
        (reading,) = self.metrics.get_metric_readings()
        return reading


@pytest.fixture
def world():
    return World()


def test_from_being_asked_to_join_to_the_round(world):
    world.tell(ASKED, ROUND)
    found = world.read()
    assert found.numbers["rebalance-max-time-ms"] == 2000
    assert found.numbers["epoch"] == 7
    assert found.texts == {"leader-name": "http://a:1/", "connect-protocol": "COMPATIBLE"}


def test_a_round_that_has_to_be_repeated_completes_nothing(world):
    world.tell(ASKED, MISMATCH, ASKED)
    assert world.read().numbers["rebalancing"] == 1
    assert world.read().numbers["completed-rebalances-total"] == 0
    world.tell(ROUND)
    assert world.read().numbers["rebalance-max-time-ms"] == 6000


def test_other_news_means_nothing(world):
    before = repr(world.read().numbers)
    world.metrics.record_event(CoordinatorLost("gone"))
    world.metrics.record_event(GroupSessionFailed(FatalError("no")))
    assert repr(world.read().numbers) == before


def test_they_are_counted():
    world = World()
    assert world.metrics.completed_rebalances == 0
    world.tell(ASKED, ROUND, ASKED, MISMATCH, ASKED, ROUND)
    assert world.metrics.completed_rebalances == 2


URL = "http://a:8083/"


@pytest.fixture
def figures():
    return RebalanceStats(SampleWindows())


def complete(figures, now_s, epoch=3):
    figures.record_completion(
        now_s, leader_url=URL, epoch=epoch, protocol=ConnectProtocol.SESSIONED
    )


def test_before_the_first_nothing_is_known(figures):
    found = figures.compute_attributes(9.0)
    assert found.keys() == connect_metrics_registry.REBALANCES.numbers.keys()
    assert found["time-since-last-rebalance-ms"] == math.inf
    assert (found["rebalancing"], found["completed-rebalances-total"]) == (0, 0)
    assert figures.get_text_attributes() == {}


def test_it_lasts_from_the_first_asking_to_its_completion(figures):
    figures.record_start(10.0)
    figures.record_start(12.0)
    assert figures.compute_attributes(13.0)["rebalancing"] == 1
    complete(figures, 14.0)
    found = figures.compute_attributes(15.5)
    assert (found["rebalancing"], found["completed-rebalances-total"], found["epoch"]) == (0, 1, 3)
    assert (found["rebalance-max-time-ms"], found["time-since-last-rebalance-ms"]) == (4000, 1500)
    texts = figures.get_text_attributes()
    assert texts == {"leader-name": URL, "connect-protocol": "SESSIONED"}
    assert texts.keys() == connect_metrics_registry.REBALANCES.texts.keys()


def test_each_is_measured_by_itself(figures):
    figures.record_start(0.0)
    complete(figures, 1.0)
    figures.record_start(2.0)
    complete(figures, 5.0, epoch=4)
    found = figures.compute_attributes(5.0)
    assert (found["rebalance-avg-time-ms"], found["rebalance-max-time-ms"]) == (2000, 3000)
    assert found["epoch"] == 4
