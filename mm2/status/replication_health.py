"""Decides whether a flow is replicating.

Exit codes, JSON output, `/health/replicating`, the status page and the metric `mm2_flow_healthy`
all use `evaluate_flow`.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import plurals
from mm2 import exit_codes, text_format
from mm2.replication import replication_latency
from mm2.status import status_document, time_to_data_loss, topic_rows
from mm2.status.status_document import FlowReport, ReportedFlowState
from mm2.unreachable_cluster import UnreachableCluster

LAG_NOTE_THRESHOLD_MS = 60_000
"""Minimum lag in milliseconds of a running flow for which a note about the lag is added to the
flow's health. The note does not affect the health."""
_WAITING_STATES = frozenset({"waiting", "acquiring"})
"""States of partitions whose replication is currently interrupted."""
PARTITION_WAIT_MAX_S = 10
"""Maximum time for which a partition may be waiting, for example for a new leader, while the flow
is still healthy."""


class FlowHealth(enum.Enum):
    """Health of a flow, as far as the process that builds the report can determine it."""

    HEALTHY = "healthy"
    """Records are being replicated, and no operator action is required."""
    SUSPENDED = "suspended"
    """Paused or stopped by an operator."""
    PENDING = "pending"
    """Starting or stopping, or nothing to replicate."""
    UNKNOWN = "unknown"
    """Cannot be determined."""
    UNHEALTHY = "unhealthy"
    """Records are not being replicated, or will be lost, unless an operator acts."""


_WORST_HEALTH_FIRST = (
    FlowHealth.UNHEALTHY,
    FlowHealth.UNKNOWN,
    FlowHealth.PENDING,
    FlowHealth.SUSPENDED,
    FlowHealth.HEALTHY,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowHealthResult:
    """Health of a flow, with reasons and notes."""

    health: FlowHealth
    reasons: tuple[str, ...] = ()
    """Reasons why the flow is not healthy, the most severe first; empty if it is healthy."""
    notes: tuple[str, ...] = ()
    """Notes for the operator, for example about a high lag. They do not affect the health."""

    @property
    def is_healthy(self) -> bool:
        """True if the flow is healthy."""
        return self.health is FlowHealth.HEALTHY

    def describe(self) -> str:
        """Format the health with its reasons, for example `unhealthy: source east unreachable since
        22:03:28Z: …`."""
        reasons = "; ".join(self.reasons)
        return f"{self.health.value}: {reasons}" if reasons else self.health.value


def evaluate_flow(report: FlowReport, *, within_s: float) -> FlowHealthResult:
    """Evaluate the health of a flow from its report.

    `within_s` is `health.replicating.within.seconds`: how long a flow may go without replicating a
    batch while its source may have more records.
    """
    found = [*_find_problems(report)]
    if report.state is ReportedFlowState.RUNNING and not found:
        found = [*_check_running_flow(report, within_s=within_s)]
    found.sort(key=lambda each: _WORST_HEALTH_FIRST.index(each[0]))
    return FlowHealthResult(
        health=found[0][0] if found else FlowHealth.HEALTHY,
        reasons=tuple(dict.fromkeys(text for _, text in found)),
        notes=(*_list_health_notes(report), *report.warnings),
    )


def health_to_json(report: FlowReport, *, within_s: float) -> dict[str, Any]:
    """Encode `health`, `reasons` and `notes` as JSON, to be merged with
    `status_document.report_to_json`."""
    found = evaluate_flow(report, within_s=within_s)
    return {
        "health": found.health.value,
        "reasons": list(found.reasons),
        "notes": list(found.notes),
    }


def find_exit_code(reports: Sequence[FlowReport], *, within_s: float) -> int:
    """Return a command's exit code for the reports of all flows: `exit_codes.DONE` if every flow is
    healthy."""
    return exit_codes.combine_exit_codes(
        [_find_flow_exit_code(each, within_s=within_s) for each in reports]
    )


def _find_flow_exit_code(report: FlowReport, *, within_s: float) -> int:
    if report.state is ReportedFlowState.UNKNOWN:
        return exit_codes.UNREACHABLE
    match evaluate_flow(report, within_s=within_s).health:
        case FlowHealth.HEALTHY:
            return exit_codes.DONE
        case FlowHealth.UNKNOWN:
            return exit_codes.UNKNOWN
        case _:
            return exit_codes.FAILED


_HealthProblem = tuple[FlowHealth, str]


def _find_problems(report: FlowReport) -> Iterator[_HealthProblem]:
    """Yield the problems that can occur in every flow state, each with the health that results. A
    running flow without such problems is checked further by `_check_running_flow`."""
    if report.state is not ReportedFlowState.UNKNOWN:
        for each in _list_unreachable_clusters(report):
            yield FlowHealth.UNHEALTHY, each.format_description()
    yield from _check_flow_state(report)
    for task in report.tasks:
        if task.state == status_document.TASK_FAILED:
            reason = f": {task.reason}" if task.reason else ""
            yield FlowHealth.UNHEALTHY, f"task {task.number} failed{reason}"
    for failure in report.connector_failures:
        yield FlowHealth.UNHEALTHY, failure
    halted = [each for each in report.partitions if each.state in status_document.HALTED_STATES]
    if halted:
        yield (
            FlowHealth.UNHEALTHY,
            f"{plurals.format_count(len(halted), 'partition')} halted",
        )
    damaged = [
        each
        for each in report.partitions
        if each.state == status_document.UNREPORTED_STATE and each.reason
    ]
    if damaged:
        first = damaged[0]
        more = f" (and {len(damaged) - 1} more)" if len(damaged) > 1 else ""
        yield FlowHealth.UNHEALTHY, f"{first.source_partition}: {first.reason}{more}"
    short = [each for each in report.partitions if each.retention_risk.is_time_to_data_loss_short]
    soonest = status_document.find_soonest_data_loss(short)
    if soonest is not None:
        yield FlowHealth.UNHEALTHY, time_to_data_loss.describe_data_loss(soonest)


def _list_unreachable_clusters(report: FlowReport) -> Iterator[UnreachableCluster]:
    """Yield the unreachable clusters. Unreachable brokers are also yielded if the replication of a
    partition is interrupted (waiting or acquiring)."""
    waits = any(each.state in _WAITING_STATES for each in report.partitions)
    for each in report.unreachable:
        if waits or not each.broker:
            yield each


def _check_flow_state(report: FlowReport) -> Iterator[_HealthProblem]:
    State = ReportedFlowState
    reason = report.reason
    match report.state:
        case State.RUNNING:
            return
        case State.FAILED:
            reason = _strip_unreachable_clusters(report)
            if reason or not report.unreachable:
                yield FlowHealth.UNHEALTHY, reason or "the flow failed, but no cause was reported"
        case State.NOT_RUNNING:
            yield FlowHealth.UNHEALTHY, reason or "no mm2 process is running this flow"
        case State.UNKNOWN:
            yield FlowHealth.UNKNOWN, reason or "its target cluster does not respond"
        case State.PAUSED:
            yield FlowHealth.SUSPENDED, reason or "paused by an operator"
        case State.STOPPED:
            yield FlowHealth.SUSPENDED, reason or "stopped"
        case State.PLANNING | State.STOPPING:
            reason = _strip_unreachable_clusters(report)
            if reason or not report.unreachable:
                yield FlowHealth.PENDING, reason or report.state.value.lower()


def _strip_unreachable_clusters(report: FlowReport) -> str:
    """Return the reason for the flow's state without the descriptions of unreachable clusters,
    because unreachable clusters are reported separately."""
    reason = report.reason
    for each in report.unreachable:
        reason = reason.replace(each.format_description(), "").strip("; ")
    return reason


def _check_running_flow(report: FlowReport, *, within_s: float) -> Iterator[_HealthProblem]:
    """Check whether a running flow without known problems is replicating."""
    if report.partitions_on_other_nodes and report.other_nodes_error:
        count = plurals.format_count(report.partitions_on_other_nodes, "partition")
        yield (
            FlowHealth.UNKNOWN,
            f"the status of {count} on other nodes is unknown: {report.other_nodes_error}",
        )
    if not report.partitions:
        if not report.partitions_on_other_nodes:
            yield FlowHealth.PENDING, topic_rows.NOTHING_TO_COPY
        return
    yield from _check_unreported_partition_lag(report, within_s=within_s)
    yield from _check_last_batch(report, within_s=within_s)
    lasting = [
        each
        for each in report.partitions
        if each.since_ms is not None
        if _is_state_older_than(each.since_ms, report.at_ms, PARTITION_WAIT_MAX_S)
    ]
    waiting = [each for each in lasting if each.state in _WAITING_STATES]
    if waiting:
        starts = report.since_ms is not None and not _is_state_older_than(
            report.since_ms, report.at_ms, within_s
        )
        count = plurals.format_count(len(waiting), "partition", "are")
        reason = next((f": {each.reason}" for each in waiting if each.reason), "")
        yield (
            FlowHealth.PENDING if starts else FlowHealth.UNHEALTHY,
            f"{count} not being replicated{reason}",
        )
    unknown = [
        each
        for each in report.partitions
        if each.lag_records is None
        and (each in lasting or each.state == status_document.UNREPORTED_STATE)
        if each.state not in (*_WAITING_STATES, topic_rows.PAUSED_STATE)
    ]
    if unknown:
        count = plurals.format_count(len(unknown), "partition")
        yield FlowHealth.UNKNOWN, f"the lag of {count} is unknown"


def _is_state_older_than(since_ms: int, at_ms: int, for_s: float) -> bool:
    """Return True if the state has lasted for at least `for_s` seconds, or if its age is unknown
    because the clock was set."""
    age_ms = replication_latency.compute_age_ms(since_ms, at_ms)
    return age_ms is None or age_ms >= for_s * 1000


def _check_unreported_partition_lag(
    report: FlowReport, *, within_s: float
) -> Iterator[_HealthProblem]:
    """Check the lag of the partitions for which no copy process reported its status.

    Yield health UNKNOWN if their oldest unreplicated record is older than `within_s` and no process
    that replicates the flow has reported.
    """
    unseen = [each for each in report.partitions if each.state == status_document.UNREPORTED_STATE]
    lag = status_document.sum_lag(unseen, report.at_ms)
    if report.activity is None and lag.ms is not None and lag.ms > within_s * 1000:
        age = text_format.format_duration(lag.ms / 1000)
        yield (
            FlowHealth.UNKNOWN,
            f"a record has been waiting for {age} to be replicated; only the process that runs the "
            "flow knows whether other records are being replicated",
        )


def _check_last_batch(report: FlowReport, *, within_s: float) -> Iterator[_HealthProblem]:
    activity = report.activity
    if activity is None:
        return
    age_ms = replication_latency.compute_age_ms(activity.at_ms, report.at_ms)
    if age_ms is None:
        yield (
            FlowHealth.UNKNOWN,
            "the last replication time is in the future: a clock was changed, or the clocks of two "
            "machines differ; synchronize them with NTP",
        )
        return
    age_s = age_ms / 1000
    allowed = f"health.replicating.within.seconds: {within_s:g}"
    if activity.last is None:
        text = (
            f"no record replicated since the flow started {text_format.format_duration(age_s)} ago"
        )
        late = age_s > within_s
        yield FlowHealth.UNHEALTHY if late else FlowHealth.PENDING, f"{text} ({allowed})"
    elif age_s > within_s:
        text = f"no record replicated for {text_format.format_duration(age_s)}"
        yield FlowHealth.UNHEALTHY, f"{text} ({allowed})"


def _list_health_notes(report: FlowReport) -> Iterator[str]:
    for each in report.unreachable:
        if each.broker:
            yield each.format_description()
    if report.partitions_on_other_nodes:
        count = plurals.format_count(report.partitions_on_other_nodes, "partition", "are")
        yield f"{count} replicated by other nodes"
    found = status_document.sum_lag(report.partitions, report.at_ms)
    if (
        report.state is ReportedFlowState.RUNNING
        and found.ms is not None
        and found.ms >= LAG_NOTE_THRESHOLD_MS
    ):
        age = text_format.format_duration(found.ms / 1000)
        yield f"the oldest unreplicated record is {age} old"
