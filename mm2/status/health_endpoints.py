"""Serves `/health/live`, `/health/ready` and `/health/replicating`: 200 if healthy, otherwise 503
with the reasons.

`?flow=east->west` limits the response to one flow. Liveness is answered immediately, even while
other requests are being processed. Readiness and replication health are computed at most once per
second for all clients.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.rest.http_pages import (
    MountedPage,
    PageRenderer,
    PageRequest,
    PageResponse,
    PageThreadPool,
)
from connect_runtime.system.supervised_threads import CachedValue
from mm2.connectors.status_registry import FlowStatus
from mm2.status import process_health, replication_health
from mm2.status.process_health import FlowReadiness, HealthFinding, HealthResult
from mm2.status.status_document import FlowReport
from mm2.unreachable_cluster import ClusterSide

LIVE_PATH, READY_PATH, REPLICATING_PATH = "/health/live", "/health/ready", "/health/replicating"
RESULT_MAX_AGE_S = 1.0
"""Maximum age of a cached health result in seconds."""
_UNHEALTHY_STATUS = 503


class HealthSource(Protocol):
    """State of the process that the health endpoints evaluate; implemented by
    `mm2.node.mm2_node.Mm2Node`."""

    @property
    def crash_reason(self) -> str: ...

    @property
    def is_engine_ready(self) -> bool: ...

    def readiness(self) -> Sequence[FlowReadiness]: ...

    def statuses(self) -> Sequence[FlowStatus]: ...


MakeReports = Callable[[], Sequence[FlowReport]]
"""Builds the reports of all replicating flows."""


class MainLoopHeartbeat:
    """Records the time of the main loop's last iteration. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at_s = clock.now_s()

    def record_iteration(self) -> None:
        """Record the time of a main loop iteration."""
        self._at_s = self._clock.now_s()

    @property
    def seconds_since_last_iteration(self) -> float:
        """Seconds since the last iteration of the main loop."""
        return self._clock.now_s() - self._at_s


def make_health_pages(
    running: HealthSource,
    beats: MainLoopHeartbeat,
    reports: MakeReports,
    *,
    within_s: float,
    clock: Clock,
) -> Mapping[str, PageRenderer]:
    """Return the functions that render the health pages, by URL path. `within_s` is how long a flow
    may go without replicating a batch while its source may have more records.

    A node is not ready if the target does not respond, because the flow's Connect group is stored
    on the target.
    """

    def check_live() -> HealthResult:
        return process_health.check_liveness(
            silent_s=beats.seconds_since_last_iteration, crashed=running.crash_reason
        )

    def check_ready() -> HealthResult:
        running.statuses()  # updates the readiness
        lost = {
            each.flow: found.format_description()
            for each in reports()
            if (found := each.find_unreachable_cluster(ClusterSide.TARGET)) is not None
        }
        standings = (
            dataclasses.replace(each, joined=False, reason=lost[each.flow])
            if each.flow in lost
            else each
            for each in running.readiness()
        )
        return process_health.check_readiness([*standings], engine_ready=running.is_engine_ready)

    def check_replicating() -> HealthResult:
        return check_replication(reports(), within_s=within_s)

    def make_probe_page(judge: Callable[[], HealthResult]) -> PageRenderer:
        judged = CachedValue(judge, ttl_s=RESULT_MAX_AGE_S, clock=clock)
        return MountedPage(PageThreadPool.PROBES, _make_health_page_renderer(judged.get))

    return {
        LIVE_PATH: MountedPage(PageThreadPool.EVENT_LOOP, _make_health_page_renderer(check_live)),
        READY_PATH: make_probe_page(check_ready),
        REPLICATING_PATH: make_probe_page(check_replicating),
    }


def check_replication(reports: Sequence[FlowReport], *, within_s: float) -> HealthResult:
    """Evaluate the replication health of each flow. Without flows, the result is unhealthy, because
    nothing is replicated."""
    if not reports:
        return HealthResult(
            findings=(
                HealthFinding(
                    is_healthy=False, reason=("the configuration file has no flow that replicates")
                ),
            )
        )
    judged = (
        (each.flow, replication_health.evaluate_flow(each, within_s=within_s)) for each in reports
    )
    return HealthResult(
        findings=tuple(
            HealthFinding(
                flow=flow,
                is_healthy=verdict.is_healthy,
                reason="; ".join(verdict.reasons) or verdict.health.value,
            )
            for flow, verdict in judged
        )
    )


def _make_health_page_renderer(judge: Callable[[], HealthResult]) -> PageRenderer:
    def render_health_page(asked: PageRequest) -> PageResponse:
        verdict = judge()
        flow = asked.query.get("flow")
        if flow is not None:
            about = tuple(each for each in verdict.findings if each.flow in (flow, ""))
            if not any(each.flow for each in about):
                return _make_page_response(
                    404, {"status": "unknown", "reason": f"there is no flow {flow}"}
                )
            verdict = HealthResult(findings=about)
        status = "ok" if verdict.is_healthy else "failing"
        found = [_finding_to_json(each) for each in verdict.findings]
        return _make_page_response(
            200 if verdict.is_healthy else _UNHEALTHY_STATUS, {"status": status, "findings": found}
        )

    return render_health_page


def _finding_to_json(each: HealthFinding) -> Mapping[str, object]:
    about = {"flow": each.flow} if each.flow else {}
    return {**about, "ok": each.is_healthy, "reason": each.reason}


def _make_page_response(status: int, told: Mapping[str, object]) -> PageResponse:
    text = json.dumps(told, ensure_ascii=False) + "\n"
    headers = {"Cache-Control": "no-store"}
    return PageResponse(status=status, body=text.encode(errors="replace"), headers=headers)
