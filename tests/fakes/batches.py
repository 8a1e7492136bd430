"""Record batches of format v2, written by hand from the specification, not by the product's codec.

What stands where is documented in KIP-98 and in Kafka's `DefaultRecordBatch` and `DefaultRecord`;
`tests/unit/fakes/test_batches.py` has a second decoder read them.
"""

from __future__ import annotations

import dataclasses
import gzip
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cramjam
import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CHECKED = struct.Struct(">hiqqqhii")  # attributes .. record count: what the CRC begins with
_PREFIX = struct.Struct(">qiibI")
_MARKER_KEY = struct.Struct(">hh")
_MARKER_VALUE = struct.Struct(">hi")

LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record; `offset_delta` None means its place in the batch."""

    value: bytes | None
    timestamp: int
    key: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    offset_delta: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """The header fields that a producer or a broker fills in."""

    base_offset: int = 0
    leader_epoch: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    attributes: int = 0


PLAIN = Stamp()


def data(
    records: Sequence[Record],
    stamp: Stamp = PLAIN,
    *,
    last_offset_delta: int | None = None,
    base_timestamp: int | None = None,
    codec: int = 0,
) -> bytes:
    """A batch of these records, compressed with `codec` alone, whatever the attributes say.

    `last_offset_delta` other than len - 1 is what compaction leaves behind.
    """
    first = records[0].timestamp if records else -1
    base = first if base_timestamp is None else base_timestamp
    body = packed(codec, encoded(records, base))
    newest = max((record.timestamp for record in records), default=-1)
    last = len(records) - 1 if last_offset_delta is None else last_offset_delta
    stamp = dataclasses.replace(stamp, attributes=stamp.attributes | codec)
    return assemble(body, stamp, count=len(records), last=last, timestamps=(base, newest))


def encoded(records: Sequence[Record], base_timestamp: int) -> bytes:
    return b"".join(_record(record, at, base_timestamp) for at, record in enumerate(records))


def packed(codec: int, body: bytes) -> bytes:
    """As others than we write it: one snappy block, and an lz4 frame of blocks left as they are."""
    match codec:
        case 0:
            return body
        case 1:
            return gzip.compress(body, mtime=0)
        case 2:
            return bytes(cramjam.snappy.compress_raw(body))
        case 3:
            return _LZ4_HEAD + b"".join(_lz4_blocks(body)) + bytes(4)
        case 4:
            return bytes(cramjam.zstd.compress(body))
    raise AssertionError(codec)


_LZ4_HEAD = bytes.fromhex("04224d18 60 70 73")
"""Version 1, independent blocks of up to 4 MB."""


def _lz4_blocks(body: bytes) -> Iterator[bytes]:
    for at in range(0, len(body), 1 << 22):
        block = body[at : at + (1 << 22)]
        yield struct.pack("<I", len(block) | 1 << 31) + block


def marker(stamp: Stamp, *, commit: bool, timestamp: int, coordinator_epoch: int = 0) -> bytes:
    """The control batch that ends a transaction (`EndTransactionMarker`)."""
    record = Record(
        key=_MARKER_KEY.pack(0, 1 if commit else 0),
        value=_MARKER_VALUE.pack(0, coordinator_epoch),
        timestamp=timestamp,
    )
    control = Stamp(
        base_offset=stamp.base_offset,
        leader_epoch=stamp.leader_epoch,
        producer_id=stamp.producer_id,
        producer_epoch=stamp.producer_epoch,
        attributes=TRANSACTIONAL | CONTROL,
    )
    return data([record], control)


def assemble(
    body: bytes, stamp: Stamp, *, count: int, last: int, timestamps: tuple[int, int]
) -> bytes:
    """Header and CRC around record bytes that are encoded, or compressed, already."""
    checked = (
        _CHECKED.pack(
            stamp.attributes,
            last,
            *timestamps,
            stamp.producer_id,
            stamp.producer_epoch,
            stamp.base_sequence,
            count,
        )
        + body
    )
    length = _PREFIX.size - 12 + len(checked)
    crc = crc32c.crc32c(checked)
    return _PREFIX.pack(stamp.base_offset, length, stamp.leader_epoch, 2, crc) + checked


def varint(value: int) -> bytes:
    """Zigzag varint (varlong): sign in the lowest bit, seven bits a byte, lowest first."""
    rest = value * 2 if value >= 0 else -value * 2 - 1
    out = []
    while rest >= 0x80:
        out.append(rest % 0x80 + 0x80)
        rest //= 0x80
    out.append(rest)
    return bytes(out)


def _record(record: Record, at: int, base_timestamp: int) -> bytes:
    delta = at if record.offset_delta is None else record.offset_delta
    parts = [
        b"\0",
        varint(record.timestamp - base_timestamp),
        varint(delta),
        _sized(record.key),
        _sized(record.value),
        varint(len(record.headers)),
    ]
    parts.extend(_sized(name) + _sized(value) for name, value in record.headers)
    body = b"".join(parts)
    return varint(len(body)) + body


def _sized(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def rechecked(batch: bytes | bytearray) -> bytes:
    """The batch, whatever was done to it, with the CRC that belongs to its bytes."""
    checked = bytes(batch[21:])
    return bytes(batch[:17]) + struct.pack(">I", crc32c.crc32c(checked)) + checked
