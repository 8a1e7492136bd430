"""The status page of flows that are made up, served as a real process serves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from connect_runtime.base.metrics import MetricFamily
from connect_runtime.metrics_server import exporter as metrics_server_exporter
from connect_runtime.metrics_server.exporter import MetricsExporter
from mm2.connectors.status_registry import StatusRegistry
from mm2.ui import page_routes
from mm2.ui.lag_timeline import TimelinePoint
from mm2.ui.page_routes import StatusSite
from mm2.ui.status_page_command_runner import CommandResult, PageCommand
from mm2.ui.status_page_json import FlowPageSnapshot, PageSnapshot
from tests.support import seen_flows


class _NoMetrics:
    @property
    def all_families(self) -> tuple[MetricFamily, ...]:
        return ()


@dataclass
class MadeUp:
    """What the page shows; change it while it is looked at. `answer` is that of every question.
    `overviews` and `details` count what was asked for."""

    flows: Sequence[FlowPageSnapshot] = ()
    points: Sequence[TimelinePoint] = ()
    answer: CommandResult = field(default_factory=CommandResult)
    groups: StatusRegistry = field(default_factory=StatusRegistry)
    overviews: int = 0
    details: int = 0

    def get_current_snapshot(self) -> PageSnapshot:
        self.overviews += 1
        return seen_flows.seen(*self.flows)

    def get_flow_timeline(self, _: str) -> Sequence[TimelinePoint]:
        self.details += 1
        return self.points

    def request_result(self, _: PageCommand) -> CommandResult:
        return self.answer

    def get_last_result(self, _: PageCommand) -> CommandResult:
        return self.answer


@contextmanager
def served(what: MadeUp) -> Iterator[str]:
    """Its address."""
    exporter = MetricsExporter(
        _NoMetrics(),
        host="127.0.0.1",
        port=0,
        pages=StatusSite(what, what.groups, what).make_pages(),
    )
    exporter.start()
    try:
        yield (
            exporter.url.removesuffix(metrics_server_exporter.METRICS_PATH) + page_routes.PAGE_PATH
        )
    finally:
        exporter.stop()
