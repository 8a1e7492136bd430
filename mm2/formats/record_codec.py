"""Decodes and encodes the records inside batches of format v2.

A record (`org.apache.kafka.common.record.DefaultRecord`, KIP-98; varints are zigzag):

    length varint (of the remainder) | attributes i8, unused | timestamp delta varlong
    offset delta varint | key length varint, key | value length varint, value
    header count varint | headers: name length varint, name, value length varint, value

The bytes that begin with the key length are the record's *body*. The body depends neither on the
offset nor on the timestamp, so it can be copied to another batch unchanged.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import crc32c

from mm2.formats import compression, primitive_types, record_batch
from mm2.formats.record_batch import BatchHeader

_PRECOMPUTED_VARINTS = 1 << 14
_new = tuple.__new__
"""Creates a named tuple without calling its constructor. The constructor takes as much time as the
rest of decoding a record."""
_FAR_TIMESTAMP = 1 << 62
"""Bound for timestamps and deltas. Two values below this bound can be added without overflowing 64
bits."""
_NO_PRODUCER = (-1, -1, -1)

DECODED_RECORDS_MAX = 1_000_000
"""Maximum number of records decoded together. Each takes about 200 additional bytes and 4 us.
Producers fill batches by bytes and exceed this limit only with tiny records in highly compressed
batches, which `BatchDecoder` reads in parts."""

_RECORD_BYTES_MIN = 7
"""Minimum encoded size of a record: without key, value and headers, but including its length."""


class MalformedRecordsError(Exception):
    """The content of a batch does not match its header or has too many records. The message states
    the reason."""


class BatchRecord(NamedTuple):
    """A record of a batch: its offset and timestamp (ms) as seen by consumers, and its encoded
    body."""

    offset: int
    timestamp: int
    body: bytes


def _wrap_int64(value: int) -> int:
    """Wrap an integer to a signed 64-bit integer, as a sum in Java does on overflow."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    primitive_types.append_varint(out, _wrap_int64(value))
    return bytes(out)


_VARINTS = tuple(_encode_varint(value) for value in range(_PRECOMPUTED_VARINTS))


def _look_up_or_encode_varint(value: int) -> bytes:
    return _VARINTS[value] if 0 <= value < _PRECOMPUTED_VARINTS else _encode_varint(value)


def decode_batch(
    header: BatchHeader,
    batch: memoryview,
    *,
    max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
) -> list[BatchRecord]:
    """Decode all records of a batch, with the offsets and timestamps that consumers see.

    Raises `MalformedRecordsError` and `DecompressionError`, or the latter's subclass
    `DecompressedTooLargeError` if the records exceed `max_bytes`.
    """
    codec = header.attributes & record_batch.CODEC_MASK
    data = compression.decompress(codec, batch[record_batch.HEADER_BYTES :], max_bytes=max_bytes)
    found = decode_records(
        data,
        count=header.record_count,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
    )
    return _apply_log_append_time(found, header)


def _apply_log_append_time(found: list[BatchRecord], header: BatchHeader) -> list[BatchRecord]:
    """Set all timestamps to the batch's maximum timestamp if the batch has LogAppendTime
    (`DefaultRecordBatch`)."""
    if found and found[-1].offset > header.last_offset:
        raise MalformedRecordsError(
            f"a record's offset is after the batch's last offset {header.last_offset}"
        )
    if header.attributes & record_batch.LOG_APPEND_TIME:
        time_ms = header.max_timestamp
        return [BatchRecord(offset, time_ms, body) for offset, _, body in found]
    return found


class BatchDecoder:
    """Decodes a batch's records in parts, from first to last. Raises the errors of
    `decode_batch`."""

    def __init__(
        self,
        header: BatchHeader,
        batch: memoryview,
        *,
        max_bytes: int = compression.DECOMPRESSED_BYTES_MAX,
    ) -> None:
        codec = header.attributes & record_batch.CODEC_MASK
        packed = batch[record_batch.HEADER_BYTES :]
        self._data = compression.decompress(codec, packed, max_bytes=max_bytes)
        self._header = header
        self._at = 0
        self._before = -1
        self.size = len(self._data)
        """Size of the undecoded data in bytes, which decreases while records are read."""
        self.remaining = _check_record_count(header.record_count, self._data)
        """Number of unread records."""

    def decode_next_records(self, count: int, *, max_bytes: int = sys.maxsize) -> list[BatchRecord]:
        """Decode the next records of the batch: at most `count` records and, estimated from the
        average size, about `max_bytes`, but at least one record while any remain."""
        header = self._header
        average = max(1, (self.size - self._at) // max(1, self.remaining))
        count = min(count, self.remaining, max(1, max_bytes // average))
        found: list[BatchRecord] = []
        base = (header.base_offset, header.base_timestamp)
        place = (self._at, self._before)
        self._at, self._before, far = _parse_records(
            self._data, found, count=count, base=base, place=place
        )
        self.remaining -= len(found)
        if not self.remaining:
            _check_no_trailing_bytes(self._data, self._at)
        if not self.remaining or self._at > len(self._data) // 2:
            self._data = self._data[self._at :]
            self._at, self.size = 0, len(self._data)
        found = _wrap_timestamps(found, far=far, base_timestamp=header.base_timestamp)
        return _apply_log_append_time(found, header)


def decode_single_record(header: BatchHeader, batch: memoryview) -> BatchRecord | None:
    """Decode an uncompressed batch that contains a single small record whose attributes and deltas
    are 0, as producers write it. Returns None for any other batch: use `decode_batch` instead."""
    data = bytes(batch[record_batch.HEADER_BYTES :])
    try:
        size, at = data[0], 1
        if size >= 0x80:
            if data[1] >= 0x80:
                return None
            size = size & 0x7F | data[1] << 7
            at = 2
        plain = (
            data[at : at + 3] == _FIRST_RECORD_PREFIX
            and not size & 1
            and at + (size >> 1) == len(data)
        )
    except IndexError:
        return None
    return _new(BatchRecord, (header[0], header[7], data[at + 3 :])) if plain else None


_FIRST_RECORD_PREFIX = bytes(3)
"""Attributes, timestamp delta and offset delta of a batch's first record."""


def decode_records(
    data: bytes, *, count: int, base_offset: int, base_timestamp: int
) -> list[BatchRecord]:
    """Decode `count` records from uncompressed bytes. Raises `MalformedRecordsError`."""
    count = _check_record_count(count, data)
    if count > DECODED_RECORDS_MAX:
        raise MalformedRecordsError(explain_too_many_records(count))
    found: list[BatchRecord] = []
    at, _, far = _parse_records(data, found, count=count, base=(base_offset, base_timestamp))
    _check_no_trailing_bytes(data, at)
    return _wrap_timestamps(found, far=far, base_timestamp=base_timestamp)


def _check_record_count(count: int, data: bytes) -> int:
    if not 0 <= count <= len(data) // _RECORD_BYTES_MIN:
        raise MalformedRecordsError(f"{count} records do not fit into {len(data)} bytes")
    return count


def _check_no_trailing_bytes(data: bytes, at: int) -> None:
    if at != len(data):
        raise MalformedRecordsError(f"{len(data) - at} unexpected bytes after the last record")


def _wrap_timestamps(
    found: list[BatchRecord], *, far: bool, base_timestamp: int
) -> list[BatchRecord]:
    if far or not 0 <= base_timestamp < _FAR_TIMESTAMP:
        return [each._replace(timestamp=_wrap_int64(each.timestamp)) for each in found]
    return found


def explain_too_many_records(count: int) -> str:
    """Return the error message for a batch of `count` records, more than `DECODED_RECORDS_MAX`."""
    return f"{count} records, of which at most {DECODED_RECORDS_MAX} can be decoded at once"


_PARSE_START = (0, -1)


def _parse_records(
    data: bytes,
    found: list[BatchRecord],
    *,
    count: int,
    base: tuple[int, int],
    place: tuple[int, int] = _PARSE_START,
) -> tuple[int, int, bool]:
    """Parse `count` records and append them to `found`. `base` is the batch's base offset and base
    timestamp; `place` is the position of the first record and the raw offset delta of the previous
    record. Returns both values of `place` for the next record, and whether the sum of the base
    timestamp and any timestamp delta might overflow 64 bits. Raises `MalformedRecordsError`."""
    try:
        return _parse_records_unchecked(data, found, count=count, base=base, place=place)
    except (IndexError, ValueError) as error:
        raise MalformedRecordsError(f"record {len(found)} is truncated or malformed") from error


def _parse_records_unchecked(
    data: bytes,
    found: list[BatchRecord],
    *,
    count: int,
    base: tuple[int, int],
    place: tuple[int, int],
) -> tuple[int, int, bool]:
    """Parse records as `_parse_records` does, but let `IndexError` and `ValueError` of malformed
    records propagate. Zigzag varints are first read as unsigned integers `u`; the value is
    `(u >> 1) ^ -(u & 1)`."""
    far = False
    at, before = place
    end, whole = at, len(data)
    base_offset, base_timestamp = base
    for _ in range(count):
        raw = data[at]
        at += 1
        if raw >= 0x80:
            raw, at = primitive_types.read_unsigned_varint(data, at - 1)
        end = at + (raw >> 1)
        if raw & 1 or end > whole:
            raise MalformedRecordsError(f"record {len(found)} has an invalid length")
        at += 1  # attributes
        raw = data[at]
        at += 1
        if raw >= 0x80:
            low, raw = raw, data[at]
            at += 1
            if raw < 0x80:
                raw = raw << 7 | low & 0x7F
            else:
                raw, at = primitive_types.read_unsigned_varint(data, at - 2)
                far = far or raw >= _FAR_TIMESTAMP
        timestamp = base_timestamp + (raw >> 1 ^ -(raw & 1))
        raw = data[at]
        at += 1
        if raw >= 0x80:
            low, raw = raw, data[at]
            at += 1
            if raw < 0x80:
                raw = raw << 7 | low & 0x7F
            else:
                raw, at = primitive_types.read_unsigned_varint(data, at - 2)
        if raw & 1 or raw <= before or at > end:
            raise MalformedRecordsError(f"record {len(found)} has an invalid offset or length")
        before = raw
        found.append(_new(BatchRecord, (base_offset + (raw >> 1), timestamp, data[at:end])))
        at = end
    return at, before, far


def encode_batch(
    records: Sequence[BatchRecord], *, codec: int, keep_offsets: bool = False
) -> bytearray:
    """Encode one or more records into a batch with a valid CRC and without a producer id.

    The batch's offsets are 0, 1, 2, …, regardless of the records' offsets. If `keep_offsets` is
    True, the records' offsets, including gaps, are kept.
    """
    base_offset, base_timestamp, _ = records[0]
    newest = base_timestamp
    parts: list[bytes] = []
    for index, (offset, timestamp, body) in enumerate(records):
        place = offset - base_offset if keep_offsets else index
        delta = timestamp - base_timestamp
        if delta:
            if timestamp > newest:
                newest = timestamp
            behind = b"\0" + _look_up_or_encode_varint(delta)
        else:
            behind = b"\0\0"
        behind += _VARINTS[place] if place < _PRECOMPUTED_VARINTS else _encode_varint(place)
        size = len(behind) + len(body)
        parts += (
            _VARINTS[size] if size < _PRECOMPUTED_VARINTS else _encode_varint(size),
            behind,
            body,
        )
    last = records[-1].offset - base_offset if keep_offsets else len(records) - 1
    return _assemble_batch(
        compression.compress(codec, b"".join(parts)),
        base_offset=base_offset if keep_offsets else 0,
        attributes=codec,
        last=last,
        timestamps=(base_timestamp, newest),
        count=len(records),
    )


def _assemble_batch(
    data: bytes,
    *,
    base_offset: int,
    attributes: int,
    last: int,
    timestamps: tuple[int, int],
    count: int,
) -> bytearray:
    batch = bytearray(record_batch.HEADER_BYTES + len(data))
    record_batch.HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - record_batch.LENGTH_END,
        -1,
        record_batch.MAGIC_V2,
        0,
        attributes,
        last,
        *timestamps,
        *_NO_PRODUCER,
        count,
    )
    memoryview(batch)[record_batch.HEADER_BYTES :] = data  # a bytearray would copy it first
    record_batch.write_batch_crc(batch, crc32c.crc32c(memoryview(batch)[record_batch.CRC_START :]))
    return batch


# Record bodies

_NO_HEADERS = bytes(1)


class RecordFields(NamedTuple):
    """Key, value and headers of a record. Header values may be None, and header names may be
    repeated."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def decode_record_body(body: bytes) -> RecordFields:
    """Decode a record's body into key, value and headers. Raises `MalformedRecordsError`."""
    try:
        key, at = _read_sized_bytes(body, 0)
        value, at = _read_sized_bytes(body, at)
        if body[at:] == _NO_HEADERS:
            return _new(RecordFields, (key, value, ()))
        count, at = primitive_types.read_varint(body, at)
        if not 0 <= count <= len(body):
            raise MalformedRecordsError(f"a record has an invalid header count of {count}")
        headers = []
        for _ in range(count):
            name, at = _read_sized_bytes(body, at)
            if name is None:
                raise MalformedRecordsError("a header has no name")
            content, at = _read_sized_bytes(body, at)
            headers.append((name, content))
    except (IndexError, ValueError) as error:
        raise MalformedRecordsError("a record is truncated or malformed") from error
    if at != len(body):
        raise MalformedRecordsError(f"{len(body) - at} unexpected bytes after a record's headers")
    return RecordFields(key, value, tuple(headers))


def encode_record_body(fields: RecordFields) -> bytes:
    """Encode key, value and headers as a record's body."""
    parts = [
        _encode_sized_bytes(fields.key),
        _encode_sized_bytes(fields.value),
        _look_up_or_encode_varint(len(fields.headers)),
    ]
    for name, content in fields.headers:
        parts += (_encode_sized_bytes(name), _encode_sized_bytes(content))
    return b"".join(parts)


def _encode_sized_bytes(content: bytes | None) -> bytes:
    return b"\x01" if content is None else _look_up_or_encode_varint(len(content)) + content


def _read_sized_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    raw = data[at]  # a varint: size << 1 | sign
    if raw < 0x80:
        at += 1
    else:
        raw, at = primitive_types.read_unsigned_varint(data, at)
    if raw & 1:
        return None, at
    size = raw >> 1
    end = at + size
    if end > len(data):
        raise MalformedRecordsError(
            f"a field has a length of {size} bytes, but only {len(data) - at} are left"
        )
    return data[at:end], end
