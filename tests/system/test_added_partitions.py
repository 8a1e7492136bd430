"""A flow that starts at the end of its topics misses nothing of partitions that come later."""

from __future__ import annotations

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import content, kafka, mirror, operations
from tests.support.kafka import Properties

pytestmark = [pytest.mark.system, pytest.mark.timeout(120)]


def test_added_partitions_are_copied_from_their_first_record(
    tmp_path, east: SandboxCluster, west: SandboxCluster, topic
):
    source, target = east.client_properties(), west.client_properties()
    name = kafka.create_topic(source, topic(), partitions=2)
    for partition in range(2):
        kafka.produce(source, name, content.some(7, partition=partition))
    given = mirror.settings(
        source, target, topics=[name], start="latest", spark={"engine": "inline"}
    )
    mirror.catch_up(tmp_path, given)
    assert counts(target, name) == {0: 0, 1: 0}

    operations.grow(source, name, 4)
    for partition, count in enumerate((3, 4, 20, 30)):
        kafka.produce(source, name, content.some(count, partition=partition))
    mirror.catch_up(tmp_path, given)
    assert counts(target, name) == {0: 3, 1: 4, 2: 20, 3: 30}
    for partition in (2, 3):
        before = kafka.read_partition(source, name, partition)
        after = kafka.read_partition(target, f"east.{name}", partition)
        assert kafka.differences(before, after) == []


def counts(target: Properties, name: str) -> dict[int, int]:
    found = kafka.read_topic(target, f"east.{name}")
    return {partition: len(records) for partition, records in found.items()}
