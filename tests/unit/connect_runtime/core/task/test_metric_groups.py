"""The rule that makes Prometheus' names of Java's."""

from __future__ import annotations

import pytest

from connect_runtime.base import metrics
from connect_runtime.core.task import metric_groups

GROUP = metric_groups.Group(
    name="connect-some-metrics",
    tags=("client-id",),
    numbers={"seen-total": "Seen.", "last-max": "Last.", "total-retries": "Retries."},
    texts={"the-state": "State."},
    lasting=("a-class", "a-version"),
)
ALONE = metric_groups.Group(name="app-info", numbers={"start-time-ms": "Start."})


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
    assert metric_groups.name(group, attribute) == expected


def test_what_ends_in_total_is_a_counter_and_all_else_a_gauge():
    found = metric_groups.declared(GROUP)
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
    catalogue = metric_groups.Catalogue([GROUP, ALONE])
    one, two = (
        metric_groups.Reading(
            group=GROUP,
            tags=(tag,),
            numbers={"seen-total": 3.0 + number},
            texts={"the-state": "good"},
            lasting={"a-class": "C"},
        )
        for number, tag in enumerate(("x", "y"))
    )
    alone = metric_groups.Reading(group=ALONE, numbers={"start-time-ms": 9.0})
    found = catalogue.families([one, alone, two])
    assert [(each.metric.name, dict(each.series)) for each in found] == [
        ("kafka_connect_app_info_start_time_ms", {(): 9.0}),
        ("kafka_connect_some_info", {("x", "C", ""): 1.0, ("y", "C", ""): 1.0}),
        ("kafka_connect_some_seen_total", {("x",): 3.0, ("y",): 4.0}),
        ("kafka_connect_some_the_state", {("x", "good"): 1.0, ("y", "good"): 1.0}),
    ]
    assert all(isinstance(each, metrics.Family) for each in found)


def test_an_attribute_that_the_group_does_not_have_is_a_mistake():
    reading = metric_groups.Reading(group=ALONE, numbers={"end-time-ms": 9.0})
    with pytest.raises(KeyError, match="end-time-ms"):
        metric_groups.Catalogue([ALONE]).families([reading])


def test_two_groups_that_come_to_one_name_are_a_mistake():
    twin = metric_groups.Group(name="connect-app-info", numbers=ALONE.numbers)
    with pytest.raises(AssertionError):
        metric_groups.Catalogue([ALONE, twin])
