"""Fetch, the hot half of reading: requests written and responses walked by hand, nothing copied.

Versions 12 (topics by name) to 17 (by id, since 13). A decoded partition's `records` is a view
into the response body, writable when the body is, so that batches are patched where they arrived.
Compared with kio's encoding of the same messages in the unit tests.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from connect_runtime.wire.codec import by_topic, failures, varints

LOW, HIGH = 12, 17
_REPLICA_IS_TAGGED = 15

# replica_id, max_wait, min_bytes, max_bytes, isolation_level, session_id, session_epoch
_HEAD_WITH_REPLICA = struct.Struct(">iiiibii")
_HEAD = struct.Struct(">iiibii")
# partition, leader epoch, fetch_offset, last_fetched_epoch, log_start_offset, max_bytes, tags
_ASKED = struct.Struct(">iiqiqib")
_INDEX = struct.Struct(">i")
# throttle_ms, error_code, session_id
_RESPONSE = struct.Struct(">ihi")
# partition, error_code, high_watermark, last_stable_offset, log_start_offset
_PARTITION = struct.Struct(">ihqqq")
# producer_id, first_offset, tags
_ABORTED = struct.Struct(">qqb")
# preferred_read_replica
_REPLICA = struct.Struct(">i")
# epoch, end_offset | leader_id, leader_epoch
_DIVERGING = struct.Struct(">iq")
_LEADER = struct.Struct(">ii")

_TAG_DIVERGING = 0
_TAG_LEADER = 1


class FetchPartition(NamedTuple):
    """What to read of one partition. `topic_id` is 16 bytes; epochs are -1 where unknown."""

    topic: str
    topic_id: bytes
    partition: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_bytes: int


class FetchedPartition(NamedTuple):
    """One partition of a response: `topic` is "" by id, `topic_id` zero by name.

    aborted: (producer_id, first_offset) in the broker's order, which is not sorted.
    diverging_*: set when the log was truncated below what was fetched (KIP-595), else -1.
    current_leader: (node id, leader epoch) if the broker said so, with error 6 or 74.
    """

    topic: str
    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[tuple[int, int]]
    preferred_read_replica: int
    diverging_end_offset: int
    current_leader: tuple[int, int] | None
    records: memoryview
    diverging_epoch: int = -1


class FetchResponse(NamedTuple):
    """A decoded response; `partitions` is empty when `error_code` is not 0."""

    throttle_ms: int
    error_code: int
    session_id: int
    partitions: list[FetchedPartition]


def encode_fetch_request(
    version: int,
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    isolation_level: int,
    session_id: int,
    session_epoch: int,
    partitions: Iterable[FetchPartition],
    forgotten: Iterable[FetchPartition],
    rack_id: str,
) -> bytes:
    """The request body (no header). Partitions of one topic are grouped, order kept otherwise."""
    assert LOW <= version <= HIGH, version
    limits = (max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch)
    if version < _REPLICA_IS_TAGGED:
        out = bytearray(_HEAD_WITH_REPLICA.pack(-1, *limits))
    else:
        out = bytearray(_HEAD.pack(*limits))
    asked: dict[bytes, list[bytes]] = {}
    for part in partitions:
        row = _ASKED.pack(part[2], part[3], part[4], part[5], -1, part[6], 0)
        asked.setdefault(_topic_key(version, part), []).append(row)
    _write_topics(out, asked)
    dropped: dict[bytes, list[bytes]] = {}
    for part in forgotten:
        dropped.setdefault(_topic_key(version, part), []).append(_INDEX.pack(part[2]))
    _write_topics(out, dropped)
    out += varints.compact_string(rack_id)
    out.append(0)
    return bytes(out)


def _topic_key(version: int, part: FetchPartition) -> bytes:
    return part[1] if version >= by_topic.BY_ID else varints.compact_string(part[0])


def _write_topics(out: bytearray, topics: dict[bytes, list[bytes]]) -> None:
    out += varints.encode(len(topics) + 1)
    for key, rows in topics.items():
        out += key
        out += varints.encode(len(rows) + 1)
        out += b"".join(rows)
        out.append(0)


def decode_fetch_response(version: int, body: memoryview) -> FetchResponse:
    """Walk a response body (no header); raises TruncatedResponse."""
    assert LOW <= version <= HIGH, version
    try:
        return _decode(version, body)
    except (struct.error, IndexError, ValueError) as error:
        raise failures.TruncatedResponse("fetch", version, str(error)) from error


def _decode(version: int, body: memoryview) -> FetchResponse:
    throttle_ms, error_code, session_id = _RESPONSE.unpack_from(body)
    found, position = by_topic.read(body, _RESPONSE.size, _decode_partition, version=version)
    position = varints.skip_tags(body, position)
    if position != len(body):
        raise ValueError(f"{len(body) - position} bytes left over")
    return FetchResponse(throttle_ms, error_code, session_id, found)


def _decode_partition(
    body: memoryview, position: int, topic: str, topic_id: bytes
) -> tuple[FetchedPartition, int]:
    index, error_code, high, stable, start = _PARTITION.unpack_from(body, position)
    position += _PARTITION.size
    aborted: list[tuple[int, int]] = []
    count = body[position]
    if count <= 1:
        position += 1
    else:
        aborted, position = _decode_aborted(body, position)
    (replica,) = _REPLICA.unpack_from(body, position)
    size, position = varints.read(body, position + 4)
    end = position + size - 1 if size else position
    if end >= len(body):
        raise IndexError(f"{size - 1} bytes of records at {position}, {len(body) - position} left")
    records = body[position:end]
    if body[end] == 0:
        part = (
            topic, topic_id, index, error_code, high, stable, start, aborted, replica, -1, None,
            records, -1,
        )  # fmt: skip
        return tuple.__new__(FetchedPartition, part), end + 1
    epoch, end_offset, leader, position = _decode_partition_tags(body, end)
    return FetchedPartition(
        topic, topic_id, index, error_code, high, stable, start, aborted, replica, end_offset,
        leader, records, epoch,
    ), position  # fmt: skip


def _decode_aborted(body: memoryview, position: int) -> tuple[list[tuple[int, int]], int]:
    count, position = varints.read(body, position)
    aborted: list[tuple[int, int]] = []
    for _ in range(count - 1):
        producer_id, first_offset, tags = _ABORTED.unpack_from(body, position)
        aborted.append((producer_id, first_offset))
        position += _ABORTED.size
        if tags:
            position = varints.skip_tags(body, position - 1)
    return aborted, position


def _decode_partition_tags(
    body: memoryview, position: int
) -> tuple[int, int, tuple[int, int] | None, int]:
    """(diverging epoch, diverging end offset, current leader, next position)."""
    fields, position = varints.read_tags(body, position)
    epoch, end_offset, leader = -1, -1, None
    if _TAG_DIVERGING in fields:
        epoch, end_offset = _DIVERGING.unpack_from(fields[_TAG_DIVERGING])
    if _TAG_LEADER in fields:
        leader = _LEADER.unpack_from(fields[_TAG_LEADER])
    return epoch, end_offset, leader, position
