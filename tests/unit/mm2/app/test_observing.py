"""What is measured and served of a running node, put together."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from connect_runtime.base import clock as base_clock
from connect_runtime.base import metrics as base_metrics
from connect_runtime.ports import pages
from mm2.app import drill_report, health_pages, loss_watch, node, observing, overview, rates
from mm2.app.settings import load
from mm2.app.settings import settings as app_settings
from mm2.connectors import board, flow_status
from mm2.core import health, holds, measures, reachability
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
    settings: app_settings.Settings = None  # type: ignore[assignment]
    unreachable: list[reachability.Unreachable] = field(default_factory=list)

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


class Watch(loss_watch.LossWatch):
    """Knows when the source deletes what is not replicated, and which clusters do not answer."""

    def __init__(
        self, running: Running, settings: app_settings.Settings, clock: base_clock.Clock
    ) -> None:
        running.settings = settings
        super().__init__(
            running,
            open_source=loss_watch.open_source,
            clock=clock,
            unreachable=lambda _: tuple(running.unreachable),
        )

    def left_s(self) -> dict[tuple[str, ...], float]:
        return {(FLOW, "orders"): 9.0}


class Observed:
    def __init__(self, folder: pathlib.Path, more: str = "") -> None:
        settings = load.parse(FILE + more, file="c", folder=folder, environment={})
        self.running = Running([statuses.flow(statuses.partition())])
        self.clock = plugin_contexts.Clock()
        self.made = observing.Observing(
            cast(node.Node, self.running),
            settings,
            clock=self.clock,
            watch=Watch(self.running, settings, self.clock),
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
    pulse.put(crossing.Pulse(crossed_s=observed.clock.now_s() - 4.0))
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
    assert observed.asks(health_pages.REPLICATING)[0] == 503, "nothing was replicated yet"
    observed.clock.now += health.LIVE_WITHIN_S + 1
    assert observed.asks(health_pages.LIVE)[0] == 503
    observed.made.beats.beat()
    assert observed.asks(health_pages.LIVE)[0] == 200


def test_metrics_and_health_agree_on_when_something_was_replicated_last(observed, pulse):
    """Also of a copy that is gone since."""
    pulse.put(crossing.Pulse(idle_s=observed.clock.now_s()))
    observed.look()
    assert observed.asks(health_pages.REPLICATING)[0] == 200
    pulse.leave()
    observed.later(40)
    observed.look()
    assert observed.asks(health_pages.REPLICATING)[0] == 200
    assert observed.series()["mm2_flow_healthy"] == {(FLOW,): 1}
    observed.later(40)
    observed.look()
    status, body = observed.asks(health_pages.REPLICATING)
    (finding,) = json.loads(body)["findings"]
    assert (status, finding["reason"]) == (
        503,
        "no record replicated for 80 s (health.replicating.within.seconds: 60)",
    )
    assert observed.series()["mm2_flow_healthy"] == {(FLOW,): 0}
    assert observed.series()["mm2_flow_crossing_age_seconds"] == {(FLOW,): 80.0}


def test_metrics_health_and_table_name_the_same_unreachable_cluster(observed, pulse):
    pulse.put(crossing.Pulse(crossed_s=observed.clock.now_s()))
    lost = reachability.Unreachable(
        side=reachability.Side.SOURCE, cluster="east", reason="refused", since_ms=0
    )
    observed.running.unreachable = [lost]
    observed.look()
    series = observed.series()
    assert series["mm2_flow_healthy"] == {(FLOW,): 0}
    assert series["mm2_flow_cluster_reachable"] == {(FLOW, "source"): 0, (FLOW, "target"): 1}
    status, body = observed.asks(health_pages.REPLICATING)
    (finding,) = json.loads(body)["findings"]
    assert (status, finding["reason"]) == (503, lost.describe())
    assert observed.made.unreachable() == {FLOW: lost.describe()}


def test_a_single_broker_is_no_unreachable_cluster(observed, pulse):
    pulse.put(crossing.Pulse(crossed_s=observed.clock.now_s()))
    observed.running.unreachable = [
        reachability.Unreachable(
            side=reachability.Side.SOURCE, cluster="east", reason="refused", broker="2 (b:9092)"
        )
    ]
    observed.look()
    assert observed.series()["mm2_flow_healthy"] == {(FLOW,): 1}
    assert observed.made.unreachable() == {}
