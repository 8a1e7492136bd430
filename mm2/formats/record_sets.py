"""Splits a fetched record set into batches; message formats v0 and v1 are converted to v2.

Old formats: KIP-31, KIP-32; `AbstractLegacyRecordBatch`. A message (big-endian;
`LegacyRecord`):

    0 offset i64 | 8 size i32 (of what follows) | 12 CRC-32 u32 (of 16..end) | 16 magic i8
    17 attributes i8 (codec 0x07, 0x08 log append time) | v1: 18 timestamp i64
    key length i32, key | value length i32, value      (-1 for null)

The value of a compressed message holds messages. Its offset is that of the last of them. In v1
the inner offsets count from the first message, in v0 they are absolute; the outer message's
format decides, whatever format the inner ones have.
"""

from __future__ import annotations

import itertools
import struct
import zlib
from collections.abc import Iterator

from mm2.formats import compression, record_batch, records
from mm2.formats.compression import DecompressionError
from mm2.formats.record_batch import BatchHeader
from mm2.formats.records import BatchRecord, RecordFields

_OFFSET_SIZE = struct.Struct(">qi")
_MESSAGE_HEADER = struct.Struct(">qiIbb")
_TIMESTAMP_FIELD = struct.Struct(">q")
_LENGTH_FIELD = struct.Struct(">i")

_CRC_END = 16
_MAGIC_V1 = 1
_MESSAGE_BYTES_MIN = _MESSAGE_HEADER.size + 8
_OFFSET_SPAN_MAX = (1 << 31) - 1
"""Maximum distance between the first and the last offset of a v2 batch."""
LEGACY_MAGICS = (0, 1)


class MalformedLegacyMessageError(Exception):
    """A message of an old format is malformed; the text says why."""


def convert_legacy_message(message: memoryview) -> bytearray:
    """Convert one message, with its inner messages, to a v2 batch with the same offsets.

    Timestamps are those that consumers see (-1 in v0); the codec stays. Raises
    `MalformedLegacyMessageError`, also for a wrong checksum.
    """
    offset, _, crc, magic, attributes = _read_message_header(message)
    if zlib.crc32(message[_CRC_END:]) != crc:
        raise MalformedLegacyMessageError(
            f"the checksum of the message ({len(message)} bytes) does not match"
        )
    codec = attributes & record_batch.CODEC_MASK
    timestamp, content = _read_message_content(message, magic)
    if codec == compression.NONE:
        return records.encode_batch(
            [BatchRecord(offset, timestamp, content)], codec=codec, keep_offsets=True
        )
    appended = bool(attributes & record_batch.LOG_APPEND_TIME)
    found = _decode_inner_messages(content, codec=codec, stamped=timestamp if appended else None)
    if magic == _MAGIC_V1:
        shift = offset - found[-1].offset
        found = [each._replace(offset=each.offset + shift) for each in found]
    if found[0].offset < 0:
        raise MalformedLegacyMessageError("the inner messages begin before offset 0")
    return records.encode_batch(found, codec=codec, keep_offsets=True)


def _read_message_header(message: memoryview) -> tuple[int, int, int, int, int]:
    if len(message) < _MESSAGE_BYTES_MIN:
        raise MalformedLegacyMessageError(f"the message has only {len(message)} bytes")
    offset, size, crc, magic, attributes = _MESSAGE_HEADER.unpack_from(message)
    if magic not in LEGACY_MAGICS:
        raise MalformedLegacyMessageError(f"unsupported message format v{magic}")
    return offset, size, crc, magic, attributes


def _read_message_content(message: memoryview, magic: int) -> tuple[int, bytes]:
    """Read the timestamp and the record's body."""
    at, timestamp = _MESSAGE_HEADER.size, record_batch.NO_TIMESTAMP
    try:
        if magic == _MAGIC_V1:
            (timestamp,) = _TIMESTAMP_FIELD.unpack_from(message, at)
            at += _TIMESTAMP_FIELD.size
        key, at = _read_message_field(message, at)
        value, at = _read_message_field(message, at)
    except struct.error as error:
        raise MalformedLegacyMessageError("the message is truncated") from error
    if at != len(message):
        raise MalformedLegacyMessageError(
            f"{len(message) - at} unexpected bytes after the message's value"
        )
    return timestamp, records.encode_body(RecordFields(key, value))


def _read_message_field(message: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = _LENGTH_FIELD.unpack_from(message, at)
    at += _LENGTH_FIELD.size
    if size < 0:
        return None, at
    if size > len(message) - at:
        raise MalformedLegacyMessageError(
            f"a field has a length of {size} bytes, but only {len(message) - at} are left"
        )
    return bytes(message[at : at + size]), at + size


def _decode_inner_messages(body: bytes, *, codec: int, stamped: int | None) -> list[BatchRecord]:
    """Decode the messages inside a compressed message, at their stored offsets.

    `stamped` is the broker's timestamp for all inner messages that have one.
    """
    packed = records.decode_body(body).value
    if packed is None:
        raise MalformedLegacyMessageError("the compressed message is empty")
    try:
        data = memoryview(compression.decompress(codec, memoryview(packed)))
    except DecompressionError as error:
        raise MalformedLegacyMessageError(str(error)) from error
    found: list[BatchRecord] = []
    at = 0
    while at < len(data):
        message = _slice_message(data, at)
        offset, _, _, magic, attributes = _read_message_header(message)
        if attributes & record_batch.CODEC_MASK:
            raise MalformedLegacyMessageError(
                "a compressed message contains another compressed one"
            )
        timestamp, content = _read_message_content(message, magic)
        if magic == _MAGIC_V1 and stamped is not None:
            timestamp = stamped
        found.append(BatchRecord(offset, timestamp, content))
        if len(found) > records.DECODED_RECORDS_MAX:
            raise MalformedLegacyMessageError(records.explain_too_many_records(len(found)))
        at += len(message)
    if not found:
        raise MalformedLegacyMessageError("the compressed message is empty")
    if not _has_increasing_offsets(found):
        raise MalformedLegacyMessageError("the offsets of the inner messages do not increase")
    return found


def _has_increasing_offsets(found: list[BatchRecord]) -> bool:
    rising = all(one.offset < two.offset for one, two in itertools.pairwise(found))
    return rising and found[-1].offset - found[0].offset <= _OFFSET_SPAN_MAX


def _slice_message(data: memoryview, at: int) -> memoryview:
    if len(data) - at < _OFFSET_SIZE.size:
        raise MalformedLegacyMessageError(
            f"{len(data) - at} unexpected bytes after the last inner message"
        )
    size = _OFFSET_SIZE.unpack_from(data, at)[1] + _OFFSET_SIZE.size
    if not _MESSAGE_BYTES_MIN <= size <= len(data) - at:
        raise MalformedLegacyMessageError(f"an inner message has an invalid size of {size} bytes")
    return data[at : at + size]


_MAGIC_AT = 16
_BYTES_TO_MAGIC = _MAGIC_AT + 1
_OFFSET_AND_LENGTH = struct.Struct(">qi")

_new = tuple.__new__
"""Bypasses the named tuple's constructor, which is slow: this runs for every copied batch."""


class DamagedBatchError(Exception):
    """Data that is not a valid batch, at `base_offset` as read."""

    def __init__(self, base_offset: int, why: str) -> None:
        super().__init__(why)
        self.base_offset = base_offset


def iter_batches(records: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Iterate over whole batches and their bytes; a truncated last batch is left out.

    Raises `DamagedBatchError` at an invalid length or an unreadable old message, after yielding all
    batches before it.
    """
    at, end = 0, len(records)
    unpack = record_batch.HEADER.unpack_from
    while end - at >= _BYTES_TO_MAGIC:
        magic = records[at + _MAGIC_AT]
        if magic == record_batch.MAGIC_V2 and end - at >= record_batch.HEADER_BYTES:
            header = _new(BatchHeader, unpack(records, at))
            size = header[1] + record_batch.LENGTH_END
            if size < record_batch.HEADER_BYTES:
                raise DamagedBatchError(
                    header[0], f"the batch has an invalid length of {header[1]} bytes"
                )
            if size > end - at:
                return
            yield header, records[at : at + size]
        else:
            base_offset, length = _OFFSET_AND_LENGTH.unpack_from(records, at)
            size = length + record_batch.LENGTH_END
            if size > end - at:
                return
            yield _read_other_format(base_offset, records[at : at + max(0, size)], magic)
        at += size


def _read_other_format(
    offset: int, batch: memoryview, magic: int
) -> tuple[BatchHeader, memoryview]:
    if magic < record_batch.MAGIC_V2:
        return _read_legacy_message(offset, batch)
    unknown = magic > record_batch.MAGIC_V2
    why = f"unsupported record format v{magic}" if unknown else "too short for a batch header"
    raise DamagedBatchError(offset, f"{why} ({len(batch)} bytes)")


def _read_legacy_message(offset: int, message: memoryview) -> tuple[BatchHeader, memoryview]:
    try:
        batch = memoryview(convert_legacy_message(message))
    except MalformedLegacyMessageError as error:
        raise DamagedBatchError(offset, str(error)) from error
    return record_batch.read_header(batch), batch
