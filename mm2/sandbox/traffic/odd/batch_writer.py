"""Record batches of format v2 by hand, for what no client writes. Pure.

Written from KIP-98, not with the product's own codec: a generator that shared its mistakes would
hide them. Only `none` and `gzip`: the standard library has no more, and clients have the rest.
"""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import crc32c

from mm2.sandbox.traffic import payloads

_CHECKED = struct.Struct(">hiqqqhii")
_PREFIX = struct.Struct(">qiibI")
_GZIP = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamped:
    """A record with its timestamp, which may be anything."""

    record: payloads.Outgoing
    timestamp_ms: int


def batch(
    records: Sequence[Stamped],
    *,
    compressed: bool = False,
    attributes: int = 0,
    base_timestamp_ms: int | None = None,
) -> bytes:
    """One batch without a producer id. `base_timestamp_ms` need not be the first record's."""
    stamps = [each.timestamp_ms for each in records]
    base = stamps[0] if base_timestamp_ms is None else base_timestamp_ms
    body = b"".join(_record(each, at, base) for at, each in enumerate(records))
    if compressed:
        body = gzip.compress(body, mtime=0)
        attributes |= _GZIP
    checked = (
        _CHECKED.pack(attributes, len(records) - 1, base, max(stamps), -1, -1, -1, len(records))
        + body
    )
    length = _PREFIX.size - 12 + len(checked)
    return _PREFIX.pack(0, length, -1, 2, crc32c.crc32c(checked)) + checked


def _record(stamped: Stamped, at: int, base: int) -> bytes:
    record = stamped.record
    parts = [
        b"\0",
        _varint(stamped.timestamp_ms - base),
        _varint(at),
        _sized(record.key),
        _sized(record.value),
        _varint(len(record.headers)),
    ]
    parts += [_sized(name.encode()) + _sized(value) for name, value in record.headers]
    body = b"".join(parts)
    return _varint(len(body)) + body


def _sized(value: bytes | None) -> bytes:
    return _varint(-1) if value is None else _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Zigzag: the sign in the lowest bit, seven bits a byte, lowest first."""
    rest = value * 2 if value >= 0 else -value * 2 - 1
    out = bytearray()
    while rest >= 0x80:
        out.append(rest % 0x80 + 0x80)
        rest //= 0x80
    out.append(rest)
    return bytes(out)
