"""All metrics of this process, as the two sets that are scraped separately.

- `/metrics`: what mm2 measures of its flows, and what each flow's Connect worker measures.
- `/metrics/java`: the names that dashboards and alerts made for MirrorMaker 2 use. These are
  ten and more series per partition, so they stay out of the other scrape.

Metrics of MM2's connectors carry the flow in Java's own labels. Metrics of Connect workers get
a `flow` label, because a process has one worker per flow.
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
"""How the names of metrics begin that say themselves which flow they are of."""
MetricFamilies = Iterable[MetricFamily]
FamiliesByFlow = Callable[[], Mapping[str, MetricFamilies]]


class NodeMetrics:
    """A source for the exporter; asked for every scrape. `own` come first, then those of the flows'
    workers, as they are of themselves; `more` are made when asked."""

    def __init__(
        self,
        own: MetricRegistry,
        by_flow: FamiliesByFlow,
        *,
        more: Callable[[], tuple[MetricFamily, ...]] = tuple,
    ) -> None:
        self._own = own
        self._by_flow = by_flow
        self._more = more

    @property
    def published(self) -> tuple[MetricFamily, ...]:
        return merge_families((*self._own.published, *self._more()), self._by_flow())


class JmxMetrics:
    """A source for `/metrics/java`: what workers and MM2's connectors measure, by Java's names, and
    these again as other exporters spell them. `statuses` are of the last look."""

    def __init__(
        self, by_flow: FamiliesByFlow, statuses: Callable[[], Iterable[FlowStatus]]
    ) -> None:
        self._by_flow = by_flow
        self._statuses = statuses

    @property
    def published(self) -> tuple[MetricFamily, ...]:
        found = merge_families((), self._by_flow())
        javas = [each for each in found if not each.metric.name.startswith(MM2_PREFIX)]
        return (
            *javas,
            *jmx_aliases.make_aliases(javas),
            *jmx_aliases.make_consumer_lags(self._statuses()),
        )


def merge_families(
    own: MetricFamilies, by_flow: Mapping[str, MetricFamilies]
) -> tuple[MetricFamily, ...]:
    """Each name once; of equal series, and of names declared in two ways, the first counts."""
    found = {each.metric.name: each for each in own}
    for flow, families in by_flow.items():
        for each in families:
            told = (
                each
                if each.metric.name.startswith(FLOW_AWARE_PREFIXES)
                else _add_flow_label(each, flow)
            )
            before = found.setdefault(told.metric.name, told)
            if before is not told and before.metric == told.metric:
                found[told.metric.name] = MetricFamily(
                    metric=told.metric,
                    series={**told.series, **before.series},
                    distributions={**told.distributions, **before.distributions},
                )
    return tuple(found.values())


def _add_flow_label(family: MetricFamily, flow: str) -> MetricFamily:
    metric = dataclasses.replace(family.metric, labels=(*family.metric.labels, FLOW_LABEL))
    series = {(*labels, flow): value for labels, value in family.series.items()}
    counted = {(*labels, flow): value for labels, value in family.distributions.items()}
    return MetricFamily(metric=metric, series=series, distributions=counted)
