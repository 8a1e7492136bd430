"""Metrics of several workers, told apart."""

from __future__ import annotations

import dataclasses

from connect_runtime.base.metrics import (
    HistogramValue,
    Metric,
    MetricFamily,
    MetricKind,
    MetricRegistry,
)
from mm2.metrics import metrics_exposition
from mm2.metrics.metrics_exposition import JmxMetrics, NodeMetrics
from tests.support import statuses

OWN = Metric(name="mm2_flows", kind=MetricKind.GAUGE, help="Flows.")
TASKS = Metric(name="kafka_connect_task_count", kind=MetricKind.GAUGE, help="Tasks.")
MIRROR = Metric(name="kafka_connect_mirror_x", kind=MetricKind.GAUGE, help="X.", labels=("topic",))


def worker(tasks: float, topic: str) -> tuple[MetricFamily, ...]:
    return (
        MetricFamily(metric=TASKS, series={(): tasks}),
        MetricFamily(metric=MIRROR, series={(topic,): 1.0}),
    )


def test_workers_are_told_apart_and_connectors_tell_themselves():
    own = (MetricFamily(metric=OWN, series={(): 2.0}),)
    found = metrics_exposition.merge_metric_families(
        own, {"a->b": worker(3, "x"), "b->a": worker(4, "y")}
    )
    series = {each.metric.name: dict(each.series) for each in found}
    assert series == {
        "mm2_flows": {(): 2.0},
        "kafka_connect_task_count": {("a->b",): 3, ("b->a",): 4},
        "kafka_connect_mirror_x": {("x",): 1.0, ("y",): 1.0},
    }
    assert found[1].metric.labels == ("flow",)


def test_the_first_counts_where_two_say_the_same():
    other = Metric(name=MIRROR.name, kind=MetricKind.GAUGE, help="Another.")
    odd = (MetricFamily(metric=other, series={(): 9.0}),)
    found = metrics_exposition.merge_metric_families((), {"a->b": worker(3, "x"), "b->a": odd})
    assert dict(found[1].series) == {("x",): 1.0}


def test_histograms_are_put_together_as_all_else():
    waits, takes = (
        Metric(name=name, kind=MetricKind.HISTOGRAM, help="Time.", bounds=(1.0,))
        for name in ("kafka_connect_wait_seconds", "mm2_take_seconds")
    )

    def one(flow: str, count: int) -> tuple[MetricFamily, ...]:
        told = HistogramValue((count, 0), float(count))
        by_flow = dataclasses.replace(takes, labels=("flow",))
        return (
            MetricFamily(metric=waits, series={}, distributions={(): told}),
            MetricFamily(metric=by_flow, series={}, distributions={(flow,): told}),
        )

    both = {flow: one(flow, count) for flow, count in (("a->b", 1), ("b->a", 2))}
    for found in metrics_exposition.merge_metric_families((), both):
        assert found.metric.labels == ("flow",)
        assert {labels: each.sum for labels, each in found.distributions.items()} == {
            ("a->b",): 1.0,
            ("b->a",): 2.0,
        }


def test_everything_is_asked_for_each_scrape():
    registry = MetricRegistry()
    registry.declare_metric(OWN)
    made = NodeMetrics(registry, lambda: {"a->b": worker(3, "x")})
    assert [each.metric.name for each in made.all_families] == [TASKS.name, MIRROR.name]
    registry.publish_metric_families()
    assert made.all_families[0].metric == OWN


def test_more_is_made_when_it_is_asked_for():
    asked = []

    def more() -> tuple[MetricFamily, ...]:
        asked.append(1)
        return (MetricFamily(metric=OWN, series={(): float(len(asked))}),)

    made = NodeMetrics(MetricRegistry(), dict, extra=more)
    assert asked == []
    assert [dict(made.all_families[0].series) for _ in range(2)] == [{(): 1.0}, {(): 2.0}]


def test_javas_names_are_apart_and_none_of_ours_is_among_them():
    ours = Metric(name="mm2_partition_lag_records", kind=MetricKind.GAUGE, help="Lag.")
    legacy = Metric(
        name="kafka_connect_mirror_mirrorsourceconnector_record_count",
        kind=MetricKind.GAUGE,
        help="Records.",
        labels=("source", "target"),
    )
    families = (
        MetricFamily(metric=ours, series={(): 1.0}),
        MetricFamily(metric=legacy, series={("a", "b"): 7.0}),
        MetricFamily(metric=TASKS, series={(): 3.0}),
    )
    flow = statuses.flow(statuses.partition(copied_to=1, source_end=3))
    made = JmxMetrics(lambda: {"a->b": families}, lambda: [flow])
    found = {each.metric.name: each for each in made.all_families}
    assert [*found] == [
        legacy.name,
        TASKS.name,
        "kafka_connect_mirror_source_connector_record_count",
        "kafka_consumer_fetch_manager_records_lag",
        "kafka_consumer_consumer_fetch_manager_metrics_records_lag",
    ]
    again = found["kafka_connect_mirror_source_connector_record_count"]
    assert again.series == {("a", "b"): 7.0}
    assert again.metric.labels == ("source", "target")
