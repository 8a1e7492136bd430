"""Kafka's unsigned varints, compact strings, tagged fields and topic arrays (KIP-482).

Readers are called with (buffer, position) and return (value, next position). Beyond the end of the
buffer they raise IndexError, which decoders convert to `MalformedResponseError`. A varint is
encoded in base 128, lowest group first. A compact length is length + 1; 0 means null. A topic array
is the array of topics in a Fetch or Produce response. Both responses have the same array layout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, TypeVar

ReadBuffer: TypeAlias = bytes | bytearray | memoryview

_ONE_BYTE_VARINTS = tuple(bytes((value,)) for value in range(128))
MAX_TAGGED_FIELDS = 256
"""Maximum number of tagged fields in one section of a response. Brokers write only a few."""
_MAX_VARINT_BYTES = 5
"""Maximum size of an unsigned varint. Kafka's varints have 32 bits, so a sixth byte is invalid."""


def encode_varint(value: int) -> bytes:
    """Encode a number as an unsigned varint."""
    if value < 128:
        return _ONE_BYTE_VARINTS[value]
    out = bytearray()
    while value >= 128:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(buffer: ReadBuffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint. Raises ValueError if it has more than 5 bytes."""
    byte = buffer[position]
    if byte < 128:
        return byte, position + 1
    value = byte & 0x7F
    for index in range(1, _MAX_VARINT_BYTES):
        byte = buffer[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 128:
            return value, position + index + 1
    raise ValueError(f"varint at {position} is longer than {_MAX_VARINT_BYTES} bytes")


def encode_compact_string(text: str) -> bytes:
    """Encode a string as a compact string (varint length + 1, then UTF-8)."""
    data = text.encode()
    return encode_varint(len(data) + 1) + data


def read_bytes(buffer: ReadBuffer, position: int, length: int) -> tuple[bytes, int]:
    """Copy `length` bytes from the buffer."""
    end = position + length
    if end > len(buffer):
        raise IndexError(f"{length} bytes expected at {position}, {len(buffer) - position} left")
    return bytes(buffer[position:end]), end


def read_compact_string(buffer: ReadBuffer, position: int) -> tuple[str | None, int]:
    """Read a compact string, which may be null."""
    length, position = read_varint(buffer, position)
    if length == 0:
        return None, position
    data, position = read_bytes(buffer, position, length - 1)
    return data.decode(), position


def read_tagged_field_count(buffer: ReadBuffer, position: int) -> tuple[int, int]:
    """Read the number of tagged fields in a section. Returns (count, next position).

    Raises ValueError if there are more than `MAX_TAGGED_FIELDS`.
    """
    count, after = read_varint(buffer, position)
    if count > MAX_TAGGED_FIELDS:
        raise ValueError(
            f"{count} tagged fields at {position}; allowed: at most {MAX_TAGGED_FIELDS}"
        )
    return count, after


def read_tagged_fields(buffer: ReadBuffer, position: int) -> tuple[dict[int, bytes], int]:
    """Read the section of tagged fields at `position` as raw bytes by tag number. The section is
    usually empty."""
    count, position = read_tagged_field_count(buffer, position)
    fields: dict[int, bytes] = {}
    for _ in range(count):
        tag, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        fields[tag], position = read_bytes(buffer, position, size)
    return fields, position


def skip_tagged_fields(buffer: ReadBuffer, position: int) -> int:
    """Return the position after the section of tagged fields at `position`, without copying the
    fields."""
    if buffer[position] == 0:  # the usual case: no tagged fields
        return position + 1
    count, position = read_tagged_field_count(buffer, position)
    for _ in range(count):
        _, position = read_varint(buffer, position)
        size, position = read_varint(buffer, position)
        if position + size > len(buffer):
            raise IndexError(f"{size} bytes expected at {position}, {len(buffer) - position} left")
        position += size
    return position


T = TypeVar("T")

NO_TOPIC_ID = bytes(16)
FIRST_VERSION_BY_TOPIC_ID = 13
"""First version of Fetch and Produce that identifies topics by id instead of by name."""


def decode_topic_partitions(
    body: memoryview,
    position: int,
    decode: Callable[[memoryview, int, str, bytes], tuple[T, int]],
    *,
    version: int,
    max_partitions: int | None = None,
) -> tuple[list[T], int]:
    """Decode the partitions of all topics in a response. Returns (partitions, next position).

    `decode` decodes one partition, given (body, position, topic name or "", topic id). Raises
    ValueError if there are more than `max_partitions` partitions or topics.
    """
    topics, position = _read_array_length(body, position)
    _check_element_count(topics, "topics", max_partitions)
    found: list[T] = []
    topic: str | None = ""
    topic_id = NO_TOPIC_ID
    for _ in range(topics):
        if version >= FIRST_VERSION_BY_TOPIC_ID:
            topic_id, position = read_bytes(body, position, 16)
        else:
            topic, position = read_compact_string(body, position)
        count, position = _read_array_length(body, position)
        _check_element_count(len(found) + count, "partitions", max_partitions)
        for _ in range(count):
            part, position = decode(body, position, topic or "", topic_id)
            found.append(part)
        position = skip_tagged_fields(body, position)
    return found, position


def _check_element_count(count: int, noun: str, allowed: int | None) -> None:
    if allowed is not None and count > allowed:
        raise ValueError(f"{count} {noun}; requested: {allowed}")


def _read_array_length(body: memoryview, position: int) -> tuple[int, int]:
    """Read the length of a topic or partition array. Raises ValueError if the array is null."""
    count, after = read_varint(body, position)
    if count == 0:
        raise ValueError(f"null at position {position} for a non-nullable array")
    return count - 1, after
