"""Builds the metrics and health endpoints of a running node."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base.metrics import MetricFamily
from connect_runtime.base.timing import Clock
from connect_runtime.metrics_server import exporter
from connect_runtime.rest.mounted_pages import MountedPage, PageRenderer, PageThreadPool
from connect_runtime.system.threads import CachedValue
from mm2.config.mm2_settings import Mm2Settings
from mm2.connectors import status_registry
from mm2.metrics import collector
from mm2.metrics.collector import FlowMetricsCollector, MetricInputs
from mm2.metrics.exposition import JmxMetrics, NodeMetrics
from mm2.node.drill_report import LastDrillTimes
from mm2.node.node import Mm2Node
from mm2.status import health_endpoints
from mm2.status.health_endpoints import MainLoopHeartbeat
from mm2.status.retention_watch import RetentionWatch

JAVA_METRICS_PATH = "/metrics/java"
REPORT_CACHE_TTL_S = 1.0
"""So old the reports may be that metrics and /health/replicating are made of."""
JAVA_METRICS_CACHE_TTL_S = 5.0
"""So old these figures, which are many, may be: several who scrape share them."""


class NodeTelemetry:
    """`collector` is to be told of every look, `beats` of every turn of the main loop; `source` and
    `served` are to be served."""

    def __init__(
        self,
        running: Mm2Node,
        settings: Mm2Settings,
        *,
        clock: Clock,
        watch: RetentionWatch,
    ) -> None:
        """`watch` makes the reports that are judged, and knows what sources will delete."""
        self._running = running
        self._clock = clock
        self._drills = LastDrillTimes(settings.watch.drill_report)
        within_s = settings.watch.replicating_within_s
        self._reports = CachedValue(watch.reports, for_s=REPORT_CACHE_TTL_S, clock=clock)
        self.metrics = FlowMetricsCollector(
            losses=watch.left_s,
            beside=self._beside,
            wall_ms=clock.wall_ms,
            now_s=clock.now_s,
            within_s=within_s,
        )
        self.beats = MainLoopHeartbeat(clock)
        self.source = NodeMetrics(
            self.metrics.registry,
            running.own_metrics,
            more=self._by_partition if settings.metrics.by_partition else tuple,
        )
        java = JmxMetrics(running.published, lambda: self.metrics.statuses)
        scraped = CachedValue(
            lambda: exporter.build_metrics_page(java), for_s=JAVA_METRICS_CACHE_TTL_S, clock=clock
        )
        self.served: Mapping[str, PageRenderer] = {
            JAVA_METRICS_PATH: MountedPage(PageThreadPool.SCRAPES, lambda _: scraped.get()),
            **health_endpoints.make_health_pages(
                running,
                self.beats,
                self._reports.get,
                within_s=within_s,
                clock=clock,
            ),
        }

    def unreachable(self) -> dict[str, str]:
        """By flow, which of its clusters does not answer, since when and why."""
        found: dict[str, str] = {}
        for each in self._reports.get():
            lost = [one.describe() for one in each.unreachable if not one.broker]
            if lost:
                found[each.flow] = "; ".join(lost)
        return found

    def _by_partition(self) -> tuple[MetricFamily, ...]:
        return collector.collect_partition_metrics(self.metrics.statuses, self._clock.wall_ms())

    def _beside(self) -> MetricInputs:
        seen = status_registry.REGISTRY.seen()
        return MetricInputs(
            pulses=seen.pulses,
            groups=seen.groups,
            rebalances=self._running.rebalances(),
            held=self._running.held(),
            slots=self._running.slots,
            drills=self._drills.passed_s(),
            reports=self._reports.get(),
        )
