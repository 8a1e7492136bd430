"""OffsetSync: a source offset and the offset that its record has on the target.

Topic `mm2-offset-syncs.<alias>.internal`, on the source or the target as configured; one
partition, compacted. Byte for byte what `OffsetSync` of MirrorMaker 2 writes and reads:

    key    topic STRING (its name on the source), partition INT32
    value  upstream offset INT64, downstream offset INT64: there is no version
"""

from __future__ import annotations

from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.formats import schema_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSync:
    """The record at `upstream` of the source's `partition` is at `downstream` on the target."""

    partition: ids.TopicPartition
    upstream: int
    downstream: int


def encode(sync: OffsetSync) -> tuple[bytes, bytes]:
    """(key, value)"""
    key = schema_fields.string(sync.partition.topic) + schema_fields.int32(sync.partition.partition)
    return key, schema_fields.int64(sync.upstream) + schema_fields.int64(sync.downstream)


def decode(key: bytes, value: bytes) -> OffsetSync:
    """Raises `schema_fields.MalformedRecordError`."""
    fields = schema_fields.Reader(value)
    return OffsetSync(partition=decode_key(key), upstream=fields.int64(), downstream=fields.int64())


def decode_key(key: bytes) -> ids.TopicPartition:
    """The source's partition. Raises `schema_fields.MalformedRecordError`."""
    fields = schema_fields.Reader(key)
    return ids.TopicPartition(fields.string(), fields.int32())
