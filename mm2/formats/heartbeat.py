"""Heartbeat: the flow from one cluster to another could write to its target at this time.

Topic `heartbeats` on the target, from where it is mirrored on; one partition, compacted. Byte for
byte what `Heartbeat` of MirrorMaker 2 writes and reads:

    key    source alias STRING, target alias STRING
    value  version INT16 (0), timestamp INT64 (ms), which is the record's timestamp too
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.formats import schema_fields

VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """`source` and `target` are aliases of clusters; `at_ms` is wall-clock time."""

    source: str
    target: str
    at_ms: int


def encode(heartbeat: Heartbeat) -> tuple[bytes, bytes]:
    """(key, value). Raises `schema_fields.TooLongError`."""
    key = schema_fields.string(heartbeat.source) + schema_fields.string(heartbeat.target)
    return key, schema_fields.int16(VERSION) + schema_fields.int64(heartbeat.at_ms)


def decode(key: bytes, value: bytes) -> Heartbeat:
    """Raises `schema_fields.MalformedRecordError`, `UnknownVersionError` among them."""
    fields = schema_fields.Reader(value)
    fields.version(VERSION)
    at_ms = fields.int64()
    names = schema_fields.Reader(key)
    return Heartbeat(source=names.string(), target=names.string(), at_ms=at_ms)
