"""How each partition of a topic is replicated, and the reason: what `mm2 why` prints.

Made from the effective configuration and the status of the flows. Only the process that
replicates a partition knows which path its batches take; both clusters know how far they are
replicated.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.timing import Clock
from mm2 import operator_commands
from mm2.clusters import cluster_clients, incident_log
from mm2.clusters.flow_pair import FlowPair
from mm2.config import operator_overrides
from mm2.config.mm2_settings import Mm2Settings
from mm2.config.operator_overrides import OperatorOverrides
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowStatus, PartitionStatus
from mm2.formats.incident_records import Incident, IncidentKind
from mm2.operator_commands import OperatorCommands
from mm2.reachability import ClusterSide
from mm2.replication import halts
from mm2.status import operator_log, replication_health, status_document, status_tables, topic_rows
from mm2.status.status_document import FlowReport, PartitionReport, ReportedFlowState, ReportedLag
from mm2.topics.flow_config import DeliveryMode, Flow

OLD_RECORDS_REASON = "its records are old, and brokers forget who wrote such"
_UNKNOWN = ReportedFlowState.UNKNOWN
TRANSACTIONAL_ID_DENIED = (
    "not authorized for the transactional id, so zombie writers cannot be fenced"
)


_NO_TOPICS_LISTED: Mapping[str, bool] = {}
_OVERRIDE_ACTIONS = {
    ReportedFlowState.PAUSED.value: "pause",
    ReportedFlowState.STOPPED.value: "stop",
}
"""By the flow's state: the operator's action that led to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionExplanation:
    """One partition. `state` is "copying", "waiting", "paused", "stopped" or, where no process that
    copies it was asked, "unseen"; `ways` say how its batches go, with why, newest batch first;
    `way_on` is a command, "" where none is needed. `far`: how far it is, None where nobody knows.
    `cause`: the code of a stop, "" without one.
    """

    number: int
    state: str
    reason: str
    ways: tuple[tuple[str, str], ...]
    way_on: str
    far: PartitionReport | None = None
    cause: str = ""

    def line(self) -> str:
        """For people. A stop's reason ends with the way on itself."""
        if self.state != "copying":
            return f"{self.state}: {self.reason}" if self.reason else self.state
        told = ", ".join(f"{way} ({why})" if why else way for way, why in self.ways)
        return f"{told}. {operator_commands.format_remedy(self.way_on)}" if self.way_on else told


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowExplanation:
    """What one flow does with the topic; `why_not` says why nothing, "" where it mirrors it, and
    `rule` by which rule it does. `at_ms` is when it was seen how far it is, `seen_by` by whom;
    `trouble` says why it could not be. `exists`: has the source the topic, None: that is not known.
    `unhealthy`: the flow's verdict, "" where it is healthy or not known; `state` and its `reason`
    are the flow's, "" where nobody who knows was asked."""

    flow: str
    topic: str
    mirror: str
    why_not: str
    parts: tuple[PartitionExplanation, ...]
    rule: str = ""
    at_ms: int = 0
    seen_by: tuple[str, ...] = ()
    trouble: str = ""
    exists: bool | None = None
    unhealthy: str = ""
    state: str = ""
    reason: str = ""

    @property
    def answers(self) -> bool:
        """Does it say what becomes of the topic?"""
        return bool(self.parts) or (bool(self.why_not) and self.exists is not False)

    @property
    def lag(self) -> ReportedLag | None:
        """Of all its partitions; None where nobody knows of any."""
        known = [part.far for part in self.parts if part.far is not None]
        return status_document.sum_lag(known, self.at_ms) if known else None

    def lines(self) -> Iterator[str]:
        if self.why_not:
            missing = " and does not exist" if self.exists is False else ""
            yield f"{self.flow}: {self.topic} is not mirrored{missing}: {self.why_not}"
        elif self.trouble:
            yield f"{self.flow}: the status of {self.topic} is unknown: {self.trouble}"
        elif not self.parts:
            yield (
                f"{self.flow}: there is no topic {self.topic} on the source; it would be mirrored "
                f"as {self.mirror}"
            )
        for told, numbers in self._alike().items():
            yield f"{self.flow}: {self.topic} -> {self.mirror}, {_name_partitions(numbers)}: {told}"
        if self.parts and self.rule:
            yield f"{self.flow}: {self.topic} is mirrored, for {self.rule}{self._how_far()}"
        if self.unhealthy and not self.why_not and not self.trouble:
            yield f"{self.flow} is {self.unhealthy}"

    def _how_far(self) -> str:
        lag = self.lag
        if lag is None:
            return ""
        return f"; lag: {status_tables.describe_lag(lag)}"

    def _alike(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for part in self.parts:
            found.setdefault(part.line(), []).append(part.number)
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "flow": self.flow,
            "topic": self.topic,
            "mirror": self.mirror,
            "why_not": self.why_not,
            "rule": self.rule,
            "seen_by": list(self.seen_by),
            "trouble": self.trouble,
            "exists": self.exists,
            "unhealthy": self.unhealthy,
            "state": self.state,
            "reason": self.reason,
            "lines": list(self.lines()),
            **({} if self.lag is None else status_document.lag_to_json(self.lag)),
            "partitions": [
                {
                    "partition": part.number,
                    "state": part.state,
                    "reason": part.reason,
                    "cause": part.cause,
                    "ways": [{"way": way, "why": why} for way, why in part.ways],
                    "way_on": part.way_on,
                    "copied_to": None if part.far is None else part.far.copied_to,
                    "lag_records": None if part.far is None else part.far.lag_records,
                    "lag_ms": None if part.far is None else part.far.lag_ms(self.at_ms),
                }
                for part in self.parts
            ],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicExplanation:
    """`known`: some flow copies the topic, or can say why it does not."""

    topic: str
    flows: tuple[FlowExplanation, ...]

    @property
    def known(self) -> bool:
        return any(each.answers for each in self.flows)

    @property
    def trouble(self) -> bool:
        """Could it not be looked for everywhere?"""
        return any(each.trouble for each in self.flows)

    def lines(self) -> Iterator[str]:
        for each in self.flows:
            yield from each.lines()

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
    """`name` is a topic's on the source, or its mirror's on the target. `statuses` are of flows
    that run in this process, `reports` say how far flows are, these and others.
    `find_existing_topics`: by flow, whether its source has the topic, as far as that is known."""
    by_flow = {each.flow: each for each in statuses}
    far = {each.flow: each for each in reports}
    return TopicExplanation(
        topic=name,
        flows=tuple(
            _explain_flow(
                flow,
                by_flow.get(flow.name),
                name,
                operator=cluster_clients.build_operator(settings, flow),
                report=far.get(flow.name),
                exists=existing.get(flow.name),
                within_s=settings.watch.replicating_within_s,
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
    """By flow, whether its source has the topic; without those whose source does not answer, or
    refuses us."""
    found: dict[str, bool] = {}
    for flow in asked:
        reached = FlowPair(settings, flow, purpose="why", clock=clock)
        with reached as both, contextlib.suppress(ConnectError):
            found[flow.name] = name in both.source.admin.list_topics(timeout_s)
    return found


def is_paused_or_stopped(told: Mapping[str, Any]) -> bool:
    """Did an operator pause or stop the flow, or pause the topic? `told` is an `FlowExplanation` as
    JSON."""
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
    """Operator actions that paused or stopped the flow or topic, oldest first, as far as the target
    has records of them; empty if the target does not answer."""
    reached = FlowPair(settings, flow, purpose="why", clock=clock)
    with reached as both, contextlib.suppress(ConnectError):
        stated = incident_log.read_incidents(both.target, flow.source, timeout_s=timeout_s).stated
        verb = _OVERRIDE_ACTIONS.get(told["state"], "")
        found = [
            _find_last_override(stated, "", verb),
            _find_last_override(stated, told["topic"], "pause"),
        ]
        return sorted((each for each in found if each is not None), key=lambda each: each.at_ms)
    return []


def _find_last_override(stated: Sequence[Incident], topic: str, verb: str) -> Incident | None:
    """The flow's (topic "") or topic's last change of state, if it is this one."""
    ids = {operator_log.build_record_id(each): each for each in ("pause", "stop", "resume")}
    found = [
        each
        for each in stated
        if each.kind is IncidentKind.OPERATOR_ACTION and each.topic == topic and each.id in ids
    ]
    last = max(found, key=lambda each: each.at_ms, default=None)
    return last if last is not None and ids[last.id] == verb else None


def may_mirror_topic(flow: Flow, name: str) -> bool:
    """May the flow have something of the topic, as its settings are?"""
    upstream = flow.policy.upstream_topic(name)
    came = flow.policy.topic_source(name) == flow.source and upstream is not None
    return flow.should_replicate_topic(name) or (
        came and upstream is not None and flow.should_replicate_topic(upstream)
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
    holds = status.holds if status is not None else operator_overrides.NO_OVERRIDES
    far = {each.place: each for each in (report.partitions if report is not None else ())}
    topics = {each.partition.topic for each in partitions} | {each.topic for each in far}
    if name not in topics:
        name = next((each for each in sorted(topics) if flow.remote_topic(each) == name), name)
    found = sorted(
        (each for each in partitions if each.partition.topic == name),
        key=lambda each: each.partition,
    )
    if status is None and report is not None:
        parts = tuple(
            _make_unreported_partition(report, far[place])
            for place in sorted(far)
            if place.topic == name
        )
    else:
        parts = tuple(
            dataclasses.replace(
                _explain_partition(flow, each, operator, holds=holds), far=far.get(each.partition)
            )
            for each in found
        )
    return FlowExplanation(
        flow=flow.name,
        topic=name,
        mirror=flow.remote_topic(name),
        why_not="" if parts else flow.why_not(name),
        parts=parts,
        rule=flow.why(name) if parts else "",
        at_ms=0 if report is None else report.at_ms,
        seen_by=() if report is None else report.seen_by,
        trouble=_explain_unknown(report, knows=bool(parts)),
        exists=True if parts else exists,
        unhealthy=_describe_unhealthy(report, within_s=within_s),
        state="" if report is None else report.state.value,
        reason="" if report is None else report.reason,
    )


def _explain_unknown(report: FlowReport | None, *, knows: bool) -> str:
    """Why nothing of the topic could be found out; "" where it `knows` something."""
    if report is None or knows:
        return ""
    if report.state is _UNKNOWN:
        return report.reason
    lost = report.lost_cluster(ClusterSide.SOURCE)
    return "" if lost is None else lost.describe()


def _describe_unhealthy(report: FlowReport | None, *, within_s: float) -> str:
    if report is None:
        return ""
    verdict = replication_health.evaluate_flow(report, within_s=within_s)
    return "" if verdict.is_healthy else verdict.describe()


def _make_unreported_partition(report: FlowReport, each: PartitionReport) -> PartitionExplanation:
    """Nobody who copies it was asked."""
    state, reason = "unseen", each.reason
    if each.state == topic_rows.PAUSED_STATE:
        state = topic_rows.PAUSED_STATE
    elif report.state is not ReportedFlowState.RUNNING:
        why = f": {report.reason}" if report.reason else ""
        reason = f"{reason or 'nothing is wrong with its logs'}; the flow is "
        reason += f"{report.state.value}{why}"
    elif not reason:
        nodes = f" ({', '.join(report.nodes)})" if report.nodes else ""
        reason = f"how it is copied only the process knows that copies it{nodes}"
    return PartitionExplanation(
        number=each.partition, state=state, reason=reason, ways=(), way_on="", far=each
    )


def _explain_partition(
    flow: Flow,
    each: PartitionStatus,
    operator: OperatorCommands,
    *,
    holds: OperatorOverrides,
) -> PartitionExplanation:
    number, reason = each.partition.partition, topic_rows.describe_reason(each.reason)
    topic = each.partition.topic
    if holds.pauses(topic) and not each.stopped:
        way_on = operator.go_on(flow.name, None if holds.paused else topic)
        what = "the flow" if holds.paused else "the topic"
        reason = f"an operator paused {what}. {operator_commands.format_remedy(way_on)}"
        return PartitionExplanation(
            number=number, state=topic_rows.PAUSED_STATE, reason=reason, ways=(), way_on=way_on
        )
    if each.phase not in status_registry.COPYING_PHASES:
        state = "stopped" if each.stopped else "waiting"
        way_on = operator_commands.extract_remedy(reason)
        return PartitionExplanation(
            number=number,
            state=state,
            reason=reason,
            ways=(),
            way_on=way_on,
            cause=each.cause,
        )
    denied = not each.fenced and flow.delivery is not DeliveryMode.AT_LEAST_ONCE
    return PartitionExplanation(
        number=number,
        state="copying",
        reason=reason,
        ways=(*_explain_path(flow, each), *_explain_limits(topic, holds)),
        way_on=halts.format_fencing_commands(flow.name, operator) if denied else "",
    )


def _explain_path(flow: Flow, each: PartitionStatus) -> Iterator[tuple[str, str]]:
    yield ("opened", each.opened) if each.opened else ("passed through", "")
    if each.transactional:
        always = flow.delivery is DeliveryMode.TRANSACTIONAL
        yield "in transactions", "delivery is transactional" if always else OLD_RECORDS_REASON
    if not each.fenced:
        wanted = flow.delivery is DeliveryMode.AT_LEAST_ONCE
        yield "at least once", "delivery is at-least-once" if wanted else TRANSACTIONAL_ID_DENIED


def _explain_limits(topic: str, holds: OperatorOverrides) -> Iterator[tuple[str, str]]:
    own = holds.budgets.of_topic(topic) or 0
    for of, rate in (("the flow", holds.budgets.flow), ("the topic", own)):
        for told in topic_rows.describe_throttle(rate):
            yield told, of


def _name_partitions(numbers: Sequence[int]) -> str:
    """`partition 3`, `partitions 0-5, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    told = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"partition{'s' if len(numbers) > 1 else ''} {told}"
