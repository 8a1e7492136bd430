"""What is measured and served of a running node, put together."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.metrics import Metric, MetricFamily, MetricKind
from connect_runtime.rest.http_pages import PageRequest
from mm2.config import config_loader
from mm2.config.mm2_settings import Mm2Settings
from mm2.config.pause_and_throttle_overrides import OverrideKind
from mm2.connectors import status_registry
from mm2.connectors.status_registry import FlowStatus
from mm2.metrics import metric_declarations
from mm2.node import drill_report, metrics_and_health
from mm2.node.metrics_and_health import NodeTelemetry
from mm2.node.mm2_node import Mm2Node
from mm2.replication.replication_latency import LatencySnapshot
from mm2.status import health_endpoints, process_health, retention_risk_monitor, topic_rows
from mm2.status.process_health import FlowReadiness
from mm2.status.retention_risk_monitor import RetentionWatch
from mm2.status.topic_rows import CopyRates
from mm2.unreachable_cluster import ClusterSide, UnreachableCluster
from tests.fakes import plugin_contexts
from tests.support import statuses

FILE = """
clusters: {east: {bootstrap.servers: 'e:1'}, west: {bootstrap.servers: 'w:1'}}
flows:
- {from: east, to: west}
drill: {report: drills.json}
"""
FLOW = "east->west"
OWN = Metric(name="kafka_connect_x", kind=MetricKind.GAUGE, help="X.")


@dataclass
class Running:
    """Has what `Observing` asks of `Mm2Node`."""

    shown: list[FlowStatus] = field(default_factory=list)
    crash_reason: str = ""
    is_engine_ready: bool = True
    slot_usage: tuple[int, int] | None = (1, 3)
    settings: Mm2Settings = None  # type: ignore[assignment]
    unreachable: list[UnreachableCluster] = field(default_factory=list)

    def worker_metrics(self) -> dict[str, tuple[MetricFamily, ...]]:
        return {FLOW: (MetricFamily(metric=OWN, series={(): 7.0}),)}

    plugin_metrics = worker_metrics

    def rebalance_counts(self) -> dict[str, int]:
        return {FLOW: 2}

    def connector_overrides(self) -> dict[str, dict[str, OverrideKind]]:
        return {FLOW: {"MirrorCheckpointConnector": OverrideKind.PAUSED}}

    def readiness(self) -> list[FlowReadiness]:
        return [FlowReadiness(flow=FLOW, joined=True, configured=True, is_serving=True)]

    def statuses(self) -> list[FlowStatus]:
        return self.shown


class Watch(RetentionWatch):
    """Knows when the source deletes what is not replicated, and which clusters do not answer."""

    def __init__(self, running: Running, settings: Mm2Settings, clock: Clock) -> None:
        running.settings = settings
        super().__init__(
            running,
            open_source=retention_risk_monitor.open_retention_reader,
            clock=clock,
            unreachable=lambda _: tuple(running.unreachable),
        )

    def list_seconds_to_data_loss(self) -> dict[tuple[str, ...], float]:
        return {(FLOW, "orders"): 9.0}


class Observed:
    def __init__(self, folder: pathlib.Path, more: str = "") -> None:
        settings = config_loader.parse_clusters_yaml(
            FILE + more, file="c", folder=folder, environment={}
        )
        self.running = Running([statuses.flow(statuses.partition())])
        self.clock = plugin_contexts.Clock()
        self.made = NodeTelemetry(
            cast(Mm2Node, self.running),
            settings,
            clock=self.clock,
            watch=Watch(self.running, settings, self.clock),
        )

    def look(self) -> None:
        shown = self.running.shown
        seen = topic_rows.make_overview(
            shown, CopyRates(), wall_ms=self.clock.wall_ms(), engine_ready=True
        )
        self.made.metrics.update_metrics(shown, seen, engine_ready=True)

    def later(self, seconds: int) -> None:
        self.clock.now += seconds
        self.clock.wall += seconds * 1_000

    def series(self) -> dict[str, dict[tuple[str, ...], float]]:
        return {each.metric.name: dict(each.series) for each in self.made.source.all_families}

    def asks(self, path: str) -> tuple[int, Any]:
        page = self.made.pages[path](PageRequest(path=path, query={}))
        return page.status, page.body


@pytest.fixture
def observed(tmp_path):
    return Observed(tmp_path)


@pytest.fixture
def pulse():
    place = status_registry.REGISTRY.create_latency_publisher(FLOW, 0)
    yield place
    place.remove()


def test_a_look_becomes_what_is_scraped_with_what_is_beside_it(observed, pulse, tmp_path):
    for flow in (FLOW, "gone->away"):
        drill_report.record_drill_result(
            tmp_path / "drills.json", flow, {}, passed=True, at_ms=5_000
        )
    pulse.publish(LatencySnapshot(replicated_at_s=observed.clock.now_s() - 4.0))
    observed.look()
    series = observed.series()
    assert series[OWN.name] == {(FLOW,): 7.0}, "a worker's own"
    assert series["mm2_flow_last_replication_age_seconds"] == {(FLOW,): 4.0}
    assert series["mm2_rebalances_total"] == {(FLOW,): 2}
    assert series["mm2_spark_slots"] == {("used",): 1, ("free",): 3}
    held = {(FLOW, "MirrorCheckpointConnector", "paused"): 1}
    assert series["mm2_connector_override"] == held
    assert series["mm2_drill_report_configured"] == {(FLOW,): 1}
    assert series["mm2_last_drill_timestamp_seconds"] == {(FLOW,): 5.0}
    assert series["mm2_time_to_data_loss_seconds"] == {(FLOW, "orders"): 9.0}


@pytest.mark.parametrize(("more", "by_partition"), [("", 0), ("metrics: {by: partition}\n", 2)])
def test_series_of_partitions_are_there_where_they_are_wanted(tmp_path, more, by_partition):
    observed = Observed(tmp_path, more)
    observed.look()
    names = {each.name for each in metric_declarations.PARTITION_METRICS}
    assert len(names & observed.series().keys()) == by_partition


def test_javas_names_and_health_are_served(observed, pulse):
    observed.look()
    status, body = observed.asks(metrics_and_health.JAVA_METRICS_PATH)
    assert status == 200
    assert OWN.name.encode() in body
    assert b"mm2_" not in body
    for path, well in ((health_endpoints.LIVE_PATH, 200), (health_endpoints.READY_PATH, 200)):
        assert observed.asks(path)[0] == well
    assert observed.asks(health_endpoints.REPLICATING_PATH)[0] == 503, "nothing was replicated yet"
    observed.clock.now += process_health.MAIN_LOOP_TIMEOUT_S + 1
    assert observed.asks(health_endpoints.LIVE_PATH)[0] == 503
    observed.made.heartbeat.record_iteration()
    assert observed.asks(health_endpoints.LIVE_PATH)[0] == 200


def test_metrics_and_health_agree_on_when_something_was_replicated_last(observed, pulse):
    """Also of a copy that is gone since."""
    pulse.publish(LatencySnapshot(caught_up_at_s=observed.clock.now_s()))
    observed.look()
    assert observed.asks(health_endpoints.REPLICATING_PATH)[0] == 200
    pulse.remove()
    observed.later(40)
    observed.look()
    assert observed.asks(health_endpoints.REPLICATING_PATH)[0] == 200
    assert observed.series()["mm2_flow_healthy"] == {(FLOW,): 1}
    observed.later(40)
    observed.look()
    status, body = observed.asks(health_endpoints.REPLICATING_PATH)
    (finding,) = json.loads(body)["findings"]
    assert (status, finding["reason"]) == (
        503,
        "no record replicated for 80 s (health.replicating.within.seconds: 60)",
    )
    assert observed.series()["mm2_flow_healthy"] == {(FLOW,): 0}
    assert observed.series()["mm2_flow_last_replication_age_seconds"] == {(FLOW,): 80.0}


def test_metrics_health_and_table_name_the_same_unreachable_cluster(observed, pulse):
    pulse.publish(LatencySnapshot(replicated_at_s=observed.clock.now_s()))
    lost = UnreachableCluster(side=ClusterSide.SOURCE, cluster="east", reason="refused", since_ms=0)
    observed.running.unreachable = [lost]
    observed.look()
    series = observed.series()
    assert series["mm2_flow_healthy"] == {(FLOW,): 0}
    assert series["mm2_flow_cluster_reachable"] == {(FLOW, "source"): 0, (FLOW, "target"): 1}
    status, body = observed.asks(health_endpoints.REPLICATING_PATH)
    (finding,) = json.loads(body)["findings"]
    assert (status, finding["reason"]) == (503, lost.format_description())
    assert observed.made.describe_unreachable_clusters() == {FLOW: lost.format_description()}


def test_a_single_broker_is_no_unreachable_cluster(observed, pulse):
    pulse.publish(LatencySnapshot(replicated_at_s=observed.clock.now_s()))
    observed.running.unreachable = [
        UnreachableCluster(
            side=ClusterSide.SOURCE, cluster="east", reason="refused", broker="2 (b:9092)"
        )
    ]
    observed.look()
    assert observed.series()["mm2_flow_healthy"] == {(FLOW,): 1}
    assert observed.made.describe_unreachable_clusters() == {}
