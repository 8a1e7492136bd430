"""Explains how each partition of a topic is replicated, with the reasons, for `mm2 why`.

The explanation is built from the effective configuration and the status of the flows. Only the
process that replicates a partition knows how its batches are copied (pass-through, re-encoded, in
transactions). The replication progress can also be read from the clusters.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from mm2 import suggested_commands
from mm2.clusters import flow_kafka_clients, incident_log
from mm2.clusters.flow_cluster_pair import FlowPair
from mm2.config import pause_and_throttle_overrides
from mm2.config.mm2_settings import Mm2Settings
from mm2.config.pause_and_throttle_overrides import OperatorOverrides
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowStatus, PartitionStatus
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.replication import partition_halt_messages
from mm2.status import (
    operator_action_log,
    replication_health,
    status_document,
    status_tables,
    topic_rows,
)
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState, ReportedLag
from mm2.suggested_commands import OperatorCommands
from mm2.topics import topic_selection
from mm2.topics.flow_config import DeliveryMode, Flow
from mm2.unreachable_cluster import ClusterSide

OLD_RECORDS_REASON = "its records are older than the brokers' producer id expiration"
_UNKNOWN = ReportedFlowState.UNKNOWN
TRANSACTIONAL_ID_DENIED = (
    "not authorized for the transactional id, so zombie writers cannot be fenced"
)


_NO_TOPICS_LISTED: Mapping[str, bool] = {}
_OVERRIDE_ACTIONS = {
    ReportedFlowState.PAUSED.value: "pause",
    ReportedFlowState.STOPPED.value: "stop",
}
"""Name of the operator action that puts a flow into the state, by flow state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExplanation:
    """Explanation of how one partition is replicated."""

    number: int
    state: str
    """State: "copying", "waiting", "paused" or "halted"; "unseen" if the partition's process was
    not queried."""
    reason: str
    path: tuple[tuple[str, str], ...]
    """Descriptions of how the partition's batches are copied, for example pass-through or in
    transactions, each with the reason or ""."""
    remedy: str
    """Command that resolves a problem, or "" if none is needed."""
    progress: PartitionReport | None = None
    """Replication progress of the partition, or None if unknown."""
    cause: str = ""
    """Halt code, or "" if the partition is not halted."""

    def format_line(self) -> str:
        """Format the explanation as one line. The reason for a halt already ends with the
        remedy."""
        if self.state != "copying":
            return f"{self.state}: {self.reason}" if self.reason else self.state
        told = ", ".join(f"{way} ({why})" if why else way for way, why in self.path)
        return f"{told}. {suggested_commands.format_remedy(self.remedy)}" if self.remedy else told


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExplanation:
    """Explanation of how one flow handles the topic."""

    flow: str
    topic: str
    mirror: str
    exclusion_reason: str
    """Reason why the flow does not replicate the topic, or "" if it does."""
    partitions: tuple[PartitionExplanation, ...]
    rule: str = ""
    """Rule of the flow's configuration that selects the topic for replication, for example a
    pattern in `topics`."""
    at_ms: int = 0
    """Time when the progress was determined."""
    seen_by: tuple[str, ...] = ()
    """Where the progress was read, as in `FlowReport.seen_by`: both clusters, or the processes that
    reported it."""
    error: str = ""
    """Reason why the progress is unknown, or "" if it is known."""
    exists: bool | None = None
    """True if the topic exists on the source; None if unknown."""
    health_verdict: str = ""
    """The flow's health with reasons, or "" if the flow is healthy or its health is unknown."""
    state: str = ""
    """The flow's state, or "" if unknown."""
    reason: str = ""
    """Reason for the flow's state."""

    @property
    def explains_whether_topic_is_replicated(self) -> bool:
        """True if the explanation states whether and how the flow replicates the topic."""
        return bool(self.partitions) or (bool(self.exclusion_reason) and self.exists is not False)

    @property
    def lag(self) -> ReportedLag | None:
        """Total lag of the topic's partitions, or None if no lag is known."""
        known = [part.progress for part in self.partitions if part.progress is not None]
        return status_document.sum_lag(known, self.at_ms) if known else None

    def format_lines(self) -> Iterator[str]:
        """Format the explanation as lines of output."""
        if self.exclusion_reason:
            missing = " and does not exist" if self.exists is False else ""
            yield f"{self.flow}: {self.topic} is not replicated{missing}: {self.exclusion_reason}"
        elif self.error:
            yield f"{self.flow}: the status of {self.topic} is unknown: {self.error}"
        elif not self.partitions:
            yield (
                f"{self.flow}: the source has no topic {self.topic}; if the topic is "
                f"created, it will be replicated to {self.mirror}"
            )
        for told, numbers in self._merge_identical_lines().items():
            partitions = _format_partition_numbers(numbers)
            yield f"{self.flow}: {self.topic} -> {self.mirror}, {partitions}: {told}"
        if self.partitions and self.rule:
            yield f"{self.flow}: {self.topic} is replicated by {self.rule}{self._describe_lag()}"
        if self.health_verdict and not self.exclusion_reason and not self.error:
            yield f"{self.flow} is {self.health_verdict}"

    def _describe_lag(self) -> str:
        lag = self.lag
        if lag is None:
            return ""
        return f"; lag: {status_tables.describe_lag(lag)}"

    def _merge_identical_lines(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for part in self.partitions:
            found.setdefault(part.format_line(), []).append(part.number)
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "topic": self.topic,
            "mirror": self.mirror,
            "why_not": self.exclusion_reason,
            "rule": self.rule,
            "seen_by": list(self.seen_by),
            "trouble": self.error,
            "exists": self.exists,
            "unhealthy": self.health_verdict,
            "state": self.state,
            "reason": self.reason,
            "lines": list(self.format_lines()),
            **({} if self.lag is None else status_document.lag_to_json(self.lag)),
            "partitions": [
                {
                    "partition": part.number,
                    "state": part.state,
                    "reason": part.reason,
                    "cause": part.cause,
                    "path": [{"property": name, "reason": why} for name, why in part.path],
                    "remedy": part.remedy,
                    "copied_to": None if part.progress is None else part.progress.copied_to,
                    "lag_records": None if part.progress is None else part.progress.lag_records,
                    "lag_ms": None
                    if part.progress is None
                    else part.progress.compute_lag_ms(self.at_ms),
                }
                for part in self.partitions
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicExplanation:
    """Explanation of how all flows handle a topic."""

    topic: str
    flows: tuple[FlowExplanation, ...]

    @property
    def explains_whether_topic_is_replicated(self) -> bool:
        """True if a flow replicates the topic, or if a flow explains why the topic is not
        replicated."""
        return any(each.explains_whether_topic_is_replicated for each in self.flows)

    @property
    def has_errors(self) -> bool:
        """True if the status of any flow is unknown."""
        return any(each.error for each in self.flows)

    def format_lines(self) -> Iterator[str]:
        """Format the explanations of all flows as lines of output."""
        for each in self.flows:
            yield from each.format_lines()

    def as_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "flows": [each.as_json() for each in self.flows]}


def explain_topic(
    settings: Mm2Settings,
    statuses: Sequence[FlowStatus],
    name: str,
    *,
    reports: Sequence[FlowReport] = (),
    existing: Mapping[str, bool] = _NO_TOPICS_LISTED,
) -> TopicExplanation:
    """Explain how each flow handles a topic.

    `name` is a source topic or a mirror topic. `statuses` are the statuses of this process's flows,
    and `reports` the progress of flows. `existing` maps a flow to True if its source has the topic
    and to False if it does not; flows for which this is unknown are omitted.
    """
    by_flow = {each.flow: each for each in statuses}
    far = {each.flow: each for each in reports}
    return TopicExplanation(
        topic=name,
        flows=tuple(
            _explain_flow(
                flow,
                by_flow.get(flow.name),
                name,
                operator=flow_kafka_clients.build_operator_commands(settings, flow),
                report=far.get(flow.name),
                exists=existing.get(flow.name),
                within_s=settings.health.replicating_within_s,
            )
            for flow in settings.flows
        ),
    )


def find_existing_topics(
    settings: Mm2Settings,
    asked: Sequence[Flow],
    name: str,
    *,
    clock: Clock,
    timeout_s: float,
) -> dict[str, bool]:
    """Check for each flow whether the topic exists on its source. Flows whose source does not
    respond or denies access are omitted."""
    found: dict[str, bool] = {}
    for flow in asked:
        reached = FlowPair(settings, flow, purpose="why", clock=clock)
        with reached as both, contextlib.suppress(ConnectError):
            found[flow.name] = name in both.source.admin.list_topics(timeout_s)
    return found


def is_paused_or_stopped(told: Mapping[str, Any]) -> bool:
    """Return True if an operator paused or stopped the flow, or paused the topic.

    `told` is the explanation of how the flow handles the topic (`FlowExplanation`), as JSON.
    """
    parts = (each.get("state") for each in told["partitions"])
    return told["state"] in _OVERRIDE_ACTIONS or topic_rows.PAUSED_STATE in parts


def read_override_actions(
    settings: Mm2Settings,
    flow: Flow,
    told: Mapping[str, Any],
    *,
    clock: Clock,
    timeout_s: float,
) -> list[Incident]:
    """Read the operator actions that paused or stopped the flow or topic, oldest first. Return an
    empty list if the target does not respond."""
    reached = FlowPair(settings, flow, purpose="why", clock=clock)
    with reached as both, contextlib.suppress(ConnectError):
        stated = incident_log.read_incidents(
            both.target, flow.source, timeout_s=timeout_s
        ).incidents
        verb = _OVERRIDE_ACTIONS.get(told["state"], "")
        found = [
            _find_last_override(stated, "", verb),
            _find_last_override(stated, told["topic"], "pause"),
        ]
        return sorted((each for each in found if each is not None), key=lambda each: each.at_ms)
    return []


def _find_last_override(stated: Sequence[Incident], topic: str, verb: str) -> Incident | None:
    """Return the last operator action that paused, stopped or resumed the topic (or the flow if
    `topic` is "").

    Return None if there is no such action, or if the last one is not of the kind `verb` ("pause",
    "stop" or "resume").
    """
    ids = {operator_action_log.build_record_id(each): each for each in ("pause", "stop", "resume")}
    found = [
        each
        for each in stated
        if each.kind is IncidentKind.OPERATOR_ACTION and each.topic == topic and each.id in ids
    ]
    last = max(found, key=lambda each: each.at_ms, default=None)
    return last if last is not None and ids[last.id] == verb else None


def may_mirror_topic(flow: Flow, name: str) -> bool:
    """Return True if the flow's configuration selects the topic for replication. `name` is the name
    of a source topic or of its mirror topic."""
    upstream = flow.policy.upstream_topic(name)
    came = flow.policy.topic_source(name) == flow.source and upstream is not None
    return topic_selection.should_replicate_topic(flow, name) or (
        came and upstream is not None and topic_selection.should_replicate_topic(flow, upstream)
    )


def _explain_flow(
    flow: Flow,
    status: FlowStatus | None,
    name: str,
    *,
    operator: OperatorCommands,
    report: FlowReport | None,
    exists: bool | None,
    within_s: float,
) -> FlowExplanation:
    partitions = status.partitions if status is not None else ()
    holds = status.overrides if status is not None else pause_and_throttle_overrides.NO_OVERRIDES
    far = {
        each.source_partition: each for each in (report.partitions if report is not None else ())
    }
    topics = {each.partition.topic for each in partitions} | {each.topic for each in far}
    if name not in topics:
        name = next(
            (each for each in sorted(topics) if flow.format_remote_topic(each) == name), name
        )
    found = sorted(
        (each for each in partitions if each.partition.topic == name),
        key=lambda each: each.partition,
    )
    if status is None and report is not None:
        parts = tuple(
            _explain_unreported_partition(report, far[place])
            for place in sorted(far)
            if place.topic == name
        )
    else:
        parts = tuple(
            dataclasses.replace(
                _explain_partition(flow, each, operator, holds=holds),
                progress=far.get(each.partition),
            )
            for each in found
        )
    return FlowExplanation(
        flow=flow.name,
        topic=name,
        mirror=flow.format_remote_topic(name),
        exclusion_reason="" if parts else topic_selection.explain_mismatch(flow, name),
        partitions=parts,
        rule=topic_selection.explain_match(flow, name) if parts else "",
        at_ms=0 if report is None else report.at_ms,
        seen_by=() if report is None else report.seen_by,
        error=_explain_unknown_topic(report, knows=bool(parts)),
        exists=True if parts else exists,
        health_verdict=_describe_unhealthy_flow(report, within_s=within_s),
        state="" if report is None else report.state.value,
        reason="" if report is None else report.reason,
    )


def _explain_unknown_topic(report: FlowReport | None, *, knows: bool) -> str:
    """Explain why the status of the topic is unknown. Return "" if it is known (`knows`), or if no
    report was collected."""
    if report is None or knows:
        return ""
    if report.state is _UNKNOWN:
        return report.reason
    lost = report.find_unreachable_cluster(ClusterSide.SOURCE)
    return "" if lost is None else lost.format_description()


def _describe_unhealthy_flow(report: FlowReport | None, *, within_s: float) -> str:
    if report is None:
        return ""
    verdict = replication_health.evaluate_flow(report, within_s=within_s)
    return "" if verdict.is_healthy else verdict.describe()


def _explain_unreported_partition(
    report: FlowReport, each: PartitionReport
) -> PartitionExplanation:
    """Explain a partition for which the process that replicates it was not queried or did not
    report."""
    state, reason = "unseen", each.reason
    if each.state == topic_rows.PAUSED_STATE:
        state = topic_rows.PAUSED_STATE
    elif report.state is not ReportedFlowState.RUNNING:
        why = f": {report.reason}" if report.reason else ""
        reason = f"{reason or 'no problem is visible in its logs'}; the flow is "
        reason += f"{report.state.value}{why}"
    elif not reason:
        nodes = f" ({', '.join(report.nodes)})" if report.nodes else ""
        reason = f"only the process that replicates the partition knows the details{nodes}"
    return PartitionExplanation(
        number=each.partition, state=state, reason=reason, path=(), remedy="", progress=each
    )


def _explain_partition(
    flow: Flow,
    each: PartitionStatus,
    operator: OperatorCommands,
    *,
    holds: OperatorOverrides,
) -> PartitionExplanation:
    number, reason = each.partition.partition, topic_rows.describe_state_reason(each.reason)
    topic = each.partition.topic
    if holds.is_topic_paused(topic) and not each.is_halted:
        way_on = operator.build_resume_command(flow.name, None if holds.paused else topic)
        what = "the flow" if holds.paused else "the topic"
        reason = f"an operator paused {what}. {suggested_commands.format_remedy(way_on)}"
        return PartitionExplanation(
            number=number, state=topic_rows.PAUSED_STATE, reason=reason, path=(), remedy=way_on
        )
    if each.phase not in status_registry.COPYING_PHASES:
        state = "halted" if each.is_halted else "waiting"
        way_on = suggested_commands.extract_remedy_from_message(reason)
        return PartitionExplanation(
            number=number,
            state=state,
            reason=reason,
            path=(),
            remedy=way_on,
            cause=each.cause,
        )
    denied = not each.fenced and flow.delivery is not DeliveryMode.AT_LEAST_ONCE
    return PartitionExplanation(
        number=number,
        state="copying",
        reason=reason,
        path=(*_explain_replication_path(flow, each), *_explain_throttles(topic, holds)),
        remedy=partition_halt_messages.format_fencing_commands(flow.name, operator)
        if denied
        else "",
    )


def _explain_replication_path(flow: Flow, each: PartitionStatus) -> Iterator[tuple[str, str]]:
    yield ("re-encoded", each.reencode_reason) if each.reencode_reason else ("passed through", "")
    if each.transactional:
        always = flow.delivery is DeliveryMode.TRANSACTIONAL
        yield "in transactions", "delivery is transactional" if always else OLD_RECORDS_REASON
    if not each.fenced:
        wanted = flow.delivery is DeliveryMode.AT_LEAST_ONCE
        yield "at least once", "delivery is at-least-once" if wanted else TRANSACTIONAL_ID_DENIED


def _explain_throttles(topic: str, holds: OperatorOverrides) -> Iterator[tuple[str, str]]:
    own = holds.budgets.get_topic_throttle(topic) or 0
    for of, rate in (("the flow", holds.budgets.flow), ("the topic", own)):
        for told in topic_rows.describe_throttle(rate):
            yield told, of


def _format_partition_numbers(numbers: Sequence[int]) -> str:
    """Format partition numbers, for example `partition 3` or `partitions 0-5, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    told = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"partition{'s' if len(numbers) > 1 else ''} {told}"
