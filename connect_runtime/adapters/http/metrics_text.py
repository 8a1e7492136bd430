"""Prometheus' text format 0.0.4, byte for byte as the Prometheus library writes it.

The library checks and escapes every sample's every name by itself, which for a thousand tasks
takes longer than all else together. Names of ours are checked when they are declared, and a
label's values are the same in many families: so both are done once.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from prometheus_client import utils

from connect_runtime.base import metrics

_Named = tuple[tuple[str, ...], str]


def render(families: Iterable[metrics.Family]) -> bytes:
    """Series in order of their labels' values."""
    lines: list[str] = []
    written = _Written()
    for family in families:
        metric = family.metric
        explained = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {metric.name} {explained}\n")
        lines.append(f"# TYPE {metric.name} {metric.kind.value}\n")
        lines.append(written.text(metric, family.series))
        for values, found in sorted(family.distributions.items()):
            lines += _histogram(metric, values, found)
    return "".join(lines).encode()


class _Written:
    """The lines of series. What is told under several names is written once."""

    def __init__(self) -> None:
        self._orders = _Orders()
        self._numbers = _Numbers()
        self._known: dict[int, tuple[metrics.Metric, metrics.Series, str]] = {}

    def text(self, metric: metrics.Metric, series: metrics.Series) -> str:
        known = self._known.get(id(series))
        if known is not None and known[0].labels == metric.labels and metric.labels:
            before, _, text = known
            # No label's value has a line's end: it would be escaped.
            return ("\n" + text).replace(f"\n{before.name}{{", f"\n{metric.name}{{")[1:]
        name, numbers = metric.name, self._numbers
        found = "".join(
            [
                f"{name}{text} {numbers[series[values]]}\n"
                for values, text in self._orders.of(metric.labels, series)
            ]
        )
        self._known[id(series)] = (metric, series, found)
        return found


class _Numbers(dict[float, str]):
    """Numbers as they are written, each made once."""

    def __missing__(self, value: float) -> str:
        text = self[value] = _number(value)
        return text


class _Orders:
    """In which order series are written, and what their labels are: of a thousand partitions there
    is a dozen of families that have the same, and follow each other."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[metrics.Series, list[_Named]]] = {}
        self._texts: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}

    def of(self, labels: tuple[str, ...], series: metrics.Series) -> list[_Named]:
        """Values of the labels, and the text of both."""
        known = self._known.get(labels)
        if known is not None and known[0].keys() == series.keys():
            return known[1]
        found = [(values, self._text(labels, values)) for values in sorted(series)]
        self._known[labels] = (series, found)
        return found

    def _text(self, labels: tuple[str, ...], values: tuple[str, ...]) -> str:
        key = (labels, values)
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _labels(*key)
        return text


def _histogram(
    metric: metrics.Metric, values: tuple[str, ...], found: metrics.Distribution
) -> Iterator[str]:
    """Buckets that hold all below them, too; how many values there were, and their sum."""
    bounds = [*map(_number, metric.bounds), "+Inf"]
    below = list(itertools.accumulate(found.counts))
    for bound, count in zip(bounds, below, strict=True):
        labels = _labels((*metric.labels, "le"), (*values, bound))
        yield f"{metric.name}_bucket{labels} {_number(count)}\n"
    labels = _labels(metric.labels, values)
    yield f"{metric.name}_count{labels} {_number(below[-1])}\n"
    yield f"{metric.name}_sum{labels} {_number(found.sum)}\n"


def _number(value: float) -> str:
    return str(utils.floatToGoString(value))  # type: ignore[no-untyped-call]  # theirs


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    pairs = sorted(zip(names, values, strict=True))
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in pairs) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
