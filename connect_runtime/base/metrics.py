"""Metrics: each declared once, with its name, unit, help and labels; their values in memory.

One thread writes into a registry and publishes; whoever serves the values reads `published`, a
snapshot that is replaced whole and never changed. Names are Prometheus' (base units, counters end
in `_total`).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_UNITS = ("", "bytes", "records", "seconds", "partitions", "tasks", "slots", "restarts")

Series = Mapping[tuple[str, ...], float]
"""Values by label values, in the order of the metric's labels."""


class Kind(enum.Enum):
    """A COUNTER only rises; a GAUGE is whatever is the case now."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A declaration. `unit` is a base unit and part of the name, "" for what has none."""

    name: str
    kind: Kind
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        assert _NAME.fullmatch(self.name), self.name
        assert all(_NAME.fullmatch(label) for label in self.labels), self.labels
        assert len(set(self.labels)) == len(self.labels), self.labels
        assert self.unit in _UNITS, self.unit
        assert self.help, self.name
        assert (self.kind is Kind.COUNTER) == self.name.endswith("_total"), self.name
        assert not self.unit or self._base_name.endswith(self.unit), self.name

    @property
    def _base_name(self) -> str:
        return self.name.removesuffix("_total")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric with all its values, as published."""

    metric: Metric
    series: Series


@dataclass(slots=True)
class Registry:
    """The values of declared metrics; one thread writes.

    Invariants: a metric's name is declared once; no value of a counter ever falls.
    """

    published: tuple[Family, ...] = ()
    _values: dict[str, dict[tuple[str, ...], float]] = field(default_factory=dict)
    _metrics: dict[str, Metric] = field(default_factory=dict)

    def declare(self, metric: Metric) -> Metric:
        assert metric.name not in self._metrics, f"{metric.name} is declared twice"
        self._metrics[metric.name] = metric
        self._values[metric.name] = {}
        return metric

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """All declarations, in order of declaration."""
        return tuple(self._metrics.values())

    def add(self, metric: Metric, amount: float, *, labels: tuple[str, ...] = ()) -> None:
        """Raise a counter; 0 makes its series appear."""
        assert metric.kind is Kind.COUNTER, metric.name
        assert amount >= 0, (metric.name, amount)
        assert len(labels) == len(metric.labels), (metric.name, labels)
        series = self._values[metric.name]
        series[labels] = series.get(labels, 0.0) + amount

    def replace(self, metric: Metric, series: Series) -> None:
        """Everything that a gauge says now; series that are not given vanish."""
        assert metric.kind is Kind.GAUGE, metric.name
        assert all(len(labels) == len(metric.labels) for labels in series), metric.name
        self._values[metric.name] = dict(series)

    def publish(self) -> None:
        """From now on readers see what was written until here."""
        self.published = tuple(
            Family(metric=metric, series=dict(self._values[name]))
            for name, metric in self._metrics.items()
        )

    def check_invariants(self) -> None:
        for name, series in self._values.items():
            metric = self._metrics[name]
            for labels, value in series.items():
                assert len(labels) == len(metric.labels), (name, labels)
                assert metric.kind is Kind.GAUGE or value >= 0, (name, labels, value)
