"""What is measured of a running node, and what is served of it: metrics and health.

A composition root, for whatever command has a node running.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect_runtime.adapters.http import metrics_exporter
from connect_runtime.base import clock as base_clock
from connect_runtime.base import metrics as base_metrics
from connect_runtime.ports import pages
from connect_runtime.system import kept
from mm2.app import drill_report, health_pages, loss_watch, metrics, node, node_metrics
from mm2.app.settings import settings as app_settings
from mm2.connectors import board

JAVA_PATH = "/metrics/java"
REPORTS_KEPT_S = 1.0
"""So old the reports may be that metrics and /health/replicating are made of."""
JAVA_KEPT_S = 5.0
"""So old these figures, which are many, may be: several who scrape share them."""


class Observing:
    """`metrics` is to be told of every look, `beats` of every turn of the main loop; `source` and
    `served` are to be served."""

    def __init__(
        self,
        running: node.Node,
        settings: app_settings.Settings,
        *,
        clock: base_clock.Clock,
        watch: loss_watch.LossWatch,
    ) -> None:
        """`watch` makes the reports that are judged, and knows what sources will delete."""
        self._running = running
        self._clock = clock
        self._drills = drill_report.LastDrills(settings.watch.drill_report)
        within_s = settings.watch.replicating_within_s
        self._reports = kept.Kept(watch.reports, for_s=REPORTS_KEPT_S, clock=clock)
        self.metrics = metrics.FlowMetrics(
            losses=watch.left_s,
            beside=self._beside,
            wall_ms=clock.wall_ms,
            now_s=clock.now_s,
            within_s=within_s,
        )
        self.beats = health_pages.Beats(clock)
        self.source = node_metrics.NodeMetrics(
            self.metrics.registry,
            running.own_metrics,
            more=self._by_partition if settings.metrics.by_partition else tuple,
        )
        java = node_metrics.JavaMetrics(running.published, lambda: self.metrics.statuses)
        scraped = kept.Kept(lambda: metrics_exporter.page(java), for_s=JAVA_KEPT_S, clock=clock)
        self.served: Mapping[str, pages.Make] = {
            JAVA_PATH: pages.In(pages.Lane.SCRAPES, lambda _: scraped.get()),
            **health_pages.served(
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

    def _by_partition(self) -> tuple[base_metrics.Family, ...]:
        return metrics.by_partition(self.metrics.statuses, self._clock.wall_ms())

    def _beside(self) -> metrics.Beside:
        seen = board.BOARD.seen()
        return metrics.Beside(
            pulses=seen.pulses,
            groups=seen.groups,
            rebalances=self._running.rebalances(),
            held=self._running.held(),
            slots=self._running.slots,
            drills=self._drills.passed_s(),
            reports=self._reports.get(),
        )
