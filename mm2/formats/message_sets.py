"""Message formats v0 and v1, read as v2 batches (KIP-31, KIP-32; `AbstractLegacyRecordBatch`).

A message (big-endian; `LegacyRecord`):

    0 offset i64 | 8 size i32 (of what follows) | 12 CRC-32 u32 (of 16..end) | 16 magic i8
    17 attributes i8 (codec 0x07, 0x08 log append time) | v1: 18 timestamp i64
    key length i32, key | value length i32, value      (-1 for null)

A compressed message's value holds messages. Its offset is that of the last of them; if it is of v1
theirs count from the first one, if it is of v0 they are whole, whichever format is theirs.
"""

from __future__ import annotations

import itertools
import struct
import zlib

from mm2.formats import compression, record_batch, records

_OFFSET_SIZE = struct.Struct(">qi")
_HEAD = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")

_CRC_END = 16
_V1 = 1
_LEAST_BYTES = _HEAD.size + 8
_SPAN_MAX = (1 << 31) - 1
"""A batch of v2 has no room for more between its first offset and its last."""
OUTER_MAGICS = (0, 1)


class MalformedMessageError(Exception):
    """A message of an old format is not what it claims to be; the text says why."""


def as_batch(message: memoryview) -> bytearray:
    """One whole message, with all that it holds, as a v2 batch with the offsets that it has.

    Timestamps are those that readers see (-1 in v0), the codec stays. Raises
    `MalformedMessageError` (a checksum among the reasons).
    """
    offset, _, crc, magic, attributes = _head(message)
    if zlib.crc32(message[_CRC_END:]) != crc:
        raise MalformedMessageError(f"the checksum of its {len(message)} bytes does not match")
    codec = attributes & record_batch.CODEC_MASK
    timestamp, content = _content(message, magic)
    if codec == compression.NONE:
        return records.build([records.Record(offset, timestamp, content)], codec=codec, sparse=True)
    appended = bool(attributes & record_batch.LOG_APPEND_TIME)
    found = _inner(content, codec=codec, stamped=timestamp if appended else None)
    if magic == _V1:
        shift = offset - found[-1].offset
        found = [each._replace(offset=each.offset + shift) for each in found]
    if found[0].offset < 0:
        raise MalformedMessageError("what it holds begins before offset 0")
    return records.build(found, codec=codec, sparse=True)


def _head(message: memoryview) -> tuple[int, int, int, int, int]:
    if len(message) < _LEAST_BYTES:
        raise MalformedMessageError(f"it has {len(message)} bytes only")
    offset, size, crc, magic, attributes = _HEAD.unpack_from(message)
    if magic not in OUTER_MAGICS:
        raise MalformedMessageError(f"it is in record format v{magic}")
    return offset, size, crc, magic, attributes


def _content(message: memoryview, magic: int) -> tuple[int, bytes]:
    """(timestamp, the record's body)."""
    at, timestamp = _HEAD.size, record_batch.NO_TIMESTAMP
    try:
        if magic == _V1:
            (timestamp,) = _TIMESTAMP.unpack_from(message, at)
            at += _TIMESTAMP.size
        key, at = _read_sized(message, at)
        value, at = _read_sized(message, at)
    except struct.error as error:
        raise MalformedMessageError("it is cut off") from error
    if at != len(message):
        raise MalformedMessageError(f"{len(message) - at} bytes are left behind its value")
    return timestamp, records.write_body(records.Fields(key, value))


def _read_sized(message: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = _LENGTH.unpack_from(message, at)
    at += _LENGTH.size
    if size < 0:
        return None, at
    if size > len(message) - at:
        raise MalformedMessageError(f"a field claims {size} bytes, {len(message) - at} are left")
    return bytes(message[at : at + size]), at + size


def _inner(body: bytes, *, codec: int, stamped: int | None) -> list[records.Record]:
    """What a compressed message holds, at the offsets that stand there.

    `stamped` is the broker's time for all of it that has a time.
    """
    packed = records.read_body(body).value
    if packed is None:
        raise MalformedMessageError("it is compressed and empty")
    try:
        data = memoryview(compression.unpack(codec, memoryview(packed)))
    except compression.UnpackError as error:
        raise MalformedMessageError(str(error)) from error
    found: list[records.Record] = []
    at = 0
    while at < len(data):
        message = _at(data, at)
        offset, _, _, magic, attributes = _head(message)
        if attributes & record_batch.CODEC_MASK:
            raise MalformedMessageError("a compressed message holds another one")
        timestamp, content = _content(message, magic)
        if magic == _V1 and stamped is not None:
            timestamp = stamped
        found.append(records.Record(offset, timestamp, content))
        if len(found) > records.OPENED_RECORDS_MAX:
            raise MalformedMessageError(records.too_many(len(found)))
        at += len(message)
    if not found:
        raise MalformedMessageError("it is compressed and empty")
    if not _follow(found):
        raise MalformedMessageError("the offsets of what it holds do not follow each other")
    return found


def _follow(found: list[records.Record]) -> bool:
    rising = all(one.offset < two.offset for one, two in itertools.pairwise(found))
    return rising and found[-1].offset - found[0].offset <= _SPAN_MAX


def _at(data: memoryview, at: int) -> memoryview:
    if len(data) - at < _OFFSET_SIZE.size:
        raise MalformedMessageError(f"{len(data) - at} bytes are left behind its last message")
    size = _OFFSET_SIZE.unpack_from(data, at)[1] + _OFFSET_SIZE.size
    if not _LEAST_BYTES <= size <= len(data) - at:
        raise MalformedMessageError(f"a message in it claims {size} bytes")
    return data[at : at + size]
