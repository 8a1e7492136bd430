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


def render(families: Iterable[metrics.Family]) -> bytes:
    """Series in order of their labels' values."""
    lines: list[str] = []
    labels: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}
    numbers: dict[float, str] = {}
    for family in families:
        metric = family.metric
        explained = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        lines.append(f"# HELP {metric.name} {explained}\n")
        lines.append(f"# TYPE {metric.name} {metric.kind.value}\n")
        for values, value in sorted(family.series.items()):
            key = (metric.labels, values)
            text = labels.get(key)
            if text is None:
                text = labels[key] = _labels(*key)
            number = numbers.get(value)
            if number is None:
                number = numbers[value] = _number(value)
            lines.append(f"{metric.name}{text} {number}\n")
        for values, found in sorted(family.distributions.items()):
            lines += _histogram(metric, values, found)
    return "".join(lines).encode()


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
