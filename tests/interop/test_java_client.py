"""`mm2.client` beside Java's `RemoteClusterUtils`, on a cluster: the same answers of the same
topics."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2 import client
from mm2.client.mirror_client import GroupOffsets
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint
from tests.interop import java_mirror
from tests.support import kafka
from tests.support.kafka import Outgoing

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(300)]

WAIT_S = 30.0
_UNIQUE = itertools.count()


@pytest.fixture
def alias() -> str:
    """Of a source of this test's own: the cluster is shared."""
    return f"far{next(_UNIQUE)}"


def write(east: SandboxCluster, topic: str, *records: tuple[bytes, bytes]) -> None:
    """A topic that has these records."""
    properties = east.client_properties()
    kafka.create_topic(properties, topic, config={"cleanup.policy": "compact"})
    outgoing = [Outgoing(key=key, value=value) for key, value in records]
    kafka.produce(properties, topic, outgoing)


def point(group: str, topic: str, partition: int, downstream: int) -> tuple[bytes, bytes]:
    return mirrormaker2_records.encode_checkpoint(
        Checkpoint(
            group=group,
            partition=TopicPartition(topic, partition),
            upstream=downstream + 7,
            downstream=downstream,
            metadata=f"of {group}",
        )
    )


def java(folder: Path, properties: Mapping[str, str], **asked: Any) -> dict[str, Any]:
    question = {"kind": "live", "properties": dict(properties), **asked}
    (found,) = java_mirror.ask(folder, [question])
    assert isinstance(found, dict)
    return found


def as_rows(found: GroupOffsets) -> list[list[Any]]:
    pairs = sorted(found.items(), key=lambda pair: str(pair[0]))
    return [[at.topic, at.partition, each.offset, each.metadata] for at, each in pairs]


def test_java_and_we_answer_the_same(east: SandboxCluster, alias: str, tmp_path: Path) -> None:
    topic = f"{alias}.orders"
    for name in (f"{alias}.heartbeats", f"{alias}.farther.heartbeats", topic):
        write(east, name)
    points = [point("g1", topic, 0, 3), point("g2", topic, 1, 4), point("g1", topic, 0, 5)]
    write(east, f"{alias}.checkpoints.internal", *points, (b"no", b"checkpoint"))
    properties = east.client_properties()
    theirs = java(
        tmp_path, properties, alias=alias, farther="farther", group="g1", pattern="g[0-9]"
    )
    offsets = client.translate_offsets(properties, alias, "g1", WAIT_S)
    assert as_rows(offsets) == theirs["offsets"] == [[topic, 0, 5, "of g1"]]
    groups = client.translate_offsets(properties, alias, re.compile("g[0-9]"), WAIT_S)
    assert {group: as_rows(each) for group, each in groups.items()} == theirs["matching"]
    assert sorted(groups) == ["g1", "g2"]
    assert client.replication_hops(properties, alias) == theirs["hops"] == 1
    assert theirs["farther"] == 2
    assert sorted(client.heartbeat_topics(properties)) == theirs["heartbeats"]
    assert sorted(client.checkpoint_topics(properties)) == theirs["checkpoints"]
    assert sorted(client.upstream_clusters(properties)) == theirs["upstream"]
    assert client.remote_topics(properties, alias) >= {topic}


def test_a_cluster_without_checkpoints_says_so(east: SandboxCluster, alias: str) -> None:
    with pytest.raises(TopicMissingError, match=rf"no topic {alias}\.checkpoints"):
        client.translate_offsets(east.client_properties(), alias, "billing", WAIT_S)
