"""A node of so many partitions that is made up.

Its flow's snapshots and its connector's figures are those of a flow of which a tenth moves, and are
served by the real exporter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.metrics_server.exporter import MetricsExporter
from connect_runtime.system.system_clock import SystemClock
from mm2.connectors import connector_metrics
from mm2.connectors.connector_metrics import MetricsOwner, SourceMetrics
from mm2.connectors.status_registry import FlowStatus
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.metrics.collector import FlowMetricsCollector
from mm2.metrics.metrics_exposition import NodeMetrics
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.replication_latency import RecordAges
from mm2.status import topic_rows
from mm2.status.topic_rows import CopyRates
from tests.fakes import taking
from tests.support import statuses

FLOW = "east->west"
TOPICS = 100
_CLOCK = SystemClock()


class Node:
    """What is served of a flow of so many partitions, without the flow."""

    def __init__(self, partitions: int) -> None:
        self.places = [
            TopicPartition(f"topic-{number % TOPICS}", number // TOPICS)
            for number in range(partitions)
        ]
        self.metrics = FlowMetricsCollector(wall_ms=_CLOCK.wall_ms, now_s=_CLOCK.now_s)
        self.status = self._status(0)
        self._figures = self._java_figures()
        self.look()

    def _status(self, moved: int) -> FlowStatus:
        now_ms = _CLOCK.wall_ms()
        found = [
            statuses.partition(
                place.topic,
                place.partition,
                records=moved if at % 10 == 0 else 5,
                bytes=100,
                copied_to=5,
                source_end=7 if at % 10 == 0 else 5,
                oldest_uncopied_ms=now_ms - 20 if at % 10 == 0 else -1,
                unrecorded_since_s=math.inf,
            )
            for at, place in enumerate(self.places)
        ]
        return statuses.flow(*found)

    def _java_figures(self) -> SourceMetrics:
        owner = MetricsOwner(
            task=ConnectorTaskId("MirrorSourceConnector", 0),
            source="east",
            target="west",
            formats=(connector_metrics.LEGACY_FORMAT,),
        )
        wheres = [
            taking.where(
                topic=each.topic, remote_topic=f"east.{each.topic}", partition=each.partition
            )
            for each in self.places
        ]
        found = SourceMetrics(owner, wheres, clock=_CLOCK)
        for at, where in enumerate(wheres):
            found.record_progress_report(where, _gauge(at, where))
        return found

    def look(self) -> None:
        """As the main loop does."""
        seen = topic_rows.make_overview(
            [self.status], CopyRates(), wall_ms=_CLOCK.wall_ms(), engine_ready=True
        )
        self.metrics.update_metrics([self.status], seen, engine_ready=True)

    def exporter(self) -> MetricsExporter:
        """By topic, as by default."""
        source = NodeMetrics(self.metrics.registry, dict)
        return MetricsExporter(source, host="127.0.0.1", port=0)

    def families(self) -> Mapping[str, list[MetricFamily]]:
        return {FLOW: self._figures.collect()}


def _gauge(index: int, where: PartitionSetup) -> PartitionProgressReport:
    some = RecordAges(5, 100, 10, 30)
    return PartitionProgressReport(
        index=index,
        phase="copying",
        records=5,
        bytes=100,
        copied_to=5,
        source_end=5 + where.partition % 2,
        log_start=0,
        age_ms=10,
        oldest_uncopied_ms=-1,
        transactional=False,
        reason="",
        cause="",
        arrival_ages=some,
        acknowledged_ages=some,
    )
