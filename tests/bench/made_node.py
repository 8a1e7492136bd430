"""A node of so many partitions that is made up.

Its flow's snapshots and its connector's figures are those of a flow of which a tenth moves, and are
served by the real exporter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from connect_runtime.adapters.http import metrics_exporter
from connect_runtime.base import ids
from connect_runtime.base import metrics as base_metrics
from connect_runtime.system import clock
from mm2.app import metrics, node_metrics, overview, rates
from mm2.connectors import flow_status, task_metrics
from mm2.core import mirror_metrics
from mm2.core.copy import ages, messages, setup
from tests.fakes import taking
from tests.support import statuses

FLOW = "east->west"
TOPICS = 100
_CLOCK = clock.SystemClock()


class Node:
    """What is served of a flow of so many partitions, without the flow."""

    def __init__(self, partitions: int) -> None:
        self.places = [
            ids.TopicPartition(f"topic-{number % TOPICS}", number // TOPICS)
            for number in range(partitions)
        ]
        self.metrics = metrics.FlowMetrics(wall_ms=_CLOCK.wall_ms, now_s=_CLOCK.now_s)
        self.status = self._status(0)
        self._figures = self._java_figures()
        self.look()

    def _status(self, moved: int) -> flow_status.FlowStatus:
        now_ms = _CLOCK.wall_ms()
        found = [
            statuses.partition(
                place.topic,
                place.partition,
                records=moved if at % 10 == 0 else 5,
                bytes=100,
                copied_to=5,
                source_end=7 if at % 10 == 0 else 5,
                oldest_ms=now_ms - 20 if at % 10 == 0 else -1,
                unrecorded_s=math.inf,
            )
            for at, place in enumerate(self.places)
        ]
        return statuses.flow(*found)

    def _java_figures(self) -> task_metrics.SourceMetrics:
        owner = mirror_metrics.Owner(
            task=ids.ConnectorTaskId("MirrorSourceConnector", 0),
            source="east",
            target="west",
            formats=(mirror_metrics.LEGACY,),
        )
        wheres = [
            taking.where(
                topic=each.topic, remote_topic=f"east.{each.topic}", partition=each.partition
            )
            for each in self.places
        ]
        found = task_metrics.SourceMetrics(owner, wheres, clock=_CLOCK)
        for at, where in enumerate(wheres):
            found.observe(where, _gauge(at, where))
        return found

    def look(self) -> None:
        """As the main loop does."""
        seen = overview.make(
            [self.status], rates.Rates(), wall_ms=_CLOCK.wall_ms(), engine_ready=True
        )
        self.metrics.observe([self.status], seen, engine_ready=True)

    def exporter(self) -> metrics_exporter.MetricsExporter:
        """By topic, as by default."""
        source = node_metrics.NodeMetrics(self.metrics.registry, dict)
        return metrics_exporter.MetricsExporter(source, host="127.0.0.1", port=0)

    def families(self) -> Mapping[str, list[base_metrics.Family]]:
        return {FLOW: self._figures.families()}


def _gauge(index: int, where: setup.PartitionSetup) -> messages.Gauge:
    some = ages.Ages(5, 100, 10, 30)
    return messages.Gauge(
        index=index,
        phase="copying",
        records=5,
        bytes=100,
        copied_to=5,
        source_end=5 + where.partition % 2,
        log_start=0,
        age_ms=10,
        oldest_ms=-1,
        transactional=False,
        reason="",
        cause="",
        arrived=some,
        stored=some,
    )
