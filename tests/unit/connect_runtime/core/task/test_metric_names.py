"""Every name that Java's worker has is one here, or is listed as not offered."""

from __future__ import annotations

import pathlib

from connect_runtime.core.task import metric_groups, metric_names

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
    for group in metric_names.EVERY
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
    metric_groups.Catalogue(metric_names.EVERY)


def test_names_that_dashboards_look_for():
    """Of the rules for the JMX exporter that Strimzi ships."""
    found = {
        each.name: each
        for group in metric_names.EVERY
        for each in metric_groups.declared(group).values()
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
