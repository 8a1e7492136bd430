"""Defines the status of one flow, as contained in `mm2 status --json` and `mm2 lag --json`.

The status is built by the process that runs the flow or, if no local process runs it, from data
stored in both clusters. Processes send the status over their socket as JSON, and scripts read the
same JSON. `report_to_json` and `parse_report` convert a `FlowReport` to and from this JSON.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.replication import partition_lag
from mm2.replication.partition_halt_messages import HaltCause
from mm2.status.process_health import LastReplication, ReplicationActivity, ReplicationEvidenceKind
from mm2.status.time_to_data_loss import DeletionCause, RetentionRisk, RiskKind
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster

STATUS_JSON_VERSION = 1
REPORTED_BY_CLUSTERS = "clusters"
"""Entry in `FlowReport.seen_by` for data read from both clusters. The entry for a process is
"process" and its id."""

UNKNOWN_RISK = RetentionRisk(kind=RiskKind.UNKNOWN)


class ReportedFlowState(enum.Enum):
    """State of a flow."""

    PLANNING = "PLANNING"
    """The flow's worker is starting, or the flow's connectors and tasks are being configured or
    assigned."""
    RUNNING = "RUNNING"
    """The flow's tasks are assigned and started."""
    PAUSED = "PAUSED"
    """Paused by an operator."""
    STOPPING = "STOPPING"
    """The flow's worker is stopping, together with its tasks."""
    STOPPED = "STOPPED"
    """The flow does not run until an operator resumes or starts it."""
    FAILED = "FAILED"
    """The flow's connector or worker has failed."""
    NOT_RUNNING = "NOT_RUNNING"
    """The flow's Connect group has no members on any machine."""
    UNKNOWN = "UNKNOWN"
    """The flow's target cluster does not respond."""


COPYING_STATE = "copying"
"""State of a partition that is being replicated."""
HALTED_STATES = frozenset({"halted", "fenced"})
"""States of a partition that needs an operator action before it is replicated again."""
_LOG_REPLACED_CAUSES = frozenset({HaltCause.RECREATED.value, HaltCause.SOURCE_TRUNCATED.value})
TASK_FAILED = "FAILED"
"""Connect state of a task that does not restart on its own."""
UNREPORTED_STATE = ""
"""State of a partition for which no copy process reported a state. If the partition report has a
reason, the reason is a problem in the partition's source log or mirror log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """Status of one source partition. Offsets and times are None if unknown."""

    topic: str
    partition: int
    mirror: str
    state: str = UNREPORTED_STATE
    """Copy phase, "paused", or `UNREPORTED_STATE`."""
    reason: str = ""
    cause: str = ""
    """Halt code (`HaltCause`), or "" if the partition is not halted."""
    since_ms: int | None = None
    """Time when the partition entered its state."""
    copied_to: int | None = None
    """Next source offset to replicate; None if unknown or if nothing was replicated yet."""
    start: int | None = None
    """Start offset of the source log."""
    end: int | None = None
    """Last stable offset of the source log."""
    waiting_since_ms: int | None = None
    """Timestamp of the oldest unreplicated record."""
    retention_risk: RetentionRisk = UNKNOWN_RISK
    """Estimate of when retention may delete unreplicated records."""

    @property
    def source_partition(self) -> TopicPartition:
        """The source partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def lag_records(self) -> int | None:
        """Lag in offsets. It is an upper bound if the log has gaps.

        None if unknown, or if the offsets are not comparable: the partition is halted because the
        source topic was recreated or its log was truncated.
        """
        if self.end is None or self.cause in _LOG_REPLACED_CAUSES:
            return None
        copied_to = self.start if self.copied_to is None else self.copied_to
        return partition_lag.count_lag_records(
            source_end=self.end, copied_to=copied_to, log_start=self.start
        )

    def compute_lag_ms(self, now_ms: int) -> int | None:
        """Return the age of the oldest unreplicated record, 0 if all records are replicated. Return
        None if the age is unknown, or if the timestamp is in the future."""
        return partition_lag.compute_lag_ms(
            lag_records=self.lag_records,
            oldest_uncopied_ms=self.waiting_since_ms,
            now_ms=now_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """Status of one task of the flow's source connector."""

    number: int
    state: str
    node: str = ""
    """Worker that runs the task, or "" if it is not assigned."""
    reason: str = ""
    restarts: int | None = None
    """Number of restarts, None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProblem:
    """A problem of a flow."""

    text: str
    at_ms: int | None = None
    """Time when the problem was first seen, or None if unknown."""
    resolved_ms: int | None = None
    """Time when the problem was resolved, or None while it persists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltGroup:
    """Halted partitions of one topic that have the same reason."""

    topic: str
    state: str
    """State of the first of these halted partitions."""
    reason: str
    """Halt reason of the first of these halted partitions."""
    partitions: tuple[int, ...]
    since_ms: int | None
    """Time when the first of the partitions was halted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReport:
    """Status of one flow."""

    flow: str
    seen_by: tuple[str, ...]
    """Origin of the report: `REPORTED_BY_CLUSTERS`, or "process" and the id of each process that
    runs the flow and has reported."""
    at_ms: int
    """Time when the report was collected, in UTC milliseconds."""
    state: ReportedFlowState
    reason: str = ""
    since_ms: int | None = None
    """Time when the flow entered its state."""
    nodes: tuple[str, ...] = ()
    tasks: tuple[TaskReport, ...] = ()
    partitions: tuple[PartitionReport, ...] = ()
    partitions_on_other_nodes: int = 0
    """Number of partitions that other nodes replicate and that are not in `partitions`."""
    problems: tuple[FlowProblem, ...] = ()
    """Latest problems, newest first."""
    warnings: tuple[str, ...] = ()
    unreachable: tuple[UnreachableCluster, ...] = ()
    """Clusters and brokers of the flow that do not respond."""
    activity: ReplicationActivity | None = None
    """Replication activity of the flow, or None if no replicating process has reported."""
    connector_failures: tuple[str, ...] = ()
    """Failed connectors and checkpoint tasks, with their reasons."""
    other_nodes_error: str = ""
    """Reason why the status of the partitions on other nodes could not be read from the clusters,
    or "" if it was read or was not needed."""

    def find_unreachable_cluster(self, side: ClusterSide) -> UnreachableCluster | None:
        """Return the flow's source or target cluster (as given by `side`) if none of its brokers
        responds; otherwise None."""
        found = (each for each in self.unreachable if each.side is side and not each.broker)
        return next(found, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLag:
    """Total lag over partitions: sum of the lags in records, and maximum of the ages. Partitions
    with unknown values are ignored. A total is None if no partition's value is known."""

    records: int | None
    """Sum of the known lags in records."""
    ms: int | None
    """Maximum of the known ages in milliseconds."""
    complete: bool
    """True if every lag is known; otherwise `records` is a lower bound."""
    age_complete: bool
    """True if every age is known; otherwise `ms` is a lower bound."""


def sum_lag(partitions: Sequence[PartitionReport], now_ms: int) -> ReportedLag:
    """Aggregate the lags of partitions."""
    records = [each.lag_records for each in partitions]
    lags_ms = [each.compute_lag_ms(now_ms) for each in partitions]
    known, known_ms = _drop_none_values(records), _drop_none_values(lags_ms)
    return ReportedLag(
        records=sum(known) if known else None,
        ms=max(known_ms, default=None),
        complete=len(known) == len(partitions),
        age_complete=len(known_ms) == len(partitions),
    )


def find_soonest_data_loss(partitions: Sequence[PartitionReport]) -> RetentionRisk | None:
    """Return the retention risk with the least time left; None if no loss is expected."""
    kinds = (RiskKind.GONE, RiskKind.RUNS_OUT)
    found = [each.retention_risk for each in partitions if each.retention_risk.kind in kinds]
    return min(found, key=lambda each: each.left_ms or 0, default=None)


def group_halts(partitions: Sequence[PartitionReport]) -> list[HaltGroup]:
    """Group halted partitions by topic and reason. Reasons that differ only in the partition number
    are considered equal."""
    found: dict[tuple[str, str], list[PartitionReport]] = {}
    for each in partitions:
        if each.state in HALTED_STATES:
            found.setdefault(
                (each.topic, replace_partition_with_topic_name(each.source_partition, each.reason)),
                [],
            ).append(each)
    return [
        HaltGroup(
            topic=topic,
            state=parts[0].state,
            reason=parts[0].reason,
            partitions=tuple(each.partition for each in parts),
            since_ms=min((each.since_ms for each in parts if each.since_ms), default=None),
        )
        for (topic, _), parts in found.items()
    ]


def replace_partition_with_topic_name(place: TopicPartition, text: str) -> str:
    """Replace the name of the partition `place` in `text` by the name of its topic, for example
    `orders-3` by `orders`."""
    named = rf"(?<![\w.-]){re.escape(place.topic)}-{place.partition}(?!\d)"
    return re.sub(named, lambda _: place.topic, text)


def list_past_problems(report: FlowReport) -> list[FlowProblem]:
    """Return the flow's recorded problems, except those that describe current halts, because
    current halts are reported separately."""
    lasting = {
        replace_partition_with_topic_name(each.source_partition, each.reason)
        for each in report.partitions
        if each.state in HALTED_STATES
    }
    return [each for each in report.problems if not any(why in each.text for why in lasting)]


def group_partitions_by_topic(
    partitions: Sequence[PartitionReport],
) -> dict[str, list[PartitionReport]]:
    """Group partitions by topic, sorted by topic name and partition number."""
    found: dict[str, list[PartitionReport]] = {}
    for each in sorted(partitions, key=lambda each: (each.topic, each.partition)):
        found.setdefault(each.topic, []).append(each)
    return found


def _drop_none_values(values: Sequence[int | None]) -> list[int]:
    return [each for each in values if each is not None]


# JSON


def report_to_json(report: FlowReport) -> dict[str, Any]:
    """Encode a flow report as JSON for `parse_report`. The JSON also contains the lags, which are
    derived from other fields."""
    return {
        **_get_field_values(report),
        "state": report.state.value,
        "tasks": [_get_field_values(each) for each in report.tasks],
        "partitions": [_partition_to_json(each, report.at_ms) for each in report.partitions],
        "problems": [_get_field_values(each) for each in report.problems],
        "unreachable": [
            {**_get_field_values(each), "side": each.side.value} for each in report.unreachable
        ],
        "activity": None if report.activity is None else _activity_to_json(report.activity),
        **lag_to_json(sum_lag(report.partitions, report.at_ms)),
    }


def lag_to_json(found: ReportedLag) -> dict[str, Any]:
    """Encode a total lag as JSON. The values are lower bounds unless `known` is true."""
    return {
        "lag_records": found.records,
        "lag_records_known": found.complete,
        "lag_ms": found.ms,
        "lag_ms_known": found.age_complete,
    }


def _activity_to_json(activity: ReplicationActivity) -> dict[str, Any]:
    last = activity.last
    return {
        "begun_ms": activity.begun_ms,
        "last": None if last is None else {"at_ms": last.at_ms, "evidence": last.evidence.name},
    }


def _parse_activity(found: Mapping[str, Any]) -> ReplicationActivity:
    last = found["last"]
    return ReplicationActivity(
        begun_ms=found["begun_ms"],
        last=None
        if last is None
        else LastReplication(
            at_ms=last["at_ms"], evidence=ReplicationEvidenceKind[last["evidence"]]
        ),
    )


def _partition_to_json(each: PartitionReport, now_ms: int) -> dict[str, Any]:
    risk = each.retention_risk
    return {
        **_get_field_values(each),
        "retention_risk": {
            **_get_field_values(risk),
            "kind": risk.kind.value,
            "cause": None if risk.cause is None else risk.cause.value,
        },
        "lag_records": each.lag_records,
        "lag_ms": each.compute_lag_ms(now_ms),
    }


def _get_field_values(each: Any) -> dict[str, Any]:
    """Return a dataclass's fields without copying their values, because there may be thousands of
    partitions."""
    return {name: getattr(each, name) for name in each.__dataclass_fields__}


def parse_report(found: Mapping[str, Any]) -> FlowReport:
    """Decode a flow report from the JSON of `report_to_json`. Raises `KeyError`, `TypeError` or
    `ValueError` if the JSON does not match, for example because another release of mm2 encoded
    it."""
    plain = {key: found[key] for key in FlowReport.__dataclass_fields__}
    return FlowReport(
        **plain
        | {
            "seen_by": tuple(plain["seen_by"]),
            "state": ReportedFlowState(plain["state"]),
            "nodes": tuple(plain["nodes"]),
            "tasks": tuple(TaskReport(**each) for each in plain["tasks"]),
            "partitions": tuple(_parse_partition(each) for each in plain["partitions"]),
            "problems": tuple(FlowProblem(**each) for each in plain["problems"]),
            "warnings": tuple(plain["warnings"]),
            "connector_failures": tuple(plain["connector_failures"]),
            "unreachable": tuple(
                UnreachableCluster(**each | {"side": ClusterSide(each["side"])})
                for each in plain["unreachable"]
            ),
            "activity": None if plain["activity"] is None else _parse_activity(plain["activity"]),
        }
    )


def _parse_partition(found: Mapping[str, Any]) -> PartitionReport:
    plain = {key: found[key] for key in PartitionReport.__dataclass_fields__}
    risk = dict(plain["retention_risk"])
    risk["kind"] = RiskKind(risk["kind"])
    risk["cause"] = None if risk["cause"] is None else DeletionCause(risk["cause"])
    return PartitionReport(**plain | {"retention_risk": RetentionRisk(**risk)})
