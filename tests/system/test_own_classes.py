"""A policy, a filter and a transform of the user's, in a file of `mm2 run`, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import kafka, mirror, own_classes
from tests.support.kafka import Outgoing
from tests.support.mirror import Mirror

pytestmark = [pytest.mark.system, pytest.mark.timeout(480)]

OWN = own_classes.NAME


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.full), "inline"])
def test_a_flow_is_as_its_users_classes_say(
    tmp_path: Path, east: SandboxCluster, west: SandboxCluster, topic: Any, engine: str
):
    source, target = east.client_properties(), west.client_properties()
    name, other = (kafka.create_topic(source, topic(label), partitions=2) for label in "ab")
    for each in (name, other):
        values = [b"first", b"a secret", b"second"]
        kafka.produce(source, each, [Outgoing(value=value, partition=0) for value in values])
    given = mirror.settings(source, target, spark={"engine": engine})
    given["flows"][0] |= {
        "replication.policy.class": f"{OWN}:Dashes",
        "topic.filter.class": f"{OWN}:Suffixes",
        "group.filter.class": f"{OWN}:Suffixes",
        "wanted.suffix": name,
        "transforms": ["stamp"],
        "transforms.stamp.type": f"{OWN}:Stamp",
        "transforms.stamp.stamp": "new ",
        "transforms.stamp.without": "secret",
    }
    for _ in range(2):  # what it wrote, it finds again
        with Mirror(tmp_path, given, "--until-caught-up") as running:
            assert running.wait(200) == 0, running.tail
            assert "caught up: 2 partitions" in running.log, running.tail
    copies = kafka.read_partition(target, f"from-east-{name}", 0)
    assert [each.value for each in copies] == [b"new first", b"new second"]
    assert f"from-east-{other}" not in kafka.topics(target)
