"""Admin requests for consumer groups and their offsets, for one group or many groups (KIP-709).

Brokers allow offset changes only while the group has no members. Only versions that identify topics
by name are used. To fetch the offsets of many groups repeatedly, pass each group's raw bytes from
the previous response: groups whose bytes are unchanged are then not decoded again.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v8 import response as v8
from kio.schema.offset_fetch.v9 import response as v9
from kio.serial import entity_reader

from connect_runtime.base.ids import TopicPartition
from connect_runtime.protocol import api_versions, request_framing, varints
from connect_runtime.protocol.request_builders import RequestBuilder
from connect_runtime.protocol.request_errors import MalformedResponseError

COORDINATOR_MOVED_ERRORS = frozenset({15, 16})
"""COORDINATOR_NOT_AVAILABLE (15) and NOT_COORDINATOR (16), after which the coordinator must be
looked up again."""
RETRIABLE_GROUP_ERRORS = frozenset({*COORDINATOR_MOVED_ERRORS, 14, 27})
"""Retriable group errors: COORDINATOR_MOVED_ERRORS, COORDINATOR_LOAD_IN_PROGRESS (14) and
REBALANCE_IN_PROGRESS (27)."""
GROUP_ID_NOT_FOUND = 69
UNSUPPORTED_VERSION = 35
"""Error code UNSUPPORTED_VERSION, which brokers also return if the group protocol of KIP-848 is
disabled."""

_NO_GENERATION = -1
_LIST_WITH_STATES, _LIST_WITH_TYPES = 4, 5
_DESCRIBE_WITH_OPERATIONS = 3
_FETCH_STABLE = 7
_COMMIT_WITH_RETENTION = range(2, 5)
_BROKER_DEFAULT_RETENTION = datetime.timedelta(milliseconds=-1)


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A committed offset (-1 if none is committed) and the metadata that was committed with the
    offset."""

    offset: int
    metadata: str = ""


def build_list_groups_request() -> RequestBuilder:
    """Build a request that lists the groups that a broker coordinates. To list all groups, send it
    to every broker."""

    def build_request_message(version: int, m: Any) -> Any:
        every: dict[str, Any] = {}
        if version >= _LIST_WITH_STATES:
            every["states_filter"] = ()
        if version >= _LIST_WITH_TYPES:
            every["types_filter"] = ()
        return m.ListGroupsRequest(**every)

    return RequestBuilder(api="list_groups", low=0, high=5, build=build_request_message)


def build_describe_consumer_groups_request(*groups: str) -> RequestBuilder:
    """Build a request that describes consumer groups with the KIP-848 protocol. Groups of other
    types are reported as not found."""

    def build_request_message(_: int, m: Any) -> Any:
        return m.ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=False)

    return RequestBuilder(api="consumer_group_describe", low=0, high=1, build=build_request_message)


def build_describe_classic_groups_request(*groups: str) -> RequestBuilder:
    """Build a request that describes classic groups. Missing groups and groups of other types have
    the state "Dead"."""

    def build_request_message(version: int, m: Any) -> Any:
        more: dict[str, Any] = {}
        if version >= _DESCRIBE_WITH_OPERATIONS:
            more["include_authorized_operations"] = False
        return m.DescribeGroupsRequest(groups=groups, **more)

    return RequestBuilder(api="describe_groups", low=0, high=5, build=build_request_message)


def build_describe_share_group_offsets_request(group: str) -> RequestBuilder:
    """Build a request that fetches a share group's start offset (KIP-932) of every partition that
    the group has read."""

    def build_request_message(_: int, m: Any) -> Any:
        asked = m.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        return m.DescribeShareGroupOffsetsRequest(groups=(asked,))

    return RequestBuilder(
        api="describe_share_group_offsets", low=0, high=0, build=build_request_message
    )


def build_fetch_offsets_request(group: str, *, stable: bool = False) -> RequestBuilder:
    """Build a request that fetches all committed offsets of a group.

    With `stable`, partitions with an open transaction return UNSTABLE_OFFSET_COMMIT (88) if the
    broker supports it.
    """

    def build_request_message(version: int, m: Any) -> Any:
        more = {"require_stable": stable} if version >= _FETCH_STABLE else {}
        return m.OffsetFetchRequest(group_id=group, topics=None, **more)

    return RequestBuilder(api="offset_fetch", low=2, high=7, build=build_request_message)


def build_commit_offsets_request(
    group: str, offsets: Mapping[TopicPartition, CommittedOffset]
) -> RequestBuilder:
    """Build a request that commits offsets for a group."""

    def build_request_message(version: int, m: Any) -> Any:
        more: dict[str, Any] = {}
        if version in _COMMIT_WITH_RETENTION:
            more["retention_time"] = _BROKER_DEFAULT_RETENTION
        return m.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=_NO_GENERATION,
            member_id="",
            topics=tuple(
                m.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=tuple(
                        m.OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offsets[TopicPartition(topic, number)].offset,
                            committed_metadata=offsets[TopicPartition(topic, number)].metadata,
                        )
                        for number in numbers
                    ),
                )
                for topic, numbers in _group_by_topic(offsets).items()
            ),
            **more,
        )

    return RequestBuilder(api="offset_commit", low=2, high=9, build=build_request_message)


def build_delete_offsets_request(
    group: str, partitions: Collection[TopicPartition]
) -> RequestBuilder:
    """Build a request that deletes a group's committed offsets of these partitions."""

    def build_request_message(_: int, m: Any) -> Any:
        return m.OffsetDeleteRequest(
            group_id=group,
            topics=tuple(
                m.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=tuple(
                        m.OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                    ),
                )
                for topic, numbers in _group_by_topic(partitions).items()
            ),
        )

    return RequestBuilder(api="offset_delete", low=0, high=0, build=build_request_message)


def build_delete_group_request(group: str) -> RequestBuilder:
    """Build a request that deletes a group and all its committed offsets."""

    def build_request_message(_: int, m: Any) -> Any:
        return m.DeleteGroupsRequest(groups_names=(group,))

    return RequestBuilder(api="delete_groups", low=0, high=2, build=build_request_message)


def _group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place in sorted(partitions):
        found.setdefault(place.topic, []).append(place.partition)
    return found


def find_error_code(body: Any) -> int:
    """Return the first error code in a response to any request built by this module; 0 if there is
    no error."""
    codes = [getattr(body, "error_code", 0)]
    codes += [each.error_code for each in getattr(body, "results", ())]
    codes += [getattr(each, "error_code", 0) for each in getattr(body, "groups", ())]
    codes += get_partition_errors(body).values()
    return next((int(each) for each in codes if each), 0)


def get_partition_errors(body: Any) -> dict[TopicPartition, int]:
    """Return the error code of each partition that failed, from a response about group offsets."""
    return {
        TopicPartition(topic.name, each.partition_index): int(each.error_code)
        for topic in getattr(body, "topics", ())
        for each in topic.partitions
        if each.error_code
    }


def decode_committed_offsets(body: Any) -> dict[TopicPartition, CommittedOffset]:
    """Decode an error-free response to `build_fetch_offsets_request` into the committed offset of
    each partition."""
    return {
        TopicPartition(topic.name, each.partition_index): CommittedOffset(
            int(each.committed_offset), each.metadata or ""
        )
        for topic in body.topics
        for each in topic.partitions
    }


_GROUP_ENTITY_TYPES: Mapping[int, Any] = {
    8: v8.OffsetFetchResponseGroup,
    9: v9.OffsetFetchResponseGroup,
}
_OFFSET_FETCH_API = "offset_fetch"
_NO_ERROR = ErrorCode.none
_POSITION_AFTER_THROTTLE_TIME = 4


@dataclass(frozen=True, slots=True)
class FetchedGroupOffsets:
    """Committed offsets of one group in an OffsetFetch response."""

    group: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    error_code: int
    """First error code of the group or one of its partitions; 0 if there is no error."""
    data: bytes
    """The group's raw bytes in the response. Pass them as `seen` to
    `build_multi_group_offset_fetch_request` for the next request."""


@dataclass(frozen=True, slots=True)
class MultiGroupOffsetsResponse:
    """Response to `build_multi_group_offset_fetch_request`. Contains the groups with changed
    offsets, and the groups with the same offsets as in the previous response."""

    changed: Sequence[FetchedGroupOffsets]
    """Offsets of the groups whose bytes differ from the previous response."""
    unchanged: Sequence[str]
    """Ids of the groups whose bytes are equal to those in the previous response."""


def build_multi_group_offset_fetch_request(
    groups: Sequence[str], *, stable: bool = False, seen: Mapping[str, bytes] | None = None
) -> RequestBuilder:
    """Build a request that fetches the offsets of many groups with the same coordinator. The
    response is decoded to `MultiGroupOffsetsResponse`.

    With `stable`, partitions with an open transaction return UNSTABLE_OFFSET_COMMIT (88). `seen`
    maps each group to its raw bytes (`data`) in the previous response.
    """
    known = seen or {}

    def build_request_message(_: int, m: Any) -> Any:
        return m.OffsetFetchRequest(
            groups=tuple(m.OffsetFetchRequestGroup(group_id=each, topics=None) for each in groups),
            require_stable=stable,
        )

    def decode_offsets_response(version: int, body: memoryview) -> MultiGroupOffsetsResponse:
        try:
            request_framing.check_decoded_response_size(
                api_versions.API_KEYS[_OFFSET_FETCH_API], body
            )
            return _decode_groups_response(
                _GROUP_ENTITY_TYPES[version], body, asked=groups, seen=known
            )
        except Exception as error:  # all exceptions, as in `framing.decode_response`
            raise MalformedResponseError(
                _OFFSET_FETCH_API, version, f"cannot be decoded: {error}"
            ) from error

    return RequestBuilder(
        api=_OFFSET_FETCH_API,
        low=min(_GROUP_ENTITY_TYPES),
        high=max(_GROUP_ENTITY_TYPES),
        build=build_request_message,
        read=decode_offsets_response,
    )


def _decode_groups_response(
    group_type: Any, body: memoryview, *, asked: Sequence[str], seen: Mapping[str, bytes]
) -> MultiGroupOffsetsResponse:
    read_group = entity_reader(group_type)
    body = body.toreadonly()
    count, at = varints.read_varint(body, _POSITION_AFTER_THROTTLE_TIME)
    found: list[FetchedGroupOffsets] = []
    same: list[str] = []
    if count == 0:
        raise ValueError(
            f"null at position {_POSITION_AFTER_THROTTLE_TIME} for a non-nullable array"
        )
    if count - 1 != len(asked):
        raise ValueError(f"the response has {count - 1} groups, but {len(asked)} were requested")
    for group in asked:
        before = seen.get(group)
        if before and body[at : at + len(before)] == before:
            same.append(group)
            at += len(before)
            continue
        data, end = request_framing.validate_entity_bytes(group_type, body, at)
        found.append(_read_group_offsets(read_group(data, 0)[0], bytes(body[at:end])))
        at = end
    at = varints.skip_tagged_fields(body, at)
    if at != len(body):
        raise ValueError(f"{len(body) - at} unexpected bytes at the end")
    return MultiGroupOffsetsResponse(found, same)


def _read_group_offsets(entity: Any, data: bytes) -> FetchedGroupOffsets:
    offsets: dict[TopicPartition, CommittedOffset] = {}
    code = int(entity.error_code)
    for topic in entity.topics:
        name = str(topic.name)
        for each in topic.partitions:
            if each.error_code is not _NO_ERROR:
                code = code or int(each.error_code)
            offsets[TopicPartition(name, int(each.partition_index))] = CommittedOffset(
                int(each.committed_offset), each.metadata or ""
            )
    return FetchedGroupOffsets(str(entity.group_id), offsets, code, data)
