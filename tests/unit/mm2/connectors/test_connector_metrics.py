"""What source tasks measure, from gauge to series; checkpoint tasks: `test_checkpoint_task`.

Names: Java's attributes and tags in either format, as dashboards look for them."""

from __future__ import annotations

import dataclasses
import threading

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.base.metrics import MetricKind
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2.connectors import connector_metrics
from mm2.connectors.connector_metrics import MetricsOwner, SourceMetrics
from mm2.copier.progress_reports import PartitionProgressReport
from mm2.replication import replication_latency
from mm2.replication.partition_setup import PartitionSetup
from mm2.replication.replication_latency import RecordAges
from tests.fakes.plugin_contexts import Clock

ABOUT = MetricsOwner(task=ConnectorTaskId("mirror", 0), source="A", target="B", formats=("legacy",))
LEGACY = "kafka_connect_mirror_mirrorsourceconnector_"


def where(partition=0, topic="orders"):
    return PartitionSetup(
        flow="A->B",
        topic=topic,
        partition=partition,
        source_topic_id=bytes(16),
        remote_topic=f"A.{topic}",
        target_topic_id=bytes(16),
        transactional_id="x",
    )


def gauge(records, *, copied_to=0, end=0, oldest_ms=-1, stored=replication_latency.NO_AGES):
    return PartitionProgressReport(
        index=0,
        phase="copying",
        records=records,
        bytes=10 * records,
        copied_to=copied_to,
        source_end=end,
        log_start=0,
        age_ms=0,
        oldest_uncopied_ms=oldest_ms,
        transactional=False,
        reason="",
        cause="",
        acknowledged_ages=stored,
    )


def shown(made):
    return {each.metric.name: each.series for each in made.collect()}


def begun(*partitions):
    clock = Clock()
    return clock, SourceMetrics(ABOUT, partitions, clock=clock)


def test_what_is_assigned_is_shown_from_the_start():
    _, made = begun(where(0), where(1))
    counts = shown(made)[f"{LEGACY}record_count"]
    assert counts == {("A", "B", "A.orders", "0"): 0, ("A", "B", "A.orders", "1"): 0}
    assert shown(made)["mm2_partition_lag_records"] == {}, "it is not known yet"


def test_gauges_are_counted_and_lags_shown_where_they_are_known():
    clock, made = begun(where())
    old_ms = clock.wall_ms() - 1500
    stored = RecordAges(4, 80, 10, 40)
    made.record_progress_report(
        where(), gauge(4, copied_to=4, end=9, oldest_ms=old_ms, stored=stored)
    )
    found = {name: list(series.values()) for name, series in shown(made).items()}
    assert found[f"{LEGACY}record_count"] == [4]
    assert found[f"{LEGACY}byte_count"] == [40]
    assert found[f"{LEGACY}replication_latency_ms_avg"] == [20]
    assert found["mm2_partition_lag_records"] == [5]
    assert found["mm2_partition_lag_seconds"] == [1.5]
    assert found["mm2_partition_stopped"] == []
    halted = dataclasses.replace(gauge(4), phase="halted", cause="corrupt-batch")
    made.record_progress_report(where(), halted)
    expected = {("A", "B", "A.orders", "0", "corrupt-batch"): 1}
    assert shown(made)["mm2_partition_stopped"] == expected


def test_who_stays_assigned_goes_on_and_who_does_not_is_not_shown():
    _, made = begun(where(0), where(1))
    made.record_progress_report(where(0), gauge(4))
    made.record_progress_report(where(1), gauge(7))
    made.set_assigned_partitions([where(1), where(2)])
    made.record_progress_report(where(0), gauge(9))
    counts = shown(made)[f"{LEGACY}record_count"]
    assert counts == {("A", "B", "A.orders", "1"): 7, ("A", "B", "A.orders", "2"): 0}


def test_it_is_read_while_it_is_told():
    _, made = begun(where())
    failed: list[UnexpectedThreadEnd] = []
    readers = ThreadGroup(on_unexpected_end=failed.append)

    def read(stop: threading.Event) -> None:
        while not stop.is_set():
            made.collect()

    readers.start("reader", read)
    for count in range(300):
        made.set_assigned_partitions([where(each) for each in range(count % 5)])
        made.record_progress_report(where(), gauge(count))
    assert readers.stop_all(10.0) == []
    assert failed == []


OWNER = MetricsOwner(
    task=ConnectorTaskId("east to west", 3),
    source="east",
    target="west",
    formats=(connector_metrics.LEGACY_FORMAT,),
)
OWN = (
    connector_metrics.LAG_RECORDS,
    connector_metrics.LAG_SECONDS,
    connector_metrics.PARTITION_STOPPED,
)
PLACE = ("east.orders", "7")
EVERY = dict.fromkeys(connector_metrics.SOURCE_METRICS.attributes, 5.0)


def found(*formats, group=connector_metrics.SOURCE_METRICS, rows=None):
    owner = dataclasses.replace(OWNER, formats=formats)
    made = connector_metrics.build_metric_families(
        group, owner, {PLACE: EVERY} if rows is None else rows
    )
    return {each.metric.name: each for each in made}


def test_legacy_names_are_those_of_javas_mbean():
    shown = found("legacy")["kafka_connect_mirror_mirrorsourceconnector_replication_latency_ms_avg"]
    assert shown.metric.labels == ("source", "target", "topic", "partition")
    assert shown.series == {("east", "west", "east.orders", "7"): 5.0}
    assert shown.metric.kind is MetricKind.GAUGE


def test_new_names_are_those_of_a_plugin_of_its_task():
    shown = found("new")["kafka_connect_plugins_record_count"]
    assert shown.metric.labels == ("connector", "task", "source", "target", "topic", "partition")
    assert shown.series == {("east to west", "3", "east", "west", "east.orders", "7"): 5.0}


def test_both_are_shown_where_both_are_wanted():
    assert found("legacy", "new").keys() == found("legacy").keys() | found("new").keys()
    assert len(found("legacy", "new")) == 2 * len(connector_metrics.SOURCE_METRICS.attributes) == 24
    assert found() == {}


def test_a_checkpoint_has_its_group_between_flow_and_place():
    rows = {
        ("clerks", *PLACE): dict.fromkeys(connector_metrics.CHECKPOINT_METRICS.attributes, 1.0),
        ("others", *PLACE): dict.fromkeys(connector_metrics.CHECKPOINT_METRICS.attributes, 2.0),
    }
    every = found("legacy", group=connector_metrics.CHECKPOINT_METRICS, rows=rows)
    shown = every["kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms_max"]
    assert shown.metric.labels == ("source", "target", "group", "topic", "partition")
    assert shown.series == {
        ("east", "west", "clerks", "east.orders", "7"): 1.0,
        ("east", "west", "others", "east.orders", "7"): 2.0,
    }


def test_what_is_not_measured_cannot_be_shown():
    with pytest.raises(KeyError):
        found("legacy", rows={PLACE: {"record-count": 1.0}})


def test_no_two_metrics_come_to_one_name():
    names = [
        metric.name
        for group in (connector_metrics.SOURCE_METRICS, connector_metrics.CHECKPOINT_METRICS)
        for form in (connector_metrics.LEGACY_FORMAT, connector_metrics.NEW_FORMAT)
        for metric in connector_metrics.declare_jmx_metrics(group, form).values()
    ] + [each.name for each in OWN]
    assert len(set(names)) == len(names)


def test_what_is_ours_bears_the_flow_too():
    shown = connector_metrics.build_mm2_metric_family(
        connector_metrics.LAG_RECORDS, OWNER, {PLACE: 12.0}
    )
    assert shown.series == {("east", "west", "east.orders", "7"): 12.0}
