"""MM2's metrics beside Java's: the MBeans of a Java worker, and what ours serves."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mm2.connectors import connector_metrics
from mm2.connectors.connector_metrics import JmxMetricGroup
from mm2.sandbox import java_server_process, port_reservation
from tests.interop import java_beans
from tests.interop.java_beans import Bean
from tests.support import eventually
from tests.support.checkpoints import Flow
from tests.support.connect_workers import Group, Kind
from tests.support.scraped import Listener

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(600)]

WAIT_S = 120.0
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
BOTH = "legacy,new"
POINTS, MIRROR = "points", "mirror"
ANEW = "-anew"
COUNT = "kafka-metrics-count"
"""How many metrics Java's registries hold; all tasks of a JVM write over each other's."""

Series = tuple[str, frozenset[tuple[str, str]]]
"""A metric's name, and its labels with their values."""


def mirroring(flow: Flow, *, anew: str = "") -> dict[str, str]:
    """Of the same flow, or of one whose aliases end differently: into another mirror."""
    shared = {
        name: value
        for name, value in flow.config.items()
        if ".cluster." in name or name in ("topics", "offset-syncs.topic.location")
    }
    return {
        **shared,
        "source.cluster.alias": flow.aliases[0] + anew,
        "target.cluster.alias": flow.aliases[1] + anew,
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "1",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "metric.names.formats": BOTH,
    }


def shown_by_java(beans: Iterable[Bean], task: str) -> set[Series]:
    """As ours would be named: those of this connector's one task."""
    group = {
        POINTS: connector_metrics.CHECKPOINT_METRICS,
        MIRROR: connector_metrics.SOURCE_METRICS,
    }[task]
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


def served(metrics: Listener, group: JmxMetricGroup) -> set[Series]:
    """By ours, of flows that are called as Java's but for their `ANEW`."""
    names = {
        each.name
        for form in BOTH.split(",")
        for each in connector_metrics.declare_jmx_metrics(group, form).values()
    }
    return {
        (name, frozenset((label, value.replace(ANEW, "")) for label, value in labels.items()))
        for name, samples in metrics.read().items()
        if name in names
        for labels, _ in samples
    }


def is_served(metrics: Listener, group: JmxMetricGroup, expected: set[Series]) -> bool:
    found = served(metrics, group)
    assert found == expected, sorted(map(str, found ^ expected))
    return True


def test_names_and_tags_are_javas(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
    tmp_path: Path,
) -> None:
    flow = Flow(west, east, syncs_on="source")
    clerks = flow.group("clerks")
    flow.at_source(clerks, 20)
    flow.synced(20, 15)
    config = {**flow.config, "tasks.max": "1", "metric.names.formats": BOTH}
    beans, metrics = port_reservation.reserve_port(), Listener()
    java = connect_group(
        settings={"key.converter": BYTES, "value.converter": BYTES},
        flags=(*java_server_process.TEST_JVM_FLAGS, *java_beans.flags(beans.port)),
    ).start("java", Kind.JAVA)
    java.configure(POINTS, config)
    flow.comes(clerks, (20, 15), log=java.log_text)
    java.configure(MIRROR, mirroring(flow))  # only now: it writes syncs of its own
    eventually.eventually(
        lambda: java.runs(POINTS) and java.runs(MIRROR), WAIT_S, java.log_text, interval_s=0.3
    )
    told = java_beans.read(tmp_path, beans.port, "kafka.connect*:*")
    mirrors = {each.kind for each in told if each.domain == "kafka.connect.mirror"}
    assert mirrors == {"MirrorSourceConnector", "MirrorCheckpointConnector", COUNT}
    assert java.stop() in (0, 143)

    ours = connect_group(settings=metrics.settings).start("ours", Kind.OURS)
    ours.configure(POINTS, config)
    ours.configure(MIRROR, {**mirroring(flow, anew=ANEW), "mm2.engine": "inline"})
    flow.synced(25, 60)
    flow.at_source(clerks, 25)
    for task, group, series in (
        (POINTS, connector_metrics.CHECKPOINT_METRICS, 8),
        (MIRROR, connector_metrics.SOURCE_METRICS, 24),
    ):
        of_java = shown_by_java(told, task)
        assert len(of_java) == series
        eventually.eventually(
            functools.partial(is_served, metrics, group, of_java),
            WAIT_S,
            ours.log_text,
            interval_s=0.5,
        )
    beans.release()
    metrics.close()
