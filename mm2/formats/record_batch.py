"""Record batches of format v2: reads headers and overwrites producer fields in place, without
decoding records.

Layout (big-endian, KIP-98; `org.apache.kafka.common.record.DefaultRecordBatch`):

    0 base offset i64 | 8 length i32 of the remainder | 12 partition leader epoch i32 | 16 magic i8
    17 CRC-32C u32 (of 21..end) | 21 attributes i16 | 23 last offset delta i32
    27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64 | 51 producer epoch i16
    53 base sequence i32 | 57 record count i32 | 61 records

Formats before v2 have the magic byte at the same position (see `record_set_splitter`).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import crc32c

HEADER_BYTES = 61
LENGTH_END = 12
"""Number of bytes up to the end of the length field. A batch's size is the value of its length
field plus this number."""
CRC_START = 21
MAGIC_V2 = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

NO_TIMESTAMP = -1
SEQUENCE_MASK = 0x7FFFFFFF
"""Bit mask of sequence numbers, which have 31 bits and wrap to 0
(`DefaultRecordBatch.incrementSequence`)."""

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Binary layout of the fields of `BatchHeader`."""
_STAMP = struct.Struct(">qhi")  # producer id, epoch, base sequence
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">h")
_BASE_OFFSET = struct.Struct(">q")
_CONTROL_KEY_VERSION_TYPE = struct.Struct(">hh")

_CRC_AT = 17
_PRODUCER_AT = 43

ABORT_MARKER = 0
COMMIT_MARKER = 1


class BatchHeader(NamedTuple):
    """The fields of a batch header, in order. Offsets and ids are as sent by the broker."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def last_offset(self) -> int:
        """Offset of the last record, including records that compaction removed."""
        return self.base_offset + self.last_offset_delta

    @property
    def size(self) -> int:
        """Size of the whole batch in bytes, including the header."""
        return self.length + LENGTH_END

    @property
    def oldest_timestamp(self) -> int:
        """Approximate timestamp of the oldest record: the smaller of base and max timestamp.

        Compaction may have replaced the base timestamp with a delete horizon (KIP-534), which is
        later than all record timestamps.
        """
        return min(self.base_timestamp, self.max_timestamp)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)


def read_batch_header(batch: memoryview) -> BatchHeader:
    """Read the header of a v2 batch. Raises `struct.error` if there are fewer than 61 bytes."""
    return BatchHeader._make(HEADER.unpack_from(batch))


def has_valid_crc(batch: memoryview, header: BatchHeader) -> bool:
    """Return whether the batch's CRC-32C checksum is valid."""
    return bool(crc32c.crc32c(batch[CRC_START:]) == header.crc)


def stamp_producer_fields(
    batch: memoryview, *, attributes: int, producer: tuple[int, int, int]
) -> int:
    """Overwrite a batch's producer fields in place so that it can be produced: base offset 0, new
    attributes and producer, new CRC-32C. Returns the CRC.

    `producer` is (producer id, epoch, base sequence). The partition leader epoch is set by the
    broker and not covered by the CRC. Brokers since 4.0 reject any base offset except 0 (error 87).
    """
    _BASE_OFFSET.pack_into(batch, 0, 0)
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes)
    _STAMP.pack_into(batch, _PRODUCER_AT, *producer)
    crc = int(crc32c.crc32c(batch[CRC_START:]))
    write_batch_crc(batch, crc)
    return crc


def write_batch_crc(batch: bytearray | memoryview, crc: int) -> None:
    """Write the checksum `crc` into the batch header."""
    _CRC.pack_into(batch, _CRC_AT, crc)


def compute_next_sequence(sequence: int, count: int) -> int:
    """Compute the sequence number that follows `count` more records, wrapping around as in Java."""
    return (sequence + count) & SEQUENCE_MASK


def read_control_type(batch: memoryview) -> int:
    """Read whether a control batch is ABORT_MARKER or COMMIT_MARKER. Returns -1 if the batch has no
    record.

    The type is in the record's key (version i16, type i16). Control batches are never compressed
    and contain one record, whose prefixes are skipped: length, attributes i8, timestamp delta,
    offset delta, key length (`ControlRecordType`, `Record`; lengths and deltas are varints).
    Compaction keeps an empty batch for a marker that the producer state still needs.
    """
    try:
        at = _skip_varint(batch, HEADER_BYTES)  # record length
        at += 1  # record attributes
        for _ in range(3):  # timestamp delta, offset delta, key length
            at = _skip_varint(batch, at)
        kind: int = _CONTROL_KEY_VERSION_TYPE.unpack_from(batch, at)[1]
    except (IndexError, struct.error):
        return -1
    return kind


def _skip_varint(data: memoryview, at: int) -> int:
    while data[at] & 0x80:
        at += 1
    return at + 1
