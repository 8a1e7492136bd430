"""A fetched record set, batch by batch; what stands in formats before v2 is read as v2."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mm2.formats import message_sets, record_batch

_MAGIC_AT = 16
_SHORTEST = _MAGIC_AT + 1
_OFFSET_AND_LENGTH = struct.Struct(">qi")

_new = tuple.__new__
"""Past the named tuple's own constructor: this is done for every batch that is copied."""


class DamagedBatchError(Exception):
    """What stands at a batch's place is none. `base_offset` as read."""

    def __init__(self, base_offset: int, why: str) -> None:
        super().__init__(why)
        self.base_offset = base_offset


def batches(records: memoryview) -> Iterator[tuple[record_batch.BatchHeader, memoryview]]:
    """Each whole batch, with its bytes; an incomplete last one is left out.

    Raises `DamagedBatchError` at an impossible length or an unreadable old message, after all
    batches before it were given.
    """
    at, end = 0, len(records)
    unpack = record_batch.HEADER.unpack_from
    while end - at >= _SHORTEST:
        magic = records[at + _MAGIC_AT]
        if magic == record_batch.MAGIC_V2 and end - at >= record_batch.HEADER_BYTES:
            header = _new(record_batch.BatchHeader, unpack(records, at))
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
            yield _other(base_offset, records[at : at + max(0, size)], magic)
        at += size


def _other(
    offset: int, batch: memoryview, magic: int
) -> tuple[record_batch.BatchHeader, memoryview]:
    if magic < record_batch.MAGIC_V2:
        return _old(offset, batch)
    what = f"in record format v{magic}" if magic > record_batch.MAGIC_V2 else "impossible"
    raise DamagedBatchError(offset, f"its {len(batch)} bytes are {what}")


def _old(offset: int, message: memoryview) -> tuple[record_batch.BatchHeader, memoryview]:
    try:
        batch = memoryview(message_sets.as_batch(message))
    except message_sets.MalformedMessageError as error:
        raise DamagedBatchError(offset, str(error)) from error
    return record_batch.read_header(batch), batch
