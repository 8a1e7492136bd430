from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.connectors.status_registry import TaskState
from mm2.replication.partition_state import PartitionPhase
from mm2.status import topic_rows
from mm2.status.topic_rows import CopyRate, CopyRates, LagTotal
from mm2.topics import topic_filters
from mm2.topics.flow_config import FlowThrottles, TopicThrottle
from tests.support import statuses

NOW_MS = 1_700_000_000_000


def make(*flows, engine_ready=True):
    return topic_rows.make_overview(flows, CopyRates(), wall_ms=NOW_MS, engine_ready=engine_ready)


def topic(*partitions):
    (row,) = make(statuses.flow(*partitions)).topics
    return row


@pytest.mark.parametrize("phase", list(PartitionPhase))
def test_every_phase_of_a_copy_has_a_row(phase):
    assert topic(statuses.partition(phase=phase.value)).state in topic_rows._WORST_STATE_FIRST


def test_a_topic_is_in_the_state_of_its_worst_partition():
    row = topic(
        statuses.partition("orders", 0),
        statuses.partition("orders", 2, phase="halted", reason="two"),
        statuses.partition("orders", 1, phase="halted", reason="one"),
        statuses.partition("orders", 3, phase="waiting", reason="three"),
    )
    assert (row.state, row.in_state, row.reason, row.partitions) == ("halted", 2, "one", 4)


def test_a_boundary_is_part_of_copying():
    row = topic(statuses.partition(phase="boundary"), statuses.partition(number=1))
    assert (row.state, row.in_state) == ("copying", 2)


def test_lag_in_records_adds_up_and_lag_in_seconds_is_the_worst():
    lag = topic(
        statuses.partition(
            "orders", 0, copied_to=10, source_end=15, oldest_uncopied_ms=NOW_MS - 2_000, records=3
        ),
        statuses.partition("orders", 1, copied_to=0, source_end=7, oldest_uncopied_ms=NOW_MS - 500),
    ).lag
    assert lag == LagTotal(records=12, seconds=2.0, complete=True)


def test_nothing_missing_is_no_lag():
    assert topic(statuses.partition()).lag == LagTotal(records=0, seconds=0.0, complete=True)


def test_lag_is_never_negative_when_clocks_differ():
    row = topic(statuses.partition(copied_to=1, source_end=2, oldest_uncopied_ms=NOW_MS + 60_000))
    assert row.lag.seconds == 0.0


def test_a_timestamp_from_the_future_makes_the_age_unknown():
    """The clock was set back: how long the record waits, nobody knows."""
    row = topic(statuses.partition(copied_to=1, source_end=2, oldest_uncopied_ms=NOW_MS + 60_001))
    assert (row.lag.records, row.lag.seconds) == (1, None)


def test_lag_is_unknown_before_the_first_fetch():
    unknown = statuses.partition(copied_to=-1, source_end=-1)
    assert topic(unknown).lag == LagTotal(records=None, seconds=None, complete=False)


def test_lag_is_a_lower_bound_when_one_partition_is_unknown():
    row = topic(
        statuses.partition(number=0, copied_to=3, source_end=5, oldest_uncopied_ms=NOW_MS - 1_000),
        statuses.partition(number=1, copied_to=-1, source_end=-1, phase="acquiring"),
    )
    assert row.lag == LagTotal(records=2, seconds=1.0, complete=False)


@pytest.mark.parametrize("phase", ["waiting", "acquiring", "halted", "fenced", "closed"])
def test_a_copy_that_does_not_move_cannot_say_that_nothing_is_missing(phase):
    row = topic(statuses.partition(phase=phase, copied_to=9, source_end=9))
    assert (row.lag.records, row.lag.seconds) == (None, None)
    behind = topic(
        statuses.partition(phase=phase, copied_to=8, source_end=9, oldest_uncopied_ms=NOW_MS - 1)
    )
    assert behind.lag.records == 1


def test_reasons_that_are_task_states_are_said_in_words():
    row = topic(statuses.partition(phase="waiting", reason="WAITING_FOR_SLOT"))
    assert row.reason == "its task is waiting for a Spark slot"


def test_worst_topics_sort_first():
    seen = make(
        statuses.flow(
            statuses.partition("idle"),
            statuses.partition("behind", copied_to=0, source_end=1_000_000),
            statuses.partition("a-little", copied_to=0, source_end=2),
            statuses.partition("starting", phase="acquiring"),
            statuses.partition("broken", phase="halted"),
        )
    )
    worst = sorted(seen.topics, key=lambda row: row.sort_key)
    names = [row.topic for row in worst]
    assert names == ["broken", "starting", "behind", "a-little", "idle"]


def test_a_flow_sums_up_its_topics_and_tasks():
    seen = make(
        statuses.flow(
            statuses.partition("a", records=5, bytes=50, copied_to=5, source_end=6),
            statuses.partition("b", 0, records=7, bytes=70),
            statuses.partition("b", 1, phase="halted", reason="why", cause="corrupt-batch"),
            tasks=[
                statuses.task(0),
                statuses.task(1),
                statuses.task(2, TaskState.WAITING_FOR_SLOT),
            ],
            slots_missing=1,
        )
    )
    (flow,) = seen.flows
    assert (flow.topics, flow.partitions, flow.stopped) == (2, 3, 1)
    assert (flow.records, flow.bytes, flow.lag.records) == (12, 120, 1)
    assert flow.tasks == {
        TaskState.RUNNING: 2,
        TaskState.WAITING_FOR_SLOT: 1,
    }
    assert flow.slots_missing == 1
    (standstill,) = seen.halts
    assert (str(standstill.partition), standstill.cause, standstill.reason) == (
        "b-1",
        "corrupt-batch",
        "why",
    )


def test_no_slots_are_missing_while_spark_starts():
    status = statuses.flow(statuses.partition(), slots_missing=4)
    assert make(status, engine_ready=False).flows[0].slots_missing == 0


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("no WRITE", "east->west: orders-1: no WRITE"),
        (
            "orders-1 at source offset 3: corrupt",
            "east->west: orders-1 at source offset 3: corrupt",
        ),
        ("orders-10 is full", "east->west: orders-1: orders-10 is full"),
        ("east.orders-1: full", "east->west: orders-1: east.orders-1: full"),
    ],
)
def test_a_standstill_is_told_with_its_partition_once(reason, told):
    stopped = statuses.partition("orders", 1, phase="halted", reason=reason)
    (standstill,) = make(statuses.flow(stopped)).halts
    assert standstill.describe == told


def test_nor_can_one_that_an_operator_has_paused():
    holds = OperatorOverrides(paused_topics=frozenset({"bills"}))
    seen = make(statuses.flow(statuses.partition("bills"), statuses.partition(), holds=holds))
    assert [(row.topic, row.lag.records) for row in seen.topics] == [("bills", None), ("orders", 0)]


def test_what_is_paused_or_throttled_is_told_with_its_rate():
    holds = OperatorOverrides(
        paused_topics=frozenset({"bills"}),
        budgets=FlowThrottles(
            flow=5_000_000,
            topics=(TopicThrottle(topic_filters.build_literal_pattern("orders"), 2_000),),
        ),
    )
    stopped = statuses.partition("bills", 1, phase="halted", reason="why")
    found = statuses.flow(
        statuses.partition("bills"), stopped, statuses.partition("orders"), holds=holds
    )
    seen = make(found)
    assert [(row.topic, row.state, row.throttle) for row in seen.topics] == [
        ("bills", "halted", 0),
        ("orders", "copying", 2_000),
    ]
    (row,) = seen.flows
    assert (row.paused, row.throttle) == (False, 5_000_000)
    paused = statuses.flow(statuses.partition(), holds=OperatorOverrides(paused=True))
    assert (make(paused).flows[0].paused, make(paused).topics[0].state) == (True, "paused")


def snapshot(records: int, size: int = 0):
    return [statuses.flow(statuses.partition("orders", records=records, bytes=size))]


def test_nothing_is_known_before_two_snapshots():
    made = CopyRates()
    assert made.get_rate("east->west", "orders") == topic_rows.ZERO_RATE
    made.observe(snapshot(500), 1.0)
    assert made.get_rate("east->west", "orders") == topic_rows.ZERO_RATE


def test_partitions_of_a_topic_add_up_and_topics_do_not():
    made = CopyRates()
    before = [
        statuses.flow(
            statuses.partition("orders", 0, records=10, bytes=100),
            statuses.partition("orders", 1, records=20, bytes=200),
            statuses.partition("other", 0, records=5, bytes=5),
        )
    ]
    after = [
        statuses.flow(
            statuses.partition("orders", 0, records=30, bytes=300),
            statuses.partition("orders", 1, records=40, bytes=400),
            statuses.partition("other", 0, records=5, bytes=5),
        )
    ]
    made.observe(before, 10.0)
    made.observe(after, 12.0)
    assert made.get_rate("east->west", "orders") == CopyRate(20.0, 200.0)
    assert made.get_rate("east->west", "other") == topic_rows.ZERO_RATE
    assert made.get_rate("west->east", "orders") == topic_rows.ZERO_RATE


def test_the_rate_is_that_of_the_window_not_of_all_time():
    made = CopyRates()
    made.observe(snapshot(0), 0.0)
    made.observe(snapshot(1_000_000), 1.0)
    for second in range(2, 20):
        made.observe(snapshot(1_000_000 + second), float(second))
        made.check_invariants()
    assert made.get_rate("east->west", "orders").records_s == 1.0


def test_the_same_moment_again_changes_nothing():
    made = CopyRates()
    made.observe(snapshot(0), 0.0)
    made.observe(snapshot(10), 1.0)
    made.observe(snapshot(99), 1.0)
    assert made.get_rate("east->west", "orders").records_s == 10.0


@given(st.lists(st.tuples(st.floats(0.01, 10), st.integers(0, 1000)), min_size=2, max_size=50))
def test_rates_are_never_negative(steps):
    made = CopyRates()
    now_s = 0.0
    for passed_s, records in steps:
        now_s += passed_s
        made.observe(snapshot(records), now_s)
        made.check_invariants()
        assert made.get_rate("east->west", "orders").records_s >= 0
