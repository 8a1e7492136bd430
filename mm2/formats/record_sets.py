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
"""A batch of v2 has no room for more between its first offset and its last."""
LEGACY_MAGICS = (0, 1)


class MalformedLegacyMessageError(Exception):
    """A message of an old format is not what it claims to be; the text says why."""


def convert_legacy_message(message: memoryview) -> bytearray:
    """One whole message, with all that it holds, as a v2 batch with the offsets that it has.

    Timestamps are those that readers see (-1 in v0), the codec stays. Raises
    `MalformedLegacyMessageError` (a checksum among the reasons).
    """
    offset, _, crc, magic, attributes = _read_message_header(message)
    if zlib.crc32(message[_CRC_END:]) != crc:
        raise MalformedLegacyMessageError(
            f"the checksum of its {len(message)} bytes does not match"
        )
    codec = attributes & record_batch.CODEC_MASK
    timestamp, content = _read_message_content(message, magic)
    if codec == compression.NONE:
        return records.encode_batch(
            [BatchRecord(offset, timestamp, content)], codec=codec, sparse=True
        )
    appended = bool(attributes & record_batch.LOG_APPEND_TIME)
    found = _decode_inner_messages(content, codec=codec, stamped=timestamp if appended else None)
    if magic == _MAGIC_V1:
        shift = offset - found[-1].offset
        found = [each._replace(offset=each.offset + shift) for each in found]
    if found[0].offset < 0:
        raise MalformedLegacyMessageError("what it holds begins before offset 0")
    return records.encode_batch(found, codec=codec, sparse=True)


def _read_message_header(message: memoryview) -> tuple[int, int, int, int, int]:
    if len(message) < _MESSAGE_BYTES_MIN:
        raise MalformedLegacyMessageError(f"it has {len(message)} bytes only")
    offset, size, crc, magic, attributes = _MESSAGE_HEADER.unpack_from(message)
    if magic not in LEGACY_MAGICS:
        raise MalformedLegacyMessageError(f"it is in record format v{magic}")
    return offset, size, crc, magic, attributes


def _read_message_content(message: memoryview, magic: int) -> tuple[int, bytes]:
    """(timestamp, the record's body)."""
    at, timestamp = _MESSAGE_HEADER.size, record_batch.NO_TIMESTAMP
    try:
        if magic == _MAGIC_V1:
            (timestamp,) = _TIMESTAMP_FIELD.unpack_from(message, at)
            at += _TIMESTAMP_FIELD.size
        key, at = _read_message_field(message, at)
        value, at = _read_message_field(message, at)
    except struct.error as error:
        raise MalformedLegacyMessageError("it is cut off") from error
    if at != len(message):
        raise MalformedLegacyMessageError(f"{len(message) - at} bytes are left behind its value")
    return timestamp, records.encode_body(RecordFields(key, value))


def _read_message_field(message: memoryview, at: int) -> tuple[bytes | None, int]:
    (size,) = _LENGTH_FIELD.unpack_from(message, at)
    at += _LENGTH_FIELD.size
    if size < 0:
        return None, at
    if size > len(message) - at:
        raise MalformedLegacyMessageError(
            f"a field claims {size} bytes, {len(message) - at} are left"
        )
    return bytes(message[at : at + size]), at + size


def _decode_inner_messages(body: bytes, *, codec: int, stamped: int | None) -> list[BatchRecord]:
    """What a compressed message holds, at the offsets that stand there.

    `stamped` is the broker's time for all of it that has a time.
    """
    packed = records.decode_body(body).value
    if packed is None:
        raise MalformedLegacyMessageError("it is compressed and empty")
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
            raise MalformedLegacyMessageError("a compressed message holds another one")
        timestamp, content = _read_message_content(message, magic)
        if magic == _MAGIC_V1 and stamped is not None:
            timestamp = stamped
        found.append(BatchRecord(offset, timestamp, content))
        if len(found) > records.DECODED_RECORDS_MAX:
            raise MalformedLegacyMessageError(records.explain_too_many_records(len(found)))
        at += len(message)
    if not found:
        raise MalformedLegacyMessageError("it is compressed and empty")
    if not _has_increasing_offsets(found):
        raise MalformedLegacyMessageError("the offsets of what it holds do not follow each other")
    return found


def _has_increasing_offsets(found: list[BatchRecord]) -> bool:
    rising = all(one.offset < two.offset for one, two in itertools.pairwise(found))
    return rising and found[-1].offset - found[0].offset <= _OFFSET_SPAN_MAX


def _slice_message(data: memoryview, at: int) -> memoryview:
    if len(data) - at < _OFFSET_SIZE.size:
        raise MalformedLegacyMessageError(
            f"{len(data) - at} bytes are left behind its last message"
        )
    size = _OFFSET_SIZE.unpack_from(data, at)[1] + _OFFSET_SIZE.size
    if not _MESSAGE_BYTES_MIN <= size <= len(data) - at:
        raise MalformedLegacyMessageError(f"a message in it claims {size} bytes")
    return data[at : at + size]


_MAGIC_AT = 16
_BYTES_TO_MAGIC = _MAGIC_AT + 1
_OFFSET_AND_LENGTH = struct.Struct(">qi")

_new = tuple.__new__
"""Past the named tuple's own constructor: this is done for every batch that is copied."""


class DamagedBatchError(Exception):
    """What stands at a batch's place is none. `base_offset` as read."""

    def __init__(self, base_offset: int, why: str) -> None:
        super().__init__(why)
        self.base_offset = base_offset


def iter_batches(records: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Each whole batch, with its bytes; an incomplete last one is left out.

    Raises `DamagedBatchError` at an impossible length or an unreadable old message, after all
    batches before it were given.
    """
    at, end = 0, len(records)
    unpack = record_batch.HEADER.unpack_from
    while end - at >= _BYTES_TO_MAGIC:
        magic = records[at + _MAGIC_AT]
        if magic == record_batch.MAGIC_V2 and end - at >= record_batch.HEADER_BYTES:
            header = _new(BatchHeader, unpack(records, at))
            size = header[1] + record_batch.LENGTH_END
            if size < record_batch.HEADER_BYTES:
                raise DamagedBatchError(header[0], f"it claims a length of {header[1]} bytes")
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
    what = f"in record format v{magic}" if magic > record_batch.MAGIC_V2 else "impossible"
    raise DamagedBatchError(offset, f"its {len(batch)} bytes are {what}")


def _read_legacy_message(offset: int, message: memoryview) -> tuple[BatchHeader, memoryview]:
    try:
        batch = memoryview(convert_legacy_message(message))
    except MalformedLegacyMessageError as error:
        raise DamagedBatchError(offset, str(error)) from error
    return record_batch.read_header(batch), batch
