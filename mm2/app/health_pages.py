"""`/health/live`, `/health/ready`, `/health/replicating`: 200 where it is well, else 503, and why.

`?flow=east->west` asks of one flow alone. Live is answered at once, whatever else is asked; the
others are judged at most once a second, however many ask.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from connect_runtime.base import clock as base_clock
from connect_runtime.ports import pages
from connect_runtime.system import kept
from mm2.app import overview
from mm2.connectors import board, flow_status
from mm2.core import health

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
    crossings: health.Crossings,
    *,
    within_s: float,
    clock: base_clock.Clock,
) -> Mapping[str, pages.Make]:
    """By path; `within_s` is the objective of replicating."""

    def live() -> health.Verdict:
        return health.live(silent_s=beats.silent_s, crashed=running.crashed)

    def ready() -> health.Verdict:
        running.statuses()  # so that standings are of now
        return health.ready(running.standings(), engine_ready=running.engine_ready)

    def replicating() -> health.Verdict:
        now_ms = clock.wall_ms()
        seen = flows(running, crossings, now_ms=now_ms)
        return health.replicating(seen, within_s=within_s, now_ms=now_ms)

    def probe(judge: Callable[[], health.Verdict]) -> pages.Make:
        judged = kept.Kept(judge, for_s=KEPT_S, clock=clock)
        return pages.In(pages.Lane.PROBES, _page(judged.get))

    return {
        LIVE: pages.In(pages.Lane.AT_ONCE, _page(live)),
        READY: probe(ready),
        REPLICATING: probe(replicating),
    }


def flows(running: Running, crossings: health.Crossings, *, now_ms: int) -> list[health.Flow]:
    """All that mirror, as they are now; `crossings` are told of it."""
    statuses, pulses = running.statuses(), board.BOARD.seen().pulses
    crossings.keep([each.flow for each in statuses])
    return [
        health.Flow(
            flow=status.flow,
            held=_held(status),
            elsewhere=status.elsewhere,
            crossed=crossings.look(
                status.flow,
                pulses.get(status.flow, {}).values(),
                copies=status.copies_here,
                all_move=status.all_move,
                now_ms=now_ms,
            ),
        )
        for status in statuses
    ]


def _held(status: flow_status.FlowStatus) -> str:
    if status.state is not flow_status.FlowState.RUNNING:
        return f"it is {status.state.value}" + (f": {status.reason}" if status.reason else "")
    if status.holds.paused:
        return "it is paused, until mm2 resume"
    return overview.NOTHING_TO_COPY if status.empty else ""


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
