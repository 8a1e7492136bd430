from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base.ids import TopicPartition
from mm2.config.pause_and_throttle_overrides import OperatorOverrides, OverrideKind
from mm2.connectors.status_registry import FlowState, IncidentCount, TaskPlacement, TaskState
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.status import status_document, status_from_process, topic_rows
from mm2.status.process_health import ReplicationActivity
from mm2.status.status_document import PartitionReport, ReportedFlowState, TaskReport
from mm2.status.status_from_process import SourcePartitionSnapshot, StatusHistory
from mm2.status.time_to_data_loss import RetentionRisk, RiskKind, TopicRetention
from mm2.topics.flow_config import Flow, FlowThrottles
from mm2.topics.mirror_topic_plan import ConfigEntry
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster
from tests.support import statuses

KEPT = RetentionRisk(kind=RiskKind.KEPT)
SEEN = SourcePartitionSnapshot(
    bounds=LogBounds(start=2, end=12), copied_to=4, waiting_since_ms=70, retention_risk=KEPT
)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, (4, 12, 70)),
        ({"copied_to": 6, "end": 9}, (6, 12, 70)),
        ({"copied_to": 6, "end": 15, "waiting_since_ms": 90}, (6, 15, 90)),
        ({"copied_to": 12}, (12, 12, None)),
        ({"copied_to": 13, "end": 15, "waiting_since_ms": 90}, (13, 15, 90)),
    ],
)
def test_what_is_newest_counts(known, expected):
    before = PartitionReport(topic="t", partition=0, mirror="e.t", **known)
    found = status_from_process.apply_source_snapshot(before, SEEN, recent=True)
    assert (found.copied_to, found.end, found.waiting_since_ms) == expected
    assert (found.start, found.retention_risk) == (2, KEPT)


def test_an_old_look_says_nothing_of_the_end_of_the_log():
    before = PartitionReport(topic="t", partition=0, mirror="e.t", copied_to=12)
    found = status_from_process.apply_source_snapshot(before, SEEN, recent=False)
    assert (found.copied_to, found.end, found.retention_risk) == (12, None, KEPT)


def test_settings_that_may_not_be_read_tell_nothing():
    assert status_from_process.parse_topic_retention(None) is None
    told = {"cleanup.policy": "delete", "retention.ms": "5", "retention.bytes": "-1"}
    entries = {name: ConfigEntry(value=value) for name, value in told.items()}
    assert status_from_process.parse_topic_retention(entries) == TopicRetention(retention_ms=5)


FLOW = Flow(source="east", target="west")
PLACE = TopicPartition("orders", 0)
LOOK = SourcePartitionSnapshot(
    bounds=LogBounds(start=2, end=12), copied_to=4, waiting_since_ms=1_000, retention_risk=KEPT
)


def report(status, **more):
    past = StatusHistory()
    past.observe([status], now_s=5.0, wall_ms=5)
    return status_from_process.make_report(
        FLOW, status, past, resume="mm2 resume x", process=7, wall_ms=9_000, **more
    )


def test_a_running_flow():
    copying = statuses.partition(copied_to=3, source_end=10, oldest_uncopied_ms=4_000)
    found = report(statuses.flow(copying, elsewhere=2))
    assert (found.seen_by, found.state, found.since_ms) == (
        ("process 7",),
        ReportedFlowState.RUNNING,
        5,
    )
    assert found.partitions_on_other_nodes == 2
    (part,) = found.partitions
    assert (part.mirror, part.state, part.since_ms) == ("east.orders", "copying", 5)
    assert (part.lag_records, part.compute_lag_ms(found.at_ms)) == (7, 5_000)


def test_that_nothing_was_missing_when_it_last_moved_says_nothing_about_now():
    waiting = statuses.partition(phase="waiting", copied_to=3, source_end=3)
    behind = statuses.partition(number=1, phase="halted", copied_to=3, source_end=8, reason="why")
    found = report(statuses.flow(waiting, behind))
    assert [each.lag_records for each in found.partitions] == [None, 5]
    assert [each.reason for each in found.partitions] == ["", "why"]


def test_programs_get_the_code_of_a_stop():
    found = report(statuses.flow(statuses.partition(phase="halted", cause="recreated")))
    (part,) = status_document.report_to_json(found)["partitions"]
    assert (part["state"], part["cause"]) == ("halted", "recreated")
    assert (
        status_document.parse_report(status_document.report_to_json(found)).partitions[0].cause
        == "recreated"
    )


def test_what_the_source_was_asked_fills_in_what_is_not_known():
    stopped = statuses.partition(phase="halted", copied_to=-1, source_end=-1)
    (part,) = report(statuses.flow(stopped), snapshots={PLACE: LOOK}).partitions
    assert (part.copied_to, part.start, part.end, part.retention_risk) == (4, 2, 12, KEPT)
    assert (part.lag_records, part.compute_lag_ms(9_000)) == (8, 8_000)


@pytest.mark.parametrize(
    ("side", "broker", "lag"),
    [
        (ClusterSide.SOURCE, "", None),
        (ClusterSide.SOURCE, "2 (b:9092)", 8),
        (ClusterSide.TARGET, "", 8),
    ],
)
def test_what_the_source_was_asked_is_old_once_it_is_unreachable(side, broker, lag):
    lost = UnreachableCluster(side=side, cluster="x", reason="refused", broker=broker)
    stopped = statuses.partition(phase="halted", copied_to=-1, source_end=-1)
    found = report(statuses.flow(stopped), snapshots={PLACE: LOOK}, unreachable=(lost,))
    assert found.partitions[0].lag_records == lag
    assert found.unreachable == (lost,)


@pytest.mark.parametrize(
    "fields",
    [
        {"copied_to": 8, "source_end": 8},
        {"copied_to": 3, "source_end": 8, "oldest_uncopied_ms": 4_000},
        {"copied_to": 3, "source_end": 8, "oldest_uncopied_ms": 4_000, "phase": "halted"},
    ],
)
def test_of_an_unreachable_source_no_lag_is_known_whatever_a_copy_saw_last(fields):
    lost = UnreachableCluster(side=ClusterSide.SOURCE, cluster="x", reason="refused")
    found = report(statuses.flow(statuses.partition(**fields)), unreachable=(lost,))
    lag = status_document.sum_lag(found.partitions, found.at_ms)
    assert (lag.records, lag.ms) == (None, None)


def test_when_the_last_batch_was_replicated_is_part_of_the_report():
    activity = ReplicationActivity(begun_ms=1, last=None)
    assert report(statuses.flow(), activity=activity).activity == activity
    assert report(statuses.flow()).activity is None


def test_an_operators_pause_is_the_flows_state():
    found = report(statuses.flow(statuses.partition(), holds=OperatorOverrides(paused=True)))
    assert found.state is ReportedFlowState.PAUSED
    assert [(each.state, each.lag_records) for each in found.partitions] == [
        (topic_rows.PAUSED_STATE, None)
    ]
    ended = statuses.flow(
        state=FlowState.FAILED, reason="refused", holds=OperatorOverrides(paused=True)
    )
    assert report(ended).state is ReportedFlowState.FAILED


def test_tasks_of_all_nodes_and_more_of_those_that_run_here():
    places = (
        TaskPlacement(number=0, state="RUNNING", node="a:1"),
        TaskPlacement(number=1, state="RUNNING", node="b:1"),
        TaskPlacement(number=2, state="FAILED", node="a:1", reason="no right"),
    )
    here = [
        statuses.task(0, TaskState.WAITING_FOR_SLOT, restarts=3),
        statuses.task(2),
        statuses.task(3),
    ]
    status = dataclasses.replace(statuses.flow(tasks=here), placements=places)
    found = report(status)
    assert found.nodes == ("a:1", "b:1")
    assert found.tasks == (
        TaskReport(number=0, state="WAITING_FOR_SLOT", node="a:1", restarts=3),
        TaskReport(number=1, state="RUNNING", node="b:1"),
        TaskReport(number=2, state="FAILED", node="a:1", reason="no right"),
        TaskReport(number=3, state="RUNNING", restarts=0),
    )


def test_warnings():
    incidents = (IncidentCount(topic="orders", kind="source-gone", count=2),)
    status = statuses.flow(
        statuses.partition(fenced=False),
        tasks=[statuses.task(incidents=incidents)],
        slots_missing=2,
        holds=OperatorOverrides(
            paused_topics=frozenset({"bills"}),
            budgets=FlowThrottles(flow=5_000_000),
            other_connectors={"MirrorCheckpointConnector": OverrideKind.PAUSED},
        ),
    )
    status = dataclasses.replace(
        status, fencing_command="kafka-acls.sh …", warnings=("a mirror is short",)
    )
    told = "\n".join(report(status).warnings)
    for words in (
        "1 partition is replicated at least once",
        "Remedy: kafka-acls.sh …",
        "need 2 more Spark slots",
        "incidents since the start: 2 source-gone",
        "paused topics: bills",
        "throttled to 5.0 MB/s",
        "a mirror is short",
        "MirrorCheckpointConnector is paused by an operator",
    ):
        assert words in told
    assert report(statuses.flow()).warnings == (topic_rows.NO_MATCHING_TOPIC,)
    assert report(statuses.flow(elsewhere=1)).warnings == ()
