"""Everything measured in this process: of its flows, of each flow's worker, and of its plugins.

What MM2's connectors measure has the flow in its own labels, Java's. What a worker measures of
itself is told apart by a label of ours, since a process has a worker for each flow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from connect_runtime.base import metrics

FLOW = "flow"
OF_PLUGINS = ("mm2_", "kafka_connect_mirror_")
"""How the names of metrics begin that say themselves which flow they are of."""
Families = Iterable[metrics.Family]


class NodeMetrics:
    """A source for the exporter: `own` first, then `by_flow`'s; both are asked for every scrape."""

    def __init__(
        self, own: metrics.Registry, by_flow: Callable[[], Mapping[str, Families]]
    ) -> None:
        self._own = own
        self._by_flow = by_flow

    @property
    def published(self) -> tuple[metrics.Family, ...]:
        return together(self._own.published, self._by_flow())


def together(own: Families, by_flow: Mapping[str, Families]) -> tuple[metrics.Family, ...]:
    """Each name once; of equal series, and of names declared in two ways, the first counts."""
    found = {each.metric.name: each for each in own}
    for flow, families in by_flow.items():
        for each in families:
            told = each if each.metric.name.startswith(OF_PLUGINS) else _labelled(each, flow)
            before = found.setdefault(told.metric.name, told)
            if before.metric == told.metric:
                found[told.metric.name] = metrics.Family(
                    metric=told.metric, series={**told.series, **before.series}
                )
    return tuple(found.values())


def _labelled(family: metrics.Family, flow: str) -> metrics.Family:
    metric = dataclasses.replace(family.metric, labels=(*family.metric.labels, FLOW))
    series = {(*labels, flow): value for labels, value in family.series.items()}
    return metrics.Family(metric=metric, series=series)
