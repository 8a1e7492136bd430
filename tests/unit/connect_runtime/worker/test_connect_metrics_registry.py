"""The rule that makes Prometheus' names of Java's.

Every name that Java's worker has is one here, or is listed as not offered."""

from __future__ import annotations

import pathlib

import pytest

from connect_runtime.base.metrics import MetricFamily
from connect_runtime.worker import connect_metrics_registry
from connect_runtime.worker.connect_metrics_registry import (
    ConnectMetricsRegistry,
    MetricGroup,
    MetricReading,
)

GROUP = MetricGroup(
    name="connect-some-metrics",
    tags=("client-id",),
    numbers={"seen-total": "Seen.", "last-max": "Last.", "total-retries": "Retries."},
    texts={"the-state": "State."},
    info_attributes=("a-class", "a-version"),
)
ALONE = MetricGroup(name="app-info", numbers={"start-time-ms": "Start."})


@pytest.mark.parametrize(
    ("group", "attribute", "expected"),
    [
        ("connect-worker-metrics", "connector-count", "kafka_connect_worker_connector_count"),
        ("connect-worker-rebalance-metrics", "epoch", "kafka_connect_worker_rebalance_epoch"),
        ("connector-metrics", "status", "kafka_connect_connector_status"),
        ("connector-task-metrics", "status", "kafka_connect_connector_task_status"),
        ("app-info", "start-time-ms", "kafka_connect_app_info_start_time_ms"),
        (
            "task-error-metrics",
            "total-records-skipped",
            "kafka_connect_task_error_total_records_skipped",
        ),
    ],
)
def test_names(group, attribute, expected):
    assert connect_metrics_registry.build_metric_name(group, attribute) == expected


def test_what_ends_in_total_is_a_counter_and_all_else_a_gauge():
    found = connect_metrics_registry.declare_metrics(GROUP)
    assert {each: metric.kind.value for each, metric in found.items()} == {
        "seen-total": "counter",
        "last-max": "gauge",
        "total-retries": "gauge",
        "the-state": "gauge",
        "info": "gauge",
    }
    assert found["the-state"].labels == ("client_id", "the_state")
    assert found["info"].labels == ("client_id", "a_class", "a_version")
    assert found["info"].name == "kafka_connect_some_info"


def test_readings_become_families_in_order_of_names():
    catalogue = ConnectMetricsRegistry([GROUP, ALONE])
    one, two = (
        MetricReading(
            group=GROUP,
            tags=(tag,),
            numbers={"seen-total": 3.0 + number},
            texts={"the-state": "good"},
            info={"a-class": "C"},
        )
        for number, tag in enumerate(("x", "y"))
    )
    alone = MetricReading(group=ALONE, numbers={"start-time-ms": 9.0})
    found = catalogue.build_families([one, alone, two])
    assert [(each.metric.name, dict(each.series)) for each in found] == [
        ("kafka_connect_app_info_start_time_ms", {(): 9.0}),
        ("kafka_connect_some_info", {("x", "C", ""): 1.0, ("y", "C", ""): 1.0}),
        ("kafka_connect_some_seen_total", {("x",): 3.0, ("y",): 4.0}),
        ("kafka_connect_some_the_state", {("x", "good"): 1.0, ("y", "good"): 1.0}),
    ]
    assert all(isinstance(each, MetricFamily) for each in found)


def test_an_attribute_that_the_group_does_not_have_is_a_mistake():
    reading = MetricReading(group=ALONE, numbers={"end-time-ms": 9.0})
    with pytest.raises(KeyError, match="end-time-ms"):
        ConnectMetricsRegistry([ALONE]).build_families([reading])


def test_two_groups_that_come_to_one_name_are_a_mistake():
    twin = MetricGroup(name="connect-app-info", numbers=ALONE.numbers)
    with pytest.raises(AssertionError):
        ConnectMetricsRegistry([ALONE, twin])


_LATER = "comes with exactly-once sources"
_CLIENT = "of Java's network client: the clients here count in other terms"
_CHAIN = "comes with transforms and predicates"

NOT_OFFERED = {
    ("source-task-metrics", "transaction-size-min"): _LATER,
    ("source-task-metrics", "transaction-size-max"): _LATER,
    ("source-task-metrics", "transaction-size-avg"): _LATER,
    ("connector-transform-metrics", "*"): _CHAIN,
    ("connector-predicate-metrics", "*"): _CHAIN,
    ("plugins", "*"): "plugins name and label their metrics themselves (`add_metrics`)",
    ("connect-metrics", "*"): _CLIENT,
    ("connect-node-metrics", "*"): _CLIENT,
    ("kafka-metrics-count", "*"): "how many metrics Java's registry holds",
}
"""(group, attribute) to the reason; `*` for a whole group."""

LISTING = pathlib.Path(__file__).with_name("java_metric_names.txt")


def java_names():
    """(group, tags, attribute)"""
    for line in LISTING.read_text().splitlines():
        if not line.startswith("#"):
            group, tags, attribute = line.split()
            yield group, () if tags == "-" else tuple(tags.split(",")), attribute


OFFERED = {
    (group.name, group.tags, attribute)
    for group in connect_metrics_registry.ALL_GROUPS
    for attribute in group.attributes
}


def test_every_java_name_is_offered_or_refused_with_a_reason():
    names = set(java_names())
    assert len(names) > 110
    missing = {
        (group, tags, attribute)
        for group, tags, attribute in names - OFFERED
        if (group, attribute) not in NOT_OFFERED and (group, "*") not in NOT_OFFERED
    }
    assert missing == set()


def test_nothing_is_offered_that_java_does_not_have():
    assert set(java_names()) >= OFFERED


def test_what_is_refused_exists_and_is_not_offered():
    groups = {group for group, _, _ in java_names()}
    attributes = {(group, attribute) for group, _, attribute in java_names()}
    offered = {(group, attribute) for group, _, attribute in OFFERED}
    for (group, attribute), reason in NOT_OFFERED.items():
        assert reason
        assert group in groups
        assert attribute == "*" or (group, attribute) in attributes
        assert (group, attribute) not in offered


def test_no_two_come_to_one_name():
    ConnectMetricsRegistry(connect_metrics_registry.ALL_GROUPS)


def test_names_that_dashboards_look_for():
    """Of the rules for the JMX exporter that Strimzi ships."""
    found = {
        each.name: each
        for group in connect_metrics_registry.ALL_GROUPS
        for each in connect_metrics_registry.declare_metrics(group).values()
    }
    for name, labels in {
        "kafka_connect_worker_connector_count": (),
        "kafka_connect_worker_connector_failed_task_count": ("connector",),
        "kafka_connect_worker_task_startup_failure_total": (),
        "kafka_connect_worker_rebalance_completed_rebalances_total": (),
        "kafka_connect_worker_rebalance_leader_name": ("leader_name",),
        "kafka_connect_connector_status": ("connector", "status"),
        "kafka_connect_connector_connector_class": ("connector", "connector_class"),
        "kafka_connect_connector_task_status": ("connector", "task", "status"),
        "kafka_connect_connector_task_pause_ratio": ("connector", "task"),
        "kafka_connect_source_task_source_record_write_total": ("connector", "task"),
        "kafka_connect_sink_task_put_batch_avg_time_ms": ("connector", "task"),
        "kafka_connect_task_error_total_records_skipped": ("connector", "task"),
        "kafka_connect_coordinator_assigned_tasks": ("client_id",),
    }.items():
        assert found[name].labels == labels
