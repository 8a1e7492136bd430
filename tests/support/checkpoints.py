"""A checkpoint connector between two clusters: its configuration, and what it leaves there."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from connect_runtime.base.ids import TopicPartition
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import Checkpoint, OffsetSync
from tests.support import eventually, kafka
from tests.support.kafka import Outgoing, Record

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


CLASS = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
WAIT_S = 120.0
_RECORDS = 30
_UNIQUE = itertools.count()
_Client = Mapping[str, str]


def config(
    source: _Client, target: _Client, *, aliases: tuple[str, str], **more: str
) -> dict[str, str]:
    """A connector's, but for its name; everything once a second. `more`: `_` for `.`."""
    return {
        "connector.class": CLASS,
        "tasks.max": "2",
        "source.cluster.alias": aliases[0],
        "target.cluster.alias": aliases[1],
        **{f"source.cluster.{name}": value for name, value in source.items()},
        **{f"target.cluster.{name}": value for name, value in target.items()},
        "checkpoints.topic.replication.factor": "1",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def commit(
    client: _Client, group: str, offsets: Mapping[TopicPartition, int], **more: object
) -> None:
    """As an application does that has consumed so far, and is gone. `more`: librdkafka's words."""
    places = {(place.topic, place.partition): offset for place, offset in offsets.items()}
    kafka.commit_offsets(client, group, places, **more)


def committed(client: _Client, group: str, place: TopicPartition) -> int:
    """Negative: nothing."""
    return kafka.committed_offset(client, group, place.topic, place.partition)


def write_syncs(client: _Client, topic: str, *syncs: OffsetSync) -> None:
    encoded = [mirrormaker2_records.encode_offset_sync(each) for each in syncs]
    kafka.produce(client, topic, [Outgoing(key=key, value=value) for key, value in encoded])


def read(client: _Client, alias: str) -> list[Record]:
    """AssertionError before there is a topic. All are checked to be Java's in form."""
    topic = f"{alias}.checkpoints.internal"
    assert topic in kafka.topics(client)
    found = kafka.read_partition(client, topic)
    for each in found:
        point = decoded(each)
        assert mirrormaker2_records.encode_checkpoint(point) == (each.key, each.value)
        assert (each.timestamp_type, each.headers) == (kafka.CREATE_TIME, ())
    return found


def decoded(record: Record) -> Checkpoint:
    assert record.key is not None
    assert record.value is not None
    return mirrormaker2_records.decode_checkpoint(record.key, record.value)


def points(client: _Client, alias: str, group: str) -> list[tuple[int, int]]:
    """Upstream and downstream offsets of one group, in the order in which they were written."""
    every = [decoded(each) for each in read(client, alias)]
    return [(each.upstream, each.downstream) for each in every if each.group == group]


class Flow:
    """A topic on `west`, its mirror on `east`, and what was synced of it."""

    def __init__(self, west: SandboxCluster, east: SandboxCluster, *, syncs_on: str) -> None:
        self.source, self.target = west.client_properties(), east.client_properties()
        number = next(_UNIQUE)
        self.aliases = (f"afar{number}", f"near{number}")
        self.place = TopicPartition(f"checkpointed{number}", 0)
        self.mirror = TopicPartition(f"{self.aliases[0]}.{self.place.topic}", 0)
        for properties, topic in (
            (self.source, self.place.topic),
            (self.target, self.mirror.topic),
        ):
            kafka.create_topic(properties, topic)
            outgoing = [Outgoing(key=None, value=b"%d" % each) for each in range(_RECORDS)]
            kafka.produce(properties, topic, outgoing)
        self._at = self.source if syncs_on == "source" else self.target
        other = self.aliases[1] if syncs_on == "source" else self.aliases[0]
        self._syncs = f"mm2-offset-syncs.{other}.internal"
        kafka.create_topic(self._at, self._syncs, config={"cleanup.policy": "compact"})
        self.config = config(
            self.source,
            self.target,
            aliases=self.aliases,
            topics=self.place.topic,
            groups=f"{self.place.topic}-.*",
        )
        self.config["offset-syncs.topic.location"] = syncs_on

    def group(self, name: str) -> str:
        return f"{self.place.topic}-{name}"

    def synced(self, upstream: int, downstream: int) -> None:
        sync = OffsetSync(partition=self.place, upstream=upstream, downstream=downstream)
        write_syncs(self._at, self._syncs, sync)

    def at_source(self, group: str, offset: int, **more: object) -> None:
        commit(self.source, group, {self.place: offset}, **more)

    def points(self, group: str) -> list[tuple[int, int]]:
        return points(self.target, self.aliases[0], group)

    def comes(self, group: str, *expected: tuple[int, int], log: Callable[[], str]) -> None:
        """Waits until these, and no others, are the group's checkpoints."""
        eventually.eventually(
            lambda: self.points(group) == list(expected),
            WAIT_S,
            lambda: f"{self.points(group)}, {log()}",
            interval_s=0.5,
        )
