"""The offsets of many groups in one request (KIP-709), of which most have often not moved since.

All groups are coordinated by the broker that is asked. Whoever keeps the bytes that stood for a
group in an earlier answer has it left out, unread, as long as the same bytes stand for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v8 import response as v8
from kio.schema.offset_fetch.v9 import response as v9
from kio.serial import entity_reader

from connect_runtime.base import ids
from connect_runtime.wire.codec import failures, group_requests, messages, shapes, varints

_TYPES: Mapping[int, Any] = {8: v8.OffsetFetchResponseGroup, 9: v9.OffsetFetchResponseGroup}
_API = "offset_fetch"
_NONE = ErrorCode.none
_AFTER_THROTTLE_TIME = 4


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """What is answered of one group. `code`: the first error code of it all, 0 for none; `data`:
    the bytes that say so."""

    group: str
    offsets: Mapping[ids.TopicPartition, group_requests.Committed]
    code: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """`found`: of each group that does not stand as it stood; `same`: the others."""

    found: Sequence[GroupOffsets]
    same: Sequence[str]


def fetch(
    groups: Sequence[str], *, stable: bool = False, seen: Mapping[str, bytes] | None = None
) -> messages.Message:
    """To the groups' coordinator; the response's body is an `Answer`.

    `stable`: a partition about which a transaction is open is an error (88). `seen`: the `data` of
    earlier answers.
    """
    known = seen or {}

    def build(_: int, m: Any) -> Any:
        return m.OffsetFetchRequest(
            groups=tuple(m.OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups),
            require_stable=stable,
        )

    def read(version: int, body: memoryview) -> Answer:
        try:
            return _read(_TYPES[version], body, asked=groups, seen=known)
        except Exception as error:  # as `frames.decode_response`
            raise failures.TruncatedResponse(_API, version, f"does not decode: {error}") from error

    return messages.Message(api=_API, low=min(_TYPES), high=max(_TYPES), build=build, read=read)


def _read(
    group_type: Any, body: memoryview, *, asked: Sequence[str], seen: Mapping[str, bytes]
) -> Answer:
    read_group = entity_reader(group_type)
    body = body.toreadonly()
    count, at = varints.read(body, _AFTER_THROTTLE_TIME)
    found: list[GroupOffsets] = []
    same: list[str] = []
    if count == 0:
        raise ValueError(f"null at {_AFTER_THROTTLE_TIME}, where an array must be")
    for number in range(count - 1):
        group = asked[number] if number < len(asked) else ""
        before = seen.get(group)
        if before and body[at : at + len(before)] == before:
            same.append(group)
            at += len(before)
            continue
        data, end = shapes.readable_part(group_type, body, at)
        found.append(_group(read_group(data, 0)[0], bytes(body[at:end])))
        at = end
    at = varints.skip_tags(body, at)
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes left over")
    return Answer(found, same)


def _group(entity: Any, data: bytes) -> GroupOffsets:
    offsets: dict[ids.TopicPartition, group_requests.Committed] = {}
    code = int(entity.error_code)
    for topic in entity.topics:
        name = str(topic.name)
        for each in topic.partitions:
            if each.error_code is not _NONE:
                code = code or int(each.error_code)
            offsets[ids.TopicPartition(name, int(each.partition_index))] = group_requests.Committed(
                int(each.committed_offset), each.metadata or ""
            )
    return GroupOffsets(str(entity.group_id), offsets, code, data)
