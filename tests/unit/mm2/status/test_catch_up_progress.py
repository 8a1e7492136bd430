from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.connectors.status_registry import FlowState, TaskPlacement
from mm2.status import catch_up_progress
from mm2.status.catch_up_progress import CatchUpState, CatchUpTracker, FlowCatchUp
from tests.support import statuses

COPYING, CAUGHT_UP, IN_ERROR = CatchUpState
State = FlowState


def at(copied: int, end: int, topic: str = "orders", **fields):
    return statuses.partition(topic, copied_to=copied, source_end=end, **fields)


def test_a_flow_that_is_being_planned_is_waited_for():
    made = CatchUpTracker()
    seen = made.observe([statuses.flow(state=State.PLANNING)], 0.0)
    assert (seen.verdict, seen.fraction, seen.eta_s) == (COPYING, 0.0, None)


def test_all_flows_must_have_caught_up():
    made = CatchUpTracker()
    done = statuses.flow(at(5, 5), name="a->b")
    assert made.observe([done, statuses.flow(at(0, 5))], 0.0).verdict is COPYING
    seen = made.observe([done, statuses.flow(at(5, 9))], 1.0)
    assert (seen.verdict, seen.fraction, seen.partitions, seen.done) == (CAUGHT_UP, 1.0, 2, 2)
    assert made.list_unfinished_items([done, statuses.flow(at(5, 9))]) == []


@pytest.mark.parametrize("ended", [State.FAILED, State.STOPPED])
def test_a_flow_that_ends_early_is_in_error_once_the_others_are_done(ended):
    made = CatchUpTracker()
    failed = statuses.flow(state=ended, reason="wrong password", name="a->b")
    assert made.observe([failed, statuses.flow(at(0, 5))], 0.0).verdict is COPYING
    assert made.observe([failed, statuses.flow(at(5, 5))], 1.0).verdict is IN_ERROR
    assert made.list_unfinished_items([failed, statuses.flow(at(5, 5))]) == [
        ("a->b", None, f"{ended.value}: wrong password")
    ]


def test_a_flow_that_fails_while_copying_names_itself_and_what_is_missing():
    made = CatchUpTracker()
    made.observe([statuses.flow(at(0, 5), at(7, 7, "done"))], 0.0)
    failed = [statuses.flow(at(0, 5), at(7, 7, "done"), state=State.FAILED, reason="fenced")]
    assert made.observe(failed, 1.0).verdict is IN_ERROR
    reasons = [(str(name), reason) for _, name, reason in made.list_unfinished_items(failed)]
    assert reasons == [("None", "FAILED: fenced"), ("orders-0", "copying, lag 5 records")]


def test_a_flow_that_fails_after_it_caught_up_has_caught_up():
    made = CatchUpTracker()
    made.observe([statuses.flow(at(5, 5))], 0.0)
    failed = [statuses.flow(at(5, 5), state=State.FAILED, reason="gone")]
    assert made.observe(failed, 1.0).verdict is CAUGHT_UP


def test_a_flow_without_topics_is_an_error_not_a_success():
    made = CatchUpTracker()
    empty = [statuses.flow(reason="no topic matches")]
    assert made.observe(empty, 0.0).verdict is IN_ERROR
    ((flow, partition, reason),) = made.list_unfinished_items(empty)
    assert (flow, partition) == ("east->west", None)
    assert "topics.exclude" in reason


def test_stopped_partitions_are_listed_with_their_reasons():
    made = CatchUpTracker()
    stopped = at(3, 9, phase="halted", reason="orders-0 at source offset 3: corrupt")
    all_of_it = [statuses.flow(stopped, at(5, 5, "fine"))]
    assert made.observe(all_of_it, 0.0).verdict is IN_ERROR
    ((_, partition, reason),) = made.list_unfinished_items(all_of_it)
    assert (str(partition), reason) == ("orders-0", "orders-0 at source offset 3: corrupt")


def test_what_was_never_planned_is_unfinished_with_the_flows_reason():
    made = CatchUpTracker()
    planning = [statuses.flow(state=State.PLANNING, reason="cluster east: nobody answers")]
    made.observe(planning, 0.0)
    assert made.list_unfinished_items(planning) == [
        ("east->west", None, "PLANNING: cluster east: nobody answers")
    ]


def test_the_time_left_follows_the_speed_of_the_last_seconds():
    made = CatchUpTracker()
    assert made.observe([statuses.flow(at(0, 1000))], 0.0).eta_s is None
    assert made.observe([statuses.flow(at(100, 1000))], 0.5).eta_s is None
    seen = made.observe([statuses.flow(at(200, 1000))], 2.0)
    assert (seen.eta_s, seen.fraction) == (8.0, 0.2)
    for second in range(3, 14):
        seen = made.observe([statuses.flow(at(200, 1000))], float(second))
    assert seen.eta_s is None


def test_no_time_left_is_told_while_an_end_is_unknown():
    made = CatchUpTracker()
    unknown = statuses.partition("late", copied_to=-1, source_end=-1, phase="acquiring")
    made.observe([statuses.flow(at(0, 1000), unknown)], 0.0)
    seen = made.observe([statuses.flow(at(200, 1000), unknown)], 2.0)
    assert seen.eta_s is None


def elsewhere(count: int = 2, **changes):
    place = TaskPlacement(number=0, state="RUNNING", node="10.0.0.1:8083/east->west")
    return dataclasses.replace(
        statuses.flow(tasks=()), remote_partitions=count, placements=(place,), **changes
    )


def test_a_flow_whose_tasks_other_nodes_have_is_no_flow_without_topics():
    made = CatchUpTracker()
    flow = [elsewhere()]
    assert made.observe(flow, 0.0).verdict is COPYING, "a round of the group may still come"
    assert made.needs_periodic_observation
    seen = made.observe(flow, catch_up_progress.JOIN_GRACE_S)
    assert (seen.verdict, seen.remote_flows, made.needs_periodic_observation) == (
        IN_ERROR,
        frozenset({"east->west"}),
        False,
    )
    told = "all 2 partitions are assigned to node 10.0.0.1:8083; nothing to replicate here"
    assert made.list_unfinished_items(flow) == [("east->west", None, told)]
    one = [elsewhere(1)]
    made.observe(one, catch_up_progress.JOIN_GRACE_S)
    assert made.list_unfinished_items(one)[0][2].startswith(
        "its only partition is assigned to node 10.0.0.1"
    )


def test_a_node_that_is_given_tasks_in_a_later_round_copies_them():
    made = CatchUpTracker()
    made.observe([elsewhere()], 0.0)
    mine = [dataclasses.replace(statuses.flow(at(0, 5)), remote_partitions=1)]
    assert made.observe(mine, catch_up_progress.JOIN_GRACE_S).verdict is COPYING
    done = [dataclasses.replace(statuses.flow(at(5, 5)), remote_partitions=1)]
    seen = made.observe(done, 2 * catch_up_progress.JOIN_GRACE_S)
    assert (seen.verdict, seen.remote_flows) == (CAUGHT_UP, frozenset())


def test_what_failed_counts_more_than_what_is_elsewhere():
    made = CatchUpTracker()
    flows = [elsewhere(), statuses.flow(state=State.FAILED, reason="no right", name="a->b")]
    made.observe(flows, 0.0)
    seen = made.observe(flows, catch_up_progress.JOIN_GRACE_S)
    assert (seen.verdict, seen.remote_flows) == (IN_ERROR, frozenset())


A = TopicPartition("orders", 0)
B = TopicPartition("orders", 1)


def test_nothing_to_copy_is_caught_up():
    assert FlowCatchUp([]).compute_progress().verdict is CAUGHT_UP


def test_a_partition_without_a_word_is_still_being_copied():
    flow = FlowCatchUp([A])
    assert flow.compute_progress().verdict is COPYING
    flow.update_partition(A, copied_to=-1, end=-1, stopped=False)
    assert flow.compute_progress().verdict is COPYING
    assert not flow.is_partition_done(A)


def test_the_end_is_the_first_one_seen():
    flow = FlowCatchUp([A])
    flow.update_partition(A, copied_to=0, end=10, stopped=False)
    flow.update_partition(A, copied_to=10, end=50, stopped=False)
    assert flow.is_partition_done(A)
    progress = flow.compute_progress()
    assert (progress.verdict, progress.total, progress.copied) == (CAUGHT_UP, 10, 10)


def test_what_was_there_before_is_not_counted():
    flow = FlowCatchUp([A, B])
    flow.update_partition(A, copied_to=90, end=100, stopped=False)
    flow.update_partition(B, copied_to=5, end=5, stopped=False)
    flow.update_partition(A, copied_to=94, end=120, stopped=False)
    progress = flow.compute_progress()
    assert (progress.total, progress.copied, progress.done, progress.partitions) == (10, 4, 1, 2)


def test_an_error_is_the_verdict_only_when_all_others_are_done():
    flow = FlowCatchUp([A, B])
    flow.update_partition(A, copied_to=0, end=5, stopped=True)
    flow.update_partition(B, copied_to=0, end=5, stopped=False)
    assert flow.compute_progress().verdict is COPYING
    flow.update_partition(B, copied_to=5, end=5, stopped=False)
    assert flow.compute_progress().verdict is IN_ERROR


def test_an_error_may_pass():
    flow = FlowCatchUp([A])
    flow.update_partition(A, copied_to=0, end=5, stopped=True)
    assert flow.compute_progress().verdict is IN_ERROR
    flow.update_partition(A, copied_to=1, end=5, stopped=False)
    assert flow.compute_progress().verdict is COPYING


def test_a_partition_that_stops_behind_the_end_is_done():
    flow = FlowCatchUp([A])
    flow.update_partition(A, copied_to=5, end=5, stopped=True)
    assert flow.compute_progress().verdict is CAUGHT_UP
