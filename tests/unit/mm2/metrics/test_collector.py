"""What is counted over tasks that come and go, and what is forgotten."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from connect_runtime.base.metrics import MetricFamily
from mm2.config.pause_and_throttle_overrides import OperatorOverrides, OverrideKind
from mm2.connectors.status_registry import (
    CheckpointGroupsSnapshot,
    FlowState,
    FlowStatus,
    GroupSearchResult,
    IncidentCount,
    TaskState,
)
from mm2.metrics import collector, metric_declarations
from mm2.metrics.collector import FlowCounters, FlowMetricsCollector, MetricInputs
from mm2.replication import replication_latency
from mm2.replication.replication_latency import LatencySnapshot
from mm2.status import topic_rows
from mm2.status.process_health import LastReplication, ReplicationActivity, ReplicationEvidenceKind
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState
from mm2.status.topic_rows import CopyRates
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster
from tests.support import seen_flows, statuses

FLOW = ("east->west",)
ORDERS = (*FLOW, "orders")
RUNNING, FAILED = TaskState.RUNNING, TaskState.FAILED


class Counted:
    def __init__(self) -> None:
        self.registry = collector.create_metrics_registry()
        self.counters = FlowCounters(self.registry)
        self.before: FlowStatus | None = None
        self.wall_ms = 0

    def look(self, status: FlowStatus) -> Counted:
        self.counters.count_status_increases(status, self.before, self.wall_ms)
        self.counters.drop_expired_counters([status.flow], self.wall_ms)
        self.before = status
        return self

    def sees(self, *partitions, **more) -> Counted:
        return self.look(statuses.flow(*partitions, **more))

    def later(self, ms: int = collector.COUNTER_RETENTION_MS) -> Counted:
        self.wall_ms += ms
        return self

    def __getitem__(self, metric):
        self.registry.publish_metric_families()
        self.registry.check_invariants()
        (found,) = [each for each in self.registry.all_families if each.metric is metric]
        return found.distributions if metric.bounds else found.series


def incidents(count: int) -> tuple[IncidentCount, ...]:
    return (IncidentCount(topic="orders", kind="source-gone", count=count),)


def test_a_partition_that_was_away_is_counted_from_nothing():
    """It comes back with more than it had when it left."""
    counted = Counted().sees(
        statuses.partition(records=100, already_stored_records=1, batches=3, reencoded_batches=1)
    )
    counted.sees(tasks=[])
    counted.sees(
        statuses.partition(
            records=100_000, already_stored_records=2, batches=9, reencoded_batches=2
        )
    )
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 100_100}
    assert counted[metric_declarations.DUPLICATES_REFUSED] == {ORDERS: 3}
    assert counted[metric_declarations.REPLICATED_BATCHES] == {
        (*ORDERS, "pass-through"): 9,
        (*ORDERS, "re-encoded"): 3,
    }


def test_what_another_task_of_the_node_gets_it_counts_from_nothing():
    tasks = [statuses.task(0), statuses.task(1)]
    counted = Counted().sees(statuses.partition(records=100, task=0), tasks=tasks)
    counted.sees(statuses.partition(records=300, task=1), tasks=tasks)
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 400}
    counted.sees(statuses.partition(records=500, task=0), tasks=tasks)
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 900}


def test_what_is_shown_of_a_task_that_is_gone_counts_no_further():
    last = statuses.partition(records=100, phase="waiting")
    counted = Counted().sees(statuses.partition(records=100))
    for tasks in ([], [statuses.task(0, FAILED)], [statuses.task(0, FAILED)]):
        counted.sees(last, tasks=tasks)
        assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 100}
    counted.sees(statuses.partition(records=150))
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 250}


def test_what_stays_the_same_object_while_its_task_is_gone_is_counted_anew_afterwards():
    same = statuses.partition(records=100)
    counted = Counted().sees(same)
    counted.sees(same, tasks=[])
    counted.sees(statuses.partition(records=150))
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 250}


def test_a_share_of_as_many_other_partitions_is_counted_from_nothing():
    counted = Counted().sees(statuses.partition("orders", 0, records=100))
    counted.sees(statuses.partition("orders", 1, records=7))
    counted.sees(statuses.partition("orders", 0, records=300))
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 407}


def test_incidents_and_restarts_of_a_new_task_come_on_top():
    counted = Counted().sees(tasks=[statuses.task(restarts=2, incidents=incidents(3))])
    counted.sees(tasks=[statuses.task(0, FAILED, reason="no right")])
    counted.sees(tasks=[statuses.task(restarts=5, incidents=incidents(4))])
    assert counted[metric_declarations.INCIDENTS] == {(*ORDERS, "source-gone"): 7}
    assert counted[metric_declarations.TASK_RESTARTS] == {FLOW: 7}


def test_a_task_that_begins_anew_between_two_looks_is_counted_from_nothing():
    """It is shown at once with more than the one before it had."""
    counted = Counted().sees(
        statuses.partition(records=100, batches=3, reencoded_batches=1),
        tasks=[statuses.task(counter_generation=1, restarts=1, incidents=incidents(2))],
    )
    for _ in range(2):
        counted.sees(
            statuses.partition(records=150, batches=4, reencoded_batches=1),
            tasks=[statuses.task(counter_generation=2, restarts=1, incidents=incidents(5))],
        )
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 250}
    assert counted[metric_declarations.REPLICATED_BATCHES] == {
        (*ORDERS, "pass-through"): 5,
        (*ORDERS, "re-encoded"): 2,
    }
    assert counted[metric_declarations.TASK_RESTARTS] == {FLOW: 2}
    assert counted[metric_declarations.INCIDENTS] == {(*ORDERS, "source-gone"): 7}


def test_that_begins_anew_with_the_very_same_figures_too():
    same = statuses.partition(records=100)
    counted = Counted().sees(same, tasks=[statuses.task(counter_generation=1)])
    counted.sees(same, tasks=[statuses.task(counter_generation=2)])
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 200}


def test_while_a_task_starts_what_is_shown_is_of_its_life_before():
    last, starts = statuses.partition(records=100, phase="waiting"), TaskState.STARTING
    counted = Counted().sees(
        statuses.partition(records=100), tasks=[statuses.task(counter_generation=1)]
    )
    counted.sees(last, tasks=[statuses.task(0, starts, counter_generation=0)])
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 100}
    counted.sees(statuses.partition(records=150), tasks=[statuses.task(counter_generation=2)])
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 250}


def test_of_copies_that_are_gone_nothing_is_kept():
    def pulse(count):
        return LatencySnapshot(
            counts=(count,) + (0,) * (replication_latency.BUCKET_COUNT - 1), sum_ms=count
        )

    counted = Counted()
    for told in ({0: pulse(10)}, {1: pulse(1)}, {0: pulse(20)}):
        counted.counters.count_latencies({"east->west": told})
    assert counted[metric_declarations.REPLICATION_LATENCY][FLOW].counts[0] == 31


def test_of_a_task_that_begins_anew_between_two_looks_all_latencies_count():
    counted = Counted()
    for count, life in ((10, 1), (20, 2), (25, 2)):
        told = LatencySnapshot(
            counts=(count,) + (0,) * (replication_latency.BUCKET_COUNT - 1), incarnation=life
        )
        counted.counters.count_latencies({"east->west": {0: told}})
    assert counted[metric_declarations.REPLICATION_LATENCY][FLOW].counts[0] == 35


def test_rebalances_of_a_flow_that_was_away_come_on_top():
    counted = Counted()
    for found in ({"east->west": 2}, {}, {"east->west": 3}, {"east->west": 4}):
        counted.counters.count_rebalances(found)
    assert counted[metric_declarations.REBALANCES] == {FLOW: 6}


def test_a_topic_that_has_left_is_told_of_until_it_was_scraped_and_then_no_more():
    shown = statuses.partition("kept"), statuses.partition("orders", records=5)
    task = statuses.task(incidents=incidents(2))
    counted = Counted().sees(*shown, tasks=[task])
    counted.sees(statuses.partition("kept")).later(collector.COUNTER_RETENTION_MS - 1)
    counted.sees(statuses.partition("kept"))
    assert ORDERS in counted[metric_declarations.REPLICATED_RECORDS]
    counted.later(1).sees(statuses.partition("kept"))
    for metric in (
        metric_declarations.REPLICATED_RECORDS,
        metric_declarations.REPLICATED_BYTES,
        metric_declarations.DUPLICATES_REFUSED,
    ):
        assert set(counted[metric]) == {(*FLOW, "kept")}
    assert {labels[1] for labels in counted[metric_declarations.REPLICATED_BATCHES]} == {"kept"}
    assert counted[metric_declarations.INCIDENTS] == {}
    assert counted[metric_declarations.TASK_RESTARTS] == {FLOW: 0}
    counted.sees(*shown)
    assert counted[metric_declarations.REPLICATED_RECORDS][ORDERS] == 5


def test_a_topic_that_comes_back_in_time_goes_on():
    counted = Counted().sees(statuses.partition(records=5))
    counted.sees(tasks=[]).later(collector.COUNTER_RETENTION_MS - 1)
    counted.sees(statuses.partition(records=1)).later()
    counted.sees(statuses.partition(records=2))
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 7}


def test_what_incidents_tell_of_is_not_forgotten_while_their_task_runs():
    task = statuses.task(incidents=incidents(2))
    counted = Counted().sees(statuses.partition(), tasks=[task])
    counted.sees(tasks=[task]).later()
    counted.sees(tasks=[task])
    assert counted[metric_declarations.INCIDENTS] == {(*ORDERS, "source-gone"): 2}


def test_a_flow_that_is_no_more_is_forgotten_altogether():
    counted = Counted().sees(statuses.partition(records=5))
    counted.counters.count_rebalances({"east->west": 1})
    counted.counters.count_latencies({"east->west": {0: LatencySnapshot()}})
    counted.counters.drop_expired_counters([], counted.wall_ms)
    assert counted[metric_declarations.REPLICATED_RECORDS] == {ORDERS: 5}
    counted.later().counters.drop_expired_counters([], counted.wall_ms)
    for metric in (
        metric_declarations.REPLICATED_RECORDS,
        metric_declarations.TASK_RESTARTS,
        metric_declarations.REBALANCES,
        metric_declarations.REPLICATION_LATENCY,
    ):
        assert counted[metric] == {}
    counted.later().counters.drop_expired_counters([], counted.wall_ms)
    counted.before = None
    assert counted.sees(statuses.partition(records=1))[metric_declarations.REPLICATED_RECORDS] == {
        ORDERS: 1
    }


NOW_MS = 1_700_000_000_000
NOW_S = 5_000_000.0


class Observed:
    def __init__(self) -> None:
        self.wall_ms, self.now_s = NOW_MS, NOW_S
        self.beside = MetricInputs()
        self.metrics = FlowMetricsCollector(
            inputs=lambda: self.beside, wall_ms=lambda: self.wall_ms, now_s=lambda: self.now_s
        )

    def later(self, seconds: float, *, step_s: float = 0.0):
        """`step_s`: by so much the wall clock is set, too."""
        self.now_s += seconds
        self.wall_ms += round((seconds + step_s) * 1000)

    def see(self, *flows, engine_ready=True):
        seen = topic_rows.make_overview(
            flows, CopyRates(), wall_ms=self.wall_ms, engine_ready=engine_ready
        )
        self.metrics.update_metrics(flows, seen, engine_ready=engine_ready)
        self.metrics.registry.check_invariants()
        return self

    def saw(self, **beside):
        """The same flow, and this beside it."""
        self.beside = dataclasses.replace(self.beside, **beside)
        return self.see(statuses.flow())

    def family(self, metric):
        (found,) = [each for each in self.metrics.registry.all_families if each.metric is metric]
        return found

    def __getitem__(self, metric):
        return self.family(metric).series


def test_every_declaration_is_in_the_registry():
    assert collector.create_metrics_registry().metrics == metric_declarations.ALL_METRICS


def test_what_was_copied_is_counted_by_topic():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("orders", 0, records=10, bytes=100),
            statuses.partition("orders", 1, records=5, bytes=50),
            statuses.partition("empty", 0),
        )
    )
    assert seen[metric_declarations.REPLICATED_RECORDS] == {
        ("east->west", "orders"): 15,
        ("east->west", "empty"): 0,
    }
    assert seen[metric_declarations.REPLICATED_BYTES][("east->west", "orders")] == 150


def test_counters_never_go_back_when_readings_do():
    seen = Observed()
    for records in (10, 30, 4, 6):
        seen.see(statuses.flow(statuses.partition(records=records, bytes=records)))
    assert seen[metric_declarations.REPLICATED_RECORDS] == {("east->west", "orders"): 30 + 6}


def test_counters_stay_when_the_partition_is_gone():
    seen = Observed().see(statuses.flow(statuses.partition(records=3)))
    seen.see(statuses.flow())
    assert seen[metric_declarations.REPLICATED_RECORDS] == {("east->west", "orders"): 3}
    assert seen[metric_declarations.LAG_RECORDS] == {}


def test_lag_is_there_only_while_it_is_known():
    seen = Observed().see(
        statuses.flow(
            statuses.partition(
                "known", copied_to=4, source_end=9, oldest_uncopied_ms=NOW_MS - 1_500
            ),
            statuses.partition("unknown", copied_to=-1, source_end=-1, phase="acquiring"),
        )
    )
    assert seen[metric_declarations.LAG_RECORDS] == {("east->west", "known"): 5}
    assert seen[metric_declarations.LAG_SECONDS] == {("east->west", "known"): 1.5}


def test_the_lag_of_a_paused_topic_is_that_of_the_reports():
    paused = seen_flows.part("orders", state="paused", end=14, waiting_since_ms=NOW_MS - 2_000)
    unknown = seen_flows.part("bills", state="paused", end=None)
    copying = seen_flows.part("users", end=20)
    seen = Observed()
    seen.metrics.inputs = lambda: MetricInputs(
        reports=[seen_flows.report(paused, unknown, copying, at_ms=NOW_MS)]
    )
    seen.see()
    assert seen[metric_declarations.LAG_RECORDS] == {("east->west", "orders"): 5}
    assert seen[metric_declarations.LAG_SECONDS] == {("east->west", "orders"): 2.0}


def test_opened_partitions_say_why():
    gaps, small = "compaction left gaps in the batch", "small batches were merged"
    seen = Observed().see(
        statuses.flow(
            statuses.partition("users", 0, reencode_reason=gaps),
            statuses.partition("users", 1, reencode_reason=gaps),
            statuses.partition("users", 2, reencode_reason=small),
            statuses.partition("orders"),
        )
    )
    assert seen[metric_declarations.REENCODED_PARTITIONS] == {
        ("east->west", "users", gaps): 2,
        ("east->west", "users", small): 1,
    }


def test_how_long_sources_keep_what_waits_is_told_as_it_is_given():
    given: dict[tuple[str, ...], float] = {("east->west", "orders"): 1.5}
    seen = Observed()
    seen.metrics.times_to_data_loss = lambda: given
    assert seen.see()[metric_declarations.TIME_TO_DATA_LOSS] == given
    given.clear()
    assert seen.see()[metric_declarations.TIME_TO_DATA_LOSS] == {}


def test_states_are_one_hot():
    failed = statuses.flow(name="a->b", state=FlowState.FAILED)
    seen = Observed().see(statuses.flow(), failed)
    states = seen[metric_declarations.FLOW_STATE]
    assert len(states) == 2 * len(FlowState)
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
                    statuses.task(1, TaskState.WAITING_FOR_SLOT, restarts=1),
                ],
                slots_missing=1,
            )
        )
    assert seen[metric_declarations.FLOW_TASKS][("east->west", "WAITING_FOR_SLOT")] == 1
    assert seen[metric_declarations.FLOW_TASKS][("east->west", "RUNNING")] == 1
    assert seen[metric_declarations.SPARK_MISSING_SLOTS] == {("east->west",): 1}
    assert seen[metric_declarations.TASK_RESTARTS] == {("east->west",): 4}


def test_a_failed_task_is_counted_as_one():
    failed = statuses.task(1, TaskState.FAILED, reason="no right")
    seen = Observed().see(statuses.flow(tasks=[statuses.task(0), failed]))
    assert {
        state: count for (_, state), count in seen[metric_declarations.FLOW_TASKS].items() if count
    } == {
        "RUNNING": 1,
        "FAILED": 1,
    }


def test_what_is_handed_out_is_told_where_it_is_known():
    seen = Observed().see(statuses.flow(wanted=0), statuses.flow(name="a->b"))
    assert seen[metric_declarations.FLOW_ASSIGNED_PARTITIONS] == {FLOW: 0}


def test_what_an_operator_holds_says_how():
    held = {
        "a->b": OperatorOverrides(paused=True),
        "b->c": OperatorOverrides(paused=True, stopped=True),
        "c->d": OperatorOverrides(paused_topics=frozenset({"orders"})),
    }
    seen = Observed().see(*(statuses.flow(name=name, holds=held[name]) for name in held))
    assert seen[metric_declarations.FLOW_OVERRIDE] == {
        ("a->b", "paused"): 1,
        ("b->c", "stopped"): 1,
    }
    assert seen.see(statuses.flow(name="a->b"))[metric_declarations.FLOW_OVERRIDE] == {}


def test_incidents_are_counted_by_topic_and_kind():
    seen = Observed()
    for count in (1, 3):
        told = IncidentCount(topic="orders", kind="source-gone", count=count)
        other = IncidentCount(topic="orders", kind="source-gone", count=1)
        seen.see(
            statuses.flow(
                tasks=[statuses.task(0, incidents=(told,)), statuses.task(1, incidents=(other,))]
            )
        )
    assert seen[metric_declarations.INCIDENTS] == {("east->west", "orders", "source-gone"): 4}


def test_what_stands_still_is_counted_by_cause_and_vanishes():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("orders", 0, phase="halted", cause="corrupt-batch"),
            statuses.partition("orders", 1, phase="halted", cause="corrupt-batch"),
            statuses.partition("orders", 2),
        )
    )
    assert seen[metric_declarations.HALTED_PARTITIONS] == {
        ("east->west", "orders", "corrupt-batch"): 2
    }
    assert seen[metric_declarations.FLOW_PARTITIONS][("east->west", "halted")] == 2
    assert seen[metric_declarations.FLOW_PARTITIONS][("east->west", "fenced")] == 0
    seen.see(statuses.flow(statuses.partition()))
    assert seen[metric_declarations.HALTED_PARTITIONS] == {}


def test_what_an_operator_pauses_is_paused_whatever_its_copy_does_but_for_what_stands_still():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("orders", 0),
            statuses.partition("orders", 1, phase="waiting"),
            statuses.partition("orders", 2, phase="halted", cause="corrupt-batch"),
            statuses.partition("clicks", 0),
            holds=OperatorOverrides(paused_topics=frozenset({"orders"})),
        )
    )
    found = {
        phase: count
        for (_, phase), count in seen[metric_declarations.FLOW_PARTITIONS].items()
        if count
    }
    assert found == {"paused": 2, "halted": 1, "copying": 1}


def test_the_engine_and_the_build():
    seen = Observed().see(statuses.flow(slots_missing=3), engine_ready=False)
    assert seen[metric_declarations.ENGINE_READY] == {(): 0}
    assert seen[metric_declarations.SPARK_MISSING_SLOTS] == {("east->west",): 0}
    assert list(seen[metric_declarations.BUILD_INFO].values()) == [1]
    assert seen.see(statuses.flow())[metric_declarations.ENGINE_READY] == {(): 1}


def test_batches_are_counted_by_the_path_that_they_took():
    seen = Observed().see(statuses.flow(statuses.partition(batches=5, reencoded_batches=2)))
    paths = {(*FLOW, "orders", "pass-through"): 3, (*FLOW, "orders", "re-encoded"): 2}
    assert seen[metric_declarations.REPLICATED_BATCHES] == paths
    seen.see(
        statuses.flow(statuses.partition(batches=9, reencoded_batches=2, already_stored_records=7))
    )
    assert seen[metric_declarations.REPLICATED_BATCHES] == paths | {
        (*FLOW, "orders", "pass-through"): 7
    }
    assert seen[metric_declarations.DUPLICATES_REFUSED] == {(*FLOW, "orders"): 7}


def test_the_map_is_as_old_as_what_it_lacks_longest():
    flow = statuses.flow(
        statuses.partition("orders", 0, unrecorded_since_s=math.inf),
        statuses.partition("orders", 1, unrecorded_since_s=NOW_S - 3),
        statuses.partition("orders", 2, unrecorded_since_s=NOW_S - 0.5),
        statuses.partition("covered", 0, unrecorded_since_s=math.inf),
        statuses.partition("unknown", 0),
    )
    seen = Observed().see(flow)
    assert seen[metric_declarations.OFFSET_MAP_AGE] == {
        (*FLOW, "orders"): 3.0,
        (*FLOW, "covered"): 0.0,
    }
    seen.later(2)
    assert seen.see(flow)[metric_declarations.OFFSET_MAP_AGE][(*FLOW, "orders")] == 5.0


def test_the_newest_heartbeat_grows_old_and_its_way_does_not():
    beat = statuses.partition("heartbeats", newest_copied_ms=NOW_MS - 4_000, age_ms=12)
    flow = statuses.flow(beat, statuses.partition())
    seen = Observed().see(flow)
    assert seen[metric_declarations.HEARTBEAT_AGE] == {FLOW: 4.0}
    assert seen[metric_declarations.HEARTBEAT_ROUND_TRIP] == {FLOW: 0.012}
    seen.later(1)
    assert seen.see(flow)[metric_declarations.HEARTBEAT_AGE] == {FLOW: 5.0}
    seen.see(statuses.flow(statuses.partition("heartbeats")))
    assert (
        seen[metric_declarations.HEARTBEAT_AGE]
        == seen[metric_declarations.HEARTBEAT_ROUND_TRIP]
        == {}
    )


@pytest.mark.parametrize("step_h", [6, -6, -12])
def test_a_step_of_the_wall_clock_makes_nothing_younger(step_h):
    """Ages that alerts ask for: of the map, of groups, of heartbeats that no longer come."""
    flow = statuses.flow(
        statuses.partition("orders", unrecorded_since_s=NOW_S - 3),
        statuses.partition("heartbeats", newest_copied_ms=NOW_MS - 1_000),
    )
    seen = Observed()
    seen.beside = MetricInputs(checkpoint_groups={"east->west": {0: shown(NOW_S - 2)}})
    seen.see(flow)
    seen.later(100, step_s=step_h * 3_600)
    seen.see(flow)
    assert seen[metric_declarations.OFFSET_MAP_AGE][(*FLOW, "orders")] == 103.0
    assert seen[metric_declarations.CHECKPOINT_AGE] == {FLOW: 102.0}
    assert seen[metric_declarations.HEARTBEAT_AGE][FLOW] >= 100.0


def pulse(*counts, **more):
    return LatencySnapshot(
        counts=(*counts, *[0] * (replication_latency.BUCKET_COUNT - len(counts))), **more
    )


def test_latencies_of_all_tasks_are_one_histogram_that_never_falls():
    seen = Observed()
    first = pulse(1, 2, sum_ms=9)
    for told in (
        {0: first, 1: pulse(5, sum_ms=5)},
        {0: first, 1: pulse(6, sum_ms=8)},
        {0: pulse(0, 1, sum_ms=7), 1: pulse(6, sum_ms=8)},
    ):
        seen.saw(latencies={"east->west": told})
    (found,) = seen.family(metric_declarations.REPLICATION_LATENCY).distributions.values()
    assert (found.counts[:3], round(found.sum, 6)) == ((7, 3, 0), 0.024)
    seen.saw(latencies={})
    assert seen.family(metric_declarations.REPLICATION_LATENCY).distributions[FLOW] is found


def report(*parts, **fields):
    given: dict[str, Any] = {"flow": "east->west", "state": ReportedFlowState.RUNNING}
    return FlowReport(seen_by=("process 7",), at_ms=NOW_MS, partitions=parts, **given | fields)


COPIED = PartitionReport(
    topic="orders", partition=0, mirror="m", state="copying", copied_to=9, end=9
)


def lost(side, broker=""):
    return UnreachableCluster(side=side, cluster="x", reason="refused", broker=broker)


def test_the_age_of_the_last_batch_is_that_of_the_report():
    last = LastReplication(at_ms=NOW_MS - 9_000, evidence=ReplicationEvidenceKind.BATCH)
    activity = ReplicationActivity(begun_ms=NOW_MS - 60_000, last=last)
    assert Observed().saw(reports=[report(activity=activity)])[
        metric_declarations.LAST_REPLICATION_AGE
    ] == {FLOW: 9.0}


def test_a_flow_that_replicated_nothing_yet_grows_old_from_its_start():
    activity = ReplicationActivity(begun_ms=NOW_MS - 60_000, last=None)
    assert Observed().saw(reports=[report(activity=activity)])[
        metric_declarations.LAST_REPLICATION_AGE
    ] == {FLOW: 60.0}


def test_a_node_that_replicates_nothing_of_a_flow_has_no_age_of_it():
    assert (
        Observed().saw(reports=[report(partitions_on_other_nodes=2)])[
            metric_declarations.LAST_REPLICATION_AGE
        ]
        == {}
    )


@pytest.mark.parametrize(
    ("found", "healthy"),
    [
        (report(COPIED), {FLOW: 1}),
        (report(partitions_on_other_nodes=2), {FLOW: 1}),
        (report(dataclasses.replace(COPIED, state="halted")), {FLOW: 0}),
        (report(COPIED, unreachable=(lost(ClusterSide.TARGET),)), {FLOW: 0}),
        (report(COPIED, state=ReportedFlowState.PAUSED), {FLOW: 0}),
        (report(state=ReportedFlowState.UNKNOWN), {}),
    ],
)
def test_the_verdict_is_a_metric_absent_while_it_is_unknown(found, healthy):
    assert Observed().saw(reports=[found])[metric_declarations.FLOW_HEALTHY] == healthy


def test_the_verdict_is_by_the_objective_of_the_file():
    seen = Observed()
    seen.metrics.replication_objective_s = 8.0
    last = LastReplication(at_ms=NOW_MS - 9_000, evidence=ReplicationEvidenceKind.BATCH)
    activity = ReplicationActivity(begun_ms=NOW_MS - 60_000, last=last)
    assert seen.saw(reports=[report(COPIED, activity=activity)])[
        metric_declarations.FLOW_HEALTHY
    ] == {FLOW: 0}


@pytest.mark.parametrize(
    ("unreachable", "source", "target"),
    [
        ((), 1, 1),
        ((lost(ClusterSide.SOURCE),), 0, 1),
        ((lost(ClusterSide.TARGET),), 1, 0),
        ((lost(ClusterSide.SOURCE, "2 (b:9092)"),), 1, 1),
    ],
)
def test_each_cluster_of_a_flow_is_reachable_or_not(unreachable, source, target):
    seen = Observed().saw(reports=[report(COPIED, unreachable=unreachable)])
    assert seen[metric_declarations.CLUSTER_REACHABLE] == {
        ("east->west", "source"): source,
        ("east->west", "target"): target,
    }


def test_clocks_differ_by_the_most_that_a_task_saw():
    told = {0: pulse(ahead_ms=250), 1: pulse(ahead_ms=3_000)}
    assert Observed().saw(latencies={"east->west": told})[metric_declarations.CLOCK_SKEW] == {
        FLOW: 3.0
    }


def shown(round_s, groups=0, **more):
    nobody = GroupSearchResult(total_count=0, matching_count=0, groups={})
    return CheckpointGroupsSnapshot(
        last_round_s=round_s, group_count=groups, find_groups=lambda *_: nobody, **more
    )


def test_groups_are_as_old_as_the_round_that_is_longest_ago():
    seen = Observed()
    one = shown(NOW_S - 1, 3, writes_offsets=True, last_write_s=NOW_S - 8)
    seen.saw(checkpoint_groups={"east->west": {0: one, 1: shown(NOW_S - 2, 4)}})
    assert seen[metric_declarations.CHECKPOINT_AGE] == {FLOW: 8.0}
    assert seen[metric_declarations.CHECKPOINTED_GROUPS] == {FLOW: 7}
    for missing in (shown(None), shown(NOW_S, writes_offsets=True)):
        first = dataclasses.replace(missing, started_s=NOW_S - 9)
        seen = Observed().saw(checkpoint_groups={"east->west": {0: one, 1: first}})
        assert seen[metric_declarations.CHECKPOINT_AGE] == {FLOW: 9.0}
        assert seen[metric_declarations.CHECKPOINTED_GROUPS] == {}


def test_before_the_first_round_groups_are_as_old_as_the_wait_for_it():
    seen = Observed()
    waits = {"east->west": {0: shown(None, started_s=NOW_S)}}
    assert seen.saw(checkpoint_groups=waits)[metric_declarations.CHECKPOINT_AGE] == {FLOW: 0.0}
    seen.later(400)
    assert seen.saw(checkpoint_groups=waits)[metric_declarations.CHECKPOINT_AGE] == {FLOW: 400.0}


def test_a_checkpoint_task_that_begins_anew_has_repaired_nothing_yet():
    flow = dataclasses.replace(statuses.flow(statuses.partition()), checkpoint_tasks=1)
    seen = Observed()
    old = shown(NOW_S - 200, 3)
    for groups in (
        {0: old},
        {},
        {0: shown(None, started_s=NOW_S)},
        {0: shown(NOW_S, 3, writes_offsets=True, started_s=NOW_S)},
    ):
        seen.beside = MetricInputs(checkpoint_groups={"east->west": groups} if groups else {})
        assert seen.see(flow)[metric_declarations.CHECKPOINT_AGE] == {FLOW: 200.0}, groups
    seen.beside = MetricInputs(checkpoint_groups={"east->west": {0: shown(NOW_S, 3)}})
    assert seen.see(flow)[metric_declarations.CHECKPOINT_AGE] == {FLOW: 0.0}
    seen.beside = MetricInputs()
    without = dataclasses.replace(flow, checkpoint_tasks=0)
    assert seen.see(without)[metric_declarations.CHECKPOINT_AGE] == {}


def test_a_checkpoint_task_that_never_began_is_waited_for():
    flow = dataclasses.replace(statuses.flow(statuses.partition()), checkpoint_tasks=1)
    seen = Observed().see(flow)
    seen.later(60)
    assert seen.see(flow)[metric_declarations.CHECKPOINT_AGE] == {FLOW: 60.0}
    assert seen[metric_declarations.CHECKPOINTED_GROUPS] == {}


def test_drills_are_those_of_the_flows_that_run_here():
    seen = Observed().saw(last_drills_s={"east->west": 1.7e9, "gone->away": 1.6e9})
    assert seen[metric_declarations.LAST_DRILL] == {FLOW: 1.7e9}
    assert seen[metric_declarations.DRILL_REPORT_CONFIGURED] == {FLOW: 1}


def test_where_drills_are_noted_it_is_told_before_the_first_and_else_never():
    seen = Observed().saw(last_drills_s={})
    assert (
        seen[metric_declarations.LAST_DRILL],
        seen[metric_declarations.DRILL_REPORT_CONFIGURED],
    ) == (
        {},
        {FLOW: 1},
    )
    assert Observed().saw(last_drills_s=None)[metric_declarations.DRILL_REPORT_CONFIGURED] == {}


def test_connectors_that_are_held_also_of_flows_that_do_not_mirror():
    held = {
        "east->west": {"MirrorCheckpointConnector": OverrideKind.PAUSED},
        "west->east": {"MirrorHeartbeatConnector": OverrideKind.STOPPED},
        "east->south": {},
    }
    seen = Observed().saw(overrides=held)
    assert seen[metric_declarations.CONNECTOR_OVERRIDE] == {
        (*FLOW, "MirrorCheckpointConnector", "paused"): 1,
        ("west->east", "MirrorHeartbeatConnector", "stopped"): 1,
    }
    assert seen.saw(overrides={"east->west": {}})[metric_declarations.CONNECTOR_OVERRIDE] == {}


def test_rebalances_slots_and_drills():
    seen = Observed()
    assert (
        seen.saw()[metric_declarations.SPARK_SLOTS]
        == seen[metric_declarations.REBALANCES]
        == seen[metric_declarations.LAST_DRILL]
        == {}
    )
    for count in (0, 2, 1):
        seen.saw(
            rebalances={"east->west": count},
            spark_slots=(2, 510),
            last_drills_s={"east->west": 1.7e9},
        )
    assert seen[metric_declarations.REBALANCES] == {FLOW: 3}
    assert seen[metric_declarations.SPARK_SLOTS] == {("used",): 2, ("free",): 510}
    assert seen[metric_declarations.LAST_DRILL] == {FLOW: 1.7e9}


def test_what_has_not_changed_is_not_gone_through_again(monkeypatch):
    flow = statuses.flow(statuses.partition("orders", records=5), statuses.partition("rest"))
    seen = Observed().see(flow)
    looks: list[object] = []
    monkeypatch.setattr(collector, "_read_flow_values", looks.append)
    monkeypatch.setattr(FlowCounters, "count_status_increases", lambda *_: looks.append("counted"))
    before = seen.family(metric_declarations.REPLICATED_RECORDS)
    seen.see(flow)
    assert looks == []
    assert seen.family(metric_declarations.REPLICATED_RECORDS) is before


def test_single_partitions_are_as_their_topics():
    holds = dataclasses.replace(statuses.flow().overrides, paused_topics=frozenset({"held"}))
    flow = statuses.flow(
        statuses.partition(
            "orders", 3, copied_to=4, source_end=9, oldest_uncopied_ms=NOW_MS - 1_500
        ),
        statuses.partition("rest", 0),
        statuses.partition("unknown", 0, copied_to=-1, phase="acquiring"),
        statuses.partition("stale", 0, phase="waiting"),
        statuses.partition("held", 0),
        holds=holds,
    )
    records, seconds = collector.collect_partition_metrics([flow], NOW_MS)
    assert records.series == {(*FLOW, "orders", "3"): 5, (*FLOW, "rest", "0"): 0}
    assert seconds.series == {(*FLOW, "orders", "3"): 1.5, (*FLOW, "rest", "0"): 0.0}
    assert (records.metric, seconds.metric) == metric_declarations.PARTITION_METRICS
    assert all(isinstance(each, MetricFamily) for each in (records, seconds))
