"""Exposes all metrics of this process as two sets that are scraped separately.

- `/metrics`: mm2's flow metrics, and the metrics of each flow's Connect worker.
- `/metrics/java`: the metric names used by dashboards and alerts made for MirrorMaker 2. These
  metrics have ten or more series per partition, which would make `/metrics` too large.

Metrics of MM2's connectors have the same labels as in Java, and these labels identify the flow.
Metrics of Connect workers have an additional `flow` label, because a process has one worker per
flow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from connect_runtime.base.metrics import MetricFamily, MetricRegistry
from mm2.connectors.status_registry import FlowStatus
from mm2.metrics import jmx_aliases

FLOW_LABEL = "flow"
MM2_PREFIX = "mm2_"
FLOW_AWARE_PREFIXES = (MM2_PREFIX, "kafka_connect_mirror_", "kafka_connect_plugins_")
"""Name prefixes of the metrics that already have a flow label."""
MetricFamilies = Iterable[MetricFamily]
FamiliesByFlow = Callable[[], Mapping[str, MetricFamilies]]


class NodeMetrics:
    """Metrics of the `/metrics` endpoint: mm2's metrics, followed by those of each flow's Connect
    worker.

    `extra` is called for every scrape and returns additional mm2 metrics.
    """

    def __init__(
        self,
        own: MetricRegistry,
        by_flow: FamiliesByFlow,
        *,
        extra: Callable[[], tuple[MetricFamily, ...]] = tuple,
    ) -> None:
        self._own = own
        self._by_flow = by_flow
        self._more = extra

    @property
    def all_families(self) -> tuple[MetricFamily, ...]:
        return merge_metric_families((*self._own.all_families, *self._more()), self._by_flow())


class JmxMetrics:
    """Metrics of the `/metrics/java` endpoint: the metrics of workers and of MM2's connectors.

    Each metric has its Java name and the names that other exporters give it (`jmx_aliases`).
    `statuses` returns the flow statuses of the last snapshot.
    """

    def __init__(
        self, by_flow: FamiliesByFlow, statuses: Callable[[], Iterable[FlowStatus]]
    ) -> None:
        self._by_flow = by_flow
        self._statuses = statuses

    @property
    def all_families(self) -> tuple[MetricFamily, ...]:
        found = merge_metric_families((), self._by_flow())
        javas = [each for each in found if not each.metric.name.startswith(MM2_PREFIX)]
        return (
            *javas,
            *jmx_aliases.make_alias_families(javas),
            *jmx_aliases.make_consumer_lag_families(self._statuses()),
        )


def merge_metric_families(
    own: MetricFamilies, by_flow: Mapping[str, MetricFamilies]
) -> tuple[MetricFamily, ...]:
    """Merge metric families of the same name. If a series or a declaration occurs more than once,
    the first is kept. A flow label is added to families without one."""
    merged = {family.metric.name: family for family in own}
    for flow, families in by_flow.items():
        for family in families:
            labeled = (
                family
                if family.metric.name.startswith(FLOW_AWARE_PREFIXES)
                else _add_flow_label(family, flow)
            )
            first = merged.setdefault(labeled.metric.name, labeled)
            if first is not labeled and first.metric == labeled.metric:
                merged[labeled.metric.name] = MetricFamily(
                    metric=labeled.metric,
                    series={**labeled.series, **first.series},
                    distributions={**labeled.distributions, **first.distributions},
                )
    return tuple(merged.values())


def _add_flow_label(family: MetricFamily, flow: str) -> MetricFamily:
    metric = dataclasses.replace(family.metric, labels=(*family.metric.labels, FLOW_LABEL))
    series = {(*labels, flow): value for labels, value in family.series.items()}
    counted = {(*labels, flow): value for labels, value in family.distributions.items()}
    return MetricFamily(metric=metric, series=series, distributions=counted)
