from __future__ import annotations

import math

import pytest

from connect_runtime.base import sampled
from connect_runtime.core.assignment import protocol
from connect_runtime.core.herder import rebalance_figures
from connect_runtime.core.task import metric_names

URL = "http://a:8083/"


@pytest.fixture
def figures():
    return rebalance_figures.RebalanceFigures(sampled.Sampling())


def complete(figures, now_s, epoch=3):
    figures.completed(now_s, leader_url=URL, epoch=epoch, speaks=protocol.Protocol.SESSIONED)


def test_before_the_first_nothing_is_known(figures):
    found = figures.numbers(9.0)
    assert found.keys() == metric_names.REBALANCES.numbers.keys()
    assert found["time-since-last-rebalance-ms"] == math.inf
    assert (found["rebalancing"], found["completed-rebalances-total"]) == (0, 0)
    assert figures.texts() == {}


def test_it_lasts_from_the_first_asking_to_its_completion(figures):
    figures.began(10.0)
    figures.began(12.0)
    assert figures.numbers(13.0)["rebalancing"] == 1
    complete(figures, 14.0)
    found = figures.numbers(15.5)
    assert (found["rebalancing"], found["completed-rebalances-total"], found["epoch"]) == (0, 1, 3)
    assert (found["rebalance-max-time-ms"], found["time-since-last-rebalance-ms"]) == (4000, 1500)
    texts = figures.texts()
    assert texts == {"leader-name": URL, "connect-protocol": "SESSIONED"}
    assert texts.keys() == metric_names.REBALANCES.texts.keys()


def test_each_is_measured_by_itself(figures):
    figures.began(0.0)
    complete(figures, 1.0)
    figures.began(2.0)
    complete(figures, 5.0, epoch=4)
    found = figures.numbers(5.0)
    assert (found["rebalance-avg-time-ms"], found["rebalance-max-time-ms"]) == (2000, 3000)
    assert found["epoch"] == 4
