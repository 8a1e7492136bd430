from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base import ids
from mm2.app import overview
from mm2.app.reports import flow_report, from_process, history, source_looks
from mm2.connectors import flow_status
from mm2.core import flows, health, holds, reachability, time_to_loss
from mm2.core.offsets import log_ends
from tests.support import statuses

FLOW = flows.Flow(source="east", target="west")
PLACE = ids.TopicPartition("orders", 0)
KEPT = time_to_loss.Outlook(kind=time_to_loss.Kind.KEPT)
LOOK = source_looks.Seen(
    ends=log_ends.Ends(start=2, end=12), copied_to=4, waiting_since_ms=1_000, outlook=KEPT
)


def report(status, **more):
    past = history.History()
    past.observe([status], now_s=5.0, wall_ms=5)
    return from_process.report(
        FLOW, status, past, resume="mm2 resume x", process=7, wall_ms=9_000, **more
    )


def test_a_running_flow():
    copying = statuses.partition(copied_to=3, source_end=10, oldest_ms=4_000)
    found = report(statuses.flow(copying, elsewhere=2))
    assert (found.seen_by, found.state, found.since_ms) == (
        ("process 7",),
        flow_report.State.RUNNING,
        5,
    )
    assert found.elsewhere == 2
    (part,) = found.partitions
    assert (part.mirror, part.state, part.since_ms) == ("east.orders", "copying", 5)
    assert (part.lag_records, part.lag_ms(found.at_ms)) == (7, 5_000)


def test_that_nothing_was_missing_when_it_last_moved_says_nothing_about_now():
    waiting = statuses.partition(phase="waiting", copied_to=3, source_end=3)
    behind = statuses.partition(number=1, phase="stopped", copied_to=3, source_end=8, reason="why")
    found = report(statuses.flow(waiting, behind))
    assert [each.lag_records for each in found.partitions] == [None, 5]
    assert [each.reason for each in found.partitions] == ["", "why"]


def test_programs_get_the_code_of_a_stop():
    found = report(statuses.flow(statuses.partition(phase="stopped", cause="recreated")))
    (part,) = flow_report.as_json(found)["partitions"]
    assert (part["state"], part["cause"]) == ("stopped", "recreated")
    assert flow_report.read(flow_report.as_json(found)).partitions[0].cause == "recreated"


def test_what_the_source_was_asked_fills_in_what_is_not_known():
    stopped = statuses.partition(phase="stopped", copied_to=-1, source_end=-1)
    (part,) = report(statuses.flow(stopped), looks={PLACE: LOOK}).partitions
    assert (part.copied_to, part.start, part.end, part.outlook) == (4, 2, 12, KEPT)
    assert (part.lag_records, part.lag_ms(9_000)) == (8, 8_000)


@pytest.mark.parametrize(
    ("side", "broker", "lag"),
    [
        (reachability.Side.SOURCE, "", None),
        (reachability.Side.SOURCE, "2 (b:9092)", 8),
        (reachability.Side.TARGET, "", 8),
    ],
)
def test_what_the_source_was_asked_is_old_once_it_is_unreachable(side, broker, lag):
    lost = reachability.Unreachable(side=side, cluster="x", reason="refused", broker=broker)
    stopped = statuses.partition(phase="stopped", copied_to=-1, source_end=-1)
    found = report(statuses.flow(stopped), looks={PLACE: LOOK}, unreachable=(lost,))
    assert found.partitions[0].lag_records == lag
    assert found.unreachable == (lost,)


@pytest.mark.parametrize(
    "fields",
    [
        {"copied_to": 8, "source_end": 8},
        {"copied_to": 3, "source_end": 8, "oldest_ms": 4_000},
        {"copied_to": 3, "source_end": 8, "oldest_ms": 4_000, "phase": "stopped"},
    ],
)
def test_of_an_unreachable_source_no_lag_is_known_whatever_a_copy_saw_last(fields):
    lost = reachability.Unreachable(side=reachability.Side.SOURCE, cluster="x", reason="refused")
    found = report(statuses.flow(statuses.partition(**fields)), unreachable=(lost,))
    lag = flow_report.lag(found.partitions, found.at_ms)
    assert (lag.records, lag.ms) == (None, None)


def test_when_the_last_batch_was_replicated_is_part_of_the_report():
    crossed = health.Crossed(begun_ms=1, last=None)
    assert report(statuses.flow(), crossed=crossed).crossed == crossed
    assert report(statuses.flow()).crossed is None


def test_an_operators_pause_is_the_flows_state():
    found = report(statuses.flow(statuses.partition(), holds=holds.Holds(paused=True)))
    assert found.state is flow_report.State.PAUSED
    assert [(each.state, each.lag_records) for each in found.partitions] == [
        (overview.PAUSED, None)
    ]
    ended = statuses.flow(
        state=flow_status.FlowState.FAILED, reason="refused", holds=holds.Holds(paused=True)
    )
    assert report(ended).state is flow_report.State.FAILED


def test_tasks_of_all_nodes_and_more_of_those_that_run_here():
    places = (
        flow_status.TaskPlace(number=0, state="RUNNING", node="a:1"),
        flow_status.TaskPlace(number=1, state="RUNNING", node="b:1"),
        flow_status.TaskPlace(number=2, state="FAILED", node="a:1", reason="no right"),
    )
    here = [
        statuses.task(0, flow_status.TaskState.WAITING_FOR_SLOT, restarts=3),
        statuses.task(2),
        statuses.task(3),
    ]
    status = dataclasses.replace(statuses.flow(tasks=here), places=places)
    found = report(status)
    assert found.nodes == ("a:1", "b:1")
    assert found.tasks == (
        flow_report.Task(number=0, state="WAITING_FOR_SLOT", node="a:1", restarts=3),
        flow_report.Task(number=1, state="RUNNING", node="b:1"),
        flow_report.Task(number=2, state="FAILED", node="a:1", reason="no right"),
        flow_report.Task(number=3, state="RUNNING", restarts=0),
    )


def test_warnings():
    receipts = (flow_status.ReceiptCount(topic="orders", kind="source-gone", count=2),)
    status = statuses.flow(
        statuses.partition(fenced=False),
        tasks=[statuses.task(receipts=receipts)],
        slots_missing=2,
        holds=holds.Holds(
            paused_topics=frozenset({"bills"}),
            budgets=flows.Budgets(flow=5_000_000),
            beside={"MirrorCheckpointConnector": holds.By.PAUSED},
        ),
    )
    status = dataclasses.replace(status, fencing="kafka-acls.sh …", warnings=("a mirror is short",))
    told = "\n".join(report(status).warnings)
    for words in (
        "1 partition is replicated at least once",
        "Remedy: kafka-acls.sh …",
        "need 2 more Spark slots",
        "receipts since the start: 2 source-gone",
        "paused topics: bills",
        "throttled to 5.0 MB/s",
        "a mirror is short",
        "MirrorCheckpointConnector is paused, by an operator",
    ):
        assert words in told
    assert report(statuses.flow()).warnings == (overview.NO_TOPIC,)
    assert report(statuses.flow(elsewhere=1)).warnings == ()
