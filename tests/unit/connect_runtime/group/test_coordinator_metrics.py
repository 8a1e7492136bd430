from __future__ import annotations

import math

import pytest

from connect_runtime.base.windowed_stats import SampleWindows
from connect_runtime.group import group_membership_requests
from connect_runtime.group.coordinator_metrics import CoordinatorMetrics
from connect_runtime.worker import connect_metrics_registry

HEARTBEAT = group_membership_requests.build_heartbeat_request("g", member_id="m", generation=1).api
SYNC = group_membership_requests.build_sync_group_request(
    "g", member_id="m", generation=1, protocol_type="connect", protocol="p", assignments={}
).api
JOIN = group_membership_requests.build_join_group_request(
    "g",
    member_id="m",
    protocol_type="connect",
    protocols=[],
    session_timeout_s=1,
    rebalance_timeout_s=1,
    reason="",
).api
ASSIGNED = {"assigned-connectors", "assigned-tasks"}


def figures():
    return CoordinatorMetrics(SampleWindows())


def test_all_attributes_but_what_is_assigned_are_there():
    found = figures().collect_metrics(0.0)
    assert found.keys() | ASSIGNED == connect_metrics_registry.COORDINATOR.numbers.keys()


def test_what_never_happened_was_minus_one_seconds_ago():
    found = figures().collect_metrics(500.0)
    assert found["last-heartbeat-seconds-ago"] == -1
    assert found["last-rebalance-seconds-ago"] == -1
    assert math.isnan(found["join-time-avg"])
    assert found["failed-rebalance-total"] == 0


def answer(made, api, now_s, *, took_s=0.0, code: int | None = 0):
    made.record_response(api, code=code, took_s=took_s, now_s=now_s)


def test_a_round_lasts_from_its_first_join_to_its_sync():
    made = figures()
    made.record_request(JOIN, 100.0)
    answer(made, JOIN, 101.0, code=79)
    made.record_request(JOIN, 102.0)
    answer(made, JOIN, 102.5, took_s=0.5)
    made.record_request(SYNC, 102.5)
    answer(made, SYNC, 103.0, took_s=0.25)
    found = made.collect_metrics(110.9)
    assert (found["join-total"], found["sync-total"], found["rebalance-total"]) == (1, 1, 1)
    assert (found["join-time-max"], found["sync-time-avg"]) == (500, 250)
    assert found["rebalance-latency-max"] == found["rebalance-latency-total"] == 3000
    assert found["failed-rebalance-total"] == 1
    assert found["last-rebalance-seconds-ago"] == 7
    assert found["rebalance-rate-per-hour"] == pytest.approx(3600 / 37.9)


def test_the_next_round_begins_anew():
    made = figures()
    for begin_s in (0.0, 10.0):
        made.record_request(JOIN, begin_s)
        answer(made, SYNC, begin_s + 1.0)
    found = made.collect_metrics(12.0)
    assert found["rebalance-latency-avg"] == 1000
    assert found["rebalance-total"] == 2


@pytest.mark.parametrize("api", [JOIN, SYNC])
@pytest.mark.parametrize("code", [None, 27])
def test_what_is_refused_or_not_answered_is_a_failed_round(api, code):
    made = figures()
    answer(made, api, 1.0, code=code)
    found = made.collect_metrics(1.0)
    assert found["failed-rebalance-total"] == 1
    assert found["join-total"] == found["sync-total"] == found["rebalance-total"] == 0


def test_heartbeats_count_when_they_are_answered_at_all():
    made = figures()
    made.record_request(HEARTBEAT, 1.0)
    answer(made, HEARTBEAT, 1.125, took_s=0.125, code=27)
    made.record_request(HEARTBEAT, 4.0)
    answer(made, HEARTBEAT, 5.0, took_s=1.0, code=None)
    found = made.collect_metrics(6.5)
    assert found["heartbeat-total"] == 1
    assert found["heartbeat-response-time-max"] == 125
    assert found["last-heartbeat-seconds-ago"] == 2
    assert found["failed-rebalance-total"] == 0


def test_other_requests_are_none_of_it():
    made, untouched = figures(), figures()
    made.record_request("find_coordinator", 1.0)
    answer(made, "find_coordinator", 2.0, code=15)
    assert repr(made.collect_metrics(3.0)) == repr(untouched.collect_metrics(3.0))
