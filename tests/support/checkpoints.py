"""A checkpoint connector between two clusters: its configuration, and what it leaves there."""

from __future__ import annotations

from collections.abc import Mapping

import confluent_kafka

from connect_runtime.base import ids
from mm2.formats import checkpoint, offset_sync
from tests.support import kafka

CLASS = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
WAIT_S = 120.0
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
    client: _Client, group: str, offsets: Mapping[ids.TopicPartition, int], **more: object
) -> None:
    """As an application does that has consumed so far, and is gone. `more`: librdkafka's words."""
    settings = {"group.id": group, **{name.replace("_", "."): each for name, each in more.items()}}
    consumer = confluent_kafka.Consumer(kafka.client_config(client, **settings))
    try:
        consumer.commit(
            offsets=[
                confluent_kafka.TopicPartition(place.topic, place.partition, offset)
                for place, offset in offsets.items()
            ],
            asynchronous=False,
        )
    finally:
        consumer.close()


def committed(client: _Client, group: str, place: ids.TopicPartition) -> int:
    """Negative: nothing."""
    consumer = confluent_kafka.Consumer(kafka.client_config(client, **{"group.id": group}))
    try:
        wanted = [confluent_kafka.TopicPartition(place.topic, place.partition)]
        (found,) = consumer.committed(wanted, WAIT_S)
    finally:
        consumer.close()
    return int(found.offset)


def write_syncs(client: _Client, topic: str, *syncs: offset_sync.OffsetSync) -> None:
    encoded = [offset_sync.encode(each) for each in syncs]
    kafka.produce(client, topic, [kafka.Outgoing(key=key, value=value) for key, value in encoded])


def read(client: _Client, alias: str) -> list[kafka.Record]:
    """AssertionError before there is a topic. All are checked to be Java's in form."""
    topic = f"{alias}.checkpoints.internal"
    assert topic in kafka.topics(client)
    found = kafka.read_partition(client, topic)
    for each in found:
        point = decoded(each)
        assert checkpoint.encode(point) == (each.key, each.value)
        assert (each.timestamp_type, each.headers) == (kafka.CREATE_TIME, ())
    return found


def decoded(record: kafka.Record) -> checkpoint.Checkpoint:
    assert record.key is not None
    assert record.value is not None
    return checkpoint.decode(record.key, record.value)


def points(client: _Client, alias: str, group: str) -> list[tuple[int, int]]:
    """Upstream and downstream offsets of one group, in the order in which they were written."""
    every = [decoded(each) for each in read(client, alias)]
    return [(each.upstream, each.downstream) for each in every if each.group == group]
