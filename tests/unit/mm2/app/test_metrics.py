from __future__ import annotations

from mm2.app import metrics, overview, rates
from mm2.connectors import flow_status
from mm2.core.copy import standing
from tests.support import statuses

NOW_MS = 1_700_000_000_000


class Observed:
    def __init__(self) -> None:
        self.metrics = metrics.FlowMetrics()

    def see(self, *flows, engine_ready=True):
        seen = overview.make(flows, rates.Rates(), wall_ms=NOW_MS, engine_ready=engine_ready)
        self.metrics.observe(flows, seen, engine_ready=engine_ready)
        self.metrics.registry.check_invariants()
        return self

    def __getitem__(self, metric):
        (found,) = [
            each.series for each in self.metrics.registry.published if each.metric is metric
        ]
        return found


def test_every_declaration_is_in_the_registry_and_documented():
    declared = metrics.make_registry().metrics
    assert declared == metrics.ALL
    assert all(each.name.startswith("mm2_") for each in declared)


def test_all_phases_are_known():
    assert set(metrics._PHASES) == {each.value for each in standing.Phase}


def test_what_was_copied_is_counted_by_topic():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("orders", 0, records=10, bytes=100),
            statuses.partition("orders", 1, records=5, bytes=50),
            statuses.partition("empty", 0),
        )
    )
    assert seen[metrics.RECORDS] == {("east->west", "orders"): 15, ("east->west", "empty"): 0}
    assert seen[metrics.BYTES][("east->west", "orders")] == 150


def test_counters_never_go_back_when_readings_do():
    seen = Observed()
    for records in (10, 30, 4, 6):
        seen.see(statuses.flow(statuses.partition(records=records, bytes=records)))
    assert seen[metrics.RECORDS] == {("east->west", "orders"): 30 + 6}


def test_counters_stay_when_the_partition_is_gone():
    seen = Observed().see(statuses.flow(statuses.partition(records=3)))
    seen.see(statuses.flow())
    assert seen[metrics.RECORDS] == {("east->west", "orders"): 3}
    assert seen[metrics.LAG_RECORDS] == {}


def test_lag_is_there_only_while_it_is_known():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("known", copied_to=4, source_end=9, oldest_ms=NOW_MS - 1_500),
            statuses.partition("unknown", copied_to=-1, source_end=-1, phase="taking"),
        )
    )
    assert seen[metrics.LAG_RECORDS] == {("east->west", "known"): 5}
    assert seen[metrics.LAG_SECONDS] == {("east->west", "known"): 1.5}


def test_latency_is_the_slowest_partition_that_copied_something():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("orders", 0, records=1, age_ms=20),
            statuses.partition("orders", 1, records=1, age_ms=50),
            statuses.partition("orders", 2, age_ms=900),
            statuses.partition("idle"),
        )
    )
    assert seen[metrics.LATENCY] == {("east->west", "orders"): 0.05}


def test_opened_partitions_say_why():
    gaps, small = "compaction left gaps in it", "small batches are joined"
    seen = Observed().see(
        statuses.flow(
            statuses.partition("users", 0, opened=gaps),
            statuses.partition("users", 1, opened=gaps),
            statuses.partition("users", 2, opened=small),
            statuses.partition("orders"),
        )
    )
    assert seen[metrics.OPENED] == {
        ("east->west", "users", gaps): 2,
        ("east->west", "users", small): 1,
    }


def test_how_long_sources_keep_what_waits_is_told_as_it_is_given():
    given: dict[tuple[str, ...], float] = {("east->west", "orders"): 1.5}
    seen = Observed()
    seen.metrics.losses = lambda: given
    assert seen.see()[metrics.LOSS_SECONDS] == given
    given.clear()
    assert seen.see()[metrics.LOSS_SECONDS] == {}


def test_states_are_one_hot():
    failed = statuses.flow(name="a->b", state=flow_status.FlowState.FAILED)
    seen = Observed().see(statuses.flow(), failed)
    states = seen[metrics.FLOW_STATE]
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
    assert seen[metrics.TASKS][("east->west", "WAITING_FOR_SLOT")] == 1
    assert seen[metrics.TASKS][("east->west", "RUNNING")] == 1
    assert seen[metrics.SLOTS_MISSING] == {("east->west",): 1}
    assert seen[metrics.RESTARTS] == {("east->west",): 4}


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
    assert seen[metrics.RECEIPTS] == {("east->west", "orders", "source-gone"): 4}


def test_what_stands_still_is_counted_by_cause_and_vanishes():
    seen = Observed().see(
        statuses.flow(
            statuses.partition("orders", 0, phase="stopped", cause="corrupt-batch"),
            statuses.partition("orders", 1, phase="stopped", cause="corrupt-batch"),
            statuses.partition("orders", 2),
        )
    )
    assert seen[metrics.STOPPED] == {("east->west", "orders", "corrupt-batch"): 2}
    assert seen[metrics.PARTITIONS][("east->west", "stopped")] == 2
    assert seen[metrics.PARTITIONS][("east->west", "fenced")] == 0
    seen.see(statuses.flow(statuses.partition()))
    assert seen[metrics.STOPPED] == {}


def test_the_engine_and_the_build():
    seen = Observed().see(statuses.flow(slots_missing=3), engine_ready=False)
    assert seen[metrics.ENGINE_READY] == {(): 0}
    assert seen[metrics.SLOTS_MISSING] == {("east->west",): 0}
    assert list(seen[metrics.BUILD].values()) == [1]
    assert seen.see(statuses.flow())[metrics.ENGINE_READY] == {(): 1}
