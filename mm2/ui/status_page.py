"""Takes snapshots of a running process's flows and hosts the status page.

Snapshots are taken on a separate thread when a client requests the page, and at intervals for the
charts of the last hour. The CPU usage is limited to a small share of one core, regardless of the
number of clients and partitions. A failure is logged and does not affect replication.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Protocol

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from connect_runtime.system.system_clock import SystemClock
from mm2 import version
from mm2.config.mm2_settings import Mm2Settings
from mm2.connectors import status_registry
from mm2.status import replication_health
from mm2.status.health_endpoints import HealthSource
from mm2.status.status_document import FlowReport
from mm2.status.topic_rows import CopyRates
from mm2.ui import lag_timeline, status_page_command_runner
from mm2.ui.lag_timeline import Timeline, TimelinePoint
from mm2.ui.page_routes import StatusSite
from mm2.ui.status_page_command_runner import CommandRunner
from mm2.ui.status_page_json import FlowPageSnapshot, NodeInfo, PageSnapshot

SNAPSHOT_MAX_AGE_S = 1.0
"""Maximum age in seconds of a snapshot that is returned to a client. If the last snapshot is older,
a new one is taken first."""
SNAPSHOT_CPU_SHARE = 0.02
"""Maximum share of a CPU core for snapshots: with thousands of partitions, snapshots are taken less
often."""
IDLE_SNAPSHOT_INTERVAL_S = 15.0


class StatusPageNode(HealthSource, Protocol):
    """The node that runs the flows; implemented by `mm2.node.mm2_node.Mm2Node`."""

    @property
    def settings(self) -> Mm2Settings: ...


class ReportSource(Protocol):
    """Source of flow reports; implemented by `mm2.status.retention_risk_monitor.RetentionWatch`."""

    def build_reports(self) -> Sequence[FlowReport]: ...


class SnapshotWatch:
    """Takes page snapshots. `run` is the body of its thread; all other methods are thread-safe."""

    def __init__(
        self,
        running: StatusPageNode,
        reports: ReportSource,
        *,
        release: str,
        host: str,
        pid: int,
        clock: Clock,
    ) -> None:
        self._running = running
        self._reports = reports
        self._clock = clock
        self._release, self._host, self._pid = release, host, pid
        self._started_ms = clock.wall_ms()
        self._lock = threading.Lock()
        self._timeline = Timeline()
        self._rates = CopyRates()
        self._snapshot_count = 0
        self._seen: PageSnapshot | None = None
        self._fresh_until_s = float("-inf")

    def run(self, stop: threading.Event) -> None:
        """Record a timeline point every `POINT_INTERVAL_S`, or less often if recording takes
        long."""
        pause_s = 0.0
        while not stop.wait(pause_s):
            began_s = self._clock.now_s()
            self.record_point()
            pause_s = max(
                lag_timeline.POINT_INTERVAL_S, (self._clock.now_s() - began_s) / SNAPSHOT_CPU_SHARE
            )

    def record_point(self) -> None:
        """Record the current lag and rates of each flow as a point in its timeline."""
        with self._lock:
            seen = self._take_snapshot()
            self._timeline.add_snapshot(
                [each.status for each in seen.flows],
                [each.report for each in seen.flows],
                now_s=self._clock.now_s(),
                wall_ms=seen.at_ms,
            )

    def get_current_snapshot(self) -> PageSnapshot:
        """Return a recent snapshot of all flows."""
        with self._lock:
            if self._seen is not None and self._clock.now_s() < self._fresh_until_s:
                return self._seen
            return self._take_snapshot()

    def get_flow_timeline(self, flow: str) -> Sequence[TimelinePoint]:
        """Return a flow's timeline points of the last hour, oldest first."""
        with self._lock:
            return self._timeline.get_points(flow)

    def _take_snapshot(self) -> PageSnapshot:
        began_s = self._clock.now_s()
        settings = self._running.settings
        statuses = {each.flow: each for each in self._running.statuses()}
        reports = {each.flow: each for each in self._reports.build_reports()}
        self._rates.observe(list(statuses.values()), began_s)
        self._snapshot_count += 1
        self._seen = PageSnapshot(
            at_ms=self._clock.wall_ms(),
            node=self._make_node_info(settings),
            flows=tuple(
                FlowPageSnapshot(
                    flow=flow,
                    status=statuses[flow.name],
                    report=reports[flow.name],
                    rates=self._rates if self._snapshot_count > 1 else None,
                    verdict=replication_health.evaluate_flow(
                        reports[flow.name], within_s=settings.health.replicating_within_s
                    ),
                )
                for flow in settings.flows
                if flow.name in statuses and flow.name in reports
            ),
        )
        ended_s = self._clock.now_s()
        pause_s = max(SNAPSHOT_MAX_AGE_S, (ended_s - began_s) / SNAPSHOT_CPU_SHARE)
        self._fresh_until_s = ended_s + min(IDLE_SNAPSHOT_INTERVAL_S, pause_s)
        return self._seen

    def _make_node_info(self, settings: Mm2Settings) -> NodeInfo:
        return NodeInfo(
            release=self._release,
            pid=self._pid,
            host=self._host,
            file=settings.file,
            engine=settings.spark.engine,
            engine_ready=self._running.is_engine_ready,
            started_ms=self._started_ms,
        )


_WATCH_STOP_TIMEOUT_S = 0.2

_log = logging.getLogger(__name__)


class StatusPage:
    """The status page; `pages` contains its pages by path."""

    def __init__(self, running: StatusPageNode, reports: ReportSource) -> None:
        now = SystemClock()
        self._watch = SnapshotWatch(
            running,
            reports,
            release=version.VERSION,
            host=socket.gethostname(),
            pid=os.getpid(),
            clock=now,
        )
        self._questions = CommandRunner(status_page_command_runner.run_command, clock=now)
        self.pages = StatusSite(self._watch, status_registry.REGISTRY, self._questions).make_pages()

    @contextlib.contextmanager
    def record_chart_points(self) -> Iterator[None]:
        """Context manager: a separate thread records the points of the charts until the `with`
        block ends."""
        owned = ThreadGroup(on_unexpected_end=_log_unexpected_thread_end)
        owned.start("status page", self._watch.run)
        try:
            yield
        finally:
            self._questions.stop()
            owned.stop_all(_WATCH_STOP_TIMEOUT_S)


def _log_unexpected_thread_end(end: UnexpectedThreadEnd) -> None:
    _log.error(
        "the thread that records the status page's charts failed; the charts are not updated until "
        "the process is restarted: %r",
        end.error,
    )
