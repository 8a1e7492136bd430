"""How a topic is replicated, partition by partition, and why so: what `mm2 why` prints.

Made of the effective configuration and of the flows' status: which way batches take only the
process that replicates them knows, how far they are both clusters know, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from mm2.app import connections, operator_log, overview
from mm2.app.looks import receipts, sides
from mm2.app.reports import flow_report, flow_verdict, show
from mm2.app.settings import settings as app_settings
from mm2.connectors import flow_status
from mm2.core import commands, flows, reachability
from mm2.core import holds as holding
from mm2.core.copy import remedies
from mm2.formats import receipt

OLD = "its records are old, and brokers forget who wrote such"
_UNKNOWN = flow_report.State.UNKNOWN
DENIED = "not authorized for the transactional id, so zombie writers cannot be fenced"


_NOTHING_LISTED: Mapping[str, bool] = {}
_PAUSED_OR_STOPPED_BY = {
    flow_report.State.PAUSED.value: "pause",
    flow_report.State.STOPPED.value: "stop",
}
"""By the flow's state: the operator's action that led to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
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
    far: flow_report.Partition | None = None
    cause: str = ""

    def line(self) -> str:
        """For people. A stop's reason ends with the way on itself."""
        if self.state != "copying":
            return f"{self.state}: {self.reason}" if self.reason else self.state
        told = ", ".join(f"{way} ({why})" if why else way for way, why in self.ways)
        return f"{told}. {commands.to_go_on(self.way_on)}" if self.way_on else told


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlow:
    """What one flow does with the topic; `why_not` says why nothing, "" where it mirrors it, and
    `rule` by which rule it does. `at_ms` is when it was seen how far it is, `seen_by` by whom;
    `trouble` says why it could not be. `exists`: has the source the topic, None: that is not known.
    `unhealthy`: the flow's verdict, "" where it is healthy or not known; `state` and its `reason`
    are the flow's, "" where nobody who knows was asked."""

    flow: str
    topic: str
    mirror: str
    why_not: str
    parts: tuple[Part, ...]
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
    def lag(self) -> flow_report.Lag | None:
        """Of all its partitions; None where nobody knows of any."""
        known = [part.far for part in self.parts if part.far is not None]
        return flow_report.lag(known, self.at_ms) if known else None

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
            yield f"{self.flow}: {self.topic} -> {self.mirror}, {_named(numbers)}: {told}"
        if self.parts and self.rule:
            yield f"{self.flow}: {self.topic} is mirrored, for {self.rule}{self._how_far()}"
        if self.unhealthy and not self.why_not and not self.trouble:
            yield f"{self.flow} is {self.unhealthy}"

    def _how_far(self) -> str:
        lag = self.lag
        if lag is None:
            return ""
        return f"; lag: {show.in_words(lag)}"

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
            **({} if self.lag is None else flow_report.lag_json(self.lag)),
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
class Found:
    """`known`: some flow copies the topic, or can say why it does not."""

    topic: str
    flows: tuple[InFlow, ...]

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


def look(
    settings: app_settings.Settings,
    statuses: Sequence[flow_status.FlowStatus],
    name: str,
    *,
    reports: Sequence[flow_report.FlowReport] = (),
    existing: Mapping[str, bool] = _NOTHING_LISTED,
) -> Found:
    """`name` is a topic's on the source, or its mirror's on the target. `statuses` are of flows
    that run in this process, `reports` say how far flows are, these and others. `existing`: by
    flow, whether its source has the topic, as far as that is known."""
    by_flow = {each.flow: each for each in statuses}
    far = {each.flow: each for each in reports}
    return Found(
        topic=name,
        flows=tuple(
            _in_flow(
                flow,
                by_flow.get(flow.name),
                name,
                operator=connections.operator(settings, flow),
                report=far.get(flow.name),
                exists=existing.get(flow.name),
                within_s=settings.watch.replicating_within_s,
            )
            for flow in settings.flows
        ),
    )


def existing(
    settings: app_settings.Settings,
    asked: Sequence[flows.Flow],
    name: str,
    *,
    clock: base_clock.Clock,
    timeout_s: float,
) -> dict[str, bool]:
    """By flow, whether its source has the topic; without those whose source does not answer, or
    refuses us."""
    found: dict[str, bool] = {}
    for flow in asked:
        reached = sides.Sides(settings, flow, purpose="why", clock=clock)
        with reached as both, contextlib.suppress(errors.ConnectError):
            found[flow.name] = name in both.source.admin.list_topics(timeout_s)
    return found


def is_paused_or_stopped(told: Mapping[str, Any]) -> bool:
    """Did an operator pause or stop the flow, or pause the topic? `told` is an `InFlow` as JSON."""
    parts = (each.get("state") for each in told["partitions"])
    return told["state"] in _PAUSED_OR_STOPPED_BY or overview.PAUSED in parts


def pause_or_stop_actions(
    settings: app_settings.Settings,
    flow: flows.Flow,
    told: Mapping[str, Any],
    *,
    clock: base_clock.Clock,
    timeout_s: float,
) -> list[receipt.Receipt]:
    """Operator actions that paused or stopped the flow or topic, oldest first, as far as the target
    has records of them; empty if the target does not answer."""
    reached = sides.Sides(settings, flow, purpose="why", clock=clock)
    with reached as both, contextlib.suppress(errors.ConnectError):
        stated = receipts.read(both.target, flow.source, timeout_s=timeout_s).stated
        verb = _PAUSED_OR_STOPPED_BY.get(told["state"], "")
        found = [_last_hold(stated, "", verb), _last_hold(stated, told["topic"], "pause")]
        return sorted((each for each in found if each is not None), key=lambda each: each.at_ms)
    return []


def _last_hold(stated: Sequence[receipt.Receipt], topic: str, verb: str) -> receipt.Receipt | None:
    """The flow's (topic "") or topic's last change of state, if it is this one."""
    ids = {operator_log.record_id(each): each for each in ("pause", "stop", "resume")}
    found = [
        each
        for each in stated
        if each.kind is receipt.ReceiptKind.OPERATOR_ACTION
        and each.topic == topic
        and each.id in ids
    ]
    last = max(found, key=lambda each: each.at_ms, default=None)
    return last if last is not None and ids[last.id] == verb else None


def concerns(flow: flows.Flow, name: str) -> bool:
    """May the flow have something of the topic, as its settings are?"""
    upstream = flow.policy.upstream_topic(name)
    came = flow.policy.topic_source(name) == flow.source and upstream is not None
    return flow.should_replicate_topic(name) or (
        came and upstream is not None and flow.should_replicate_topic(upstream)
    )


def _in_flow(
    flow: flows.Flow,
    status: flow_status.FlowStatus | None,
    name: str,
    *,
    operator: commands.Operator,
    report: flow_report.FlowReport | None,
    exists: bool | None,
    within_s: float,
) -> InFlow:
    partitions = status.partitions if status is not None else ()
    holds = status.holds if status is not None else holding.NOTHING
    far = {each.place: each for each in (report.partitions if report is not None else ())}
    topics = {each.partition.topic for each in partitions} | {each.topic for each in far}
    if name not in topics:
        name = next((each for each in sorted(topics) if flow.remote_topic(each) == name), name)
    found = sorted(
        (each for each in partitions if each.partition.topic == name),
        key=lambda each: each.partition,
    )
    if status is None and report is not None:
        parts = tuple(_unseen(report, far[place]) for place in sorted(far) if place.topic == name)
    else:
        parts = tuple(
            dataclasses.replace(
                _part(flow, each, operator, holds=holds), far=far.get(each.partition)
            )
            for each in found
        )
    return InFlow(
        flow=flow.name,
        topic=name,
        mirror=flow.remote_topic(name),
        why_not="" if parts else flow.why_not(name),
        parts=parts,
        rule=flow.why(name) if parts else "",
        at_ms=0 if report is None else report.at_ms,
        seen_by=() if report is None else report.seen_by,
        trouble=_trouble(report, knows=bool(parts)),
        exists=True if parts else exists,
        unhealthy=_unhealthy(report, within_s=within_s),
        state="" if report is None else report.state.value,
        reason="" if report is None else report.reason,
    )


def _trouble(report: flow_report.FlowReport | None, *, knows: bool) -> str:
    """Why nothing of the topic could be found out; "" where it `knows` something."""
    if report is None or knows:
        return ""
    if report.state is _UNKNOWN:
        return report.reason
    lost = report.lost_cluster(reachability.Side.SOURCE)
    return "" if lost is None else lost.describe()


def _unhealthy(report: flow_report.FlowReport | None, *, within_s: float) -> str:
    if report is None:
        return ""
    verdict = flow_verdict.judge(report, within_s=within_s)
    return "" if verdict.is_healthy else verdict.describe()


def _unseen(report: flow_report.FlowReport, each: flow_report.Partition) -> Part:
    """Nobody who copies it was asked."""
    state, reason = "unseen", each.reason
    if each.state == overview.PAUSED:
        state = overview.PAUSED
    elif report.state is not flow_report.State.RUNNING:
        why = f": {report.reason}" if report.reason else ""
        reason = f"{reason or 'nothing is wrong with its logs'}; the flow is "
        reason += f"{report.state.value}{why}"
    elif not reason:
        nodes = f" ({', '.join(report.nodes)})" if report.nodes else ""
        reason = f"how it is copied only the process knows that copies it{nodes}"
    return Part(number=each.partition, state=state, reason=reason, ways=(), way_on="", far=each)


def _part(
    flow: flows.Flow,
    each: flow_status.PartitionStatus,
    operator: commands.Operator,
    *,
    holds: holding.Holds,
) -> Part:
    number, reason = each.partition.partition, overview.reason_in_words(each.reason)
    topic = each.partition.topic
    if holds.pauses(topic) and not each.stopped:
        way_on = operator.go_on(flow.name, None if holds.paused else topic)
        what = "the flow" if holds.paused else "the topic"
        reason = f"an operator paused {what}. {commands.to_go_on(way_on)}"
        return Part(number=number, state=overview.PAUSED, reason=reason, ways=(), way_on=way_on)
    if each.phase not in flow_status.MOVING:
        state = "stopped" if each.stopped else "waiting"
        way_on = commands.found_in(reason)
        return Part(
            number=number,
            state=state,
            reason=reason,
            ways=(),
            way_on=way_on,
            cause=each.cause,
        )
    denied = not each.fenced and flow.delivery is not flows.Delivery.AT_LEAST_ONCE
    return Part(
        number=number,
        state="copying",
        reason=reason,
        ways=(*_ways(flow, each), *_limits(topic, holds)),
        way_on=remedies.fencing_from_now_on(flow.name, operator) if denied else "",
    )


def _ways(flow: flows.Flow, each: flow_status.PartitionStatus) -> Iterator[tuple[str, str]]:
    yield ("opened", each.opened) if each.opened else ("passed through", "")
    if each.transactional:
        always = flow.delivery is flows.Delivery.TRANSACTIONAL
        yield "in transactions", "delivery is transactional" if always else OLD
    if not each.fenced:
        wanted = flow.delivery is flows.Delivery.AT_LEAST_ONCE
        yield "at least once", "delivery is at-least-once" if wanted else DENIED


def _limits(topic: str, holds: holding.Holds) -> Iterator[tuple[str, str]]:
    own = holds.budgets.of_topic(topic) or 0
    for of, rate in (("the flow", holds.budgets.flow), ("the topic", own)):
        for told in overview.throttled(rate):
            yield told, of


def _named(numbers: Sequence[int]) -> str:
    """`partition 3`, `partitions 0-5, 7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    told = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
    return f"partition{'s' if len(numbers) > 1 else ''} {told}"
