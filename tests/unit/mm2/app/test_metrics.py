from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from connect_runtime.base import metrics as base_metrics
from mm2.app import counters, metrics, overview, rates
from mm2.app.reports import flow_report
from mm2.connectors import board, flow_status
from mm2.core import health, measures, reachability
from mm2.core import holds as holding
from mm2.core.copy import crossing
from tests.support import seen_flows, statuses

NOW_MS = 1_700_000_000_000
NOW_S = 5_000_000.0


FLOW = ("east->west",)


class Observed:
    def __init__(self) -> None:
        self.wall_ms, self.now_s = NOW_MS, NOW_S
        self.beside = metrics.Beside()
        self.metrics = metrics.FlowMetrics(
            beside=lambda: self.beside, wall_ms=lambda: self.wall_ms, now_s=lambda: self.now_s
        )

    def later(self, seconds: float, *, step_s: float = 0.0):
        """`step_s`: by so much the wall clock is set, too."""
        self.now_s += seconds
        self.wall_ms += round((seconds + step_s) * 1000)

    def see(self, *flows, engine_ready=True):
        seen = overview.make(flows, rates.Rates(), wall_ms=self.wall_ms, engine_ready=engine_ready)
        self.metrics.observe(flows, seen, engine_ready=engine_ready)
        self.metrics.registry.check_invariants()
        return self

    def saw(self, **beside):
        """The same flow, and this beside it."""
        self.beside = dataclasses.replace(self.beside, **beside)
        return self.see(statuses.flow())

    def family(self, metric):
        (found,) = [each for each in self.metrics.registry.published if each.metric is metric]
        return found

    def __getitem__(self, metric):
        return self.family(metric).series


def test_every_declaration_is_in_the_registry():
    assert metrics.make_registry().metrics == measures.ALL


def test_what_was_copied_is_counted_by_topic():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("orders", 0, records=10, bytes=100),
            statuses.partition("orders", 1, records=5, bytes=50),
            statuses.partition("empty", 0),
        )
    )
    assert seen[measures.RECORDS] == {("east->west", "orders"): 15, ("east->west", "empty"): 0}
    assert seen[measures.BYTES][("east->west", "orders")] == 150


def test_counters_never_go_back_when_readings_do():
    seen = Observed()
    for records in (10, 30, 4, 6):
        seen.see(statuses.flow(statuses.partition(records=records, bytes=records)))
    assert seen[measures.RECORDS] == {("east->west", "orders"): 30 + 6}


def test_counters_stay_when_the_partition_is_gone():
    seen = Observed().see(statuses.flow(statuses.partition(records=3)))
    seen.see(statuses.flow())
    assert seen[measures.RECORDS] == {("east->west", "orders"): 3}
    assert seen[measures.LAG_RECORDS] == {}


def test_lag_is_there_only_while_it_is_known():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("known", copied_to=4, source_end=9, oldest_ms=NOW_MS - 1_500),
            statuses.partition("unknown", copied_to=-1, source_end=-1, phase="taking"),
        )
    )
    assert seen[measures.LAG_RECORDS] == {("east->west", "known"): 5}
    assert seen[measures.LAG_SECONDS] == {("east->west", "known"): 1.5}


def test_the_lag_of_a_paused_topic_is_that_of_the_reports():
    paused = seen_flows.part("orders", state="paused", end=14, waiting_since_ms=NOW_MS - 2_000)
    unknown = seen_flows.part("bills", state="paused", end=None)
    copying = seen_flows.part("users", end=20)
    seen = Observed()
    seen.metrics.beside = lambda: metrics.Beside(
        reports=[seen_flows.report(paused, unknown, copying, at_ms=NOW_MS)]
    )
    seen.see()
    assert seen[measures.LAG_RECORDS] == {("east->west", "orders"): 5}
    assert seen[measures.LAG_SECONDS] == {("east->west", "orders"): 2.0}


def test_opened_partitions_say_why():
    gaps, small = "compaction left gaps in it", "small batches are merged"
    seen = Observed().see(
        statuses.flow(
            statuses.partition("users", 0, opened=gaps),
            statuses.partition("users", 1, opened=gaps),
            statuses.partition("users", 2, opened=small),
            statuses.partition("orders"),
        )
    )
    assert seen[measures.OPENED] == {
        ("east->west", "users", gaps): 2,
        ("east->west", "users", small): 1,
    }


def test_how_long_sources_keep_what_waits_is_told_as_it_is_given():
    given: dict[tuple[str, ...], float] = {("east->west", "orders"): 1.5}
    seen = Observed()
    seen.metrics.losses = lambda: given
    assert seen.see()[measures.LOSS_SECONDS] == given
    given.clear()
    assert seen.see()[measures.LOSS_SECONDS] == {}


def test_states_are_one_hot():
    failed = statuses.flow(name="a->b", state=flow_status.FlowState.FAILED)
    seen = Observed().see(statuses.flow(), failed)
    states = seen[measures.FLOW_STATE]
    assert len(states) == 2 * len(flow_status.FlowState)
    assert {key for key, value in states.items() if value} == {
        ("east->west", "RUNNING"),
        ("a->b", "FAILED"),
    }


def test_tasks_slots_and_restarts():
    seen = Observed()
    for restarts in (0, 2, 3):
        seen.see(
            statuses.flow(
                tasks=[
                    statuses.task(0, restarts=restarts),
                    statuses.task(1, flow_status.TaskState.WAITING_FOR_SLOT, restarts=1),
                ],
                slots_missing=1,
            )
        )
    assert seen[measures.TASKS][("east->west", "WAITING_FOR_SLOT")] == 1
    assert seen[measures.TASKS][("east->west", "RUNNING")] == 1
    assert seen[measures.SLOTS_MISSING] == {("east->west",): 1}
    assert seen[measures.RESTARTS] == {("east->west",): 4}


def test_a_failed_task_is_counted_as_one():
    failed = statuses.task(1, flow_status.TaskState.FAILED, reason="no right")
    seen = Observed().see(statuses.flow(tasks=[statuses.task(0), failed]))
    assert {state: count for (_, state), count in seen[measures.TASKS].items() if count} == {
        "RUNNING": 1,
        "FAILED": 1,
    }


def test_what_is_handed_out_is_told_where_it_is_known():
    seen = Observed().see(statuses.flow(wanted=0), statuses.flow(name="a->b"))
    assert seen[measures.WANTED_PARTITIONS] == {FLOW: 0}


def test_what_an_operator_holds_says_how():
    held = {
        "a->b": holding.Holds(paused=True),
        "b->c": holding.Holds(paused=True, stopped=True),
        "c->d": holding.Holds(paused_topics=frozenset({"orders"})),
    }
    seen = Observed().see(*(statuses.flow(name=name, holds=held[name]) for name in held))
    assert seen[measures.HELD] == {("a->b", "paused"): 1, ("b->c", "stopped"): 1}
    assert seen.see(statuses.flow(name="a->b"))[measures.HELD] == {}


def test_receipts_are_counted_by_topic_and_kind():
    seen = Observed()
    for count in (1, 3):
        told = flow_status.ReceiptCount(topic="orders", kind="source-gone", count=count)
        other = flow_status.ReceiptCount(topic="orders", kind="source-gone", count=1)
        seen.see(
            statuses.flow(
                tasks=[statuses.task(0, receipts=(told,)), statuses.task(1, receipts=(other,))]
            )
        )
    assert seen[measures.RECEIPTS] == {("east->west", "orders", "source-gone"): 4}


def test_what_stands_still_is_counted_by_cause_and_vanishes():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("orders", 0, phase="stopped", cause="corrupt-batch"),
            statuses.partition("orders", 1, phase="stopped", cause="corrupt-batch"),
            statuses.partition("orders", 2),
        )
    )
    assert seen[measures.STOPPED] == {("east->west", "orders", "corrupt-batch"): 2}
    assert seen[measures.PARTITIONS][("east->west", "stopped")] == 2
    assert seen[measures.PARTITIONS][("east->west", "fenced")] == 0
    seen.see(statuses.flow(statuses.partition()))
    assert seen[measures.STOPPED] == {}


def test_what_an_operator_pauses_is_paused_whatever_its_copy_does_but_for_what_stands_still():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("orders", 0),
            statuses.partition("orders", 1, phase="waiting"),
            statuses.partition("orders", 2, phase="stopped", cause="corrupt-batch"),
            statuses.partition("clicks", 0),
            holds=holding.Holds(paused_topics=frozenset({"orders"})),
        )
    )
    found = {phase: count for (_, phase), count in seen[measures.PARTITIONS].items() if count}
    assert found == {"paused": 2, "stopped": 1, "copying": 1}


def test_the_engine_and_the_build():
    seen = Observed().see(statuses.flow(slots_missing=3), engine_ready=False)
    assert seen[measures.ENGINE_READY] == {(): 0}
    assert seen[measures.SLOTS_MISSING] == {("east->west",): 0}
    assert list(seen[measures.BUILD].values()) == [1]
    assert seen.see(statuses.flow())[measures.ENGINE_READY] == {(): 1}


def test_batches_are_counted_by_the_path_that_they_took():
    seen = Observed().see(statuses.flow(statuses.partition(batches=5, made=2)))
    paths = {(*FLOW, "orders", "passed"): 3, (*FLOW, "orders", "opened"): 2}
    assert seen[measures.BATCHES] == paths
    seen.see(statuses.flow(statuses.partition(batches=9, made=2, spared=7)))
    assert seen[measures.BATCHES] == paths | {(*FLOW, "orders", "passed"): 7}
    assert seen[measures.DUPLICATES] == {(*FLOW, "orders"): 7}


def test_the_map_is_as_old_as_what_it_lacks_longest():
    flow = statuses.flow(
        statuses.partition("orders", 0, unrecorded_s=math.inf),
        statuses.partition("orders", 1, unrecorded_s=NOW_S - 3),
        statuses.partition("orders", 2, unrecorded_s=NOW_S - 0.5),
        statuses.partition("covered", 0, unrecorded_s=math.inf),
        statuses.partition("unknown", 0),
    )
    seen = Observed().see(flow)
    assert seen[measures.MAP_AGE] == {(*FLOW, "orders"): 3.0, (*FLOW, "covered"): 0.0}
    seen.later(2)
    assert seen.see(flow)[measures.MAP_AGE][(*FLOW, "orders")] == 5.0


def test_the_newest_heartbeat_grows_old_and_its_way_does_not():
    beat = statuses.partition("heartbeats", newest_ms=NOW_MS - 4_000, age_ms=12)
    flow = statuses.flow(beat, statuses.partition())
    seen = Observed().see(flow)
    assert seen[measures.HEARTBEAT_AGE] == {FLOW: 4.0}
    assert seen[measures.HEARTBEAT_ROUND_TRIP] == {FLOW: 0.012}
    seen.later(1)
    assert seen.see(flow)[measures.HEARTBEAT_AGE] == {FLOW: 5.0}
    seen.see(statuses.flow(statuses.partition("heartbeats")))
    assert seen[measures.HEARTBEAT_AGE] == seen[measures.HEARTBEAT_ROUND_TRIP] == {}


@pytest.mark.parametrize("step_h", [6, -6, -12])
def test_a_step_of_the_wall_clock_makes_nothing_younger(step_h):
    """Ages that alerts ask for: of the map, of groups, of heartbeats that no longer come."""
    flow = statuses.flow(
        statuses.partition("orders", unrecorded_s=NOW_S - 3),
        statuses.partition("heartbeats", newest_ms=NOW_MS - 1_000),
    )
    seen = Observed()
    seen.beside = metrics.Beside(groups={"east->west": {0: shown(NOW_S - 2)}})
    seen.see(flow)
    seen.later(100, step_s=step_h * 3_600)
    seen.see(flow)
    assert seen[measures.MAP_AGE][(*FLOW, "orders")] == 103.0
    assert seen[measures.GROUP_SYNC_AGE] == {FLOW: 102.0}
    assert seen[measures.HEARTBEAT_AGE][FLOW] >= 100.0


def pulse(*counts, **more):
    return crossing.Pulse(counts=(*counts, *[0] * (crossing.BUCKETS - len(counts))), **more)


def test_latencies_of_all_tasks_are_one_histogram_that_never_falls():
    seen = Observed()
    first = pulse(1, 2, sum_ms=9)
    for told in (
        {0: first, 1: pulse(5, sum_ms=5)},
        {0: first, 1: pulse(6, sum_ms=8)},
        {0: pulse(0, 1, sum_ms=7), 1: pulse(6, sum_ms=8)},
    ):
        seen.saw(pulses={"east->west": told})
    (found,) = seen.family(measures.LATENCY).distributions.values()
    assert (found.counts[:3], round(found.sum, 6)) == ((7, 3, 0), 0.024)
    seen.saw(pulses={})
    assert seen.family(measures.LATENCY).distributions[FLOW] is found


def report(*parts, **fields):
    given: dict[str, Any] = {"flow": "east->west", "state": flow_report.State.RUNNING}
    return flow_report.FlowReport(
        seen_by=("process 7",), at_ms=NOW_MS, partitions=parts, **given | fields
    )


COPIED = flow_report.Partition(
    topic="orders", partition=0, mirror="m", state="copying", copied_to=9, end=9
)


def lost(side, broker=""):
    return reachability.Unreachable(side=side, cluster="x", reason="refused", broker=broker)


def test_the_age_of_the_last_batch_is_that_of_the_report():
    last = health.Crossing(at_ms=NOW_MS - 9_000, by=health.By.BATCH)
    crossed = health.Crossed(begun_ms=NOW_MS - 60_000, last=last)
    assert Observed().saw(reports=[report(crossed=crossed)])[measures.CROSSING_AGE] == {FLOW: 9.0}


def test_a_flow_that_replicated_nothing_yet_grows_old_from_its_start():
    crossed = health.Crossed(begun_ms=NOW_MS - 60_000, last=None)
    assert Observed().saw(reports=[report(crossed=crossed)])[measures.CROSSING_AGE] == {FLOW: 60.0}


def test_a_node_that_replicates_nothing_of_a_flow_has_no_age_of_it():
    assert Observed().saw(reports=[report(elsewhere=2)])[measures.CROSSING_AGE] == {}


@pytest.mark.parametrize(
    ("found", "healthy"),
    [
        (report(COPIED), {FLOW: 1}),
        (report(elsewhere=2), {FLOW: 1}),
        (report(dataclasses.replace(COPIED, state="stopped")), {FLOW: 0}),
        (report(COPIED, unreachable=(lost(reachability.Side.TARGET),)), {FLOW: 0}),
        (report(COPIED, state=flow_report.State.PAUSED), {FLOW: 0}),
        (report(state=flow_report.State.UNKNOWN), {}),
    ],
)
def test_the_verdict_is_a_metric_absent_while_it_is_unknown(found, healthy):
    assert Observed().saw(reports=[found])[measures.HEALTHY] == healthy


def test_the_verdict_is_by_the_objective_of_the_file():
    seen = Observed()
    seen.metrics.within_s = 8.0
    last = health.Crossing(at_ms=NOW_MS - 9_000, by=health.By.BATCH)
    crossed = health.Crossed(begun_ms=NOW_MS - 60_000, last=last)
    assert seen.saw(reports=[report(COPIED, crossed=crossed)])[measures.HEALTHY] == {FLOW: 0}


@pytest.mark.parametrize(
    ("unreachable", "source", "target"),
    [
        ((), 1, 1),
        ((lost(reachability.Side.SOURCE),), 0, 1),
        ((lost(reachability.Side.TARGET),), 1, 0),
        ((lost(reachability.Side.SOURCE, "2 (b:9092)"),), 1, 1),
    ],
)
def test_each_cluster_of_a_flow_is_reachable_or_not(unreachable, source, target):
    seen = Observed().saw(reports=[report(COPIED, unreachable=unreachable)])
    assert seen[measures.REACHABLE] == {
        ("east->west", "source"): source,
        ("east->west", "target"): target,
    }


def test_clocks_differ_by_the_most_that_a_task_saw():
    told = {0: pulse(ahead_ms=250), 1: pulse(ahead_ms=3_000)}
    assert Observed().saw(pulses={"east->west": told})[measures.CLOCK_SKEW] == {FLOW: 3.0}


def shown(round_s, groups=0, **more):
    nobody = board.GroupsFound(known=0, matching=0, groups={})
    return board.GroupsShown(round_s=round_s, groups=groups, find=lambda *_: nobody, **more)


def test_groups_are_as_old_as_the_round_that_is_longest_ago():
    seen = Observed()
    one = shown(NOW_S - 1, 3, writes=True, written_s=NOW_S - 8)
    seen.saw(groups={"east->west": {0: one, 1: shown(NOW_S - 2, 4)}})
    assert seen[measures.GROUP_SYNC_AGE] == {FLOW: 8.0}
    assert seen[measures.SYNCED_GROUPS] == {FLOW: 7}
    for missing in (shown(None), shown(NOW_S, writes=True)):
        first = dataclasses.replace(missing, since_s=NOW_S - 9)
        seen = Observed().saw(groups={"east->west": {0: one, 1: first}})
        assert seen[measures.GROUP_SYNC_AGE] == {FLOW: 9.0}
        assert seen[measures.SYNCED_GROUPS] == {}


def test_before_the_first_round_groups_are_as_old_as_the_wait_for_it():
    seen = Observed()
    waits = {"east->west": {0: shown(None, since_s=NOW_S)}}
    assert seen.saw(groups=waits)[measures.GROUP_SYNC_AGE] == {FLOW: 0.0}
    seen.later(400)
    assert seen.saw(groups=waits)[measures.GROUP_SYNC_AGE] == {FLOW: 400.0}


def test_a_checkpoint_task_that_begins_anew_has_repaired_nothing_yet():
    flow = dataclasses.replace(statuses.flow(statuses.partition()), checkpoint_tasks=1)
    seen = Observed()
    old = shown(NOW_S - 200, 3)
    for groups in (
        {0: old},
        {},
        {0: shown(None, since_s=NOW_S)},
        {0: shown(NOW_S, 3, writes=True, since_s=NOW_S)},
    ):
        seen.beside = metrics.Beside(groups={"east->west": groups} if groups else {})
        assert seen.see(flow)[measures.GROUP_SYNC_AGE] == {FLOW: 200.0}, groups
    seen.beside = metrics.Beside(groups={"east->west": {0: shown(NOW_S, 3)}})
    assert seen.see(flow)[measures.GROUP_SYNC_AGE] == {FLOW: 0.0}
    seen.beside = metrics.Beside()
    without = dataclasses.replace(flow, checkpoint_tasks=0)
    assert seen.see(without)[measures.GROUP_SYNC_AGE] == {}


def test_a_checkpoint_task_that_never_began_is_waited_for():
    flow = dataclasses.replace(statuses.flow(statuses.partition()), checkpoint_tasks=1)
    seen = Observed().see(flow)
    seen.later(60)
    assert seen.see(flow)[measures.GROUP_SYNC_AGE] == {FLOW: 60.0}
    assert seen[measures.SYNCED_GROUPS] == {}


def test_drills_are_those_of_the_flows_that_run_here():
    seen = Observed().saw(drills={"east->west": 1.7e9, "gone->away": 1.6e9})
    assert seen[measures.DRILL] == {FLOW: 1.7e9}
    assert seen[measures.DRILLS_NOTED] == {FLOW: 1}


def test_where_drills_are_noted_it_is_told_before_the_first_and_else_never():
    seen = Observed().saw(drills={})
    assert (seen[measures.DRILL], seen[measures.DRILLS_NOTED]) == ({}, {FLOW: 1})
    assert Observed().saw(drills=None)[measures.DRILLS_NOTED] == {}


def test_connectors_that_are_held_also_of_flows_that_do_not_mirror():
    held = {
        "east->west": {"MirrorCheckpointConnector": holding.By.PAUSED},
        "west->east": {"MirrorHeartbeatConnector": holding.By.STOPPED},
        "east->south": {},
    }
    seen = Observed().saw(held=held)
    assert seen[measures.CONNECTOR_HELD] == {
        (*FLOW, "MirrorCheckpointConnector", "paused"): 1,
        ("west->east", "MirrorHeartbeatConnector", "stopped"): 1,
    }
    assert seen.saw(held={"east->west": {}})[measures.CONNECTOR_HELD] == {}


def test_rebalances_slots_and_drills():
    seen = Observed()
    assert seen.saw()[measures.SLOTS] == seen[measures.REBALANCES] == seen[measures.DRILL] == {}
    for count in (0, 2, 1):
        seen.saw(rebalances={"east->west": count}, slots=(2, 510), drills={"east->west": 1.7e9})
    assert seen[measures.REBALANCES] == {FLOW: 3}
    assert seen[measures.SLOTS] == {("used",): 2, ("free",): 510}
    assert seen[measures.DRILL] == {FLOW: 1.7e9}


def test_what_has_not_changed_is_not_gone_through_again(monkeypatch):
    flow = statuses.flow(statuses.partition("orders", records=5), statuses.partition("rest"))
    seen = Observed().see(flow)
    looks: list[object] = []
    monkeypatch.setattr(metrics, "_look", looks.append)
    monkeypatch.setattr(counters.Counters, "look", lambda *_: looks.append("counted"))
    before = seen.family(measures.RECORDS)
    seen.see(flow)
    assert looks == []
    assert seen.family(measures.RECORDS) is before


def test_single_partitions_are_as_their_topics():
    holds = dataclasses.replace(statuses.flow().holds, paused_topics=frozenset({"held"}))
    flow = statuses.flow(
        statuses.partition("orders", 3, copied_to=4, source_end=9, oldest_ms=NOW_MS - 1_500),
        statuses.partition("rest", 0),
        statuses.partition("unknown", 0, copied_to=-1, phase="taking"),
        statuses.partition("stale", 0, phase="waiting"),
        statuses.partition("held", 0),
        holds=holds,
    )
    records, seconds = metrics.by_partition([flow], NOW_MS)
    assert records.series == {(*FLOW, "orders", "3"): 5, (*FLOW, "rest", "0"): 0}
    assert seconds.series == {(*FLOW, "orders", "3"): 1.5, (*FLOW, "rest", "0"): 0.0}
    assert (records.metric, seconds.metric) == measures.BY_PARTITION
    assert all(isinstance(each, base_metrics.Family) for each in (records, seconds))
