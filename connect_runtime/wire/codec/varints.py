"""Kafka's unsigned varints and what stands on them: compact lengths, strings and tagged fields.

Readers take (buffer, position) and return (value, next position); past the end they raise
IndexError, which the decoders turn into TruncatedResponse. Layout: KIP-482, base 128, low group
first; a compact length is length + 1, 0 stands for null.
"""

from __future__ import annotations

from typing import TypeAlias

Buffer: TypeAlias = bytes | bytearray | memoryview

_SHORT = tuple(bytes((value,)) for value in range(128))
MAX_TAGGED_FIELDS = 256
"""The most tagged fields that one section may have. Brokers write a handful."""
_MAX_BYTES = 5
"""Kafka's unsigned varints hold 32 bits; a sixth byte is garbage."""


def encode(value: int) -> bytes:
    if value < 128:
        return _SHORT[value]
    out = bytearray()
    while value >= 128:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read(buffer: Buffer, position: int) -> tuple[int, int]:
    byte = buffer[position]
    if byte < 128:
        return byte, position + 1
    value = byte & 0x7F
    for index in range(1, _MAX_BYTES):
        byte = buffer[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 128:
            return value, position + index + 1
    raise ValueError(f"a varint of more than {_MAX_BYTES} bytes at {position}")


def compact_string(text: str) -> bytes:
    data = text.encode()
    return encode(len(data) + 1) + data


def take(buffer: Buffer, position: int, length: int) -> tuple[bytes, int]:
    """Copy `length` bytes out."""
    end = position + length
    if end > len(buffer):
        raise IndexError(f"{length} bytes wanted at {position}, {len(buffer) - position} left")
    return bytes(buffer[position:end]), end


def read_compact_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    length, position = read(buffer, position)
    if length == 0:
        return None, position
    data, position = take(buffer, position, length - 1)
    return data.decode(), position


def read_tag_count(buffer: Buffer, position: int) -> tuple[int, int]:
    """(how many tagged fields follow, the position after the count). Raises ValueError on more
    than `MAX_TAGGED_FIELDS`.
    """
    count, after = read(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise ValueError(
            f"{count} tagged fields at {position}; at most {MAX_TAGGED_FIELDS} are read"
        )
    return count, after


def read_tags(buffer: Buffer, position: int) -> tuple[dict[int, bytes], int]:
    """The tagged fields at `position`, raw by tag number; an empty dict mostly."""
    count, position = read_tag_count(buffer, position)
    fields: dict[int, bytes] = {}
    for _ in range(count):
        tag, position = read(buffer, position)
        size, position = read(buffer, position)
        fields[tag], position = take(buffer, position, size)
    return fields, position


def skip_tags(buffer: Buffer, position: int) -> int:
    """Return the position after the tagged fields at `position`, without copying them."""
    count, position = read_tag_count(buffer, position)
    for _ in range(count):
        _, position = read(buffer, position)
        size, position = read(buffer, position)
        if position + size > len(buffer):
            raise IndexError(f"{size} bytes wanted at {position}, {len(buffer) - position} left")
        position += size
    return position
