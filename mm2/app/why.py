"""How a topic is copied, partition by partition, and why so: what `mm2 why` tells.

Made of the flows' frozen snapshots and of the settings in force; nobody is asked for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mm2.app import connections, overview
from mm2.app.settings import settings as app_settings
from mm2.connectors import flow_status
from mm2.core import commands, flows
from mm2.core import holds as holding
from mm2.core.copy import remedies

OLD = "its records are old, and brokers forget who wrote such"
DENIED = "the transactional id may not be used, so nobody is fenced"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One partition. `state` is "copying", "waiting", "paused" or "stopped"; `ways` say how its
    batches go, with why, newest batch first; `way_on` is a command, "" where none is needed."""

    number: int
    state: str
    reason: str
    ways: tuple[tuple[str, str], ...]
    way_on: str

    def line(self) -> str:
        """For people. A stop's reason ends with the way on itself."""
        if self.state != "copying":
            return f"{self.state}: {self.reason}" if self.reason else self.state
        told = ", ".join(f"{way} ({why})" if why else way for way, why in self.ways)
        return f"{told}. {commands.to_go_on(self.way_on)}" if self.way_on else told


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlow:
    """What one flow does with the topic; `why_not` says why nothing, "" where it mirrors it."""

    flow: str
    topic: str
    mirror: str
    why_not: str
    parts: tuple[Part, ...]

    def lines(self) -> Iterator[str]:
        if self.why_not:
            yield f"{self.flow}: {self.topic} is not mirrored: {self.why_not}"
        elif not self.parts:
            yield (
                f"{self.flow}: there was no topic {self.topic} when this flow looked; it would be "
                f"mirrored as {self.mirror}"
            )
        for told, numbers in self._alike().items():
            yield f"{self.flow}: {self.topic} -> {self.mirror}, {_named(numbers)}: {told}"

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
            "partitions": [
                {
                    "partition": part.number,
                    "state": part.state,
                    "reason": part.reason,
                    "ways": [{"way": way, "why": why} for way, why in part.ways],
                    "way_on": part.way_on,
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
        return any(each.parts or each.why_not for each in self.flows)

    def lines(self) -> Iterator[str]:
        for each in self.flows:
            yield from each.lines()

    def as_json(self) -> dict[str, Any]:
        return {"topic": self.topic, "flows": [each.as_json() for each in self.flows]}


def look(
    settings: app_settings.Settings, statuses: Sequence[flow_status.FlowStatus], name: str
) -> Found:
    """`name` is a topic's on the source, or its mirror's on the target."""
    by_flow = {each.flow: each for each in statuses}
    return Found(
        topic=name,
        flows=tuple(
            _in_flow(
                flow,
                by_flow.get(flow.name),
                name,
                operator=connections.operator(settings, flow),
            )
            for flow in settings.flows
        ),
    )


def _in_flow(
    flow: flows.Flow,
    status: flow_status.FlowStatus | None,
    name: str,
    *,
    operator: commands.Operator,
) -> InFlow:
    partitions = status.partitions if status is not None else ()
    holds = status.holds if status is not None else holding.NOTHING
    topics = {each.partition.topic for each in partitions}
    if name not in topics:
        name = next((each for each in sorted(topics) if flow.remote_topic(each) == name), name)
    found = sorted(
        (each for each in partitions if each.partition.topic == name),
        key=lambda each: each.partition,
    )
    return InFlow(
        flow=flow.name,
        topic=name,
        mirror=flow.remote_topic(name),
        why_not="" if found else flow.why_not(name),
        parts=tuple(_part(flow, each, operator, holds=holds) for each in found),
    )


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
    if each.phase not in overview.MOVING:
        state = "stopped" if each.stopped else "waiting"
        way_on = commands.found_in(reason)
        return Part(number=number, state=state, reason=reason, ways=(), way_on=way_on)
    denied = not each.fenced and flow.delivery is not flows.Delivery.AT_LEAST_ONCE
    return Part(
        number=number,
        state="copying",
        reason=reason,
        ways=(*_ways(flow, each), *_limits(topic, holds)),
        way_on=remedies.fencing(flow.name, operator) if denied else "",
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
