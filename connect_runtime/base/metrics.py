"""Metric declarations (name, unit, help, labels) and a registry of their values.

One thread writes into a registry and publishes. Exporters read `published`, an immutable
snapshot that is replaced as a whole. Names follow Prometheus: base units, counters end in
`_total`.
"""

from __future__ import annotations

import enum
import itertools
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

_NAME_PATTERN = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_UNITS = (
    "",
    "bytes",
    "records",
    "seconds",
    "partitions",
    "tasks",
    "slots",
    "restarts",
    "batches",
)

Series = Mapping[tuple[str, ...], float]
"""Values by label values, in the order of the metric's labels."""


class HistogramValue(NamedTuple):
    """What a histogram has of one series: `counts` of each bucket alone, the last those above all
    bounds, and the `sum` of all values."""

    counts: tuple[int, ...]
    sum: float


HistogramSeries = Mapping[tuple[str, ...], HistogramValue]


class MetricKind(enum.Enum):
    """A COUNTER only rises; a GAUGE is whatever is the case now; a HISTOGRAM counts values by how
    large they are, and its counts only rise."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A declaration. `unit` is a base unit and part of the name, "" for what has none. `bounds` are
    what values of a histogram's buckets are at most; above the last all others are."""

    name: str
    kind: MetricKind
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        assert _NAME_PATTERN.fullmatch(self.name), self.name
        assert all(_NAME_PATTERN.fullmatch(label) for label in self.labels), self.labels
        assert len(set(self.labels)) == len(self.labels), self.labels
        assert self.unit in _UNITS, self.unit
        assert self.help, self.name
        assert (self.kind is MetricKind.COUNTER) == self.name.endswith("_total"), self.name
        assert not self.unit or self._base_name.endswith(self.unit), self.name
        assert (self.kind is MetricKind.HISTOGRAM) == bool(self.bounds), self.name
        assert all(one < other for one, other in itertools.pairwise(self.bounds)), self.bounds
        assert all(map(math.isfinite, self.bounds)), self.bounds

    @property
    def _base_name(self) -> str:
        return self.name.removesuffix("_total")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """One metric with all its values, as published; a histogram's are `distributions`."""

    metric: Metric
    series: Series
    distributions: HistogramSeries = field(default_factory=dict)


@dataclass(slots=True)
class MetricRegistry:
    """The values of declared metrics; one thread writes.

    Invariants: a metric's name is declared once; no value of a counter ever falls.
    """

    published: tuple[MetricFamily, ...] = ()
    _values: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    _distributions: dict[str, dict[tuple[str, ...], HistogramValue]] = field(default_factory=dict)
    _metrics: dict[str, Metric] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)

    def declare(self, metric: Metric) -> Metric:
        assert metric.name not in self._metrics, f"{metric.name} is declared twice"
        self._metrics[metric.name] = metric
        self._values[metric.name] = {}
        self._distributions[metric.name] = {}
        self._changed.add(metric.name)
        return metric

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All declarations, in order of declaration."""
        return tuple(self._metrics.values())

    def add(self, metric: Metric, amount: float, *, labels: tuple[str, ...] = ()) -> None:
        """Raise a counter; 0 makes its series appear."""
        assert metric.kind is MetricKind.COUNTER, metric.name
        assert amount >= 0, (metric.name, amount)
        assert len(labels) == len(metric.labels), (metric.name, labels)
        series = self._values[metric.name]
        if amount or labels not in series:
            series[labels] = series.get(labels, 0.0) + amount
            self._changed.add(metric.name)

    def observe(
        self, metric: Metric, found: HistogramValue, *, labels: tuple[str, ...] = ()
    ) -> None:
        """Count so many more values of a histogram; none make its series appear."""
        assert metric.kind is MetricKind.HISTOGRAM, metric.name
        assert len(found.counts) == len(metric.bounds) + 1, (metric.name, found)
        assert min(found.counts) >= 0, (metric.name, found)
        assert len(labels) == len(metric.labels), (metric.name, labels)
        series = self._distributions[metric.name]
        before = series.get(labels)
        if before is not None:
            counts = (one + other for one, other in zip(before.counts, found.counts, strict=True))
            found = HistogramValue(tuple(counts), before.sum + found.sum)
        series[labels] = found
        self._changed.add(metric.name)

    def replace(self, metric: Metric, series: Series) -> None:
        """Everything that a gauge says now; series that are not given vanish."""
        assert metric.kind is MetricKind.GAUGE, metric.name
        assert all(len(labels) == len(metric.labels) for labels in series), metric.name
        if self._values[metric.name] != series:
            self._values[metric.name] = dict(series)
            self._changed.add(metric.name)

    def forget(self, metric: Metric, labels: tuple[str, ...]) -> None:
        """All series of a counter or histogram whose labels begin so: what was counted is no more.
        Counted again, they begin at nothing, which Prometheus takes for a restart."""
        assert metric.kind is not MetricKind.GAUGE, metric.name
        for found in (self._values[metric.name], self._distributions[metric.name]):
            for each in [each for each in found if each[: len(labels)] == labels]:
                del found[each]
                self._changed.add(metric.name)

    def publish(self) -> None:
        """From now on readers see what was written until here."""
        before = {each.metric.name: each for each in self.published}
        self.published = tuple(
            MetricFamily(
                metric=metric,
                series=dict(self._values[name]),
                distributions=dict(self._distributions[name]),
            )
            if name in self._changed
            else before[name]
            for name, metric in self._metrics.items()
        )
        self._changed.clear()

    def check_invariants(self) -> None:
        for name, series in self._values.items():
            metric = self._metrics[name]
            for labels, value in series.items():
                assert len(labels) == len(metric.labels), (name, labels)
                assert metric.kind is MetricKind.GAUGE or value >= 0, (name, labels, value)
        for name, found in self._distributions.items():
            assert not found or self._metrics[name].kind is MetricKind.HISTOGRAM, name
            assert all(min(each.counts) >= 0 for each in found.values()), (name, found)
