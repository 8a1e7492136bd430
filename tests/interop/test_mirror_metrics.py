"""MM2's metrics beside Java's: the MBeans of a Java worker, and what ours serves."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from prometheus_client import parser

from connect_runtime.base import ids
from mm2.core import mirror_metrics
from mm2.sandbox import jvm, ports
from tests.interop import java_beans
from tests.support import checkpoints, connect_workers, eventually

if TYPE_CHECKING:
    from mm2.sandbox import cluster

pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(600)]

WAIT_S = 120.0
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
BOTH = "legacy,new"
POINTS, MIRROR = "points", "mirror"
COUNT = "kafka-metrics-count"
"""How many metrics Java's registries hold; all tasks of a JVM write over each other's."""

Series = tuple[str, frozenset[tuple[str, str]]]
"""A metric's name, and its labels with their values."""


def mirroring(flow: checkpoints.Flow) -> dict[str, str]:
    """Of the same flow."""
    shared = {
        name: value
        for name, value in flow.config.items()
        if ".cluster." in name or name in ("topics", "offset-syncs.topic.location")
    }
    return {
        **shared,
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "1",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "metric.names.formats": BOTH,
    }


def shown_by_java(beans: Iterable[java_beans.Bean], task: str) -> set[Series]:
    """As ours would be named: those of this connector's one task."""
    group = {POINTS: mirror_metrics.CHECKPOINT, MIRROR: mirror_metrics.SOURCE}[task]
    found = set()
    for each in beans:
        if each.domain == "kafka.connect.mirror" and each.kind == group.name:
            prefix = f"kafka_connect_mirror_{each.kind.lower()}_"
        elif each.kind == "plugins" and each.tags["connector"] == task:
            prefix = "kafka_connect_plugins_"
        else:
            continue
        labels = frozenset(each.tags.items())
        found |= {(prefix + name.replace("-", "_"), labels) for name in each.attributes}
    return found


def served(port: int) -> set[Series]:
    """By ours: all that a mirror task measures by Java's names."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10.0) as answer:
        families = list(parser.text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in families
        for sample in family.samples
        if sample.name.startswith(("kafka_connect_mirror_", "kafka_connect_plugins_"))
    }


def declared(flow: checkpoints.Flow) -> set[Series]:
    """What our source task shows of the flow's one partition."""
    group = mirror_metrics.SOURCE
    source, target = flow.aliases
    families = mirror_metrics.families(
        group,
        mirror_metrics.Owner(
            task=ids.ConnectorTaskId(MIRROR, 0),
            source=source,
            target=target,
            formats=tuple(BOTH.split(",")),
        ),
        {(flow.mirror.topic, "0"): dict.fromkeys(group.attributes, 0.0)},
    )
    return {
        (each.metric.name, frozenset(zip(each.metric.labels, labels, strict=True)))
        for each in families
        for labels in each.series
    }


def test_names_and_tags_are_javas(
    west: cluster.Cluster,
    east: cluster.Cluster,
    connect_group: Callable[..., connect_workers.Group],
    tmp_path: Path,
) -> None:
    flow = checkpoints.Flow(west, east, syncs_on="source")
    clerks = flow.group("clerks")
    flow.at_source(clerks, 20)
    flow.synced(20, 15)
    config = {**flow.config, "tasks.max": "1", "metric.names.formats": BOTH}
    beans, metrics = ports.reserve(), ports.reserve()
    java = connect_group(
        settings={"key.converter": BYTES, "value.converter": BYTES},
        flags=(*jvm.TEST_FLAGS, *java_beans.flags(beans.port)),
    ).start("java", connect_workers.Kind.JAVA)
    java.configure(POINTS, config)
    flow.comes(clerks, (20, 15), log=java.log_text)
    java.configure(MIRROR, mirroring(flow))  # only now: it writes syncs of its own
    eventually.eventually(
        lambda: java.runs(POINTS) and java.runs(MIRROR), WAIT_S, java.log_text, interval_s=0.3
    )
    told = java_beans.read(tmp_path, beans.port, "kafka.connect*:*")
    of_java = {each: shown_by_java(told, each) for each in (POINTS, MIRROR)}
    mirrors = {each.kind for each in told if each.domain == "kafka.connect.mirror"}
    assert mirrors == {"MirrorSourceConnector", "MirrorCheckpointConnector", COUNT}
    assert java.stop() in (0, 143)

    listener = f"http://127.0.0.1:{metrics.port}"
    ours = connect_group(settings={"prometheus.listener": listener}).start(
        "ours", connect_workers.Kind.OURS
    )
    ours.configure(POINTS, config)
    flow.synced(25, 60)
    flow.at_source(clerks, 25)
    eventually.eventually(
        lambda: served(metrics.port) == of_java[POINTS],
        WAIT_S,
        lambda: f"{served(metrics.port) ^ of_java[POINTS]}, {ours.log_text()}",
        interval_s=0.5,
    )
    assert len(of_java[POINTS]) == 8
    assert declared(flow) == of_java[MIRROR]
    assert len(of_java[MIRROR]) == 24
    for each in (beans, metrics):
        each.release()
