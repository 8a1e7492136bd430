"""Requests about consumer groups from outside, and what is answered to them.

Brokers allow changes of offsets while the group has no members alone. Only versions that name
topics by their names are spoken.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.base import ids
from connect_runtime.wire.codec import messages

NOT_COORDINATOR = frozenset({15, 16})
"""COORDINATOR_NOT_AVAILABLE and NOT_COORDINATOR: look for it anew."""
PASSING = frozenset({*NOT_COORDINATOR, 14, 27})
"""And COORDINATOR_LOAD_IN_PROGRESS, REBALANCE_IN_PROGRESS: ask again."""
GROUP_ID_NOT_FOUND = 69
UNSUPPORTED_VERSION = 35
"""Also what brokers answer whose group protocol of KIP-848 is switched off."""

_NO_MEMBER = -1
_LIST_WITH_STATES, _LIST_WITH_TYPES = 4, 5
_DESCRIBE_WITH_OPERATIONS = 3
_FETCH_STABLE = 7
_COMMIT_WITH_RETENTION = range(2, 5)
_BROKERS_OWN = datetime.timedelta(milliseconds=-1)


@dataclass(frozen=True, slots=True)
class Committed:
    """Where a group goes on in a partition; -1: it says nowhere. `metadata` is its own note."""

    offset: int
    metadata: str = ""


def listing() -> messages.Message:
    """Which groups a broker coordinates: to be asked of every one."""

    def build(version: int, m: Any) -> Any:
        every: dict[str, Any] = {}
        if version >= _LIST_WITH_STATES:
            every["states_filter"] = ()
        if version >= _LIST_WITH_TYPES:
            every["types_filter"] = ()
        return m.ListGroupsRequest(**every)

    return messages.Message(api="list_groups", low=0, high=5, build=build)


def describe_consumer(*groups: str) -> messages.Message:
    """How groups of the protocol of KIP-848 stand; any other one is not found."""

    def build(_: int, m: Any) -> Any:
        return m.ConsumerGroupDescribeRequest(group_ids=groups, include_authorized_operations=False)

    return messages.Message(api="consumer_group_describe", low=0, high=1, build=build)


def describe_classic(*groups: str) -> messages.Message:
    """How classic groups stand; any other one, or none, is "Dead"."""

    def build(version: int, m: Any) -> Any:
        more: dict[str, Any] = {}
        if version >= _DESCRIBE_WITH_OPERATIONS:
            more["include_authorized_operations"] = False
        return m.DescribeGroupsRequest(groups=groups, **more)

    return messages.Message(api="describe_groups", low=0, high=5, build=build)


def share_offsets(group: str) -> messages.Message:
    """Where a share group (KIP-932) starts in each partition that it has begun to read."""

    def build(_: int, m: Any) -> Any:
        asked = m.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
        return m.DescribeShareGroupOffsetsRequest(groups=(asked,))

    return messages.Message(api="describe_share_group_offsets", low=0, high=0, build=build)


def fetch(group: str, *, stable: bool = False) -> messages.Message:
    """Which offsets the group has. `stable`: a partition about which a transaction is open is an
    error (88), where brokers know of it."""

    def build(version: int, m: Any) -> Any:
        more = {"require_stable": stable} if version >= _FETCH_STABLE else {}
        return m.OffsetFetchRequest(group_id=group, topics=None, **more)

    return messages.Message(api="offset_fetch", low=2, high=7, build=build)


def commit(group: str, offsets: Mapping[ids.TopicPartition, Committed]) -> messages.Message:
    """Give the group these."""

    def build(version: int, m: Any) -> Any:
        more: dict[str, Any] = {}
        if version in _COMMIT_WITH_RETENTION:
            more["retention_time"] = _BROKERS_OWN
        return m.OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=_NO_MEMBER,
            member_id="",
            topics=tuple(
                m.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=tuple(
                        m.OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offsets[ids.TopicPartition(topic, number)].offset,
                            committed_metadata=offsets[ids.TopicPartition(topic, number)].metadata,
                        )
                        for number in numbers
                    ),
                )
                for topic, numbers in _by_topic(offsets).items()
            ),
            **more,
        )

    return messages.Message(api="offset_commit", low=2, high=9, build=build)


def forget(group: str, partitions: Collection[ids.TopicPartition]) -> messages.Message:
    """Take from the group the offsets of these."""

    def build(_: int, m: Any) -> Any:
        return m.OffsetDeleteRequest(
            group_id=group,
            topics=tuple(
                m.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=tuple(
                        m.OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                    ),
                )
                for topic, numbers in _by_topic(partitions).items()
            ),
        )

    return messages.Message(api="offset_delete", low=0, high=0, build=build)


def delete(group: str) -> messages.Message:
    """Take the group away, with all its offsets."""

    def build(_: int, m: Any) -> Any:
        return m.DeleteGroupsRequest(groups_names=(group,))

    return messages.Message(api="delete_groups", low=0, high=2, build=build)


def _by_topic(partitions: Iterable[ids.TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for place in sorted(partitions):
        found.setdefault(place.topic, []).append(place.partition)
    return found


def error(body: Any) -> int:
    """The first error code in an answer to any of these; 0: there is none."""
    codes = [getattr(body, "error_code", 0)]
    codes += [each.error_code for each in getattr(body, "results", ())]
    codes += [getattr(each, "error_code", 0) for each in getattr(body, "groups", ())]
    codes += refused(body).values()
    return next((int(each) for each in codes if each), 0)


def refused(body: Any) -> dict[ids.TopicPartition, int]:
    """Error codes of single partitions, where there are any."""
    return {
        ids.TopicPartition(topic.name, each.partition_index): int(each.error_code)
        for topic in getattr(body, "topics", ())
        for each in topic.partitions
        if each.error_code
    }


def fetched(body: Any) -> dict[ids.TopicPartition, Committed]:
    """What an answer to `fetch` says, where it says no error."""
    return {
        ids.TopicPartition(topic.name, each.partition_index): Committed(
            int(each.committed_offset), each.metadata or ""
        )
        for topic in body.topics
        for each in topic.partitions
    }
