from __future__ import annotations

import math

import pytest

from connect_runtime.base import sampled
from connect_runtime.core.membership import coordinator_figures
from connect_runtime.core.task import metric_names

ASSIGNED = {"assigned-connectors", "assigned-tasks"}


def figures():
    return coordinator_figures.CoordinatorFigures(sampled.Sampling())


def test_all_attributes_but_what_is_assigned_are_there():
    found = figures().numbers(0.0)
    assert found.keys() | ASSIGNED == metric_names.COORDINATOR.numbers.keys()


def test_what_never_happened_was_minus_one_seconds_ago():
    found = figures().numbers(500.0)
    assert found["last-heartbeat-seconds-ago"] == -1
    assert found["last-rebalance-seconds-ago"] == -1
    assert math.isnan(found["join-time-avg"])
    assert found["failed-rebalance-total"] == 0


def test_a_round_lasts_from_its_first_join_to_its_sync():
    made = figures()
    made.join_sent(100.0)
    made.round_failed(101.0)
    made.join_sent(102.0)
    made.joined(0.5, 102.5)
    made.synced(0.25, 103.0)
    found = made.numbers(110.9)
    assert (found["join-total"], found["sync-total"], found["rebalance-total"]) == (1, 1, 1)
    assert (found["join-time-max"], found["sync-time-avg"]) == (500, 250)
    assert found["rebalance-latency-max"] == found["rebalance-latency-total"] == 3000
    assert found["failed-rebalance-total"] == 1
    assert found["last-rebalance-seconds-ago"] == 7
    assert found["rebalance-rate-per-hour"] == pytest.approx(3600 / 37.9)


def test_the_next_round_begins_anew():
    made = figures()
    for begin_s in (0.0, 10.0):
        made.join_sent(begin_s)
        made.synced(0.0, begin_s + 1.0)
    found = made.numbers(12.0)
    assert found["rebalance-latency-avg"] == 1000
    assert found["rebalance-total"] == 2


def test_heartbeats():
    made = figures()
    made.heartbeat_sent(1.0)
    made.heartbeat_answered(0.125, 1.125)
    made.heartbeat_sent(4.0)
    found = made.numbers(6.5)
    assert found["heartbeat-total"] == 1
    assert found["heartbeat-response-time-max"] == 125
    assert found["last-heartbeat-seconds-ago"] == 2
