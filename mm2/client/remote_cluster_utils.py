"""`RemoteClusterUtils` as functions: one question each about the mirror topics of a cluster.

Each function opens a `MirrorClient` for the given properties, asks it and closes it. For several
questions, open a `MirrorClient` yourself; its methods document results and errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import overload

from mm2.client.mirror_client import GroupOffsets, MirrorClient
from mm2.client.mirror_client_config import ClientProperties


def replication_hops(properties: ClientProperties, upstream_alias: str) -> int | None:
    """The fewest clusters that records of `upstream_alias` pass to get here; None: none do."""
    with MirrorClient(properties) as client:
        return client.replication_hops(upstream_alias)


def heartbeat_topics(properties: ClientProperties) -> frozenset[str]:
    """Heartbeats written here and mirrored from elsewhere."""
    with MirrorClient(properties) as client:
        return client.heartbeat_topics()


def checkpoint_topics(properties: ClientProperties) -> frozenset[str]:
    """One for each cluster that groups' positions come from."""
    with MirrorClient(properties) as client:
        return client.checkpoint_topics()


def upstream_clusters(properties: ClientProperties) -> frozenset[str]:
    """Aliases of all clusters that heartbeats get here from, over any number of hops."""
    with MirrorClient(properties) as client:
        return client.upstream_clusters()


def remote_topics(properties: ClientProperties, source: str | None = None) -> frozenset[str]:
    """Mirror topics; with `source`, those that come directly from there."""
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
    """Where `group` of the cluster `remote_alias` goes on here, within `timeout_s` seconds.

    Of one group, or by name of all whose whole name a pattern matches.
    """
    with MirrorClient(properties) as client:
        if isinstance(group, str):
            return client.remote_consumer_offsets(group, remote_alias, timeout_s)
        return client.remote_consumer_offsets(group, remote_alias, timeout_s)
