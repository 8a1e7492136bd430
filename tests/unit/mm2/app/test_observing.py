"""What is measured and served of a running node, put together."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from connect_runtime.base import metrics as base_metrics
from connect_runtime.ports import pages
from mm2.app import drill_report, health_pages, node, observing, overview, rates
from mm2.app.settings import load
from mm2.connectors import board, flow_status
from mm2.core import health, holds, measures
from mm2.core.copy import crossing
from tests.fakes import plugin_contexts
from tests.support import statuses

FILE = """
clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: 'w:1'}}
flows:
- {from: east, to: west}
drill: {report: drills.json}
"""
FLOW = "east->west"
OWN = base_metrics.Metric(name="kafka_connect_x", kind=base_metrics.Kind.GAUGE, help="X.")


@dataclass
class Running:
    """Has what `Observing` asks of `node.Node`."""

    shown: list[flow_status.FlowStatus] = field(default_factory=list)
    crashed: str = ""
    engine_ready: bool = True
    slots: tuple[int, int] | None = (1, 3)

    def own_metrics(self) -> dict[str, tuple[base_metrics.Family, ...]]:
        return {FLOW: (base_metrics.Family(metric=OWN, series={(): 7.0}),)}

    published = own_metrics

    def rebalances(self) -> dict[str, int]:
        return {FLOW: 2}

    def held(self) -> dict[str, dict[str, holds.By]]:
        return {FLOW: {"MirrorCheckpointConnector": holds.By.PAUSED}}

    def standings(self) -> list[health.Standing]:
        return [health.Standing(flow=FLOW, joined=True, configured=True, serves=True)]

    def statuses(self) -> list[flow_status.FlowStatus]:
        return self.shown


class Observed:
    def __init__(self, folder: pathlib.Path, more: str = "") -> None:
        settings = load.parse(FILE + more, file="c", folder=folder, environment={})
        self.running = Running([statuses.flow(statuses.partition())])
        self.clock = plugin_contexts.Clock()
        self.made = observing.Observing(
            cast(node.Node, self.running),
            settings,
            clock=self.clock,
            losses=lambda: {(FLOW, "orders"): 9.0},
        )

    def look(self) -> None:
        shown = self.running.shown
        seen = overview.make(shown, rates.Rates(), wall_ms=self.clock.wall_ms(), engine_ready=True)
        self.made.metrics.observe(shown, seen, engine_ready=True)

    def later(self, seconds: int) -> None:
        self.clock.now += seconds
        self.clock.wall += seconds * 1_000

    def series(self) -> dict[str, dict[tuple[str, ...], float]]:
        return {each.metric.name: dict(each.series) for each in self.made.source.published}

    def asks(self, path: str) -> tuple[int, Any]:
        page = self.made.served[path](pages.Asked(path=path, query={}))
        return page.status, page.body


@pytest.fixture
def observed(tmp_path):
    return Observed(tmp_path)


@pytest.fixture
def pulse():
    place = board.BOARD.pulse(FLOW, 0)
    yield place
    place.leave()


def test_a_look_becomes_what_is_scraped_with_what_is_beside_it(observed, pulse, tmp_path):
    for flow in (FLOW, "gone->away"):
        drill_report.note(tmp_path / "drills.json", flow, {}, passed=True, at_ms=5_000)
    pulse.put(crossing.Pulse(crossed_ms=observed.clock.wall_ms() - 4_000))
    observed.look()
    series = observed.series()
    assert series[OWN.name] == {(FLOW,): 7.0}, "a worker's own"
    assert series["mm2_flow_crossing_age_seconds"] == {(FLOW,): 4.0}
    assert series["mm2_rebalances_total"] == {(FLOW,): 2}
    assert series["mm2_spark_slots"] == {("used",): 1, ("free",): 3}
    held = {(FLOW, "MirrorCheckpointConnector", "paused"): 1}
    assert series["mm2_connector_held"] == held
    assert series["mm2_drills_noted"] == {(FLOW,): 1}
    assert series["mm2_last_drill_timestamp_seconds"] == {(FLOW,): 5.0}
    assert series["mm2_source_loss_seconds"] == {(FLOW, "orders"): 9.0}


@pytest.mark.parametrize(("more", "by_partition"), [("", 0), ("metrics: {by: partition}\n", 2)])
def test_series_of_partitions_are_there_where_they_are_wanted(tmp_path, more, by_partition):
    observed = Observed(tmp_path, more)
    observed.look()
    names = {each.name for each in measures.BY_PARTITION}
    assert len(names & observed.series().keys()) == by_partition


def test_javas_names_and_health_are_served(observed, pulse):
    observed.look()
    status, body = observed.asks(observing.JAVA_PATH)
    assert status == 200
    assert OWN.name.encode() in body
    assert b"mm2_" not in body
    for path, well in ((health_pages.LIVE, 200), (health_pages.READY, 200)):
        assert observed.asks(path)[0] == well
    assert observed.asks(health_pages.REPLICATING)[0] == 503, "nothing has crossed yet"
    observed.clock.now += health.LIVE_WITHIN_S + 1
    assert observed.asks(health_pages.LIVE)[0] == 503
    observed.made.beats.beat()
    assert observed.asks(health_pages.LIVE)[0] == 200


def test_metrics_and_health_know_the_same_of_what_crossed(observed, pulse):
    """Also of a copy that is gone since."""
    pulse.put(crossing.Pulse(idle_ms=observed.clock.wall_ms()))
    observed.look()
    pulse.leave()
    failed = statuses.task(0, flow_status.TaskState.FAILED)
    observed.running.shown = [statuses.flow(statuses.partition(phase="waiting"), tasks=[failed])]
    observed.later(40)
    status, body = observed.asks(health_pages.REPLICATING)
    assert (status, "40.0 s ago" in json.loads(body)["findings"][0]["reason"]) == (200, True)
    observed.later(40)
    assert observed.asks(health_pages.REPLICATING)[0] == 503
    observed.look()
    assert observed.series()["mm2_flow_crossing_age_seconds"] == {(FLOW,): 80.0}
