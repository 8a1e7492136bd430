"""Builds the metrics and health endpoints of a running `mm2 run` process (node)."""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.metrics_server import exporter
from connect_runtime.rest.http_pages import MountedPage, PageRenderer, PageThreadPool
from connect_runtime.system.supervised_threads import CachedValue
from mm2.config.mm2_settings import Mm2Settings
from mm2.connectors import status_registry
from mm2.metrics import collector
from mm2.metrics.collector import FlowMetricsCollector, MetricInputs
from mm2.metrics.metrics_exposition import JmxMetrics, NodeMetrics
from mm2.node.drill_report import LastDrillTimes
from mm2.node.mm2_node import Mm2Node
from mm2.status import health_endpoints
from mm2.status.health_endpoints import MainLoopHeartbeat
from mm2.status.retention_risk_monitor import RetentionWatch

JAVA_METRICS_PATH = "/metrics/java"
REPORT_CACHE_TTL_S = 1.0
"""Maximum age in seconds of the flow reports that metrics and /health/replicating use."""
JAVA_METRICS_CACHE_TTL_S = 5.0
"""Maximum age in seconds of the cached Java metrics page. The page is large, and several scrapers
request it."""


class NodeTelemetry:
    """Metrics and health endpoints of a running node.

    Call `metrics.update_metrics` after every status poll and `heartbeat.record_iteration` in every
    iteration of the main loop. The metrics in `source` and the pages in `pages` are served over
    HTTP.
    """

    def __init__(
        self,
        node: Mm2Node,
        settings: Mm2Settings,
        *,
        clock: Clock,
        watch: RetentionWatch,
    ) -> None:
        """Create the metrics and health endpoints of a node. `watch` builds the flow reports and
        estimates when retention deletes unreplicated records on the sources."""
        self._node = node
        self._clock = clock
        self._drills = LastDrillTimes(settings.health.drill_report)
        within_s = settings.health.replicating_within_s
        self._reports = CachedValue(watch.build_reports, ttl_s=REPORT_CACHE_TTL_S, clock=clock)
        self.metrics = FlowMetricsCollector(
            times_to_data_loss=watch.list_seconds_to_data_loss,
            inputs=self._collect_metric_inputs,
            wall_ms=clock.wall_ms,
            now_s=clock.now_s,
            replication_objective_s=within_s,
        )
        self.heartbeat = MainLoopHeartbeat(clock)
        self.source = NodeMetrics(
            self.metrics.registry,
            node.worker_metrics,
            extra=self._collect_partition_metrics if settings.metrics.by_partition else tuple,
        )
        java = JmxMetrics(node.plugin_metrics, lambda: self.metrics.statuses)
        scraped = CachedValue(
            lambda: exporter.build_metrics_page(java), ttl_s=JAVA_METRICS_CACHE_TTL_S, clock=clock
        )
        self.pages: Mapping[str, PageRenderer] = {
            JAVA_METRICS_PATH: MountedPage(PageThreadPool.SCRAPES, lambda _: scraped.get()),
            **health_endpoints.make_health_pages(
                node,
                self.heartbeat,
                self._reports.get,
                within_s=within_s,
                clock=clock,
            ),
        }

    def describe_unreachable_clusters(self) -> dict[str, str]:
        """Describe, for each affected flow, which cluster does not respond, since when and why."""
        by_flow: dict[str, str] = {}
        for each in self._reports.get():
            unreachable = [one.format_description() for one in each.unreachable if not one.broker]
            if unreachable:
                by_flow[each.flow] = "; ".join(unreachable)
        return by_flow

    def _collect_partition_metrics(self) -> tuple[MetricFamily, ...]:
        return collector.collect_partition_metrics(self.metrics.statuses, self._clock.wall_ms())

    def _collect_metric_inputs(self) -> MetricInputs:
        snapshot = status_registry.REGISTRY.get_snapshot()
        return MetricInputs(
            latencies=snapshot.latencies,
            checkpoint_groups=snapshot.groups,
            rebalances=self._node.rebalance_counts(),
            overrides=self._node.connector_overrides(),
            spark_slots=self._node.slot_usage,
            last_drills_s=self._drills.read_last_success_times_s(),
            reports=self._reports.get(),
        )
