"""Checkpoint: where a consumer group of the source stands, in offsets of the target.

Topic `<source alias>.checkpoints.internal` on the target; one partition, compacted. Byte for byte
what `Checkpoint` of MirrorMaker 2 writes and reads:

    key    group STRING, topic STRING (its name on the target), partition INT32
    value  version INT16 (0), upstream offset INT64, downstream offset INT64, metadata STRING
"""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.formats import schema_fields

VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a checkpoint is about. `partition` has the topic's name on the target."""

    group: str
    partition: ids.TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """`group` stood at `upstream` on the source; on the target it goes on at `downstream`.

    `metadata` is what the group committed along with its offset, "" for none.
    """

    group: str
    partition: ids.TopicPartition
    upstream: int
    downstream: int
    metadata: str = ""

    @property
    def key(self) -> Key:
        return Key(group=self.group, partition=self.partition)


def encode(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """(key, value). Raises `schema_fields.TooLongError`."""
    key = (
        schema_fields.string(checkpoint.group)
        + schema_fields.string(checkpoint.partition.topic)
        + schema_fields.int32(checkpoint.partition.partition)
    )
    value = (
        schema_fields.int16(VERSION)
        + schema_fields.int64(checkpoint.upstream)
        + schema_fields.int64(checkpoint.downstream)
        + schema_fields.string(checkpoint.metadata)
    )
    return key, value


def decode(key: bytes, value: bytes) -> Checkpoint:
    """Raises `schema_fields.MalformedRecordError`, `UnknownVersionError` among them."""
    fields = schema_fields.Reader(value)
    fields.version(VERSION)
    about = decode_key(key)
    return Checkpoint(
        group=about.group,
        partition=about.partition,
        upstream=fields.int64(),
        downstream=fields.int64(),
        metadata=fields.string(),
    )


def decode_key(key: bytes) -> Key:
    """Raises `schema_fields.MalformedRecordError`."""
    fields = schema_fields.Reader(key)
    group = fields.string()
    return Key(group=group, partition=ids.TopicPartition(fields.string(), fields.int32()))
