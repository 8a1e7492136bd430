"""Metric declarations (name, unit, help, labels) and a registry of their values.

Only one thread writes to a registry and publishes it. Exporters read `all_families`, an immutable
snapshot that is replaced as a whole. Names follow the Prometheus conventions: they use base units,
and counter names end in `_total`.
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
"""Values of a metric by label values. The label values are in the order of the metric's labels."""


class HistogramValue(NamedTuple):
    """Current bucket counts and sum of one histogram series."""

    counts: tuple[int, ...]
    """Number of observations per bucket (not cumulative). The last bucket has no upper bound."""
    sum: float
    """Sum of all observed values."""


HistogramSeries = Mapping[tuple[str, ...], HistogramValue]


class MetricKind(enum.Enum):
    """Kind of metric.

    A COUNTER only increases. A GAUGE is the current value. A HISTOGRAM counts observations per
    bucket, and its counts only increase.
    """

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """The declaration of a metric."""

    name: str
    kind: MetricKind
    help: str
    unit: str = ""
    """Base unit, which is also part of the metric name; "" for dimensionless metrics."""
    labels: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()
    """Upper bounds (inclusive) of the histogram's buckets, ascending, without infinity."""

    def __post_init__(self) -> None:
        assert _NAME_PATTERN.fullmatch(self.name), self.name
        assert all(_NAME_PATTERN.fullmatch(label) for label in self.labels), self.labels
        assert len(set(self.labels)) == len(self.labels), self.labels
        assert self.unit in _UNITS, f"{self.name}: unit '{self.unit}' is not one of _UNITS"
        assert self.help, self.name
        assert (self.kind is MetricKind.COUNTER) == self.name.endswith("_total"), self.name
        assert not self.unit or self._name_without_total_suffix.endswith(self.unit), self.name
        assert (self.kind is MetricKind.HISTOGRAM) == bool(self.bounds), self.name
        assert all(one < other for one, other in itertools.pairwise(self.bounds)), self.bounds
        assert all(map(math.isfinite, self.bounds)), self.bounds

    @property
    def _name_without_total_suffix(self) -> str:
        return self.name.removesuffix("_total")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """A metric with all its published values. Histogram values are in `distributions`."""

    metric: Metric
    series: Series
    distributions: HistogramSeries = field(default_factory=dict)


@dataclass(slots=True)
class MetricRegistry:
    """The current values of declared metrics. Only one thread may write.

    Invariants: a metric name is declared only once; the value of a counter never decreases.
    """

    all_families: tuple[MetricFamily, ...] = ()
    _values: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    _distributions: dict[str, dict[tuple[str, ...], HistogramValue]] = field(default_factory=dict)
    _metrics: dict[str, Metric] = field(default_factory=dict)
    _changed: set[str] = field(default_factory=set)

    def declare_metric(self, metric: Metric) -> Metric:
        """Declare a metric. Its name must not have been declared before."""
        assert metric.name not in self._metrics, f"{metric.name} is declared twice"
        self._metrics[metric.name] = metric
        self._values[metric.name] = {}
        self._distributions[metric.name] = {}
        self._changed.add(metric.name)
        return metric

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All declared metrics, in order of declaration."""
        return tuple(self._metrics.values())

    def increase_counter(
        self, metric: Metric, amount: float, *, labels: tuple[str, ...] = ()
    ) -> None:
        """Increase a counter. Increasing it by 0 only creates the series."""
        assert metric.kind is MetricKind.COUNTER, metric.name
        assert amount >= 0, (metric.name, amount)
        assert len(labels) == len(metric.labels), (metric.name, labels)
        series = self._values[metric.name]
        if amount or labels not in series:
            series[labels] = series.get(labels, 0.0) + amount
            self._changed.add(metric.name)

    def add_observations(
        self, metric: Metric, added: HistogramValue, *, labels: tuple[str, ...] = ()
    ) -> None:
        """Add observations to a histogram series. If `added` contains no observations, create the
        series if it does not exist yet."""
        assert metric.kind is MetricKind.HISTOGRAM, metric.name
        assert len(added.counts) == len(metric.bounds) + 1, (metric.name, added)
        assert min(added.counts) >= 0, (metric.name, added)
        assert len(labels) == len(metric.labels), (metric.name, labels)
        series = self._distributions[metric.name]
        before = series.get(labels)
        if before is not None:
            counts = (one + other for one, other in zip(before.counts, added.counts, strict=True))
            added = HistogramValue(tuple(counts), before.sum + added.sum)
        series[labels] = added
        self._changed.add(metric.name)

    def set_gauge_series(self, metric: Metric, series: Series) -> None:
        """Replace all series of a gauge. Existing series that are not in `series` are removed."""
        assert metric.kind is MetricKind.GAUGE, metric.name
        assert all(len(labels) == len(metric.labels) for labels in series), metric.name
        if self._values[metric.name] != series:
            self._values[metric.name] = dict(series)
            self._changed.add(metric.name)

    def remove_series(self, metric: Metric, labels: tuple[str, ...]) -> None:
        """Remove all series of a counter or histogram whose labels start with `labels`.

        If a series is counted again, it restarts at 0, which Prometheus handles as a counter reset.
        """
        assert metric.kind is not MetricKind.GAUGE, metric.name
        for values in (self._values[metric.name], self._distributions[metric.name]):
            for series_labels in [key for key in values if key[: len(labels)] == labels]:
                del values[series_labels]
                self._changed.add(metric.name)

    def publish_metric_families(self) -> None:
        """Replace `all_families` with a snapshot of the current values."""
        before = {each.metric.name: each for each in self.all_families}
        self.all_families = tuple(
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
        for name, values in self._distributions.items():
            assert not values or self._metrics[name].kind is MetricKind.HISTOGRAM, name
            assert all(min(each.counts) >= 0 for each in values.values()), (name, values)
