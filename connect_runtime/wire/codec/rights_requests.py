"""Requests whose answers tell what we ourselves may do (KIP-430). Nothing is changed by asking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from connect_runtime.wire.codec import acl_requests, messages

_NOT_TOLD = -(2**31)
_WITH_TOPIC_IDS = 10
_WITH_CLUSTER_OPERATIONS_LAST = 10


def topics(names: Sequence[str]) -> messages.Message:
    """Of topics that we may DESCRIBE, whether they exist or not; the others are refused."""

    def build(version: int, m: Any) -> Any:
        if version >= _WITH_TOPIC_IDS:
            wanted = [m.MetadataRequestTopic(topic_id=None, name=name) for name in names]
        else:
            wanted = [m.MetadataRequestTopic(name=name) for name in names]
        more = (
            {"include_cluster_authorized_operations": False}
            if version <= _WITH_CLUSTER_OPERATIONS_LAST
            else {}
        )
        return m.MetadataRequest(
            topics=tuple(wanted),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            **more,
        )

    return messages.Message(api="metadata", low=8, high=13, build=build)


def group(name: str) -> messages.Message:
    """Of a group, whether it exists or not; its coordinator answers."""

    def build(_: int, m: Any) -> Any:
        return m.DescribeGroupsRequest(groups=(name,), include_authorized_operations=True)

    return messages.Message(api="describe_groups", low=3, high=5, build=build)


def cluster() -> messages.Message:
    """Of the cluster as a whole (brokers from 2.8)."""

    def build(_: int, m: Any) -> Any:
        return m.DescribeClusterRequest(include_cluster_authorized_operations=True)

    return messages.Message(api="describe_cluster", low=0, high=0, build=build)


def operations(bits: int) -> frozenset[str] | None:
    """Words of `acl_requests.OPERATIONS`; None: the broker does not tell."""
    if bits == _NOT_TOLD:
        return None
    return frozenset(word for code, word in acl_requests.OPERATIONS.items() if bits & (1 << code))
