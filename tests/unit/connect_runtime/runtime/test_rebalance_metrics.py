from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base import errors, sampled
from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.herder import events, participation
from connect_runtime.runtime import rebalance_metrics
from tests.fakes import plugin_contexts

ASSIGNMENT = protocol.Assignment(leader="m", leader_url="http://a:1/", config_offset=3)
ROUND = events.RoundCompleted(
    generation=7,
    speaks=protocol.Protocol.COMPATIBLE,
    assignment=ASSIGNMENT,
    stop=work.NO_WORK,
    leads=False,
)
MISMATCH = dataclasses.replace(
    ROUND, assignment=dataclasses.replace(ASSIGNMENT, error=protocol.CONFIG_MISMATCH)
)
ASKED = events.JoinAsked(work.NO_WORK)


class World:
    def __init__(self):
        self.clock = plugin_contexts.Clock()
        self.metrics = rebalance_metrics.RebalanceMetrics(
            clock=self.clock, sampling=sampled.Sampling()
        )

    def tell(self, *news):
        for each in news:
            self.metrics.told(each)
            self.clock.now += 2.0

    def read(self):
        (reading,) = self.metrics.readings()
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
    world.metrics.told(events.GroupLost("gone"))
    world.metrics.told(participation.Failed(errors.FatalError("no")))
    assert repr(world.read().numbers) == before


def test_they_are_counted():
    world = World()
    assert world.metrics.count == 0
    world.tell(ASKED, ROUND, ASKED, MISMATCH, ASKED, ROUND)
    assert world.metrics.count == 2
