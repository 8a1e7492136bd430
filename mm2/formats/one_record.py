"""A record batch of format v2 with one small record, to try a broker with.

Layout of the record (KIP-98; `org.apache.kafka.common.record.DefaultRecord`), varints zigzag:
length | attributes i8 | timestamp delta | offset delta | key length -1 | value length | value |
header count.
"""

from __future__ import annotations

import struct

from mm2.formats import record_batch, varints

_HEADER = struct.Struct(">qiibIhiqqqhii")


def batch(value: bytes, *, timestamp_ms: int, producer: tuple[int, int, int]) -> bytearray:
    """`producer` = (producer id, epoch, base sequence)."""
    body = bytearray(1)
    for number in (0, 0, -1, len(value)):
        varints.append_signed(body, number)
    body += value
    varints.append_signed(body, 0)
    record = bytearray()
    varints.append_signed(record, len(body))
    record += body
    size = record_batch.HEADER_BYTES + len(record)
    made = bytearray(
        _HEADER.pack(
            *(0, size - record_batch.LENGTH_END, -1, record_batch.MAGIC_V2, 0),
            *(0, 0, timestamp_ms, timestamp_ms, *producer, 1),
        )
    )
    made += record
    record_batch.stamp(memoryview(made), attributes=0, producer=producer)
    return made
