"""Our text is the Prometheus library's, byte for byte."""

from __future__ import annotations

import math

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import metrics_core, parser, registry, utils

from connect_runtime.base.metrics import HistogramValue, Metric, MetricFamily, MetricKind
from connect_runtime.metrics_server import prometheus_text

COUNTER = Metric(
    name="seen_total", kind=MetricKind.COUNTER, help="Seen:\n\\ all.", labels=("z", "a")
)
GAUGE = Metric(name="now", kind=MetricKind.GAUGE, help="Now.", labels=("z", "a"))
ALONE = Metric(name="alone", kind=MetricKind.GAUGE, help="Alone.")

TIMES = Metric(
    name="took_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Took.",
    unit="seconds",
    labels=("z", "a"),
    bounds=(0.005, 1.0, 300.0),
)


class Given(registry.Collector):
    def __init__(self, families):
        self.families = families

    def collect(self):
        for family in self.families:
            metric = family.metric
            name = metric.name.removesuffix("_total")
            made = metrics_core.Metric(name, metric.help, metric.kind.value)
            for values, value in sorted(family.series.items()):
                made.add_sample(metric.name, dict(zip(metric.labels, values, strict=True)), value)
            for values, found in sorted(family.distributions.items()):
                self._add(made, metric, values, found)
            yield made

    def _add(self, made, metric, values, found):
        labels, below = dict(zip(metric.labels, values, strict=True)), 0
        for bound, count in zip((*metric.bounds, math.inf), found.counts, strict=True):
            below += count
            le = {"le": utils.floatToGoString(bound)}
            made.add_sample(f"{metric.name}_bucket", {**labels, **le}, below)
        made.add_sample(f"{metric.name}_count", labels, below)
        made.add_sample(f"{metric.name}_sum", labels, found.sum)


def by_the_library(families):
    collectors = registry.CollectorRegistry(auto_describe=False)
    collectors.register(Given(families))
    return prometheus_client.generate_latest(collectors)


LABELS = st.text(st.characters(codec="utf-8"), max_size=6)
VALUES = st.one_of(st.floats(), st.integers(-(2**60), 2**60)).map(lambda value: value + 0.0)
"""No -0.0, which would be written as the 0.0 that it equals."""
SERIES = st.dictionaries(st.tuples(LABELS, LABELS), VALUES, max_size=6)


FOUND = st.builds(
    HistogramValue,
    st.tuples(*[st.integers(0, 2**60)] * (len(TIMES.bounds) + 1)),
    st.floats(min_value=0).map(lambda value: value + 0.0),
)


@given(SERIES, SERIES, VALUES, st.dictionaries(st.tuples(LABELS, LABELS), FOUND, max_size=3))
def test_it_is_what_the_library_writes(counted, shown, alone, took):
    families = [
        MetricFamily(metric=COUNTER, series=counted),
        MetricFamily(metric=GAUGE, series=shown),
        MetricFamily(metric=ALONE, series={(): alone}),
        MetricFamily(metric=TIMES, series={}, distributions=took),
    ]
    assert prometheus_text.render_metric_families(families) == by_the_library(families)


def test_numbers_that_are_none_and_text_that_has_to_be_escaped():
    series: dict[tuple[str, ...], float] = {
        ('"\\\n', "é"): math.nan,
        ("x", ""): math.inf,
        ("y", ""): -math.inf,
    }
    assert prometheus_text.render_metric_families(
        [MetricFamily(metric=GAUGE, series=series)]
    ).decode() == (
        "# HELP now Now.\n# TYPE now gauge\n"
        'now{a="é",z="\\"\\\\\\n"} NaN\nnow{a="",z="x"} +Inf\nnow{a="",z="y"} -Inf\n'
    )


def test_prometheus_reads_a_histogram():
    took = HistogramValue((1, 0, 2, 3), 2_000.5)
    family = MetricFamily(metric=TIMES, series={}, distributions={("x", "y"): took})
    (found,) = parser.text_string_to_metric_families(
        prometheus_text.render_metric_families([family]).decode()
    )
    assert found.type == "histogram"
    assert [(each.name, each.labels.get("le"), each.value) for each in found.samples] == [
        ("took_seconds_bucket", "0.005", 1),
        ("took_seconds_bucket", "1.0", 1),
        ("took_seconds_bucket", "300.0", 3),
        ("took_seconds_bucket", "+Inf", 6),
        ("took_seconds_count", None, 6),
        ("took_seconds_sum", None, 2000.5),
    ]


def test_what_is_told_under_several_names_is_written_under_each():
    series: dict[tuple[str, ...], float] = {("now{", "a"): 1.0, ("\nnow{", "b"): 2.0}
    other = Metric(name="then", kind=MetricKind.GAUGE, help="Then.", labels=("z", "a"))
    apart = Metric(name="apart", kind=MetricKind.GAUGE, help="Apart.", labels=("x", "y"))
    families = [MetricFamily(metric=each, series=series) for each in (GAUGE, other, apart)]
    assert prometheus_text.render_metric_families(families) == by_the_library(families)
    alone: dict[tuple[str, ...], float] = {(): 5.0}
    again = Metric(name="again", kind=MetricKind.GAUGE, help="Again.")
    families = [MetricFamily(metric=each, series=alone) for each in (ALONE, again)]
    assert prometheus_text.render_metric_families(families) == by_the_library(families)
