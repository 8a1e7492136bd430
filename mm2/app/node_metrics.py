"""Everything measured in this process, as two sets that are scraped apart.

`/metrics`: what mm2 measures of its flows, and what each flow's Connect worker measures of itself.
`/metrics/java`: what MirrorMaker 2's dashboards and alerts ask for, by its names. That is figures
of single partitions, ten for each and more, which a scrape of the other has nothing to do with.

What MM2's connectors measure has the flow in its own labels, Java's. What a worker measures of
itself is told apart by a label of ours, since a process has a worker for each flow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping

from connect_runtime.base import metrics
from mm2.app import java_aliases
from mm2.connectors import flow_status

FLOW = "flow"
OF_OURS = "mm2_"
OF_PLUGINS = (OF_OURS, "kafka_connect_mirror_", "kafka_connect_plugins_")
"""How the names of metrics begin that say themselves which flow they are of."""
Families = Iterable[metrics.Family]
ByFlow = Callable[[], Mapping[str, Families]]


class NodeMetrics:
    """A source for the exporter; asked for every scrape. `own` come first, then those of the flows'
    workers, as they are of themselves; `more` are made when asked."""

    def __init__(
        self,
        own: metrics.Registry,
        by_flow: ByFlow,
        *,
        more: Callable[[], tuple[metrics.Family, ...]] = tuple,
    ) -> None:
        self._own = own
        self._by_flow = by_flow
        self._more = more

    @property
    def published(self) -> tuple[metrics.Family, ...]:
        return together((*self._own.published, *self._more()), self._by_flow())


class JavaMetrics:
    """A source for `/metrics/java`: what workers and MM2's connectors measure, by Java's names, and
    these again as other exporters spell them. `statuses` are of the last look."""

    def __init__(
        self, by_flow: ByFlow, statuses: Callable[[], Iterable[flow_status.FlowStatus]]
    ) -> None:
        self._by_flow = by_flow
        self._statuses = statuses

    @property
    def published(self) -> tuple[metrics.Family, ...]:
        found = together((), self._by_flow())
        javas = [each for each in found if not each.metric.name.startswith(OF_OURS)]
        return (*javas, *java_aliases.of(javas), *java_aliases.lags(self._statuses()))


def together(own: Families, by_flow: Mapping[str, Families]) -> tuple[metrics.Family, ...]:
    """Each name once; of equal series, and of names declared in two ways, the first counts."""
    found = {each.metric.name: each for each in own}
    for flow, families in by_flow.items():
        for each in families:
            told = each if each.metric.name.startswith(OF_PLUGINS) else _labelled(each, flow)
            before = found.setdefault(told.metric.name, told)
            if before is not told and before.metric == told.metric:
                found[told.metric.name] = metrics.Family(
                    metric=told.metric,
                    series={**told.series, **before.series},
                    distributions={**told.distributions, **before.distributions},
                )
    return tuple(found.values())


def _labelled(family: metrics.Family, flow: str) -> metrics.Family:
    metric = dataclasses.replace(family.metric, labels=(*family.metric.labels, FLOW))
    series = {(*labels, flow): value for labels, value in family.series.items()}
    counted = {(*labels, flow): value for labels, value in family.distributions.items()}
    return metrics.Family(metric=metric, series=series, distributions=counted)
