"""Names: Java's attributes and tags in either format, as dashboards look for them."""

from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.base import ids, metrics
from mm2.core import mirror_metrics

OWNER = mirror_metrics.Owner(
    task=ids.ConnectorTaskId("east to west", 3),
    source="east",
    target="west",
    formats=(mirror_metrics.LEGACY,),
)
OWN = (mirror_metrics.LAG_RECORDS, mirror_metrics.LAG_SECONDS, mirror_metrics.STOPPED)
PLACE = ("east.orders", "7")
EVERY = dict.fromkeys(mirror_metrics.SOURCE.attributes, 5.0)


def found(*formats, group=mirror_metrics.SOURCE, rows=None):
    owner = dataclasses.replace(OWNER, formats=formats)
    made = mirror_metrics.families(group, owner, {PLACE: EVERY} if rows is None else rows)
    return {each.metric.name: each for each in made}


def test_legacy_names_are_those_of_javas_mbean():
    shown = found("legacy")["kafka_connect_mirror_mirrorsourceconnector_replication_latency_ms_avg"]
    assert shown.metric.labels == ("source", "target", "topic", "partition")
    assert shown.series == {("east", "west", "east.orders", "7"): 5.0}
    assert shown.metric.kind is metrics.Kind.GAUGE


def test_new_names_are_those_of_a_plugin_of_its_task():
    shown = found("new")["kafka_connect_plugins_record_count"]
    assert shown.metric.labels == ("connector", "task", "source", "target", "topic", "partition")
    assert shown.series == {("east to west", "3", "east", "west", "east.orders", "7"): 5.0}


def test_both_are_shown_where_both_are_wanted():
    assert found("legacy", "new").keys() == found("legacy").keys() | found("new").keys()
    assert len(found("legacy", "new")) == 2 * len(mirror_metrics.SOURCE.attributes) == 24
    assert found() == {}


def test_a_checkpoint_has_its_group_between_flow_and_place():
    rows = {
        ("clerks", *PLACE): dict.fromkeys(mirror_metrics.CHECKPOINT.attributes, 1.0),
        ("others", *PLACE): dict.fromkeys(mirror_metrics.CHECKPOINT.attributes, 2.0),
    }
    every = found("legacy", group=mirror_metrics.CHECKPOINT, rows=rows)
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
        for group in (mirror_metrics.SOURCE, mirror_metrics.CHECKPOINT)
        for form in (mirror_metrics.LEGACY, mirror_metrics.NEW)
        for metric in mirror_metrics.declared(group, form).values()
    ] + [each.name for each in OWN]
    assert len(set(names)) == len(names)


def test_what_is_ours_bears_the_flow_too():
    shown = mirror_metrics.of_ours(mirror_metrics.LAG_RECORDS, OWNER, {PLACE: 12.0})
    assert shown.series == {("east", "west", "east.orders", "7"): 12.0}
