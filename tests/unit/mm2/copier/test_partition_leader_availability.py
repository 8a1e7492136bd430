from __future__ import annotations

import dataclasses
from math import inf
from typing import Any

import pytest

from mm2.copier import partition_leader_availability, progress_reports
from mm2.copier.partition_leader_availability import LeaderMonitor, UnavailableLeader
from mm2.unreachable_cluster import ClusterSide
from tests.fakes import copying, metadata, taking

Side = ClusterSide
WHERE = taking.where()


@pytest.mark.parametrize(
    ("source", "target", "told"),
    [
        ({}, {}, ""),
        ({"leader": -1}, {}, "source partition orders-4 has no leader"),
        ({}, {"leader": -1}, "mirror partition a.orders-4 has no leader"),
        ({"leader": 7}, {"leader": -1}, "source partition orders-4 has no leader"),
        (
            {},
            {"error_code": 3},
            "mirror partition a.orders-4 has no leader: UNKNOWN_TOPIC_OR_PARTITION (3)",
        ),
    ],
    ids=["both", "source", "mirror", "neither", "no topic"],
)
def test_the_side_without_a_leader_is_named(source, target, told):
    found = partition_leader_availability.find_missing_leader(
        WHERE,
        source=metadata.view(WHERE.topic, **source),
        target=metadata.view(WHERE.remote_topic, **target),
    )
    assert ("" if found is None else found.reason) == told


def gauge(phase="copying", reason="", source_end=7):
    made = progress_reports.build_progress_report(0, copying.begun().copy)
    return dataclasses.replace(made, phase=phase, reason=reason, source_end=source_end)


@pytest.mark.parametrize(
    ("phase", "silent", "told"),
    [
        ("copying", False, ("waiting", "no leader")),
        ("boundary", True, ("waiting", "no leader")),
        ("acquiring", False, ("acquiring", "its own")),
        ("acquiring", True, ("waiting", "no leader")),
        ("waiting", True, ("waiting", "no leader")),
        ("halted", True, ("halted", "its own")),
        ("fenced", True, ("fenced", "its own")),
    ],
)
def test_only_what_would_copy_or_begin_waits_for_the_obstacle(phase, silent, told):
    reason = "" if phase in ("copying", "boundary") else "its own"
    obstacle = UnavailableLeader(side=Side.TARGET, reason="no leader", silent=silent)
    found = partition_leader_availability.mark_report_waiting_for_leader(
        gauge(phase, reason), obstacle
    )
    assert (found.phase, found.reason) == told
    assert found.source_end == 7


@pytest.mark.parametrize("phase", ["copying", "halted"])
def test_the_end_of_the_log_is_unknown_while_the_source_has_no_answering_leader(phase):
    obstacle = UnavailableLeader(side=Side.SOURCE, reason="no leader")
    assert (
        partition_leader_availability.mark_report_waiting_for_leader(
            gauge(phase, "its own"), obstacle
        ).source_end
        == -1
    )


def test_without_an_obstacle_the_gauge_is_the_same_object():
    made = gauge()
    assert partition_leader_availability.mark_report_waiting_for_leader(made, None) is made


class Brokers:
    """Answer when they are told to; `probes` are the requests that wait for an answer."""

    def __init__(self):
        self.answers: dict[int, float] = {}
        self.probes: list[tuple[int, Any]] = []

    def get_last_response_time_s(self, node_id):
        return self.answers.get(node_id, -inf)

    def call(self, to, message, *, done, timeout_s=None):
        assert timeout_s == 10
        self.probes.append((to.node_id, done))


def check_for(watch, leaders, *, seconds, begun_s=0.0):
    """The last answer of checks once a second."""
    found = {}
    for second in range(seconds + 1):
        found = watch.find_silent_leaders(leaders, begun_s + second)
    return found


def test_a_broker_is_silent_once_its_last_answer_is_older_than_the_limit():
    brokers = Brokers()
    watch = LeaderMonitor(brokers, unreachable_after_s=10)
    brokers.answers = {1: 0.0, 2: 0.0}
    assert check_for(watch, {1, 2}, seconds=10) == {}
    brokers.answers[2] = 10.5
    assert watch.find_silent_leaders({1, 2}, 11.0) == {1: 0.0}
    brokers.answers[1] = 11.5
    assert watch.find_silent_leaders({1, 2}, 12.0) == {}


def test_a_broker_that_never_answered_counts_from_when_it_became_a_leader():
    watch = LeaderMonitor(Brokers(), unreachable_after_s=10)
    assert check_for(watch, {1}, seconds=10, begun_s=100.0) == {}
    assert watch.find_silent_leaders({1}, 111.0) == {1: 100.0}
    assert watch.find_silent_leaders({2}, 112.0) == {}


def test_a_quiet_broker_is_asked_once_and_again_only_after_the_answer():
    brokers = Brokers()
    watch = LeaderMonitor(brokers, unreachable_after_s=10)
    brokers.answers = {1: 0.0}
    assert check_for(watch, {1}, seconds=2) == {}
    assert brokers.probes == []
    watch.find_silent_leaders({1}, 3.0)
    watch.find_silent_leaders({1}, 4.0)
    [(node_id, done)] = brokers.probes
    assert node_id == 1
    done(None)
    watch.find_silent_leaders({1}, 5.0)
    assert len(brokers.probes) == 2


def test_time_in_which_the_process_stood_still_makes_no_broker_silent():
    brokers = Brokers()
    watch = LeaderMonitor(brokers, unreachable_after_s=10)
    brokers.answers = {1: 0.0}
    assert check_for(watch, {1}, seconds=1) == {}
    assert watch.find_silent_leaders({1}, 500.0) == {}
    for second in range(1, 11):
        assert watch.find_silent_leaders({1}, 500.0 + second) == {}
    assert watch.find_silent_leaders({1}, 511.0) == {1: 0.0}
