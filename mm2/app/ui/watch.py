"""What the page is made of, as of a moment ago: looked at when somebody asks, and now and then for
the pictures of the last hour.

However many look at the page, and however many partitions there are, looking takes a small share
of a core.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

from connect_runtime.base import clock as base_clock
from mm2.app import health_pages, rates
from mm2.app.reports import flow_report, flow_verdict
from mm2.app.settings import settings as app_settings
from mm2.app.ui import flow_documents, timeline

FRESH_S = 1.0
"""So old what is shown may be, at least."""
LOOK_SHARE = 0.02
"""Of a core: thousands of partitions are looked at less often."""
RARELY_S = 15.0


class Running(health_pages.Running, Protocol):
    """What runs the flows: `mm2.app.node.Node`."""

    @property
    def settings(self) -> app_settings.Settings: ...


class Reports(Protocol):
    """Who knows how flows stand: `mm2.app.loss_watch.LossWatch`."""

    def reports(self) -> Sequence[flow_report.FlowReport]: ...


class Watch:
    """`run` is its thread's body; the rest may be used by any."""

    def __init__(
        self,
        running: Running,
        reports: Reports,
        *,
        release: str,
        host: str,
        pid: int,
        clock: base_clock.Clock,
    ) -> None:
        self._running = running
        self._reports = reports
        self._clock = clock
        self._release, self._host, self._pid = release, host, pid
        self._started_ms = clock.wall_ms()
        self._lock = threading.Lock()
        self._timeline = timeline.Timeline()
        self._rates = rates.Rates()
        self._looks = 0
        self._seen: flow_documents.Seen | None = None
        self._fresh_until_s = float("-inf")

    def run(self, stop: threading.Event) -> None:
        """A point of the timeline every `STEP_S`, or more rarely where looking takes long."""
        pause_s = 0.0
        while not stop.wait(pause_s):
            began_s = self._clock.now_s()
            self.note()
            pause_s = max(timeline.STEP_S, (self._clock.now_s() - began_s) / LOOK_SHARE)

    def note(self) -> None:
        """One more point of each flow."""
        with self._lock:
            seen = self._look()
            self._timeline.observe(
                [each.status for each in seen.flows],
                [each.report for each in seen.flows],
                now_s=self._clock.now_s(),
                wall_ms=seen.at_ms,
            )

    def seen(self) -> flow_documents.Seen:
        """All flows, as of a moment ago."""
        with self._lock:
            if self._seen is not None and self._clock.now_s() < self._fresh_until_s:
                return self._seen
            return self._look()

    def past(self, flow: str) -> Sequence[timeline.Point]:
        """Of the last hour, oldest first."""
        with self._lock:
            return self._timeline.of(flow)

    def _look(self) -> flow_documents.Seen:
        began_s = self._clock.now_s()
        settings = self._running.settings
        statuses = {each.flow: each for each in self._running.statuses()}
        reports = {each.flow: each for each in self._reports.reports()}
        self._rates.observe(list(statuses.values()), began_s)
        self._looks += 1
        self._seen = flow_documents.Seen(
            at_ms=self._clock.wall_ms(),
            node=self._node(settings),
            flows=tuple(
                flow_documents.FlowSeen(
                    flow=flow,
                    status=statuses[flow.name],
                    report=reports[flow.name],
                    rates=self._rates if self._looks > 1 else None,
                    verdict=flow_verdict.judge(
                        reports[flow.name], within_s=settings.watch.replicating_within_s
                    ),
                )
                for flow in settings.flows
                if flow.name in statuses and flow.name in reports
            ),
        )
        ended_s = self._clock.now_s()
        pause_s = max(FRESH_S, (ended_s - began_s) / LOOK_SHARE)
        self._fresh_until_s = ended_s + min(RARELY_S, pause_s)
        return self._seen

    def _node(self, settings: app_settings.Settings) -> flow_documents.Node:
        return flow_documents.Node(
            release=self._release,
            pid=self._pid,
            host=self._host,
            file=settings.file,
            engine=settings.spark.engine,
            engine_ready=self._running.engine_ready,
            started_ms=self._started_ms,
        )
