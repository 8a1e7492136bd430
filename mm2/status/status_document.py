"""The status of one flow: what `mm2 status --json` and `mm2 lag --json` contain.

Built by the process that runs the flow or, if no local process runs it, from what both clusters
store. `report_to_json` and `parse_report` convert it to and from the JSON that processes send
over their socket and that scripts read.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.reachability import ClusterSide, UnreachableCluster
from mm2.replication import partition_lag
from mm2.replication.halts import HaltCause
from mm2.status.process_health import LastReplication, ReplicationActivity, ReplicationEvidence
from mm2.status.retention_risk import DeletionCause, RetentionRisk, RiskKind

STATUS_JSON_VERSION = 1
REPORTED_BY_CLUSTERS = "clusters"
"""Entry of `FlowReport.seen_by` for both clusters; a process is "process" and its id."""

UNKNOWN_RISK = RetentionRisk(kind=RiskKind.UNKNOWN)


class ReportedFlowState(enum.Enum):
    """State of a flow."""

    PLANNING = "PLANNING"
    """Its process has started, but does not replicate yet."""
    RUNNING = "RUNNING"
    """Its tasks are assigned and started."""
    PAUSED = "PAUSED"
    """Paused by an operator."""
    STOPPING = "STOPPING"
    """Its tasks are ending."""
    STOPPED = "STOPPED"
    """Stopped until an operator resumes or starts it."""
    FAILED = "FAILED"
    """Its connector or worker has failed."""
    NOT_RUNNING = "NOT_RUNNING"
    """Its Connect group has no members on any machine."""
    UNKNOWN = "UNKNOWN"
    """Its target cluster does not answer."""


COPYING_STATE = "copying"
"""State of a partition that is being replicated."""
HALTED_STATES = frozenset({"stopped", "fenced"})
"""States of a partition that is not replicated until an operator acts."""
_LOG_REPLACED_CAUSES = frozenset({HaltCause.RECREATED.value, HaltCause.SOURCE_TRUNCATED.value})
TASK_FAILED = "FAILED"
"""Connect's state of a task that does not restart by itself."""
UNREPORTED_STATE = ""
"""State of a partition as seen from the clusters: only its process knows it. With a reason, its
logs show a problem."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition of the source. Offsets and times are None if unknown."""

    topic: str
    partition: int
    mirror: str
    state: str = UNREPORTED_STATE
    """Phase or "paused", or `UNREPORTED_STATE`."""
    reason: str = ""
    cause: str = ""
    """Code of a halt (`HaltCause`), "" if there is none."""
    since_ms: int | None = None
    """When it entered its state."""
    copied_to: int | None = None
    """Next source offset to replicate; also None if nothing was replicated yet."""
    start: int | None = None
    """Start of the source's log."""
    end: int | None = None
    """Last stable offset of the source's log."""
    waiting_since_ms: int | None = None
    """Timestamp of the oldest record that is not replicated."""
    retention_risk: RetentionRisk = UNKNOWN_RISK
    """When retention may delete unreplicated records."""

    @property
    def place(self) -> TopicPartition:
        """The partition of the source."""
        return TopicPartition(self.topic, self.partition)

    @property
    def lag_records(self) -> int | None:
        """Lag in offsets: an upper bound if the log has gaps.

        None if unknown, or if the source's log is not the one that was replicated."""
        if self.end is None or self.cause in _LOG_REPLACED_CAUSES:
            return None
        copied_to = self.start if self.copied_to is None else self.copied_to
        return partition_lag.count_lag_records(
            source_end=self.end, copied_to=copied_to, log_start=self.start
        )

    def lag_ms(self, now_ms: int) -> int | None:
        """Age of the oldest record that is not replicated, 0 if there is none; None if unknown, or
        if its timestamp is in the future."""
        return partition_lag.compute_lag_ms(
            lag_records=self.lag_records,
            oldest_uncopied_ms=self.waiting_since_ms,
            now_ms=now_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """One task of the flow's source connector."""

    number: int
    state: str
    node: str = ""
    """Worker that runs it, "" for none."""
    reason: str = ""
    restarts: int | None = None
    """Number of restarts, None if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProblem:
    """A problem of a flow."""

    text: str
    at_ms: int | None = None
    """When it was first seen, None if unknown."""
    resolved_ms: int | None = None
    """When it was resolved, None while it lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltGroup:
    """Partitions of one topic that are halted for the same reason."""

    topic: str
    state: str
    """State of the first partition."""
    reason: str
    """Reason of the first partition."""
    partitions: tuple[int, ...]
    since_ms: int | None
    """When the first of them was halted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReport:
    """Status of one flow."""

    flow: str
    seen_by: tuple[str, ...]
    """Where it comes from: `REPORTED_BY_CLUSTERS`, or processes."""
    at_ms: int
    """When it was collected (UTC)."""
    state: ReportedFlowState
    reason: str = ""
    since_ms: int | None = None
    """When the flow entered its state."""
    nodes: tuple[str, ...] = ()
    tasks: tuple[TaskReport, ...] = ()
    partitions: tuple[PartitionReport, ...] = ()
    partitions_on_other_nodes: int = 0
    """Number of partitions that other nodes replicate, which are not in `partitions`."""
    problems: tuple[FlowProblem, ...] = ()
    """Latest problems, newest first."""
    warnings: tuple[str, ...] = ()
    unreachable: tuple[UnreachableCluster, ...] = ()
    """Clusters of the flow, or brokers of theirs, that do not answer."""
    activity: ReplicationActivity | None = None
    """When the last batch was replicated; None if no process that replicates has reported."""
    other_nodes_error: str = ""
    """Why the partitions on other nodes are unknown, "" if they were not queried."""

    def lost_cluster(self, side: ClusterSide) -> UnreachableCluster | None:
        """Returns the cluster on that side if it is unreachable as a whole."""
        found = (each for each in self.unreachable if each.side is side and not each.broker)
        return next(found, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLag:
    """Sum and maximum over partitions, of the known values; None if none is known."""

    records: int | None
    """Sum of the known lags."""
    ms: int | None
    """Maximum of the known ages."""
    complete: bool
    """True if every lag is known; otherwise `records` is a lower bound."""
    age_complete: bool
    """True if every age is known; otherwise `ms` is a lower bound."""


def sum_lag(partitions: Sequence[PartitionReport], now_ms: int) -> ReportedLag:
    """Aggregate the lags of partitions."""
    records = [each.lag_records for each in partitions]
    lags_ms = [each.lag_ms(now_ms) for each in partitions]
    known, known_ms = _drop_unknown(records), _drop_unknown(lags_ms)
    return ReportedLag(
        records=sum(known) if known else None,
        ms=max(known_ms, default=None),
        complete=len(known) == len(partitions),
        age_complete=len(known_ms) == len(partitions),
    )


def find_soonest_loss(partitions: Sequence[PartitionReport]) -> RetentionRisk | None:
    """Returns the risk with the least time left; None if no loss is expected."""
    kinds = (RiskKind.GONE, RiskKind.RUNS_OUT)
    found = [each.retention_risk for each in partitions if each.retention_risk.kind in kinds]
    return min(found, key=lambda each: each.left_ms or 0, default=None)


def group_halts(partitions: Sequence[PartitionReport]) -> list[HaltGroup]:
    """Group halted partitions by topic and reason; reasons that differ only in the partition number
    are equal."""
    found: dict[tuple[str, str], list[PartitionReport]] = {}
    for each in partitions:
        if each.state in HALTED_STATES:
            found.setdefault(
                (each.topic, replace_partition_by_topic(each.place, each.reason)), []
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


def replace_partition_by_topic(place: TopicPartition, text: str) -> str:
    """Replace the partition's name in a text by its topic."""
    named = rf"(?<![\w.-]){re.escape(place.topic)}-{place.partition}(?!\d)"
    return re.sub(named, lambda _: place.topic, text)


def list_past_problems(report: FlowReport) -> list[FlowProblem]:
    """Returns the problems that are not the reason of a current halt, which is reported itself."""
    lasting = {
        replace_partition_by_topic(each.place, each.reason)
        for each in report.partitions
        if each.state in HALTED_STATES
    }
    return [each for each in report.problems if not any(why in each.text for why in lasting)]


def group_by_topic(partitions: Sequence[PartitionReport]) -> dict[str, list[PartitionReport]]:
    """Group by topic, ordered by name and number."""
    found: dict[str, list[PartitionReport]] = {}
    for each in sorted(partitions, key=lambda each: (each.topic, each.partition)):
        found.setdefault(each.topic, []).append(each)
    return found


def _drop_unknown(values: Sequence[int | None]) -> list[int]:
    return [each for each in values if each is not None]


# JSON


def report_to_json(report: FlowReport) -> dict[str, Any]:
    """Encode as JSON, with derived lags; see `parse_report`."""
    return {
        **_field_values(report),
        "state": report.state.value,
        "tasks": [_field_values(each) for each in report.tasks],
        "partitions": [_partition_to_json(each, report.at_ms) for each in report.partitions],
        "problems": [_field_values(each) for each in report.problems],
        "unreachable": [
            {**_field_values(each), "side": each.side.value} for each in report.unreachable
        ],
        "activity": None if report.activity is None else _activity_to_json(report.activity),
        **lag_to_json(sum_lag(report.partitions, report.at_ms)),
    }


def lag_to_json(found: ReportedLag) -> dict[str, Any]:
    """Encode lags; if not `known`, they are lower bounds."""
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
        else LastReplication(at_ms=last["at_ms"], evidence=ReplicationEvidence[last["evidence"]]),
    )


def _partition_to_json(each: PartitionReport, now_ms: int) -> dict[str, Any]:
    risk = each.retention_risk
    return {
        **_field_values(each),
        "retention_risk": {
            **_field_values(risk),
            "kind": risk.kind.value,
            "cause": None if risk.cause is None else risk.cause.value,
        },
        "lag_records": each.lag_records,
        "lag_ms": each.lag_ms(now_ms),
    }


def _field_values(each: Any) -> dict[str, Any]:
    """Returns a dataclass's fields without copying values: there may be thousands of partitions."""
    return {name: getattr(each, name) for name in each.__dataclass_fields__}


def parse_report(found: Mapping[str, Any]) -> FlowReport:
    """Decode. Raises `KeyError`, `TypeError` or `ValueError` for another release's report."""
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
