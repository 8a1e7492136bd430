"""The status of one flow: what `mm2 status --json` and `mm2 lag --json` contain.

Made by the process that runs the flow or, if no process runs it here, from what both clusters
store. `report_to_json` and `parse_report` convert it to and from the JSON that processes send
over their socket and that programs read.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base.ids import TopicPartition
from mm2.reachability import ClusterSide, UnreachableCluster
from mm2.replication import latency
from mm2.replication.halts import HaltCause
from mm2.status.process_health import LastReplication, ReplicationActivity, ReplicationEvidence
from mm2.status.retention_risk import DeletionCause, RetentionRisk, RiskKind

STATUS_JSON_VERSION = 1
REPORTED_BY_CLUSTERS = "clusters"
"""Stands in `FlowReport.seen_by` for both clusters; a process is "process" and its id."""

UNKNOWN_RISK = RetentionRisk(kind=RiskKind.UNKNOWN)


class ReportedFlowState(enum.Enum):
    """Of a flow."""

    PLANNING = "PLANNING"
    """Its process has begun, and copies nothing yet."""
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPING = "STOPPING"
    STOPPED = "STOPPED"
    """For good: until somebody resumes or starts it."""
    FAILED = "FAILED"
    NOT_RUNNING = "NOT_RUNNING"
    """No process, on whichever machine, is in its group."""
    UNKNOWN = "UNKNOWN"
    """Its target does not answer."""


COPYING_STATE = "copying"
HALTED_STATES = frozenset({"stopped", "fenced"})
"""States of partitions: of those that move, and of those that stand still until somebody acts."""
_LOG_REPLACED_CAUSES = frozenset({HaltCause.RECREATED.value, HaltCause.SOURCE_TRUNCATED.value})
TASK_FAILED = "FAILED"
"""Connect's word for a task that does not go on by itself."""
UNREPORTED_STATE = ""
"""A partition's state that only the process that copies it knows. With a reason, its logs show that
something is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition of the source. Offsets and times are None while unknown.

    `state` is a word of `overview`, or `UNREPORTED_STATE`. `start` and `end` (last stable offset)
    are of the source's log, `copied_to` is the next offset to copy, None also where nothing was
    copied yet. `waiting_since_ms` is the timestamp of the oldest record not yet copied. `since_ms`:
    since when it is in this state. `cause`: the code of a stop (`HaltCause`), "" where nobody knows
    one."""

    topic: str
    partition: int
    mirror: str
    state: str = UNREPORTED_STATE
    reason: str = ""
    cause: str = ""
    since_ms: int | None = None
    copied_to: int | None = None
    start: int | None = None
    end: int | None = None
    waiting_since_ms: int | None = None
    outlook: RetentionRisk = UNKNOWN_RISK

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def lag_records(self) -> int | None:
        """By offsets: an upper bound where the log has gaps. None where it is unknown, and where
        the source's log is another than the one that was replicated: its offsets do not compare."""
        if self.end is None or self.cause in _LOG_REPLACED_CAUSES:
            return None
        if self.copied_to is None:
            return None if self.start is None else self.end - self.start
        return max(0, self.end - max(self.copied_to, self.start or 0))

    def lag_ms(self, now_ms: int) -> int | None:
        """Age of the oldest record not yet copied, 0 if none, never negative; None also where it
        lies in the future."""
        if self.lag_records == 0:
            return 0
        if self.waiting_since_ms is None:
            return None
        return latency.compute_age_ms(self.waiting_since_ms, now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReport:
    """One task of the flow's source connector. `node` is the worker that has it, "" for none;
    `restarts` are None where nobody counts them."""

    number: int
    state: str
    node: str = ""
    reason: str = ""
    restarts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowProblem:
    """Something that went wrong: when it was seen first, None if nobody noted that, and when it was
    resolved, None while it lasts."""

    text: str
    at_ms: int | None = None
    resolved_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HaltGroup:
    """Partitions of one topic that are stopped for one reason, since the first of them was.
    `reason` is that of the first, `state` as in `PartitionReport`."""

    topic: str
    state: str
    reason: str
    partitions: tuple[int, ...]
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowReport:
    """As of `at_ms`, UTC. `since_ms`: since when it is in its state. `elsewhere` counts partitions
    that whoever saw it knows nothing of. `troubles` are the last ones, newest first. `unreachable`
    are clusters of the flow, or brokers of theirs, that do not answer. `crossed`: when its last
    batch was replicated, None where only a process that replicates some of it can tell. `unseen`:
    why the partitions that are `elsewhere` could not be looked at, "" where nobody tried."""

    flow: str
    seen_by: tuple[str, ...]
    at_ms: int
    state: ReportedFlowState
    reason: str = ""
    since_ms: int | None = None
    nodes: tuple[str, ...] = ()
    tasks: tuple[TaskReport, ...] = ()
    partitions: tuple[PartitionReport, ...] = ()
    elsewhere: int = 0
    troubles: tuple[FlowProblem, ...] = ()
    warnings: tuple[str, ...] = ()
    unreachable: tuple[UnreachableCluster, ...] = ()
    crossed: ReplicationActivity | None = None
    unseen: str = ""

    def lost_cluster(self, side: ClusterSide) -> UnreachableCluster | None:
        """The whole cluster on that side, where it does not answer."""
        found = (each for each in self.unreachable if each.side is side and not each.broker)
        return next(found, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedLag:
    """Over some partitions: sum and maximum of what is known, None where nothing is. `complete` and
    `dated` say whether the lag and the age of all is, else they are lower bounds."""

    records: int | None
    ms: int | None
    complete: bool
    dated: bool


def sum_lag(partitions: Sequence[PartitionReport], now_ms: int) -> ReportedLag:
    """Of all of them together."""
    records = [each.lag_records for each in partitions]
    lags_ms = [each.lag_ms(now_ms) for each in partitions]
    known, known_ms = _drop_unknown(records), _drop_unknown(lags_ms)
    return ReportedLag(
        records=sum(known) if known else None,
        ms=max(known_ms, default=None),
        complete=len(known) == len(partitions),
        dated=len(known_ms) == len(partitions),
    )


def find_soonest_loss(partitions: Sequence[PartitionReport]) -> RetentionRisk | None:
    """Of what will be lost first; None: nothing is known to be."""
    kinds = (RiskKind.GONE, RiskKind.RUNS_OUT)
    found = [each.outlook for each in partitions if each.outlook.kind in kinds]
    return min(found, key=lambda each: each.left_ms or 0, default=None)


def group_halts(partitions: Sequence[PartitionReport]) -> list[HaltGroup]:
    """What is stopped until somebody acts, each topic and reason once: reasons that differ only in
    the number of their partition are alike."""
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
    """The text with the topic in the place of the partition's name."""
    named = rf"(?<![\w.-]){re.escape(place.topic)}-{place.partition}(?!\d)"
    return re.sub(named, lambda _: place.topic, text)


def list_past_problems(report: FlowReport) -> list[FlowProblem]:
    """Without what still halts a partition: that is reported as it is now."""
    lasting = {
        replace_partition_by_topic(each.place, each.reason)
        for each in report.partitions
        if each.state in HALTED_STATES
    }
    return [each for each in report.troubles if not any(why in each.text for why in lasting)]


def group_by_topic(partitions: Sequence[PartitionReport]) -> dict[str, list[PartitionReport]]:
    """In order of names and numbers."""
    found: dict[str, list[PartitionReport]] = {}
    for each in sorted(partitions, key=lambda each: (each.topic, each.partition)):
        found.setdefault(each.topic, []).append(each)
    return found


def _drop_unknown(values: Sequence[int | None]) -> list[int]:
    return [each for each in values if each is not None]


# JSON


def report_to_json(report: FlowReport) -> dict[str, Any]:
    """`parse_report` has the way back. Lags are told beside what they are made of."""
    return {
        **_field_values(report),
        "state": report.state.value,
        "tasks": [_field_values(each) for each in report.tasks],
        "partitions": [_partition_to_json(each, report.at_ms) for each in report.partitions],
        "troubles": [_field_values(each) for each in report.troubles],
        "unreachable": [
            {**_field_values(each), "side": each.side.value} for each in report.unreachable
        ],
        "crossed": None if report.crossed is None else _activity_to_json(report.crossed),
        **lag_to_json(sum_lag(report.partitions, report.at_ms)),
    }


def lag_to_json(found: ReportedLag) -> dict[str, Any]:
    """Not known, they are lower bounds."""
    return {
        "lag_records": found.records,
        "lag_records_known": found.complete,
        "lag_ms": found.ms,
        "lag_ms_known": found.dated,
    }


def _activity_to_json(crossed: ReplicationActivity) -> dict[str, Any]:
    last = crossed.last
    return {
        "begun_ms": crossed.begun_ms,
        "last": None if last is None else {"at_ms": last.at_ms, "by": last.by.name},
    }


def _parse_activity(found: Mapping[str, Any]) -> ReplicationActivity:
    last = found["last"]
    return ReplicationActivity(
        begun_ms=found["begun_ms"],
        last=None
        if last is None
        else LastReplication(at_ms=last["at_ms"], by=ReplicationEvidence[last["by"]]),
    )


def _partition_to_json(each: PartitionReport, now_ms: int) -> dict[str, Any]:
    outlook = each.outlook
    return {
        **_field_values(each),
        "outlook": {
            **_field_values(outlook),
            "kind": outlook.kind.value,
            "by": None if outlook.by is None else outlook.by.value,
        },
        "lag_records": each.lag_records,
        "lag_ms": each.lag_ms(now_ms),
    }


def _field_values(each: Any) -> dict[str, Any]:
    """Those of a dataclass, as they are: there may be thousands of partitions."""
    return {name: getattr(each, name) for name in each.__dataclass_fields__}


def parse_report(found: Mapping[str, Any]) -> FlowReport:
    """Raises `KeyError`, `TypeError` or `ValueError` for what is no report of this release."""
    plain = {key: found[key] for key in FlowReport.__dataclass_fields__}
    return FlowReport(
        **plain
        | {
            "seen_by": tuple(plain["seen_by"]),
            "state": ReportedFlowState(plain["state"]),
            "nodes": tuple(plain["nodes"]),
            "tasks": tuple(TaskReport(**each) for each in plain["tasks"]),
            "partitions": tuple(_parse_partition(each) for each in plain["partitions"]),
            "troubles": tuple(FlowProblem(**each) for each in plain["troubles"]),
            "warnings": tuple(plain["warnings"]),
            "unreachable": tuple(
                UnreachableCluster(**each | {"side": ClusterSide(each["side"])})
                for each in plain["unreachable"]
            ),
            "crossed": None if plain["crossed"] is None else _parse_activity(plain["crossed"]),
        }
    )


def _parse_partition(found: Mapping[str, Any]) -> PartitionReport:
    plain = {key: found[key] for key in PartitionReport.__dataclass_fields__}
    outlook = dict(plain["outlook"])
    outlook["kind"] = RiskKind(outlook["kind"])
    outlook["by"] = None if outlook["by"] is None else DeletionCause(outlook["by"])
    return PartitionReport(**plain | {"outlook": RetentionRisk(**outlook)})
