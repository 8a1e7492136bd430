"""Java's metric groups as Prometheus metrics: one rule for names, and what was read by it.

Java shows an attribute of the MBean `kafka.connect:type=<group>,<tag>=…`. Here it is

    kafka_connect_<group>_<attribute>{<tag>="…"}

with `-` as `_`, the group without a leading `connect-` and a closing `-metrics`, tags as labels:
`kafka_connect_worker_connector_count`, `kafka_connect_source_task_source_record_poll_total`. It
is what the rules for the JMX exporter that Strimzi ships yield, so dashboards made for those find
their series. A number keeps its unit (ms, and percentages from 0 to 1). A text is the value of a
label named as its attribute, on a series that is always 1: `kafka_connect_connector_status{
connector="c",status="running"} 1`. Texts of a task that never change share one series, `…_info`,
so that a thousand tasks have a thousand of them, not eleven thousand.

`-total` at the end means a counter. All else is a gauge, also Java's other sums (`total-retries`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import metrics

_PREFIX = "kafka_connect"
_TOTAL = "-total"
INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """`numbers`, `texts`: what an attribute means. `lasting`: texts that share one series."""

    name: str
    tags: tuple[str, ...] = ()
    numbers: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    lasting: tuple[str, ...] = ()

    @property
    def attributes(self) -> frozenset[str]:
        """All of them, as Java names them."""
        return frozenset({*self.numbers, *self.texts, *self.lasting})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a group of these tags' values says at one moment, by attribute. What is left out is not
    shown; what the group does not have is refused by `families`."""

    group: Group
    tags: tuple[str, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    lasting: Mapping[str, str] = field(default_factory=dict)


def name(group: str, attribute: str) -> str:
    """By the rule above."""
    short = group.removeprefix("connect-").removesuffix("-metrics")
    return f"{_PREFIX}_{short}_{attribute}".replace("-", "_")


def declared(group: Group) -> dict[str, metrics.Metric]:
    """By attribute; `INFO` for those that share a series."""
    found = {
        attribute: metrics.Metric(
            name=name(group.name, attribute),
            kind=metrics.Kind.COUNTER if attribute.endswith(_TOTAL) else metrics.Kind.GAUGE,
            help=meaning,
            labels=_labels(group.tags),
        )
        for attribute, meaning in group.numbers.items()
    }
    for attribute, meaning in group.texts.items():
        found[attribute] = _shown(group, attribute, meaning, texts=(attribute,))
    if group.lasting:
        found[INFO] = _shown(group, INFO, "What it is made of.", texts=group.lasting)
    return found


def _shown(group: Group, attribute: str, meaning: str, *, texts: tuple[str, ...]) -> metrics.Metric:
    return metrics.Metric(
        name=name(group.name, attribute),
        kind=metrics.Kind.GAUGE,
        help=meaning,
        labels=_labels((*group.tags, *texts)),
    )


def _labels(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(each.replace("-", "_") for each in names)


class Catalogue:
    """Metrics of these groups, made once. No two may come to the same name."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._metrics = {(group.name, group.tags): declared(group) for group in groups}
        names = [each.name for found in self._metrics.values() for each in found.values()]
        assert len(set(names)) == len(names), sorted(names)

    def families(self, readings: Iterable[Reading]) -> tuple[metrics.Family, ...]:
        """Of what was read, in order of names. One group's readings have tags of their own."""
        series: dict[str, tuple[metrics.Metric, dict[tuple[str, ...], float]]] = {}

        def put(metric: metrics.Metric, labels: tuple[str, ...], value: float) -> None:
            found = series.get(metric.name)
            if found is None:
                found = series[metric.name] = (metric, {})
            found[1][labels] = value

        for reading in readings:
            known = self._metrics[reading.group.name, reading.group.tags]
            for attribute, value in reading.numbers.items():
                put(known[attribute], reading.tags, value)
            for attribute, text in reading.texts.items():
                put(known[attribute], (*reading.tags, text), 1.0)
            if reading.lasting:
                texts = (reading.lasting.get(each, "") for each in reading.group.lasting)
                put(known[INFO], (*reading.tags, *texts), 1.0)
        return tuple(
            metrics.Family(metric=metric, series=values)
            for _, (metric, values) in sorted(series.items())
        )
