"""Flows both ways under one name, each on a Connect worker of its target."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import both_ways, kafka, source_connectors
from tests.support.both_ways import Locals
from tests.support.connect_workers import Kind, Worker
from tests.support.kafka import Properties

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PARTITIONS = 2
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@pytest.mark.full
def test_each_record_is_once_on_each_side(east, west, topic, connect_group) -> None:
    sides = {"east": east.client_properties(), "west": west.client_properties()}
    name = topic()
    for properties in sides.values():
        kafka.create_topic(properties, name, partitions=PARTITIONS)
    here, there = (
        Locals(properties, name, home=home, partitions=PARTITIONS)
        for home, properties in sides.items()
    )
    with here, there:
        workers = [
            mirroring(connect_group, sides, name, source, target)
            for source, target in (("east", "west"), ("west", "east"))
        ]
        here.go_on(30)
        there.go_on(10)
        here.stop()
        there.stop()
        both_ways.await_equal(
            sides, name, PARTITIONS, told=lambda: "\n".join(each.log_text() for each in workers)
        )


def mirroring(
    connect_group: Any,
    sides: dict[str, Properties],
    topic: str,
    source: str,
    target: str,
) -> Worker:
    """A worker on the target, with a connector that keeps names."""
    worker: Worker = connect_group(sides[target]).start("one", Kind.OURS)
    props = source_connectors.config(
        sides[source],
        sides[target],
        aliases=(source, target),
        topics=topic,
        replication_policy_class=IDENTITY,
        emit_heartbeats_enabled="false",
        sync_topic_acls_enabled="false",
    )
    worker.configure("copies", {**props, "mm2.engine": "inline"})
    return worker
