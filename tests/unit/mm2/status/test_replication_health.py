"""One verdict for exit codes, JSON, health, page and metrics."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from mm2 import exit_codes
from mm2.status import replication_health, topic_rows
from mm2.status.process_health import LastReplication, ReplicationActivity, ReplicationEvidenceKind
from mm2.status.replication_health import FlowHealth
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState, TaskReport
from mm2.status.time_to_data_loss import DeletionCause, RetentionRisk, RiskKind
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

Health, Side, State = FlowHealth, ClusterSide, ReportedFlowState
NOW_MS = 1_790_000_000_000
WITHIN_S = 60.0
ALLOWED = "health.replicating.within.seconds: 60"
SHORT = RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=5_000, cause=DeletionCause.TIME, share=0.1)
FAILED = TaskReport(number=3, state="FAILED", reason="no rights")
LONG_AGO, JUST_NOW = NOW_MS - 500_000, NOW_MS - 5_000


def lost(side=Side.SOURCE, broker="", since_ms: int | None = 0):
    alias = {Side.SOURCE: "east", Side.TARGET: "west"}[side]
    return UnreachableCluster(
        side=side, cluster=alias, broker=broker, reason="refused", since_ms=since_ms
    )


def part(state="copying", **more):
    given: dict[str, Any] = {"copied_to": 7, "end": 7, "since_ms": LONG_AGO}
    return PartitionReport(topic="t", partition=0, mirror="e.t", state=state, **(given | more))


def crossed(ago_s: float | None, *, begun_s: float = 500.0):
    last = None
    if ago_s is not None:
        last = LastReplication(
            at_ms=NOW_MS - round(ago_s * 1000), evidence=ReplicationEvidenceKind.BATCH
        )
    return ReplicationActivity(begun_ms=NOW_MS - round(begun_s * 1000), last=last)


def report(*parts, state=State.RUNNING, **more):
    given: dict[str, Any] = {"since_ms": LONG_AGO, "activity": crossed(1.0)}
    return FlowReport(
        flow="east->west",
        seen_by=("process 1",),
        at_ms=NOW_MS,
        state=state,
        partitions=parts,
        **(given | more),
    )


def judge(found):
    return replication_health.evaluate_flow(found, within_s=WITHIN_S)


SOURCE_LOST = "source east unreachable since 00:00:00Z: refused"
TARGET_LOST = "target west unreachable since 00:00:00Z: refused"


@pytest.mark.parametrize(
    ("found", "expected", "reasons"),
    [
        (report(part()), Health.HEALTHY, []),
        (report(part(), activity=None), Health.HEALTHY, []),
        (report(part(), unreachable=(lost(),)), Health.UNHEALTHY, [SOURCE_LOST]),
        (
            report(unreachable=(lost(), lost(Side.TARGET)), partitions_on_other_nodes=2),
            Health.UNHEALTHY,
            [SOURCE_LOST, TARGET_LOST],
        ),
        (
            report(part(), unreachable=(lost(since_ms=None),)),
            Health.UNHEALTHY,
            ["source east unreachable: refused"],
        ),
        (
            report(state=State.PAUSED, reason="paused; x", unreachable=(lost(),)),
            Health.UNHEALTHY,
            [SOURCE_LOST, "paused; x"],
        ),
        (
            report(state=State.PLANNING, reason="joining", unreachable=(lost(Side.TARGET),)),
            Health.UNHEALTHY,
            [TARGET_LOST, "joining"],
        ),
        (report(part(), part("halted")), Health.UNHEALTHY, ["1 partition halted"]),
        (
            report(part("halted"), part("fenced"), activity=crossed(90.0)),
            Health.UNHEALTHY,
            ["2 partitions halted"],
        ),
        (
            report(part("", reason="its mirror was deleted"), part("", reason="x"), activity=None),
            Health.UNHEALTHY,
            ["t-0: its mirror was deleted (and 1 more)"],
        ),
        (report(part(), tasks=(FAILED,)), Health.UNHEALTHY, ["task 3 failed: no rights"]),
        (
            report(part(), connector_failures=("checkpoint task 1 failed: why",)),
            Health.UNHEALTHY,
            ["checkpoint task 1 failed: why"],
        ),
        (
            report(part(retention_risk=SHORT)),
            Health.UNHEALTHY,
            ["the source deletes unreplicated records in 5.0 s at the earliest (retention.ms)"],
        ),
        (report(part(retention_risk=dataclasses.replace(SHORT, share=0.9))), Health.HEALTHY, []),
        (report(state=State.FAILED, reason="no rights"), Health.UNHEALTHY, ["no rights"]),
        (
            report(state=State.NOT_RUNNING),
            Health.UNHEALTHY,
            ["no mm2 process is running this flow"],
        ),
        (report(state=State.UNKNOWN, reason="no response"), Health.UNKNOWN, ["no response"]),
        (
            report(state=State.UNKNOWN, reason="why", unreachable=(lost(Side.TARGET),)),
            Health.UNKNOWN,
            ["why"],
        ),
        (
            report(part(topic_rows.PAUSED_STATE), state=State.PAUSED),
            Health.SUSPENDED,
            ["paused by an operator"],
        ),
        (report(state=State.STOPPED, reason="failed over"), Health.SUSPENDED, ["failed over"]),
        (report(state=State.PLANNING, reason="joining"), Health.PENDING, ["joining"]),
        (report(state=State.STOPPING), Health.PENDING, ["stopping"]),
        (report(activity=None), Health.PENDING, [topic_rows.NOTHING_TO_COPY]),
        (report(partitions_on_other_nodes=4, activity=None), Health.HEALTHY, []),
        (
            report(part(), partitions_on_other_nodes=2, other_nodes_error="not authorized"),
            Health.UNKNOWN,
            ["the status of 2 partitions on other nodes is unknown: not authorized"],
        ),
        (
            report(part("", end=9, waiting_since_ms=NOW_MS - 61_000), activity=None),
            Health.UNKNOWN,
            [
                "a record has been waiting for 61 s to be replicated; only the process that "
                "runs the flow knows whether other records are being replicated"
            ],
        ),
        (
            report(part("", end=9, waiting_since_ms=NOW_MS - 59_000), activity=None),
            Health.HEALTHY,
            [],
        ),
        (
            report(part(), activity=crossed(60.1)),
            Health.UNHEALTHY,
            [f"no record replicated for 60 s ({ALLOWED})"],
        ),
        (report(part(), activity=crossed(60.0)), Health.HEALTHY, []),
        (
            report(part(), activity=crossed(None, begun_s=9.0)),
            Health.PENDING,
            [f"no record replicated since the flow started 9.0 s ago ({ALLOWED})"],
        ),
        (
            report(part(), activity=crossed(None, begun_s=61.0)),
            Health.UNHEALTHY,
            [f"no record replicated since the flow started 61 s ago ({ALLOWED})"],
        ),
        (report(part(), part("waiting", since_ms=JUST_NOW)), Health.HEALTHY, []),
        (
            report(part(), part("waiting", reason="a leader moved")),
            Health.UNHEALTHY,
            ["1 partition is not being replicated: a leader moved"],
        ),
        (
            report(part("acquiring"), part("acquiring"), since_ms=NOW_MS - 59_000),
            Health.PENDING,
            ["2 partitions are not being replicated"],
        ),
        (report(part(), part(topic_rows.PAUSED_STATE, end=None)), Health.HEALTHY, []),
        (report(part(), part(end=None)), Health.UNKNOWN, ["the lag of 1 partition is unknown"]),
        (report(part(), part(end=None, since_ms=JUST_NOW)), Health.HEALTHY, []),
        (
            report(part("", end=None, since_ms=None), activity=None),
            Health.UNKNOWN,
            ["the lag of 1 partition is unknown"],
        ),
    ],
)
def test_the_verdict_and_why(found, expected, reasons):
    verdict = judge(found)
    assert (verdict.health, list(verdict.reasons)) == (expected, reasons)
    assert verdict.is_healthy is (not reasons)


def test_a_single_broker_counts_while_a_partition_waits_for_it():
    broker = lost(broker="2 (b:9092)")
    text = "source east broker 2 (b:9092) unreachable since 00:00:00Z: refused"
    fine = judge(report(part(), unreachable=(broker,)))
    assert (fine.health, fine.notes) == (Health.HEALTHY, (text,))
    waits = judge(report(part(), part("waiting", since_ms=JUST_NOW), unreachable=(broker,)))
    assert (waits.health, waits.reasons) == (Health.UNHEALTHY, (text,))


def test_what_an_operator_should_know_of_a_healthy_flow():
    found = report(
        part(end=9, waiting_since_ms=NOW_MS - 90_000),
        partitions_on_other_nodes=1,
        warnings=("unfenced",),
    )
    verdict = judge(found)
    assert verdict.is_healthy
    assert verdict.notes == (
        "1 partition is replicated by other nodes",
        "the oldest unreplicated record is 90 s old",
        "unfenced",
    )


def test_how_a_verdict_reads():
    assert judge(report(part())).describe() == "healthy"
    assert judge(report(part(), unreachable=(lost(),))).describe() == f"unhealthy: {SOURCE_LOST}"


@pytest.mark.parametrize(
    ("reports", "code"),
    [
        ([], exit_codes.DONE),
        ([report(part())], exit_codes.DONE),
        ([report(part()), report(part("halted"))], exit_codes.FAILED),
        ([report(part(), unreachable=(lost(),))], exit_codes.FAILED),
        ([report(state=State.PAUSED)], exit_codes.FAILED),
        ([report(state=State.PLANNING)], exit_codes.FAILED),
        ([report(part("halted")), report(part(end=None))], exit_codes.UNKNOWN),
        ([report(part()), report(state=State.UNKNOWN)], exit_codes.UNKNOWN),
        ([report(state=State.UNKNOWN)], exit_codes.UNREACHABLE),
    ],
)
def test_the_exit_code_is_that_of_the_worst_flow(reports, code):
    assert replication_health.find_exit_code(reports, within_s=WITHIN_S) == code


def test_the_verdict_as_json():
    assert replication_health.health_to_json(
        report(part(), unreachable=(lost(),)), within_s=WITHIN_S
    ) == {
        "health": "unhealthy",
        "reasons": [SOURCE_LOST],
        "notes": [],
    }


FUTURE_MS = NOW_MS + 6 * 3_600_000


def test_a_moment_in_the_future_excuses_nothing():
    """A clock was set back: how long it has been so, nobody knows."""
    waiting = part("waiting", since_ms=FUTURE_MS)
    assert judge(report(waiting, since_ms=FUTURE_MS)).health is Health.UNHEALTHY
    stalled = judge(report(part(), activity=crossed(-6 * 3_600.0)))
    assert stalled.health is Health.UNKNOWN
    assert "is in the future" in stalled.reasons[0]
