from __future__ import annotations

from typing import Any

from mm2 import suggested_commands, text_format
from mm2.status import status_tables
from mm2.status.status_document import (
    FlowProblem,
    FlowReport,
    PartitionReport,
    ReportedFlowState,
    TaskReport,
)
from mm2.status.status_query import StatusQueryResult
from mm2.status.time_to_data_loss import DeletionCause, RetentionRisk, RiskKind
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

SHORT = RetentionRisk(kind=RiskKind.RUNS_OUT, left_ms=90_000, cause=DeletionCause.TIME, share=0.1)
AT_MS = 1_700_000_000_000


def part(topic="orders", number=0, **more):
    given: dict[str, Any] = {"state": "copying", "start": 0, "end": 10, "copied_to": 10}
    return PartitionReport(topic=topic, partition=number, mirror=f"east.{topic}", **given | more)


LATE = part("bills", end=10, copied_to=4, waiting_since_ms=AT_MS - 5_000, retention_risk=SHORT)


def found(*partitions, notes=(), **more):
    given = {"state": ReportedFlowState.RUNNING, "seen_by": ("process 7",), **more}
    report = FlowReport(flow="east->west", at_ms=AT_MS, partitions=partitions, **given)
    return StatusQueryResult(flows=(report,), notes=notes, within_s=60.0)


def words(lines):
    return [line.split() for line in lines]


def test_a_flow_its_tasks_and_topics():
    tasks = (
        TaskReport(number=0, state="RUNNING", node="a:1", restarts=2),
        TaskReport(number=1, state="RUNNING", node="b:1"),
        TaskReport(number=2, state="FAILED", node="a:1", reason="no right"),
    )
    lines = list(
        status_tables.render_status(found(part(), LATE, since_ms=AT_MS - 1_000, tasks=tasks))
    )
    assert lines == [
        "east->west  RUNNING since 2023-11-14T22:13:19Z, unhealthy: task 2 failed: no right; "
        "the source deletes unreplicated records in 90 s at the earliest (retention.ms)  "
        "(seen by process 7)",
        "  lag: 6 records, 5.0 s; as of 2023-11-14T22:13:20Z",
        "  the source deletes unreplicated records in 90 s at the earliest (retention.ms)",
        "  a:1: tasks 0, 2 (1 FAILED, 1 RUNNING)",
        "  b:1: tasks 1 (1 RUNNING)",
        "  task 0: RUNNING, restarted 2 times",
        "  task 2: FAILED: no right",
        "  TOPIC   PARTITIONS  LAG  LAG-TIME  TIME-TO-LOSS  STATE",
        "  bills   1           6    5.0 s     90 s          copying",
        "  orders  1           0    0 s       -             copying",
        "",
    ]


def test_what_stands_still_is_told_once_for_each_reason_with_since_when():
    standing = [
        part(
            number=number,
            state="halted",
            reason=f"orders-{number} is damaged",
            since_ms=AT_MS - number,
        )
        for number in range(7)
    ]
    other = part("bills", state="fenced", reason="another", since_ms=None)
    lines = list(status_tables.render_status(found(*standing, other)))
    stopped = [line for line in lines if line.startswith("  halted")]
    assert stopped == [
        "  halted since 2023-11-14T22:13:19Z: orders-0, orders-1, orders-2, orders-3, orders-4 "
        "and 2 more: orders-0 is damaged",
        "  halted: bills-0: another",
    ]


def test_only_so_many_reasons_are_told_one_by_one():
    many = status_tables.SHOWN_HALTS_MAX + 3
    standing = [
        part(number=number, state="halted", reason=f"why {number}") for number in range(many)
    ]
    lines = list(status_tables.render_status(found(*standing)))
    assert sum(line.startswith("  halted") for line in lines) == status_tables.SHOWN_HALTS_MAX
    assert "  … and 3 more causes" in lines


def test_warnings_the_last_troubles_and_notes():
    problems = tuple(FlowProblem(text=f"trouble {number}", at_ms=AT_MS) for number in range(9))
    lines = list(
        status_tables.render_status(
            found(
                state=ReportedFlowState.PAUSED,
                reason="paused by an operator; resume with: mm2 resume x",
                warnings=("w",),
                problems=problems,
                notes=("note",),
            )
        )
    )
    assert lines[0] == (
        "east->west  PAUSED, suspended: paused by an operator; resume with: mm2 resume x  "
        "(seen by process 7)"
    )
    assert "  warning: w" in lines
    assert sum("trouble" in line for line in lines) == status_tables.SHOWN_PROBLEMS_MAX
    assert "  2023-11-14T22:13:20Z: trouble 0" in lines
    assert lines[-1] == "note"


def test_what_is_over_says_since_when_and_what_lasts_is_shown_once():
    problems = (
        FlowProblem(
            text=f"task 0: killed. {suggested_commands.format_remedy('x')}",
            at_ms=AT_MS - 9_000,
            resolved_ms=AT_MS,
        ),
        FlowProblem(text="orders: deleted", at_ms=AT_MS - 9_000),
    )
    halted = part(state="halted", reason="orders-0: deleted")
    lines = list(status_tables.render_status(found(halted, problems=problems)))
    assert sum("deleted" in line for line in lines) == 1
    assert "  2023-11-14T22:13:11Z: task 0: killed (resolved 2023-11-14T22:13:20Z)" in lines


def test_an_unreachable_cluster_is_in_the_headline_and_the_lag_is_unknown():
    lost = UnreachableCluster(
        side=ClusterSide.SOURCE, cluster="east", reason="refused", since_ms=AT_MS
    )
    lines = list(
        status_tables.render_status(found(part(end=None, state="waiting"), unreachable=(lost,)))
    )
    assert lines[:2] == [
        "east->west  RUNNING, unhealthy: source east unreachable since 22:13:20Z: refused  "
        "(seen by process 7)",
        "  lag: unknown; as of 2023-11-14T22:13:20Z",
    ]


def test_a_task_that_nobody_has():
    lines = list(status_tables.render_status(found(tasks=(TaskReport(number=0, state=""),))))
    assert "  no node: tasks 0 (1 not running)" in lines


def test_lag_topic_by_topic_and_of_the_flow():
    lines = words(
        status_tables.render_lag(found(part(), part(number=1, copied_to=7), LATE), partitions=False)
    )
    assert lines[2:5] == [
        ["bills", "*", "east.bills", "-", "-", "6", "5.0", "s", "90", "s", "copying"],
        ["orders", "*", "east.orders", "-", "-", "3", ">0", "s", "-", "copying"],
        ["*", "*", "-", "-", "-", "9", ">5.0", "s", "90", "s", "copying"],
    ]


def test_lag_partition_by_partition():
    unknown = part("bills", end=None, copied_to=None, state="")
    lines = words(
        status_tables.render_lag(
            found(part(), part(number=1, copied_to=7), unknown), partitions=True
        )
    )
    assert lines[2:6] == [
        ["bills", "0", "east.bills", "-", "-", "-", "-", "-", "-"],
        ["orders", "0", "east.orders", "10", "10", "0", "0", "s", "-", "copying"],
        ["orders", "1", "east.orders", "10", "7", "3", "-", "-", "copying"],
        ["orders", "*", "east.orders", "-", "-", "3", ">0", "s", "-", "copying"],
    ]
    assert lines[6][-4:] == ["1", "unknown,", "2", "copying"]


def test_one_topic_by_either_name():
    both = found(part(), part("bills"))
    for name in ("orders", "east.orders"):
        (flow,) = status_tables.select_topic_partitions(both, name).flows
        assert [each.topic for each in flow.partitions] == ["orders"]
    assert status_tables.select_topic_partitions(both, "users").flows[0].partitions == ()


def test_a_time_that_is_not_known():
    assert text_format.format_time(None) == "-"
