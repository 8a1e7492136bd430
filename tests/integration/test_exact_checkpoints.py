"""Mirrored and translated by us: groups that are behind, went back or have nothing to read yet go
on exactly where they stood. Java's are sent back up to half of what they are behind, and get no
checkpoint of a partition of which nothing was mirrored (KAFKA-12468 and its kin)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from connect_runtime.base.ids import TopicPartition
from tests.support import checkpoints, eventually, kafka
from tests.support.connect_workers import Group, Kind
from tests.support.kafka import Outgoing
from tests.support.scraped import Listener

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(600)]

WAIT_S = 120.0
MIRROR, POINTS = "mirror", "points"
ALIASES = ("behind", "ahead")
TOPIC = "store"
GAPPY, PLAIN, EMPTY = (TopicPartition(TOPIC, each) for each in range(3))
RECORDS = 300
LEGACY = "kafka_connect_mirror_mirrorsourceconnector_"


def write(source: dict[str, str]) -> None:
    """One partition in transactions, whose markers make offsets differ, one plainly."""
    kafka.create_topic(source, TOPIC, partitions=3)
    numbers = [b"%d" % each for each in range(RECORDS)]
    for at in range(0, RECORDS, 20):
        some = numbers[at : at + 20]
        records = [Outgoing(value=each, partition=GAPPY.partition) for each in some]
        kafka.produce_transaction(source, TOPIC, records, transactional_id="store-writer")
    records = [Outgoing(value=each, partition=PLAIN.partition) for each in numbers]
    kafka.produce(source, TOPIC, records)


class World:
    def __init__(self, source: dict[str, str], target: dict[str, str]) -> None:
        self.source, self.target = source, target
        self.mirror = f"{ALIASES[0]}.{TOPIC}"
        self.points = checkpoints.config(source, target, aliases=ALIASES, topics=TOPIC)
        clusters = {name: value for name, value in self.points.items() if ".cluster." in name}
        self.mirroring = {
            **clusters,
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "topics": TOPIC,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "sync.topic.acls.enabled": "false",
            "mm2.engine": "inline",
        }

    def read(self, client: dict[str, str], topic: str, partition: int, start: int) -> list[bytes]:
        """What a group reads that goes on there."""
        found = kafka.read_partition(client, topic, partition)
        return [each.value or b"" for each in found if each.offset >= start]

    def translated(self, group: str, place: TopicPartition, upstream: int) -> int:
        """AssertionError as long as that is not what the newest checkpoint is of."""
        found = [
            point
            for point in map(checkpoints.decoded, checkpoints.read(self.target, ALIASES[0]))
            if point.group == group and point.partition.partition == place.partition
        ]
        assert found
        assert found[-1].upstream == upstream, found[-1]
        return found[-1].downstream

    def goes_on(self, group: str, place: TopicPartition, upstream: int, log) -> None:
        """Nothing comes again, and nothing is missed."""
        ask = functools.partial(self.translated, group, place, upstream)
        downstream = eventually.eventually(
            lambda: ask() + 1, WAIT_S, lambda: f"{place} {upstream}: {log()}", interval_s=0.5
        )
        theirs = self.read(self.source, TOPIC, place.partition, upstream)
        assert self.read(self.target, self.mirror, place.partition, downstream - 1) == theirs


def test_groups_go_on_exactly_where_they_stood(
    west: SandboxCluster,
    east: SandboxCluster,
    connect_group: Callable[..., Group],
) -> None:
    world = World(dict(west.client_properties()), dict(east.client_properties()))
    write(world.source)
    metrics = Listener()
    worker = connect_group(settings=metrics.settings).start("one", Kind.OURS)
    worker.configure(MIRROR, world.mirroring)
    copied = functools.partial(metrics.total, f"{LEGACY}record_count", topic=world.mirror)
    eventually.eventually(lambda: copied() == 2 * RECORDS, WAIT_S, worker.log_text, interval_s=0.3)
    (_, end) = kafka.offsets(world.source, TOPIC, GAPPY.partition)
    assert end > RECORDS
    at = [each.offset for each in kafka.read_partition(world.source, TOPIC, GAPPY.partition)]
    for group, place, offsets in (
        ("lagging", GAPPY, (at[37], at[115], end)),
        ("rewound", PLAIN, (RECORDS * 9 // 10, RECORDS // 10)),
        ("waiting", EMPTY, (0,)),
    ):
        for number, offset in enumerate(offsets):
            checkpoints.commit(world.source, group, {place: offset})
            if number == 0:
                worker.configure(POINTS, {**world.points, "groups": "lagging,rewound,waiting"})
            world.goes_on(group, place, offset, worker.log_text)

    shown = metrics.read()
    for labels, value in shown["mm2_partition_lag_records"]:
        assert (labels["source"], labels["target"]) == ALIASES
        assert value == 0, labels
    latencies = [value for _, value in shown[f"{LEGACY}replication_latency_ms_max"]]
    assert len(latencies) == 3
    metrics.close()
