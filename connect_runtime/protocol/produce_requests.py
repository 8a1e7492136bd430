"""Encodes Produce requests as chunks for `sendmsg` and decodes Produce responses, without copying
record batches.

Supports versions 7 to 13 (flexible since 9, topics by id in 13). A request contains at most one
batch per partition, because brokers reject more. Unit tests compare the codec with kio's encoding.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import NamedTuple

from connect_runtime.protocol import varints
from connect_runtime.protocol.request_errors import MalformedResponseError

PRODUCE_MIN_VERSION, PRODUCE_MAX_VERSION = 7, 13
_VERSION_WITH_RECORD_ERRORS = 8
_FIRST_FLEXIBLE_VERSION = 9
_TAG_LEADER = 0

_ACKS_TIMEOUT = struct.Struct(">hi")
_INDEX = struct.Struct(">i")
_INDEX_SIZE = struct.Struct(">ii")
_LENGTH16 = struct.Struct(">h")
_LENGTH32 = struct.Struct(">i")
# partition, error_code, base_offset, log_append_time_ms, log_start_offset
_PARTITION = struct.Struct(">ihqqq")
_LEADER = struct.Struct(">ii")


class ProduceBatch(NamedTuple):
    """One encoded record batch to produce. `topic_id` (16 bytes) is used in version 13 and
    later."""

    topic: str
    topic_id: bytes
    partition: int
    records: memoryview


class ProduceResponsePartition(NamedTuple):
    """One partition of a Produce response.

    With topic ids (version 13), `topic` is ""; otherwise `topic_id` is all zeros.
    """

    topic: str
    topic_id: bytes
    partition: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    """Log append time in milliseconds; -1 if the topic uses CreateTime."""
    log_start_offset: int
    error_message: str | None
    current_leader: tuple[int, int] | None
    record_errors: tuple[tuple[int, str | None], ...] = ()
    """Index in the batch and error message of each record that caused the batch to be rejected."""


class ProduceResponse(NamedTuple):
    """A decoded Produce response."""

    throttle_ms: int
    partitions: list[ProduceResponsePartition]


def encode_produce_request(
    version: int,
    *,
    transactional_id: str | None,
    acks: int,
    timeout_ms: int,
    batches: Sequence[ProduceBatch],
) -> list[bytes | memoryview]:
    """Encode the body of a Produce request (without the header) as a list of chunks: the record
    batches and the bytes between them. Batches of the same topic must be adjacent."""
    assert PRODUCE_MIN_VERSION <= version <= PRODUCE_MAX_VERSION, version
    flexible = version >= _FIRST_FLEXIBLE_VERSION
    topics = [list(group) for _, group in itertools.groupby(batches, _get_topic_name_and_id)]
    out = bytearray(_encode_string(transactional_id, flexible=flexible))
    out += _ACKS_TIMEOUT.pack(acks, timeout_ms)
    out += _encode_array_length(len(topics), flexible=flexible)
    chunks: list[bytes | memoryview] = []
    for group in topics:
        out += (
            group[0][1]
            if version >= varints.FIRST_VERSION_BY_TOPIC_ID
            else _encode_string(group[0][0], flexible=flexible)
        )
        out += _encode_array_length(len(group), flexible=flexible)
        for _, _, partition, records in group:
            if flexible:
                out += _INDEX.pack(partition)
                out += varints.encode_varint(len(records) + 1)
            else:
                out += _INDEX_SIZE.pack(partition, len(records))
            chunks.append(bytes(out))
            chunks.append(records)
            out = bytearray(1 if flexible else 0)  # the partition's empty tags
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    if out:
        chunks.append(bytes(out))
    return chunks


def _get_topic_name_and_id(batch: ProduceBatch) -> tuple[str, bytes]:
    return batch[0], batch[1]


def _encode_string(text: str | None, *, flexible: bool) -> bytes:
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    if flexible:
        return varints.encode_compact_string(text)
    data = text.encode()
    return _LENGTH16.pack(len(data)) + data


def _encode_array_length(count: int, *, flexible: bool) -> bytes:
    return varints.encode_varint(count + 1) if flexible else _LENGTH32.pack(count)


def decode_produce_response(version: int, body: memoryview) -> ProduceResponse:
    """Decode the body of a Produce response (without the header). Raises MalformedResponseError."""
    assert PRODUCE_MIN_VERSION <= version <= PRODUCE_MAX_VERSION, version
    try:
        decoded = (
            _decode_flexible_response(version, body)
            if version >= _FIRST_FLEXIBLE_VERSION
            else _decode_legacy_response(version, body)
        )
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedResponseError("produce", version, str(error)) from error
    response, position = decoded
    if position != len(body):
        problem = f"{len(body) - position} unexpected bytes at the end"
        raise MalformedResponseError("produce", version, problem)
    return response


def _decode_flexible_response(version: int, body: memoryview) -> tuple[ProduceResponse, int]:
    found, position = varints.decode_topic_partitions(body, 0, _decode_partition, version=version)
    (throttle_ms,) = _INDEX.unpack_from(body, position)
    return ProduceResponse(throttle_ms, found), varints.skip_tagged_fields(body, position + 4)


def _decode_partition(
    body: memoryview, position: int, topic: str, topic_id: bytes
) -> tuple[ProduceResponsePartition, int]:
    fixed = _PARTITION.unpack_from(body, position)
    position += _PARTITION.size
    message: str | None = None
    errors: tuple[tuple[int, str | None], ...] = ()
    if body[position] == 1 and body[position + 1] == 0:
        position += 2  # no record errors and no message, as in every successful response
    else:
        errors, position = _decode_record_errors(body, position)
        message, position = varints.read_compact_string(body, position)
    leader: tuple[int, int] | None = None
    if body[position] == 0:
        position += 1
    else:
        fields, position = varints.read_tagged_fields(body, position)
        if _TAG_LEADER in fields:
            leader = _LEADER.unpack_from(fields[_TAG_LEADER])
    part = (topic, topic_id, *fixed, message, leader, errors)
    return tuple.__new__(ProduceResponsePartition, part), position


def _decode_record_errors(
    body: memoryview, position: int
) -> tuple[tuple[tuple[int, str | None], ...], int]:
    count, position = varints.read_varint(body, position)
    if count == 0:
        raise ValueError("record_errors is null, but must not be")
    errors: list[tuple[int, str | None]] = []
    for _ in range(count - 1):
        (index,) = _INDEX.unpack_from(body, position)
        message, position = varints.read_compact_string(body, position + 4)
        position = varints.skip_tagged_fields(body, position)
        errors.append((index, message))
    return tuple(errors), position


def _decode_legacy_response(version: int, body: memoryview) -> tuple[ProduceResponse, int]:
    """Decode a Produce response of version 7 or 8, for brokers before 2.8."""
    found: list[ProduceResponsePartition] = []
    topics, position = _read_array_length(body, 0)
    for _ in range(topics):
        topic, position = _read_string(body, position)
        count, position = _read_array_length(body, position)
        for _ in range(count):
            fixed = _PARTITION.unpack_from(body, position)
            position += _PARTITION.size
            message: str | None = None
            errors: list[tuple[int, str | None]] = []
            if version >= _VERSION_WITH_RECORD_ERRORS:
                failed, position = _read_array_length(body, position)
                for _ in range(failed):
                    index, position = _read_int32(body, position)
                    text, position = _read_string(body, position)
                    errors.append((index, text))
                message, position = _read_string(body, position)
            part = (topic or "", varints.NO_TOPIC_ID, *fixed, message, None, tuple(errors))
            found.append(ProduceResponsePartition(*part))
    throttle_ms, position = _read_int32(body, position)
    return ProduceResponse(throttle_ms, found), position


def _read_int32(body: memoryview, position: int) -> tuple[int, int]:
    (value,) = _INDEX.unpack_from(body, position)
    return value, position + 4


def _read_array_length(body: memoryview, position: int) -> tuple[int, int]:
    """Read the length of a non-nullable array in a Produce response."""
    count, after = _read_int32(body, position)
    if count < 0:
        raise ValueError(f"null at position {position} for a non-nullable array")
    return count, after


def _read_string(body: memoryview, position: int) -> tuple[str | None, int]:
    (length,) = _LENGTH16.unpack_from(body, position)
    if length < 0:
        return None, position + 2
    data, position = varints.read_bytes(body, position + 2, length)
    return data.decode(), position
