"""Encodes v2 record batches that no client writes. Pure.

Written from KIP-98 without mm2's own batch code, because errors in shared code would remain
undetected. Supports only `none` and `gzip`: the standard library has no other codec, and ordinary
clients can write the other codecs.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import crc32c

from mm2.sandbox.traffic.payloads import OutgoingRecord

_CHECKSUMMED_HEADER = struct.Struct(">hiqqqhii")
_BATCH_PREFIX = struct.Struct(">qiibI")
_GZIP_CODEC = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampedRecord:
    """A record with an arbitrary timestamp, including timestamps that clients cannot send."""

    record: OutgoingRecord
    timestamp_ms: int


def encode_batch(
    records: Sequence[TimestampedRecord],
    *,
    compressed: bool = False,
    attributes: int = 0,
    base_timestamp_ms: int | None = None,
) -> bytes:
    """Encode a record batch without a producer id. `base_timestamp_ms` may be arbitrary."""
    stamps = [each.timestamp_ms for each in records]
    base = stamps[0] if base_timestamp_ms is None else base_timestamp_ms
    body = b"".join(_encode_record(each, at, base) for at, each in enumerate(records))
    if compressed:
        body = gzip.compress(body, mtime=0)
        attributes |= _GZIP_CODEC
    checked = (
        _CHECKSUMMED_HEADER.pack(
            attributes, len(records) - 1, base, max(stamps), -1, -1, -1, len(records)
        )
        + body
    )
    length = _BATCH_PREFIX.size - 12 + len(checked)
    return _BATCH_PREFIX.pack(0, length, -1, 2, crc32c.crc32c(checked)) + checked


def _encode_record(stamped: TimestampedRecord, at: int, base: int) -> bytes:
    record = stamped.record
    parts = [
        b"\0",
        _encode_varint(stamped.timestamp_ms - base),
        _encode_varint(at),
        _encode_bytes(record.key),
        _encode_bytes(record.value),
        _encode_varint(len(record.headers)),
    ]
    parts += [_encode_bytes(name.encode()) + _encode_bytes(value) for name, value in record.headers]
    body = b"".join(parts)
    return _encode_varint(len(body)) + body


def _encode_bytes(value: bytes | None) -> bytes:
    return _encode_varint(-1) if value is None else _encode_varint(len(value)) + value


def _encode_varint(value: int) -> bytes:
    """Encode an integer as a zigzag varint: the sign in the lowest bit, seven bits per byte, lowest
    bits first."""
    rest = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest % 0x80 + 0x80)
        rest //= 0x80
    out.append(rest)
    return bytes(out)
