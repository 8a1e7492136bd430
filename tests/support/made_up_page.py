"""The status page of flows that are made up, served as a real process serves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from connect_runtime.adapters.http import metrics_exporter
from connect_runtime.base import metrics
from mm2.app.ui import flow_documents, questions, site, timeline
from mm2.connectors import board
from tests.support import seen_flows


class _NoMetrics:
    @property
    def published(self) -> tuple[metrics.Family, ...]:
        return ()


@dataclass
class MadeUp:
    """What the page shows; change it while it is looked at. `answer` is that of every question.
    `overviews` and `details` count what was asked for."""

    flows: Sequence[flow_documents.FlowSeen] = ()
    points: Sequence[timeline.Point] = ()
    answer: questions.Answer = field(default_factory=questions.Answer)
    groups: board.Board = field(default_factory=board.Board)
    overviews: int = 0
    details: int = 0

    def seen(self) -> flow_documents.Seen:
        self.overviews += 1
        return seen_flows.seen(*self.flows)

    def past(self, _: str) -> Sequence[timeline.Point]:
        self.details += 1
        return self.points

    def ask(self, _: questions.Question) -> questions.Answer:
        return self.answer

    def known(self, _: questions.Question) -> questions.Answer:
        return self.answer


@contextmanager
def served(what: MadeUp) -> Iterator[str]:
    """Its address."""
    exporter = metrics_exporter.MetricsExporter(
        _NoMetrics(),
        host="127.0.0.1",
        port=0,
        beside=site.Site(what, what.groups, what).served(),
    )
    exporter.start()
    try:
        yield exporter.url.removesuffix(metrics_exporter.PATH) + site.PAGE
    finally:
        exporter.stop()
