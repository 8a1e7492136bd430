"""What a failover would cost now, as far as the process that runs a flow knows by itself.

It is no plan: of groups it knows nothing, of partitions that others copy neither. The plan is what
`mm2 failover` makes, which looks at both clusters.
"""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import amounts
from mm2.app import figures, overview
from mm2.app.reports import flow_report, flow_verdict, words
from mm2.app.ui import tones
from mm2.core import flows


class Kind(enum.Enum):
    """What is unknown decides before what costs."""

    UNKNOWN = "cannot be told"
    COSTS = "at a cost"
    NOTHING_KNOWN = "nothing known against it"


_TONES = {
    Kind.UNKNOWN: tones.Tone.UNKNOWN,
    Kind.COSTS: tones.Tone.WAIT,
    Kind.NOTHING_KNOWN: tones.Tone.GOOD,
}
_GRAVEST_FIRST = (Kind.UNKNOWN, Kind.COSTS, Kind.NOTHING_KNOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """`findings` say why; `command` makes the plan."""

    kind: Kind
    findings: tuple[str, ...]
    command: str


def make(
    report: flow_report.FlowReport, flow: flows.Flow, *, verdict: flow_verdict.Verdict
) -> Estimate:
    """Of a flow as its process sees it; why it is not healthy comes first."""
    found = [(Kind.UNKNOWN, each) for each in verdict.reasons]
    found += [each for each in _find(report, flow) if each[1] not in verdict.reasons]
    kinds = [kind for kind, _ in found]
    return Estimate(
        kind=min(kinds, key=_GRAVEST_FIRST.index, default=Kind.NOTHING_KNOWN),
        findings=tuple(text for _, text in found),
        command=shlex.join(["mm2", "failover", "--from", flow.source, "--to", flow.target]),
    )


def as_json(found: Estimate) -> dict[str, Any]:
    return {
        "verdict": found.kind.value,
        "tone": _TONES[found.kind].value,
        "findings": list(found.findings),
        "command": found.command,
    }


def _find(report: flow_report.FlowReport, flow: flows.Flow) -> Iterator[tuple[Kind, str]]:
    source, target, parts = flow.source, flow.target, report.partitions
    if report.state is not flow_report.State.RUNNING:
        yield Kind.UNKNOWN, f"the flow is {report.state.value}: what comes to {source} is not seen"
    standing = [each for each in parts if each.state in flow_report.STANDING]
    if standing:
        yield (
            Kind.COSTS,
            f"{amounts.counted(len(standing), 'partition')} halted: what comes there does not "
            f"reach {target}",
        )
    lost = flow_report.soonest(parts)
    if lost is not None:
        yield Kind.COSTS, words.loss(lost)
    if report.elsewhere:
        yield (
            Kind.UNKNOWN,
            f"{amounts.counted(report.elsewhere, 'partition', 'are')} copied by other processes, "
            "whose pages tell",
        )
    if not parts:
        running = report.state is flow_report.State.RUNNING
        empty = running and not report.elsewhere
        yield Kind.UNKNOWN, overview.NOTHING_TO_COPY if empty else "no partition is copied here"
        return
    lag = flow_report.lag(parts, report.at_ms)
    if not lag.complete:
        yield Kind.UNKNOWN, "of some partitions nobody knows how far they are copied"
    if lag.records:
        age = "" if lag.ms is None else f", {figures.duration(lag.ms / 1000)}"
        missing = amounts.counted(lag.records, "record")
        yield Kind.COSTS, f"up to {missing} of {source} are not on {target} yet{age}"
