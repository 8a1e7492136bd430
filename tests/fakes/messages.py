"""Messages of formats v0 and v1, written by hand from KIP-31, KIP-32 and Kafka's `LegacyRecord`."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from tests.fakes import batches

APPEND_TIME = 0x08


def message(
    offset: int,
    value: bytes | None,
    *,
    magic: int,
    timestamp: int = -1,
    key: bytes | None = None,
    attributes: int = 0,
) -> bytes:
    """One message; `timestamp` stands in v1 alone."""
    checked = struct.pack(">bb", magic, attributes)
    if magic > 0:
        checked += struct.pack(">q", timestamp)
    checked += _sized(key) + _sized(value)
    return struct.pack(">qiI", offset, 4 + len(checked), zlib.crc32(checked)) + checked


def wrapper(
    offset: int,
    held: Sequence[bytes],
    *,
    magic: int,
    codec: int,
    timestamp: int = -1,
    attributes: int = 0,
) -> bytes:
    """A message that holds others, compressed; `offset` is that of the last of them."""
    return message(
        offset,
        batches.packed(codec, b"".join(held)),
        magic=magic,
        timestamp=timestamp,
        attributes=attributes | codec,
    )


def rechecked(message: bytes | bytearray) -> bytes:
    """The message, whatever was done to it, with the CRC that belongs to its bytes."""
    return bytes(message[:12]) + struct.pack(">I", zlib.crc32(message[16:])) + bytes(message[16:])


def _sized(content: bytes | None) -> bytes:
    return struct.pack(">i", -1) if content is None else struct.pack(">i", len(content)) + content
