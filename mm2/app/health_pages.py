"""`/health/live`, `/health/ready`, `/health/replicating`: 200 where it is well, else 503, and why.

`?flow=east->west` asks of one flow alone. Live is answered at once, whatever else is asked; the
others are judged at most once a second, however many ask.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from connect_runtime.base import clock as base_clock
from connect_runtime.ports import pages
from connect_runtime.system import kept
from mm2.app.reports import flow_report, flow_verdict
from mm2.connectors import flow_status
from mm2.core import health, reachability

LIVE, READY, REPLICATING = "/health/live", "/health/ready", "/health/replicating"
KEPT_S = 1.0
"""So old a verdict may be."""
_UNWELL = 503


class Running(Protocol):
    """What is judged: `mm2.app.node.Node`."""

    @property
    def crashed(self) -> str: ...

    @property
    def engine_ready(self) -> bool: ...

    def standings(self) -> Sequence[health.Standing]: ...

    def statuses(self) -> Sequence[flow_status.FlowStatus]: ...


Reports = Callable[[], Sequence[flow_report.FlowReport]]
"""Of all flows that mirror, as of now."""


class Beats:
    """When the main loop came round; it tells, anybody asks."""

    def __init__(self, clock: base_clock.Clock) -> None:
        self._clock = clock
        self._at_s = clock.now_s()

    def beat(self) -> None:
        self._at_s = self._clock.now_s()

    @property
    def silent_s(self) -> float:
        return self._clock.now_s() - self._at_s


def served(
    running: Running,
    beats: Beats,
    reports: Reports,
    *,
    within_s: float,
    clock: base_clock.Clock,
) -> Mapping[str, pages.Make]:
    """By path; `within_s` as in `flow_verdict.judge`. The group of a flow, which a node has to be
    in to be ready, is on the target: where that does not answer nobody is."""

    def live() -> health.Verdict:
        return health.live(silent_s=beats.silent_s, crashed=running.crashed)

    def ready() -> health.Verdict:
        running.statuses()  # so that standings are of now
        lost = {
            each.flow: found.describe()
            for each in reports()
            if (found := each.lost_cluster(reachability.Side.TARGET)) is not None
        }
        standings = (
            dataclasses.replace(each, joined=False, reason=lost[each.flow])
            if each.flow in lost
            else each
            for each in running.standings()
        )
        return health.ready([*standings], engine_ready=running.engine_ready)

    def replicating() -> health.Verdict:
        return replicating_verdict(reports(), within_s=within_s)

    def probe(judge: Callable[[], health.Verdict]) -> pages.Make:
        judged = kept.Kept(judge, for_s=KEPT_S, clock=clock)
        return pages.In(pages.Lane.PROBES, _page(judged.get))

    return {
        LIVE: pages.In(pages.Lane.AT_ONCE, _page(live)),
        READY: probe(ready),
        REPLICATING: probe(replicating),
    }


def replicating_verdict(
    reports: Sequence[flow_report.FlowReport], *, within_s: float
) -> health.Verdict:
    """`flow_verdict.judge` of each flow, as findings; without a flow nothing replicates."""
    if not reports:
        return health.Verdict(
            findings=(health.Finding(well=False, reason="the file has no flow that replicates"),)
        )
    judged = ((each.flow, flow_verdict.judge(each, within_s=within_s)) for each in reports)
    return health.Verdict(
        findings=tuple(
            health.Finding(
                flow=flow,
                well=verdict.is_healthy,
                reason="; ".join(verdict.reasons) or verdict.health.value,
            )
            for flow, verdict in judged
        )
    )


def _page(judge: Callable[[], health.Verdict]) -> pages.Make:
    def make(asked: pages.Asked) -> pages.Page:
        verdict = judge()
        flow = asked.query.get("flow")
        if flow is not None:
            about = tuple(each for each in verdict.findings if each.flow in (flow, ""))
            if not any(each.flow for each in about):
                return _answer(404, {"status": "unknown", "reason": f"there is no flow {flow}"})
            verdict = health.Verdict(findings=about)
        status = "ok" if verdict.well else "failing"
        found = [_finding(each) for each in verdict.findings]
        return _answer(200 if verdict.well else _UNWELL, {"status": status, "findings": found})

    return make


def _finding(each: health.Finding) -> Mapping[str, object]:
    about = {"flow": each.flow} if each.flow else {}
    return {**about, "ok": each.well, "reason": each.reason}


def _answer(status: int, told: Mapping[str, object]) -> pages.Page:
    text = json.dumps(told, ensure_ascii=False) + "\n"
    headers = {"Cache-Control": "no-store"}
    return pages.Page(status=status, body=text.encode(), headers=headers)
