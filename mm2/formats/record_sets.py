"""A fetched record set, batch by batch; what stands in formats before v2 is read as v2."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mm2.formats import message_sets, record_batch

_PREFIX = struct.Struct(">qiib")
_PREFIX_BYTES = _PREFIX.size
_HEADER = struct.Struct(">qiibIhiqqqhii")


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
    while end - at >= _PREFIX_BYTES:
        base_offset, length, _, magic = _PREFIX.unpack_from(records, at)
        size = length + record_batch.LENGTH_END
        if magic < record_batch.MAGIC_V2:
            if length >= 0 and size > end - at:
                return
            yield _old(base_offset, records[at : at + max(0, size)])
        elif magic > record_batch.MAGIC_V2:
            raise DamagedBatchError(base_offset, f"it is in record format v{magic}, unknown here")
        elif size < record_batch.HEADER_BYTES:
            raise DamagedBatchError(base_offset, f"it claims a length of {length} bytes")
        elif size > end - at:
            return
        else:
            batch = records[at : at + size]
            yield record_batch.BatchHeader._make(_HEADER.unpack_from(records, at)), batch
        at += size


def _old(offset: int, message: memoryview) -> tuple[record_batch.BatchHeader, memoryview]:
    try:
        batch = memoryview(message_sets.as_batch(message))
    except message_sets.MalformedMessageError as error:
        raise DamagedBatchError(offset, str(error)) from error
    return record_batch.read_header(batch), batch
