"""What is counted over tasks that come and go, and what is forgotten."""

from __future__ import annotations

from mm2.app import counters, metrics
from mm2.connectors import flow_status
from mm2.core import measures
from mm2.core.copy import crossing
from tests.support import statuses

FLOW = ("east->west",)
ORDERS = (*FLOW, "orders")
RUNNING, FAILED = flow_status.TaskState.RUNNING, flow_status.TaskState.FAILED


class Counted:
    def __init__(self) -> None:
        self.registry = metrics.make_registry()
        self.counters = counters.Counters(self.registry)
        self.before: flow_status.FlowStatus | None = None
        self.wall_ms = 0

    def look(self, status: flow_status.FlowStatus) -> Counted:
        self.counters.look(status, self.before, self.wall_ms)
        self.counters.forget([status.flow], self.wall_ms)
        self.before = status
        return self

    def sees(self, *partitions, **more) -> Counted:
        return self.look(statuses.flow(*partitions, **more))

    def later(self, ms: int = counters.GONE_MS) -> Counted:
        self.wall_ms += ms
        return self

    def __getitem__(self, metric):
        self.registry.publish()
        self.registry.check_invariants()
        (found,) = [each for each in self.registry.published if each.metric is metric]
        return found.distributions if metric.bounds else found.series


def receipts(count: int) -> tuple[flow_status.ReceiptCount, ...]:
    return (flow_status.ReceiptCount(topic="orders", kind="source-gone", count=count),)


def test_a_partition_that_was_away_is_counted_from_nothing():
    """It comes back with more than it had when it left."""
    counted = Counted().sees(statuses.partition(records=100, spared=1, batches=3, made=1))
    counted.sees(tasks=[])
    counted.sees(statuses.partition(records=100_000, spared=2, batches=9, made=2))
    assert counted[measures.RECORDS] == {ORDERS: 100_100}
    assert counted[measures.DUPLICATES] == {ORDERS: 3}
    assert counted[measures.BATCHES] == {(*ORDERS, "passed"): 9, (*ORDERS, "opened"): 3}


def test_what_another_task_of_the_node_gets_it_counts_from_nothing():
    tasks = [statuses.task(0), statuses.task(1)]
    counted = Counted().sees(statuses.partition(records=100, task=0), tasks=tasks)
    counted.sees(statuses.partition(records=300, task=1), tasks=tasks)
    assert counted[measures.RECORDS] == {ORDERS: 400}
    counted.sees(statuses.partition(records=500, task=0), tasks=tasks)
    assert counted[measures.RECORDS] == {ORDERS: 900}


def test_what_is_shown_of_a_task_that_is_gone_counts_no_further():
    last = statuses.partition(records=100, phase="waiting")
    counted = Counted().sees(statuses.partition(records=100))
    for tasks in ([], [statuses.task(0, FAILED)], [statuses.task(0, FAILED)]):
        counted.sees(last, tasks=tasks)
        assert counted[measures.RECORDS] == {ORDERS: 100}
    counted.sees(statuses.partition(records=150))
    assert counted[measures.RECORDS] == {ORDERS: 250}


def test_what_stays_the_same_object_while_its_task_is_gone_is_counted_anew_afterwards():
    same = statuses.partition(records=100)
    counted = Counted().sees(same)
    counted.sees(same, tasks=[])
    counted.sees(statuses.partition(records=150))
    assert counted[measures.RECORDS] == {ORDERS: 250}


def test_a_share_of_as_many_other_partitions_is_counted_from_nothing():
    counted = Counted().sees(statuses.partition("orders", 0, records=100))
    counted.sees(statuses.partition("orders", 1, records=7))
    counted.sees(statuses.partition("orders", 0, records=300))
    assert counted[measures.RECORDS] == {ORDERS: 407}


def test_receipts_and_restarts_of_a_new_task_come_on_top():
    counted = Counted().sees(tasks=[statuses.task(restarts=2, receipts=receipts(3))])
    counted.sees(tasks=[statuses.task(0, FAILED, reason="no right")])
    counted.sees(tasks=[statuses.task(restarts=5, receipts=receipts(4))])
    assert counted[measures.RECEIPTS] == {(*ORDERS, "source-gone"): 7}
    assert counted[measures.RESTARTS] == {FLOW: 7}


def test_a_task_that_begins_anew_between_two_looks_is_counted_from_nothing():
    """It is shown at once with more than the one before it had."""
    counted = Counted().sees(
        statuses.partition(records=100, batches=3, made=1),
        tasks=[statuses.task(life=1, restarts=1, receipts=receipts(2))],
    )
    for _ in range(2):
        counted.sees(
            statuses.partition(records=150, batches=4, made=1),
            tasks=[statuses.task(life=2, restarts=1, receipts=receipts(5))],
        )
    assert counted[measures.RECORDS] == {ORDERS: 250}
    assert counted[measures.BATCHES] == {(*ORDERS, "passed"): 5, (*ORDERS, "opened"): 2}
    assert counted[measures.RESTARTS] == {FLOW: 2}
    assert counted[measures.RECEIPTS] == {(*ORDERS, "source-gone"): 7}


def test_that_begins_anew_with_the_very_same_figures_too():
    same = statuses.partition(records=100)
    counted = Counted().sees(same, tasks=[statuses.task(life=1)])
    counted.sees(same, tasks=[statuses.task(life=2)])
    assert counted[measures.RECORDS] == {ORDERS: 200}


def test_while_a_task_starts_what_is_shown_is_of_its_life_before():
    last, starts = statuses.partition(records=100, phase="waiting"), flow_status.TaskState.STARTING
    counted = Counted().sees(statuses.partition(records=100), tasks=[statuses.task(life=1)])
    counted.sees(last, tasks=[statuses.task(0, starts, life=0)])
    assert counted[measures.RECORDS] == {ORDERS: 100}
    counted.sees(statuses.partition(records=150), tasks=[statuses.task(life=2)])
    assert counted[measures.RECORDS] == {ORDERS: 250}


def test_of_copies_that_are_gone_nothing_is_kept():
    def pulse(count):
        return crossing.Pulse(counts=(count,) + (0,) * (crossing.BUCKETS - 1), sum_ms=count)

    counted = Counted()
    for told in ({0: pulse(10)}, {1: pulse(1)}, {0: pulse(20)}):
        counted.counters.look_at_pulses({"east->west": told})
    assert counted[measures.LATENCY][FLOW].counts[0] == 31


def test_of_a_task_that_begins_anew_between_two_looks_all_latencies_count():
    counted = Counted()
    for count, life in ((10, 1), (20, 2), (25, 2)):
        told = crossing.Pulse(counts=(count,) + (0,) * (crossing.BUCKETS - 1), life=life)
        counted.counters.look_at_pulses({"east->west": {0: told}})
    assert counted[measures.LATENCY][FLOW].counts[0] == 35


def test_rebalances_of_a_flow_that_was_away_come_on_top():
    counted = Counted()
    for found in ({"east->west": 2}, {}, {"east->west": 3}, {"east->west": 4}):
        counted.counters.look_at_rebalances(found)
    assert counted[measures.REBALANCES] == {FLOW: 6}


def test_a_topic_that_has_left_is_told_of_until_it_was_scraped_and_then_no_more():
    shown = statuses.partition("kept"), statuses.partition("orders", records=5)
    task = statuses.task(receipts=receipts(2))
    counted = Counted().sees(*shown, tasks=[task])
    counted.sees(statuses.partition("kept")).later(counters.GONE_MS - 1)
    counted.sees(statuses.partition("kept"))
    assert ORDERS in counted[measures.RECORDS]
    counted.later(1).sees(statuses.partition("kept"))
    for metric in (measures.RECORDS, measures.BYTES, measures.DUPLICATES):
        assert set(counted[metric]) == {(*FLOW, "kept")}
    assert {labels[1] for labels in counted[measures.BATCHES]} == {"kept"}
    assert counted[measures.RECEIPTS] == {}
    assert counted[measures.RESTARTS] == {FLOW: 0}
    counted.sees(*shown)
    assert counted[measures.RECORDS][ORDERS] == 5


def test_a_topic_that_comes_back_in_time_goes_on():
    counted = Counted().sees(statuses.partition(records=5))
    counted.sees(tasks=[]).later(counters.GONE_MS - 1)
    counted.sees(statuses.partition(records=1)).later()
    counted.sees(statuses.partition(records=2))
    assert counted[measures.RECORDS] == {ORDERS: 7}


def test_what_receipts_tell_of_is_not_forgotten_while_their_task_runs():
    task = statuses.task(receipts=receipts(2))
    counted = Counted().sees(statuses.partition(), tasks=[task])
    counted.sees(tasks=[task]).later()
    counted.sees(tasks=[task])
    assert counted[measures.RECEIPTS] == {(*ORDERS, "source-gone"): 2}


def test_a_flow_that_is_no_more_is_forgotten_altogether():
    counted = Counted().sees(statuses.partition(records=5))
    counted.counters.look_at_rebalances({"east->west": 1})
    counted.counters.look_at_pulses({"east->west": {0: crossing.Pulse()}})
    counted.counters.forget([], counted.wall_ms)
    assert counted[measures.RECORDS] == {ORDERS: 5}
    counted.later().counters.forget([], counted.wall_ms)
    for metric in (measures.RECORDS, measures.RESTARTS, measures.REBALANCES, measures.LATENCY):
        assert counted[metric] == {}
    counted.later().counters.forget([], counted.wall_ms)
    counted.before = None
    assert counted.sees(statuses.partition(records=1))[measures.RECORDS] == {ORDERS: 1}
