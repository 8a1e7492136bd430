"""Builds the JSON documents of the status page: flows, topics, consumer groups, failover estimate.

The documents are built from the state of the process that runs the flows; no cluster is queried.
The size of each document is limited regardless of the number of partitions: the worst partitions
come first, the remaining ones are only counted.

Each state has one of five `Badge` values. Only a state that is known to be healthy is `GOOD`; an
unknown state is always `UNKNOWN`, regardless of the previous state. A `FailoverEstimate` is not a
failover plan, because this process has no information about consumer groups, nor about partitions
that other nodes replicate. `mm2 failover` builds the plan from both clusters.
"""

from __future__ import annotations

import enum
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import plurals
from connect_runtime.base.ids import TopicPartition
from mm2 import suggested_commands, text_format
from mm2.config import flow_connector_configs
from mm2.connectors.status_registry import CheckpointGroupsSnapshot, FlowStatus
from mm2.formats.mirrormaker2_records import Checkpoint
from mm2.status import replication_health, status_document, time_to_data_loss, topic_rows
from mm2.status.replication_health import FlowHealth, FlowHealthResult
from mm2.status.status_document import (
    FlowReport,
    PartitionReport,
    ReportedFlowState,
    ReportedLag,
    TaskReport,
)
from mm2.status.topic_rows import CopyRates
from mm2.topics.flow_config import Flow
from mm2.ui import lag_timeline
from mm2.ui.lag_timeline import TimelinePoint


class Badge(enum.Enum):
    """Display category of a state on the page."""

    GOOD = "good"
    """The state is healthy."""
    WAIT = "wait"
    """The flow, task or partition is starting, paused or waiting; or it is healthy with a note."""
    BAD = "bad"
    """The state needs an operator."""
    OFF = "off"
    """The flow, task or partition is stopped, or this process does not run it."""
    UNKNOWN = "unknown"
    """The state is not known."""


_WORST_BADGE_FIRST = (Badge.BAD, Badge.UNKNOWN, Badge.WAIT, Badge.OFF, Badge.GOOD)
_TASK_BADGES = {
    "RUNNING": Badge.GOOD,
    "FAILED": Badge.BAD,
    "PAUSED": Badge.WAIT,
    "STOPPED": Badge.OFF,
    "STOPPING": Badge.WAIT,
    "STARTING": Badge.WAIT,
    "RESTARTING": Badge.WAIT,
    "WAITING_FOR_SLOT": Badge.WAIT,
    "UNASSIGNED": Badge.WAIT,
}
_PARTITION_BADGES = {
    "waiting": Badge.WAIT,
    "acquiring": Badge.WAIT,
    topic_rows.PAUSED_STATE: Badge.WAIT,
    "closed": Badge.OFF,
}


def find_worst_badge(badges: Sequence[Badge]) -> Badge:
    """Return the worst of several badges, or UNKNOWN if there are no badges."""
    return min(badges, key=_WORST_BADGE_FIRST.index, default=Badge.UNKNOWN)


def choose_partition_badge(each: PartitionReport, now_ms: int) -> Badge:
    """Return a partition's badge. GOOD requires a known lag and no long wait."""
    if (
        each.state in status_document.HALTED_STATES
        or each.retention_risk.is_time_to_data_loss_short
    ):
        return Badge.BAD
    if each.state == status_document.COPYING_STATE:
        lag_ms = each.compute_lag_ms(now_ms)
        if each.lag_records is None or lag_ms is None:
            return Badge.UNKNOWN
        return Badge.GOOD if lag_ms < replication_health.LAG_NOTE_THRESHOLD_MS else Badge.WAIT
    if each.state == status_document.UNREPORTED_STATE and each.reason:
        return Badge.BAD
    return _PARTITION_BADGES.get(each.state, Badge.UNKNOWN)


def choose_task_badge(each: TaskReport) -> Badge:
    """Return the badge that the page shows for a task."""
    return _TASK_BADGES.get(each.state, Badge.UNKNOWN)


_HEALTH_BADGES = {
    FlowHealth.HEALTHY: Badge.GOOD,
    FlowHealth.PENDING: Badge.WAIT,
    FlowHealth.UNKNOWN: Badge.UNKNOWN,
    FlowHealth.UNHEALTHY: Badge.BAD,
}


def choose_flow_badge(report: FlowReport, verdict: FlowHealthResult) -> Badge:
    """Return the badge of a flow. It is the worst of the badges of the flow's health, its
    partitions and its tasks. A healthy flow with notes gets WAIT."""
    if verdict.health is FlowHealth.SUSPENDED:
        return Badge.OFF if report.state is ReportedFlowState.STOPPED else Badge.WAIT
    badge = _HEALTH_BADGES[verdict.health]
    if badge is not Badge.GOOD:
        return badge
    if not report.partitions:
        return Badge.OFF
    notes = len(verdict.notes) - bool(report.partitions_on_other_nodes)
    parts = [choose_partition_badge(each, report.at_ms) for each in report.partitions]
    tasks = [choose_task_badge(each) for each in report.tasks]
    return find_worst_badge([Badge.WAIT if notes else Badge.GOOD, *parts, *tasks])


def describe_flow_state(report: FlowReport, verdict: FlowHealthResult) -> str:
    """Describe a flow's state.

    The description includes the health if the flow is running but not healthy, and says whether
    other nodes replicate some of its partitions.
    """
    word = report.state.value.lower().replace("_", " ")
    if report.state is not ReportedFlowState.RUNNING:
        return word
    if verdict.is_healthy:
        if not report.partitions_on_other_nodes:
            return word
        return f"{word} here" if report.partitions else f"{word} elsewhere"
    stopped = sum(each.state in status_document.HALTED_STATES for each in report.partitions)
    return f"{word}, {stopped} halted" if stopped else f"{word}, {verdict.health.value}"


class EstimateKind(enum.Enum):
    """Result of a failover estimate. The estimate is made without building a failover plan. If some
    facts are unknown, the result is UNKNOWN even if costs are known."""

    UNKNOWN = "unknown"
    COSTS = "at a cost"
    NOTHING_KNOWN = "no obstacle known"


_ESTIMATE_BADGES = {
    EstimateKind.UNKNOWN: Badge.UNKNOWN,
    EstimateKind.COSTS: Badge.WAIT,
    EstimateKind.NOTHING_KNOWN: Badge.GOOD,
}
_WORST_ESTIMATE_FIRST = (EstimateKind.UNKNOWN, EstimateKind.COSTS, EstimateKind.NOTHING_KNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverEstimate:
    """Estimate of a failover; `command` is the command that builds the failover plan."""

    kind: EstimateKind
    findings: tuple[str, ...]
    command: str


def estimate_failover(
    report: FlowReport, flow: Flow, *, verdict: FlowHealthResult
) -> FailoverEstimate:
    """Estimate the result of a failover from what this process knows about the flow. The findings
    start with the reasons why the flow is not healthy."""
    found = [(EstimateKind.UNKNOWN, each) for each in verdict.reasons]
    found += [each for each in _find_failover_costs(report, flow) if each[1] not in verdict.reasons]
    kinds = [kind for kind, _ in found]
    return FailoverEstimate(
        kind=min(kinds, key=_WORST_ESTIMATE_FIRST.index, default=EstimateKind.NOTHING_KNOWN),
        findings=tuple(text for _, text in found),
        command=shlex.join(["mm2", "failover", "--from", flow.source, "--to", flow.target]),
    )


def estimate_to_json(found: FailoverEstimate) -> dict[str, Any]:
    """Encode a failover estimate as JSON for the page."""
    return {
        "verdict": found.kind.value,
        "badge": _ESTIMATE_BADGES[found.kind].value,
        "findings": list(found.findings),
        "command": found.command,
    }


def _find_failover_costs(report: FlowReport, flow: Flow) -> Iterator[tuple[EstimateKind, str]]:
    source, target, parts = flow.source, flow.target, report.partitions
    if report.state is not ReportedFlowState.RUNNING:
        yield (
            EstimateKind.UNKNOWN,
            f"the flow is {report.state.value}: the number of new records on {source} is unknown",
        )
    standing = [each for each in parts if each.state in status_document.HALTED_STATES]
    if standing:
        yield (
            EstimateKind.COSTS,
            f"{plurals.format_count(len(standing), 'partition', 'are')} halted: new "
            "records are "
            f"not replicated to {target}",
        )
    lost = status_document.find_soonest_data_loss(parts)
    if lost is not None:
        yield EstimateKind.COSTS, time_to_data_loss.describe_data_loss(lost)
    if report.partitions_on_other_nodes:
        yield (
            EstimateKind.UNKNOWN,
            f"{plurals.format_count(report.partitions_on_other_nodes, 'partition', 'are')} "
            "replicated by other processes: see the status pages of these processes",
        )
    if not parts:
        running = report.state is ReportedFlowState.RUNNING
        empty = running and not report.partitions_on_other_nodes
        yield (
            EstimateKind.UNKNOWN,
            topic_rows.NOTHING_TO_COPY
            if empty
            else ("this node replicates no partition of the flow"),
        )
        return
    lag = status_document.sum_lag(parts, report.at_ms)
    if not lag.complete:
        yield EstimateKind.UNKNOWN, "the lag of some partitions is unknown"
    if lag.records:
        age = "" if lag.ms is None else f", {text_format.format_duration(lag.ms / 1000)}"
        missing = plurals.format_count(lag.records, "record")
        yield EstimateKind.COSTS, f"up to {missing} of {source} are not replicated to {target}{age}"


DOCUMENT_VERSION = 1
"""Version of all JSON documents below `/ui/api/`."""
LISTED_TOPICS_MAX = 100
LISTED_HALTS_MAX = 20
LISTED_PROBLEMS_MAX = 10
NAMED_PARTITIONS_MAX = 5
"""Maximum number of halted partitions that are named per halt reason."""

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInfo:
    """Information about this process; `engine` is the copy engine, `file` the configuration file as
    passed on the command line."""

    release: str
    pid: int
    host: str
    file: str
    engine: str
    engine_ready: bool
    started_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPageSnapshot:
    """Snapshot of a flow at one point in time."""

    flow: Flow
    status: FlowStatus
    report: FlowReport
    verdict: FlowHealthResult
    rates: CopyRates | None = None
    """Copy rates; None until two snapshots have been taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSnapshot:
    """Snapshot of all flows at the time `at_ms`, in configuration order."""

    at_ms: int
    node: NodeInfo
    flows: tuple[FlowPageSnapshot, ...]

    def find_flow(self, flow: str) -> FlowPageSnapshot | None:
        """Return the snapshot of the named flow, or None if the flow does not exist."""
        return next((each for each in self.flows if each.flow.name == flow), None)


def make_overview_document(seen: PageSnapshot) -> JsonObject:
    """Build the overview document: a summary of all flows, and halted partitions."""
    aliases = dict.fromkeys(
        alias for each in seen.flows for alias in (each.flow.source, each.flow.target)
    )
    standing = [
        {"flow": each.flow.name, **one} for each in seen.flows for one in _encode_halts(each.report)
    ]
    return {
        **make_document_head(seen),
        "clusters": [{"alias": alias} for alias in aliases],
        "flows": [_make_flow_summary(each) for each in seen.flows],
        "halts": standing[:LISTED_HALTS_MAX],
        "halts_hidden": max(0, len(standing) - LISTED_HALTS_MAX),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowDetail:
    """Everything that the page shows about a flow, built once per snapshot; `topics` contains all
    topics, the worst first."""

    about: JsonObject
    topics: Sequence[JsonObject]


def make_flow_detail(
    seen: PageSnapshot, one: FlowPageSnapshot, past: Sequence[TimelinePoint]
) -> FlowDetail:
    """Build the details of a flow that the page shows from a snapshot of the flow."""
    report, holds = one.report, one.status.overrides
    rows = [
        _encode_topic(one, name, parts)
        for name, parts in status_document.group_partitions_by_topic(report.partitions).items()
    ]
    rows.sort(key=lambda row: (_BADGE_RANK[row["badge"]], -(row["lag_records"] or 0), row["topic"]))
    about = {
        **make_document_head(seen),
        **_make_flow_summary(one),
        "tasks": [_encode_task(each) for each in report.tasks],
        "halts": list(_encode_halts(report))[:LISTED_HALTS_MAX],
        "warnings": list(one.verdict.notes),
        "problems": [
            {"text": each.text, "at_ms": each.at_ms, "resolved_ms": each.resolved_ms}
            for each in status_document.list_past_problems(report)[:LISTED_PROBLEMS_MAX]
        ],
        "overrides": {
            "paused": holds.paused,
            "paused_topics": sorted(holds.paused_topics)[:LISTED_TOPICS_MAX],
            "throttle_bytes_s": holds.budgets.flow or None,
        },
        "estimate": estimate_to_json(estimate_failover(report, one.flow, verdict=one.verdict)),
        "timeline": lag_timeline.timeline_to_json(past),
    }
    return FlowDetail(about=about, topics=rows)


def make_flow_document(found: FlowDetail, *, topic: str = "") -> JsonObject:
    """Build a flow's document, limited to topics whose names contain `topic`."""
    rows = [row for row in found.topics if topic in row["topic"]]
    return {**found.about, "topics": rows[:LISTED_TOPICS_MAX], "topics_found": len(rows)}


_BADGE_RANK = {
    badge.value: rank
    for rank, badge in enumerate(
        (
            Badge.BAD,
            Badge.UNKNOWN,
            Badge.WAIT,
            Badge.OFF,
            Badge.GOOD,
        )
    )
}


def make_document_head(seen: PageSnapshot) -> JsonObject:
    """Build the fields that every document starts with."""
    node = seen.node
    return {
        "version": DOCUMENT_VERSION,
        "at_ms": seen.at_ms,
        "node": {
            "release": node.release,
            "pid": node.pid,
            "host": node.host,
            "file": node.file,
            "engine": node.engine,
            "engine_ready": node.engine_ready,
            "started_ms": node.started_ms,
        },
    }


def _make_flow_summary(one: FlowPageSnapshot) -> JsonObject:
    report, parts = one.report, one.report.partitions
    topics = {each.topic for each in parts}
    soonest = status_document.find_soonest_data_loss(parts)
    return {
        "flow": one.flow.name,
        "source": one.flow.source,
        "target": one.flow.target,
        "state": report.state.value,
        "badge": choose_flow_badge(report, one.verdict).value,
        "state_text": describe_flow_state(report, one.verdict),
        "health": one.verdict.health.value,
        "reasons": list(one.verdict.reasons),
        "reason": report.reason,
        "since_ms": report.since_ms,
        "nodes": list(report.nodes),
        "partitions_on_other_nodes": report.partitions_on_other_nodes,
        "topic_count": len(topics),
        "partition_count": len(parts),
        "partition_states": dict(sorted(Counter(each.state for each in parts).items())),
        "halted_count": sum(each.state in status_document.HALTED_STATES for each in parts),
        "task_states": dict(sorted(Counter(each.state for each in report.tasks).items())),
        "warning_count": len(one.verdict.notes),
        "slots_missing": one.status.slots_missing,
        "copied_records": sum(each.records for each in one.status.partitions),
        "copied_bytes": sum(each.bytes for each in one.status.partitions),
        "data_loss": "" if soonest is None else time_to_data_loss.describe_data_loss(soonest),
        **_encode_lag(parts, report.at_ms),
        **_encode_rate(one, topics),
    }


def _encode_lag(parts: Sequence[PartitionReport], at_ms: int) -> JsonObject:
    """Encode the lag. Without partitions the lag is unknown, not zero."""
    return status_document.lag_to_json(
        status_document.sum_lag(parts, at_ms)
        if parts
        else ReportedLag(records=None, ms=None, complete=False, age_complete=False)
    )


def _encode_rate(one: FlowPageSnapshot, topics: set[str]) -> JsonObject:
    found = None
    if one.rates is not None:
        found = [one.rates.get_rate(one.flow.name, topic) for topic in topics]
    return {
        "records_s": None if found is None else round(sum(each.records_s for each in found), 1),
        "bytes_s": None if found is None else round(sum(each.bytes_s for each in found), 1),
    }


def _encode_topic(one: FlowPageSnapshot, name: str, parts: Sequence[PartitionReport]) -> JsonObject:
    soonest = status_document.find_soonest_data_loss(parts)
    states = Counter(each.state for each in parts)
    return {
        "topic": name,
        "mirror": parts[0].mirror,
        "badge": find_worst_badge(
            [choose_partition_badge(each, one.report.at_ms) for each in parts]
        ).value,
        "partition_count": len(parts),
        "states": dict(sorted(states.items())),
        "reason": next(
            (
                _encode_halt_reason(each.reason)["reason"]
                for each in parts
                if _has_wait_reason(each)
            ),
            "",
        ),
        "data_loss": "" if soonest is None else time_to_data_loss.describe_data_loss(soonest),
        "throttle_bytes_s": one.status.overrides.budgets.get_topic_throttle(name),
        **_encode_lag(parts, one.report.at_ms),
        **_encode_rate(one, {name}),
    }


def _has_wait_reason(each: PartitionReport) -> bool:
    """Return True if the page shows the partition's reason with its topic, for example the reason
    why the partition is waiting. Halt reasons are shown separately."""
    return bool(each.reason) and each.state not in status_document.HALTED_STATES


def _encode_task(each: TaskReport) -> JsonObject:
    return {
        "number": each.number,
        "state": each.state,
        "badge": choose_task_badge(each).value,
        "node": each.node,
        "reason": each.reason,
        "restarts": each.restarts,
    }


def _encode_halts(report: FlowReport) -> Iterator[JsonObject]:
    """Yield the halted partitions, grouped by halt reason."""
    for each in status_document.group_halts(report.partitions):
        yield {
            "topic": each.topic,
            "state": each.state,
            "partitions": list(each.partitions[:NAMED_PARTITIONS_MAX]),
            "partition_count": len(each.partitions),
            "since_ms": each.since_ms,
            **_encode_halt_reason(each.reason),
        }


def _encode_halt_reason(reason: str) -> JsonObject:
    """Split a halt reason into its text and its remedy command. The command is "" if the halt has
    no remedy."""
    text, _, _ = reason.partition(suggested_commands.REMEDY_PREFIX)
    return {
        "reason": topic_rows.describe_state_reason(text.strip()).rstrip("."),
        "command": suggested_commands.extract_remedy_from_message(reason),
    }


LISTED_GROUPS_MAX = 50
GROUP_PARTITIONS_MAX = 50
"""Maximum number of partitions shown per consumer group."""


def make_groups_document(
    seen: PageSnapshot,
    one: FlowPageSnapshot,
    told: Sequence[CheckpointGroupsSnapshot],
    *,
    text: str,
) -> dict[str, Any]:
    """Build the document of the consumer groups whose names contain `text`. The document contains
    only the first `LISTED_GROUPS_MAX` groups in alphabetical order."""
    found = [each.find_groups(text, LISTED_GROUPS_MAX) for each in told]
    groups = {name: points for each in found for name, points in each.groups.items()}
    mirrors = {TopicPartition(each.mirror, each.partition): each for each in one.report.partitions}
    rounds = [each.last_round_wall_ms for each in told]
    known = [each for each in rounds if each is not None]
    how = one.status.overrides.other_connectors.get(flow_connector_configs.CHECKPOINT_CONNECTOR)
    return {
        **make_document_head(seen),
        "flow": one.flow.name,
        "local_tasks": len(told),
        "checkpoints_override": None if how is None else how.value,
        "checkpoints_ms": min(known) if known and len(known) == len(rounds) else None,
        "group_count": sum(each.total_count for each in found),
        "groups_found": sum(each.matching_count for each in found),
        "groups": [
            _encode_group(name, groups[name], mirrors)
            for name in sorted(groups)[:LISTED_GROUPS_MAX]
        ],
    }


def _encode_group(
    name: str,
    points: Sequence[Checkpoint],
    mirrors: Mapping[TopicPartition, PartitionReport],
) -> dict[str, Any]:
    shown = sorted(points, key=lambda each: each.partition)
    unread = [_count_unread_records(each, mirrors.get(each.partition)) for each in shown]
    counted = [each for each in unread if each is not None]
    return {
        "group": name,
        "partition_count": len(shown),
        "unread_records": sum(counted) if counted else None,
        "unread_known": len(counted) == len(shown),
        "partitions": [
            _encode_group_partition(each, mirrors.get(each.partition), left)
            for each, left in zip(shown[:GROUP_PARTITIONS_MAX], unread, strict=False)
        ],
    }


def _encode_group_partition(
    each: Checkpoint, copied: PartitionReport | None, unread: int | None
) -> dict[str, Any]:
    return {
        "topic": None if copied is None else copied.topic,
        "mirror": each.partition.topic,
        "partition": each.partition.partition,
        "source_offset": each.upstream,
        "mirror_offset": each.downstream,
        "unread_records": unread,
    }


def _count_unread_records(each: Checkpoint, copied: PartitionReport | None) -> int | None:
    """Count a consumer group's unread records in a partition, by source offsets. The count is an
    upper bound if the log has gaps."""
    if copied is None or copied.end is None:
        return None
    return max(0, copied.end - each.upstream)
