"""Renders metrics in the Prometheus text format 0.0.4. The output is byte-for-byte identical to
that of the library prometheus_client.

prometheus_client validates and escapes the names of every sample, which takes most of the time of a
scrape with a thousand tasks. This module validates metric names when they are declared, and escapes
label values once for all families that share them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from prometheus_client import utils

from connect_runtime.base.metrics import HistogramValue, Metric, MetricFamily, Series

_LabelledSeries = tuple[tuple[str, ...], str]


def render_metric_families(families: Iterable[MetricFamily]) -> bytes:
    """Render metric families in the Prometheus text format. The series of a family are sorted by
    label values."""
    lines: list[str] = []
    written = _RenderedSeries()
    for family in families:
        metric = family.metric
        explained = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {metric.name} {explained}\n")
        lines.append(f"# TYPE {metric.name} {metric.kind.value}\n")
        lines.append(written.render_series(metric, family.series))
        for values, found in sorted(family.distributions.items()):
            lines += _render_histogram(metric, values, found)
    return "".join(lines).encode()


class _RenderedSeries:
    """Caches the rendered lines of series, because several families may share the same series."""

    def __init__(self) -> None:
        self._orders = _SortedSeriesCache()
        self._numbers = _FormattedNumberCache()
        self._known: dict[int, tuple[Metric, Series, str]] = {}

    def render_series(self, metric: Metric, series: Series) -> str:
        known = self._known.get(id(series))
        if known is not None and known[0].labels == metric.labels and metric.labels:
            before, _, text = known
            # Newlines in label values are escaped, so splitting at newlines is safe.
            return ("\n" + text).replace(f"\n{before.name}{{", f"\n{metric.name}{{")[1:]
        name, numbers = metric.name, self._numbers
        found = "".join(
            [
                f"{name}{text} {numbers[series[values]]}\n"
                for values, text in self._orders.get_sorted_series(metric.labels, series)
            ]
        )
        self._known[id(series)] = (metric, series, found)
        return found


class _FormattedNumberCache(dict[float, str]):
    """Caches numbers in the Prometheus text format."""

    def __missing__(self, value: float) -> str:
        text = self[value] = _format_number(value)
        return text


class _SortedSeriesCache:
    """Caches the sort order and the formatted labels of series, because several successive families
    usually have the same label values, such as those of all partitions."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[Series, list[_LabelledSeries]]] = {}
        self._texts: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}

    def get_sorted_series(self, labels: tuple[str, ...], series: Series) -> list[_LabelledSeries]:
        """Return the label values and the formatted labels of each series, sorted by label
        values."""
        known = self._known.get(labels)
        if known is not None and known[0].keys() == series.keys():
            return known[1]
        found = [(values, self._get_label_text(labels, values)) for values in sorted(series)]
        self._known[labels] = (series, found)
        return found

    def _get_label_text(self, labels: tuple[str, ...], values: tuple[str, ...]) -> str:
        key = (labels, values)
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _format_labels(*key)
        return text


def _render_histogram(
    metric: Metric, values: tuple[str, ...], found: HistogramValue
) -> Iterator[str]:
    """Yield the lines of a histogram: cumulative buckets, count and sum."""
    bounds = [*map(_format_number, metric.bounds), "+Inf"]
    below = list(itertools.accumulate(found.counts))
    for bound, count in zip(bounds, below, strict=True):
        labels = _format_labels((*metric.labels, "le"), (*values, bound))
        yield f"{metric.name}_bucket{labels} {_format_number(count)}\n"
    labels = _format_labels(metric.labels, values)
    yield f"{metric.name}_count{labels} {_format_number(below[-1])}\n"
    yield f"{metric.name}_sum{labels} {_format_number(found.sum)}\n"


def _format_number(value: float) -> str:
    return str(utils.floatToGoString(value))  # type: ignore[no-untyped-call]  # third-party


def _format_labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    if not names:
        return ""
    pairs = sorted(zip(names, values, strict=True))
    return "{" + ",".join(f'{name}="{_escape_label_value(value)}"' for name, value in pairs) + "}"


def _escape_label_value(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
