"""One question each of a cluster that mirrors are on (`RemoteClusterUtils` of MirrorMaker 2).

Every function makes a `MirrorClient` of `properties`, asks, and closes it; for several questions
make one yourself. What is answered and raised is said there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import overload

from mm2.client import mirror_client, settings


def replication_hops(properties: settings.Properties, upstream_alias: str) -> int | None:
    """The fewest clusters that records of `upstream_alias` pass to get here; None: none do."""
    with mirror_client.MirrorClient(properties) as client:
        return client.replication_hops(upstream_alias)


def heartbeat_topics(properties: settings.Properties) -> frozenset[str]:
    """Heartbeats written here and mirrored from elsewhere."""
    with mirror_client.MirrorClient(properties) as client:
        return client.heartbeat_topics()


def checkpoint_topics(properties: settings.Properties) -> frozenset[str]:
    """One for each cluster that groups' positions come from."""
    with mirror_client.MirrorClient(properties) as client:
        return client.checkpoint_topics()


def upstream_clusters(properties: settings.Properties) -> frozenset[str]:
    """Aliases of all clusters that heartbeats get here from, over any number of hops."""
    with mirror_client.MirrorClient(properties) as client:
        return client.upstream_clusters()


def remote_topics(properties: settings.Properties, source: str | None = None) -> frozenset[str]:
    """Mirror topics; with `source`, those that come directly from there."""
    with mirror_client.MirrorClient(properties) as client:
        return client.remote_topics(source)


@overload
def translate_offsets(
    properties: settings.Properties, remote_alias: str, group: str, timeout_s: float
) -> mirror_client.GroupOffsets: ...


@overload
def translate_offsets(
    properties: settings.Properties, remote_alias: str, group: re.Pattern[str], timeout_s: float
) -> Mapping[str, mirror_client.GroupOffsets]: ...


def translate_offsets(
    properties: settings.Properties,
    remote_alias: str,
    group: str | re.Pattern[str],
    timeout_s: float,
) -> mirror_client.GroupOffsets | Mapping[str, mirror_client.GroupOffsets]:
    """Where `group` of the cluster `remote_alias` goes on here, within `timeout_s` seconds.

    Of one group, or by name of all whose whole name a pattern matches.
    """
    with mirror_client.MirrorClient(properties) as client:
        if isinstance(group, str):
            return client.remote_consumer_offsets(group, remote_alias, timeout_s)
        return client.remote_consumer_offsets(group, remote_alias, timeout_s)
