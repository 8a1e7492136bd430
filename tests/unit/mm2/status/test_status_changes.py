from __future__ import annotations

import dataclasses
import logging

from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.connectors.status_registry import FlowState
from mm2.status import topic_rows
from mm2.status.status_changes import StatusChangeLog
from mm2.status.topic_rows import CopyRates
from tests.support import statuses

State = FlowState


class Watched:
    def __init__(self) -> None:
        self._changes = StatusChangeLog()

    def see(self, *flows, at_s: float = 0.0):
        seen = topic_rows.make_overview(flows, CopyRates(), wall_ms=0, engine_ready=True)
        return [(each.level, each.text) for each in self._changes.observe(seen, flows, at_s)]


def test_states_are_told_when_they_change():
    watched = Watched()
    planning = statuses.flow(statuses.partition(), state=State.PLANNING, reason="starting")
    assert watched.see(planning) == [(logging.INFO, "east->west is PLANNING: starting")]
    assert watched.see(planning) == []
    running = statuses.flow(statuses.partition())
    assert watched.see(running) == [(logging.INFO, "east->west is RUNNING")]
    failed = statuses.flow(statuses.partition(), state=State.FAILED, reason="fenced")
    assert watched.see(failed) == [(logging.ERROR, "east->west is FAILED: fenced")]


def test_a_pause_is_a_state_and_lines_say_which_flow_they_are_about():
    watched = StatusChangeLog()

    def see(*flows):
        seen = topic_rows.make_overview(flows, CopyRates(), wall_ms=0, engine_ready=True)
        return watched.observe(seen, flows, 0.0)

    running = statuses.flow(statuses.partition())
    assert [each.fields for each in see(running)] == [{"flow": "east->west"}]
    paused = statuses.flow(statuses.partition(), holds=OperatorOverrides(paused=True))
    assert [each.text for each in see(paused)] == ["east->west is PAUSED"]
    assert [each.text for each in see(running)] == ["east->west is RUNNING"]


def test_missing_slots_are_told_with_their_number():
    watched = Watched()
    watched.see(statuses.flow(statuses.partition()))
    short = statuses.flow(statuses.partition(), slots_missing=2)
    assert watched.see(short, at_s=1.0) == []
    ((level, text),) = watched.see(short, at_s=4.0)
    assert level == logging.WARNING
    assert "needs 2 more Spark slots" in text
    assert watched.see(short, at_s=5.0) == []
    ((_, text),) = watched.see(statuses.flow(statuses.partition(), slots_missing=1), at_s=6.0)
    assert "needs 1 more Spark slot;" in text
    assert watched.see(statuses.flow(statuses.partition()), at_s=7.0) == [
        (logging.INFO, "east->west: every task has its Spark slot")
    ]


def test_a_shortage_that_passes_at_once_is_not_told():
    watched = Watched()
    watched.see(statuses.flow(statuses.partition()))
    short = statuses.flow(statuses.partition(), slots_missing=1)
    enough = statuses.flow(statuses.partition())
    for at_s, flow in ((1.0, short), (2.0, enough), (3.0, short), (5.0, short), (5.5, enough)):
        assert watched.see(flow, at_s=at_s) == []


def test_a_flow_that_matches_nothing_says_so_once():
    watched = Watched()
    lines = watched.see(statuses.flow())
    assert any("no topic of the source matches" in text for _, text in lines)
    assert watched.see(statuses.flow()) == []


def test_what_others_have_or_what_is_on_its_way_is_something():
    watched = Watched()
    assert watched.see(statuses.flow(elsewhere=2)) == [(logging.INFO, "east->west is RUNNING")]
    assert [level for level, _ in watched.see(statuses.flow())] == [logging.WARNING]


def test_topics_that_are_given_to_no_copy_are_told_once_a_topic():
    watched = Watched()
    watched.see(statuses.flow(statuses.partition("fine")))
    refused = [
        statuses.partition("orders", number, phase="halted", task=-1, reason="no WRITE")
        for number in range(3)
    ]
    copied = statuses.partition("payments", phase="halted", task=0, reason="corrupt")
    lines = watched.see(statuses.flow(*refused, copied))
    assert lines == [(logging.ERROR, "east->west: orders-0: no WRITE")]
    assert watched.see(statuses.flow(*refused, copied)) == []


def test_a_partition_that_goes_on_is_told_while_the_flow_runs():
    watched = Watched()
    watched.see(statuses.flow(statuses.partition(phase="halted")))
    assert watched.see(statuses.flow(statuses.partition())) == [
        (logging.INFO, "east->west: orders-0 is no longer halted")
    ]
    watched.see(statuses.flow(statuses.partition(phase="halted")))
    on_its_way = statuses.flow(statuses.partition(phase="waiting"))
    assert watched.see(on_its_way) == []
    assert watched.see(statuses.flow(statuses.partition(phase="halted"))) == []
    assert watched.see(on_its_way) == []
    assert [text for _, text in watched.see(statuses.flow(statuses.partition()))] == [
        "east->west: orders-0 is no longer halted"
    ]
    watched.see(statuses.flow(statuses.partition(), statuses.partition("gone", phase="halted")))
    assert watched.see(statuses.flow(statuses.partition())) == []
    watched.see(statuses.flow(statuses.partition(phase="halted")))
    stopping = statuses.flow(statuses.partition(phase="closed"), state=State.STOPPING)
    assert watched.see(stopping) == [(logging.INFO, "east->west is STOPPING")]


def test_partitions_that_nobody_may_fence_are_told_once_with_the_right_they_lack():
    watched = Watched()
    partitions = [statuses.partition(number=each, fenced=False) for each in range(2)]
    unfenced = dataclasses.replace(statuses.flow(*partitions), fencing_command="kafka-acls.sh x")
    lines = watched.see(unfenced)
    assert [text for level, text in lines if level == logging.WARNING] == [
        "east->west: mm2 is not authorized for its transactional ids on the target, so zombie "
        "writers cannot be fenced: 2 partitions are replicated at least once. The remedy grants "
        "the permission and restarts the tasks. The tasks then replicate exactly once. Remedy: "
        "kafka-acls.sh x"
    ]
    assert watched.see(unfenced) == []
    assert watched.see(statuses.flow(*partitions)) == []
