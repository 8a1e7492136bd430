from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.metrics import HistogramValue, Metric, MetricKind, MetricRegistry, Series

COUNTER = Metric(
    name="copied_records_total",
    kind=MetricKind.COUNTER,
    help="Records copied.",
    unit="records",
    labels=("topic",),
)
GAUGE = Metric(
    name="lag_seconds", kind=MetricKind.GAUGE, help="Lag.", unit="seconds", labels=("topic",)
)

HISTOGRAM = Metric(
    name="latency_seconds",
    kind=MetricKind.HISTOGRAM,
    help="Latency.",
    unit="seconds",
    labels=("topic",),
    bounds=(0.1, 1.0),
)


def registry() -> MetricRegistry:
    made = MetricRegistry()
    made.declare_metric(COUNTER)
    made.declare_metric(GAUGE)
    made.declare_metric(HISTOGRAM)
    return made


def published(made: MetricRegistry, metric: Metric) -> Series:
    made.check_invariants()
    (found,) = [family.series for family in made.all_families if family.metric is metric]
    return found


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Lag_seconds"},
        {"name": "lag-seconds"},
        {"name": "lag_seconds_total"},
        {"name": "lag_ms"},
        {"unit": "ms", "name": "lag_ms"},
        {"help": ""},
        {"labels": ("Topic",)},
        {"labels": ("topic", "topic")},
        {"kind": MetricKind.COUNTER},
        {"kind": MetricKind.HISTOGRAM},
        {"bounds": (1.0,)},
        {"kind": MetricKind.HISTOGRAM, "bounds": (1.0, 1.0)},
        {"kind": MetricKind.HISTOGRAM, "bounds": (1.0, float("inf"))},
    ],
)
def test_a_declaration_against_the_naming_rules_is_refused(wrong):
    right: dict[str, Any] = {"name": "lag_seconds", "kind": MetricKind.GAUGE, "help": "Lag."}
    right["unit"] = "seconds"
    Metric(**right)
    with pytest.raises(AssertionError):
        Metric(**(right | wrong))


def test_a_name_is_declared_once():
    made = registry()
    assert made.metrics == (COUNTER, GAUGE, HISTOGRAM)
    with pytest.raises(AssertionError, match="twice"):
        made.declare_metric(COUNTER)


def test_readers_see_what_was_published_and_nothing_later():
    made = registry()
    made.increase_counter(COUNTER, 3, labels=("orders",))
    assert made.all_families == ()
    made.publish_metric_families()
    before = published(made, COUNTER)
    made.increase_counter(COUNTER, 4, labels=("orders",))
    assert before == {("orders",): 3}
    made.publish_metric_families()
    assert published(made, COUNTER) == {("orders",): 7}


def test_a_gauge_is_replaced_whole():
    made = registry()
    made.set_gauge_series(GAUGE, {("orders",): 1.5, ("payments",): 0.0})
    made.set_gauge_series(GAUGE, {("payments",): 2.0})
    made.publish_metric_families()
    assert published(made, GAUGE) == {("payments",): 2.0}


@given(st.lists(st.floats(min_value=0, max_value=1e12), max_size=20))
def test_a_counter_never_falls(amounts):
    made = registry()
    before = 0.0
    for amount in amounts:
        made.increase_counter(COUNTER, amount, labels=("orders",))
        made.publish_metric_families()
        now = published(made, COUNTER)[("orders",)]
        assert now >= before
        before = now


def test_what_does_not_fit_the_declaration_is_refused():
    made = registry()
    for wrong in (
        lambda: made.increase_counter(COUNTER, -1, labels=("orders",)),
        lambda: made.increase_counter(COUNTER, 1),
        lambda: made.increase_counter(GAUGE, 1, labels=("orders",)),
        lambda: made.set_gauge_series(COUNTER, {("orders",): 1}),
        lambda: made.set_gauge_series(GAUGE, {(): 1}),
        lambda: made.add_observations(GAUGE, HistogramValue((1, 1, 1), 3.0), labels=("orders",)),
        lambda: made.add_observations(HISTOGRAM, HistogramValue((1, 1), 2.0), labels=("orders",)),
        lambda: made.add_observations(HISTOGRAM, HistogramValue((1, -1, 1), 2.0), labels=("o",)),
        lambda: made.add_observations(HISTOGRAM, HistogramValue((1, 1, 1), 2.0)),
    ):
        with pytest.raises(AssertionError):
            wrong()


def test_a_histogram_counts_on():
    made = registry()
    made.add_observations(HISTOGRAM, HistogramValue((0, 0, 0), 0.0), labels=("idle",))
    for _ in range(2):
        made.add_observations(HISTOGRAM, HistogramValue((1, 0, 2), 7.5), labels=("orders",))
    made.publish_metric_families()
    made.check_invariants()
    assert made.all_families[2].distributions == {
        ("idle",): HistogramValue((0, 0, 0), 0.0),
        ("orders",): HistogramValue((2, 0, 4), 15.0),
    }


def test_what_is_forgotten_is_told_no_more_and_begins_anew():
    made = registry()
    for topic in ("orders", "orders2"):
        made.increase_counter(COUNTER, 3, labels=(topic,))
        made.add_observations(HISTOGRAM, HistogramValue((1, 0, 0), 0.5), labels=(topic,))
    made.publish_metric_families()
    before = made.all_families
    made.remove_series(COUNTER, ("nothing",))
    made.publish_metric_families()
    assert [*map(id, made.all_families)] == [*map(id, before)]
    made.remove_series(COUNTER, ("orders",))
    made.remove_series(HISTOGRAM, ())
    made.publish_metric_families()
    assert published(made, COUNTER) == {("orders2",): 3}
    assert made.all_families[2].distributions == {}
    made.increase_counter(COUNTER, 1, labels=("orders",))
    made.publish_metric_families()
    assert published(made, COUNTER) == {("orders2",): 3, ("orders",): 1}
    with pytest.raises(AssertionError):
        made.remove_series(GAUGE, ())


def test_what_has_not_changed_is_published_as_the_same_object():
    """With ten thousand series that do not move there is nothing to copy."""
    made = registry()
    made.increase_counter(COUNTER, 1, labels=("orders",))
    made.set_gauge_series(GAUGE, {("orders",): 1.0})
    made.publish_metric_families()
    before = made.all_families
    made.increase_counter(COUNTER, 0, labels=("orders",))
    made.set_gauge_series(GAUGE, {("orders",): 1.0})
    made.publish_metric_families()
    assert [*map(id, made.all_families)] == [*map(id, before)]
    made.set_gauge_series(GAUGE, {})
    made.publish_metric_families()
    assert published(made, GAUGE) == {}
    assert made.all_families[0] is before[0]
