"""Functions for single queries about mirror topics, as in MirrorMaker 2's `RemoteClusterUtils`.

Each function opens a `MirrorClient` with the given properties, calls one method and closes the
client. For several queries, use a `MirrorClient`; its methods document results and errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import overload

from mm2.client.mirror_client import GroupOffsets, MirrorClient
from mm2.client.mirror_client_config import ClientProperties


def replication_hops(properties: ClientProperties, upstream_alias: str) -> int | None:
    """Return the minimum number of hops from the cluster `upstream_alias` to this cluster, or None
    if nothing is replicated from that cluster."""
    with MirrorClient(properties) as client:
        return client.replication_hops(upstream_alias)


def heartbeat_topics(properties: ClientProperties) -> frozenset[str]:
    """Return the cluster's heartbeats topics: its own topic and the replicated ones."""
    with MirrorClient(properties) as client:
        return client.heartbeat_topics()


def checkpoint_topics(properties: ClientProperties) -> frozenset[str]:
    """Return the cluster's checkpoints topics, one per source cluster."""
    with MirrorClient(properties) as client:
        return client.checkpoint_topics()


def upstream_clusters(properties: ClientProperties) -> frozenset[str]:
    """Return the aliases of all clusters whose heartbeats are replicated to this cluster, over any
    number of hops."""
    with MirrorClient(properties) as client:
        return client.upstream_clusters()


def remote_topics(properties: ClientProperties, source: str | None = None) -> frozenset[str]:
    """Return the cluster's mirror topics. With `source`, return only those replicated directly from
    that cluster."""
    with MirrorClient(properties) as client:
        return client.remote_topics(source)


@overload
def translate_offsets(
    properties: ClientProperties, remote_alias: str, group: str, timeout_s: float
) -> GroupOffsets: ...


@overload
def translate_offsets(
    properties: ClientProperties, remote_alias: str, group: re.Pattern[str], timeout_s: float
) -> Mapping[str, GroupOffsets]: ...


def translate_offsets(
    properties: ClientProperties,
    remote_alias: str,
    group: str | re.Pattern[str],
    timeout_s: float,
) -> GroupOffsets | Mapping[str, GroupOffsets]:
    """Return the translated offsets of consumer groups of the cluster `remote_alias`, from its
    checkpoints.

    For a group id, returns the offsets of that group. For a pattern, returns the offsets by group
    id of all groups whose whole id matches.
    """
    with MirrorClient(properties) as client:
        if isinstance(group, str):
            return client.remote_consumer_offsets(group, remote_alias, timeout_s)
        return client.remote_consumer_offsets(group, remote_alias, timeout_s)
