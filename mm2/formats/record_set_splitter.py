"""Splits a fetched record set into batches. Message formats v0 and v1 are converted to v2.

Old formats: KIP-31, KIP-32; `AbstractLegacyRecordBatch`. A message (big-endian; `LegacyRecord`):

    0 offset i64 | 8 size i32 (of the remainder) | 12 CRC-32 u32 (of 16..end) | 16 magic i8
    17 attributes i8 (codec 0x07, 0x08 log append time) | v1: 18 timestamp i64
    key length i32, key | value length i32, value      (-1 for null)

The value of a compressed message contains inner messages, and its offset is that of the last inner
message. In v1 the inner offsets are relative to the first message, in v0 they are absolute. The
outer message's format decides, regardless of the inner messages' format.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from mm2.formats import compression, record_batch, record_codec
from mm2.formats.compression import DecompressedTooLargeError, DecompressionError
from mm2.formats.record_batch import BatchHeader
from mm2.formats.record_codec import BatchRecord, RecordFields

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
    """A message of an old format is malformed. The exception states the reason."""


class LegacyMessageTooLargeError(MalformedLegacyMessageError):
    """A message decompresses to more bytes than the caller allows."""


CONVERTED_RECORDS_MAX = 50_000
CONVERTED_BYTES_MAX = 8_000_000
"""Limits of one call of `iter_batches`. A message with more inner messages than
`CONVERTED_RECORDS_MAX` or more uncompressed bytes than `CONVERTED_BYTES_MAX` is converted in parts,
one part per call. A part takes about half a second. The copy loop runs between calls."""


class ConvertedMessage(NamedTuple):
    """A message of an old format, or a part of one, converted to a v2 batch."""

    batch: bytearray
    """The batch in format v2."""
    decoded_bytes: int
    """Uncompressed size of the whole original message in bytes."""
    is_whole: bool
    """True if the batch contains the message's last inner message."""


def convert_legacy_message(
    message: memoryview,
    *,
    position: int = 0,
    max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
) -> ConvertedMessage:
    """Convert one message, with its inner messages, to a v2 batch with the same offsets.

    Inner messages before offset `position` are omitted, and so are those that exceed
    `CONVERTED_RECORDS_MAX` or `CONVERTED_BYTES_MAX`. Timestamps are as seen by consumers (-1 in
    v0); the codec is kept. Raises `MalformedLegacyMessageError`, also for a wrong checksum, and its
    subclass `LegacyMessageTooLargeError` if the message decompresses to more than `max_bytes`.
    """
    offset, _, crc, magic, attributes = _read_message_header(message)
    if zlib.crc32(message[_CRC_END:]) != crc:
        raise MalformedLegacyMessageError(
            f"the checksum of the message ({len(message)} bytes) does not match"
        )
    codec = attributes & record_batch.CODEC_MASK
    timestamp, content = _read_message_content(message, magic)
    if codec == compression.NONE:
        batch = record_codec.encode_batch(
            [BatchRecord(offset, timestamp, content)], codec=codec, keep_offsets=True
        )
        return ConvertedMessage(batch, len(message), True)
    data = _decompress_inner_messages(content, codec=codec, max_bytes=max_bytes)
    progress = _get_conversion_progress(message, data)
    if progress.offsets is None:
        progress.offsets = _find_inner_offsets(data)
    first, last = progress.offsets
    shift = offset - last if magic == _MAGIC_V1 else 0
    if first + shift < 0:
        raise MalformedLegacyMessageError("the inner messages begin before offset 0")
    appended = bool(attributes & record_batch.LOG_APPEND_TIME)
    position = min(position, last + shift)
    start = progress.find_start_position(position - shift)
    found, end = _decode_inner_messages(
        data,
        start=start,
        shift=shift,
        position=position,
        stamped=timestamp if appended else None,
    )
    progress.converted = (found[-1].offset - shift, end)
    batch = record_codec.encode_batch(found, codec=codec, keep_offsets=True)
    return ConvertedMessage(batch, len(data), found[-1].offset == last + shift)


@dataclass(slots=True)
class _ConversionProgress:
    """Progress of converting a message in parts. Offsets are the stored offsets of inner
    messages."""

    offsets: tuple[int, int] | None = None
    """Offsets of the first and the last inner message; None if they are not checked yet."""
    converted: tuple[int, int] = (-1, 0)
    """Offset of the last converted inner message, and the position of the next one in the
    decompressed data."""

    def find_start_position(self, offset: int) -> int:
        """Return a position in the decompressed data such that all inner messages before it have
        lower offsets than `offset`."""
        last, end = self.converted
        return end if offset > last else 0


_LARGE_MESSAGES_MAX = 1000


@functools.lru_cache(maxsize=_LARGE_MESSAGES_MAX)
def _get_conversion_progress_by_digest(_digest: bytes) -> _ConversionProgress:
    return _ConversionProgress()


def _get_conversion_progress(message: memoryview, data: memoryview) -> _ConversionProgress:
    """Return the progress of converting a message. Messages that may need several parts are
    remembered by their digest, so that the inner messages of earlier parts are not scanned
    again."""
    if len(data) <= min(CONVERTED_BYTES_MAX, CONVERTED_RECORDS_MAX * _MESSAGE_BYTES_MIN):
        return _ConversionProgress()
    return _get_conversion_progress_by_digest(hashlib.blake2b(message).digest())


def _read_message_header(message: memoryview) -> tuple[int, int, int, int, int]:
    if len(message) < _MESSAGE_BYTES_MIN:
        raise MalformedLegacyMessageError(f"the message has only {len(message)} bytes")
    offset, size, crc, magic, attributes = _MESSAGE_HEADER.unpack_from(message)
    if magic not in LEGACY_MAGICS:
        raise MalformedLegacyMessageError(f"unsupported message format v{magic}")
    return offset, size, crc, magic, attributes


def _read_message_content(message: memoryview, magic: int) -> tuple[int, bytes]:
    """Read the timestamp and the encoded key and value from a message of an old format."""
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
    return timestamp, record_codec.encode_record_body(RecordFields(key, value))


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


def _decompress_inner_messages(body: bytes, *, codec: int, max_bytes: int) -> memoryview:
    packed = record_codec.decode_record_body(body).value
    if packed is None:
        raise MalformedLegacyMessageError("the compressed message is empty")
    try:
        return memoryview(compression.decompress(codec, memoryview(packed), max_bytes=max_bytes))
    except DecompressedTooLargeError as error:
        raise LegacyMessageTooLargeError(
            f"the message must be converted to format v2, but {error}"
        ) from error
    except DecompressionError as error:
        raise MalformedLegacyMessageError(str(error)) from error


def _find_inner_offsets(data: memoryview) -> tuple[int, int]:
    """Check that the offsets of a compressed message's inner messages increase. Returns the stored
    offsets of the first and the last inner message."""
    first: int | None = None
    last = at = 0
    while at < len(data):
        offset, size = _read_inner_message_head(data, at)
        if first is None:
            first = offset
        elif offset <= last:
            raise MalformedLegacyMessageError("the offsets of the inner messages do not increase")
        last = offset
        at += size
    if first is None:
        raise MalformedLegacyMessageError("the compressed message is empty")
    if last - first > _OFFSET_SPAN_MAX:
        raise MalformedLegacyMessageError(
            f"the offsets of the inner messages span {last - first}, more than a batch can contain"
        )
    return first, last


def _decode_inner_messages(
    data: memoryview, *, start: int, shift: int, position: int, stamped: int | None
) -> tuple[list[BatchRecord], int]:
    """Decode inner messages of a compressed message, starting at offset `position`, until
    `CONVERTED_RECORDS_MAX` or `CONVERTED_BYTES_MAX` is reached. Returns (records, position in
    `data` after the last one).

    Decoding begins at `start` in `data`, before which all offsets are lower than `position`.
    `shift` is added to stored offsets. `stamped` is the broker's timestamp, which applies to all
    inner messages that have a timestamp.
    """
    found: list[BatchRecord] = []
    at, size = start, 0
    while at < len(data) and len(found) < CONVERTED_RECORDS_MAX:
        offset, length = _read_inner_message_head(data, at)
        if offset + shift < position:
            at += length
            continue
        size += length
        if found and size > CONVERTED_BYTES_MAX:
            break
        message = data[at : at + length]
        at += length
        _, _, _, magic, attributes = _read_message_header(message)
        if attributes & record_batch.CODEC_MASK:
            raise MalformedLegacyMessageError(
                "a compressed message contains another compressed message"
            )
        timestamp, content = _read_message_content(message, magic)
        if magic == _MAGIC_V1 and stamped is not None:
            timestamp = stamped
        found.append(BatchRecord(offset + shift, timestamp, content))
    return found, at


def _read_inner_message_head(data: memoryview, at: int) -> tuple[int, int]:
    """Return the stored offset and the size of the inner message at `at`."""
    left = len(data) - at
    if left < _OFFSET_SIZE.size:
        raise MalformedLegacyMessageError(f"{left} unexpected bytes after the last inner message")
    offset, length = _OFFSET_SIZE.unpack_from(data, at)
    size = length + _OFFSET_SIZE.size
    if not _MESSAGE_BYTES_MIN <= size <= left:
        raise MalformedLegacyMessageError(f"an inner message has an invalid size of {size} bytes")
    return offset, size


_MAGIC_AT = 16
_BYTES_TO_MAGIC = _MAGIC_AT + 1
_OFFSET_AND_LENGTH = struct.Struct(">qi")

_new = tuple.__new__
"""Creates a `BatchHeader` without the named tuple's constructor, which is too slow to be called for
every replicated batch."""


class DamagedBatchError(Exception):
    """The data is not a valid record batch. `base_offset` is the base offset in the damaged
    header."""

    def __init__(
        self, base_offset: int, why: str, *, next_offset: int = -1, too_large: bool = False
    ) -> None:
        super().__init__(why)
        self.base_offset = base_offset
        self.next_offset = next_offset
        """Offset after the damaged batch; -1 if unknown."""
        self.too_large = too_large
        """True if the batch is intact but decompresses to more bytes than the caller allows."""


def iter_batches(
    records: memoryview,
    *,
    position: int = 0,
    max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Iterate over the complete batches of a record set: their headers and bytes. A truncated last
    batch is omitted.

    Old messages are converted starting at offset `position`, each up to `max_bytes`. Messages that
    exceed `CONVERTED_RECORDS_MAX` or `CONVERTED_BYTES_MAX` are omitted; call again with a
    `position` after the last batch. Raises `DamagedBatchError` at an invalid length or an
    unreadable old message, after yielding all batches before it.
    """
    at, end = 0, len(records)
    converted_records = converted_bytes = 0
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
            message = records[at : at + max(0, size)]
            _check_is_legacy_message(base_offset, message, magic)
            # The offset of a compressed message is that of its last inner message.
            if not 0 <= base_offset < position or size < _MESSAGE_BYTES_MIN:
                found = _convert_message(base_offset, message, position, max_bytes)
                header = record_batch.read_batch_header(memoryview(found.batch))
                yield header, memoryview(found.batch)
                converted_records += header.record_count
                converted_bytes += found.decoded_bytes
                if not found.is_whole or (
                    converted_records >= CONVERTED_RECORDS_MAX
                    or converted_bytes >= CONVERTED_BYTES_MAX
                ):
                    return
        at += size


def _check_is_legacy_message(offset: int, batch: memoryview, magic: int) -> None:
    if magic < record_batch.MAGIC_V2:
        return
    unknown = magic > record_batch.MAGIC_V2
    why = (
        f"unsupported record format v{magic}"
        if unknown
        else "the data is too short for a batch header"
    )
    raise DamagedBatchError(offset, f"{why} ({len(batch)} bytes)")


def _convert_message(
    offset: int, message: memoryview, position: int, max_bytes: int
) -> ConvertedMessage:
    try:
        return convert_legacy_message(message, position=position, max_bytes=max_bytes)
    except LegacyMessageTooLargeError as error:
        raise DamagedBatchError(
            offset, str(error), next_offset=offset + 1, too_large=True
        ) from error
    except MalformedLegacyMessageError as error:
        raise DamagedBatchError(offset, str(error)) from error
