"""Client properties, as Java spells them, that shape the copies' own connections and fetches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect_runtime.wire.codec import security_settings
from connect_runtime.wire.connection import settings
from mm2.core.copy import fetch_sizes, messages

_SECONDS = {
    "connections.max.idle.ms": "connections_max_idle_s",
    "metadata.max.age.ms": "metadata_max_age_s",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_s",
    "reconnect.backoff.ms": "reconnect_backoff_s",
    "request.timeout.ms": "request_timeout_s",
    "retry.backoff.max.ms": "retry_backoff_max_s",
    "retry.backoff.ms": "retry_backoff_s",
    "socket.connection.setup.timeout.ms": "connect_timeout_s",
}
_BUFFERS = ("receive.buffer.bytes", "send.buffer.bytes")
_FETCH = (
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "max.partition.fetch.bytes",
)
_RACK = "client.rack"
_LOOKUP = "client.dns.lookup"
_RECOVERY = "metadata.recovery.strategy"
NAMES = frozenset({*_SECONDS, *_BUFFERS, *_FETCH, _RACK, _LOOKUP, _RECOVERY})
"""No secret is among them: they travel to the copies as they are."""

_LEAST_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """`partition_bytes` is the least that is asked of a partition; round trips may raise it.

    rack: ours, "" where replicas are all alike; a replica in it is read for `replica_max_age_s`.
    """

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 32 * 1024 * 1024
    partition_bytes: int = fetch_sizes.SMALLEST_BYTES
    rack: str = ""
    replica_max_age_s: float = 300.0


def connection_settings(access: messages.ClusterAccess) -> settings.ConnectionSettings:
    """Values were checked when the settings were read."""
    given: dict[str, Any] = {}
    for name, option in _SECONDS.items():
        if name in access.properties:
            given[option] = max(_LEAST_S, int(access.properties[name]) / 1000.0)
    for first, last in (
        ("reconnect_backoff_s", "reconnect_backoff_max_s"),
        ("retry_backoff_s", "retry_backoff_max_s"),
    ):
        if first in given:
            least = given[first]
            given[last] = max(least, given.get(last, 1.0))
        elif last in given:
            given[first] = min(given[last], 0.05)
    buffers = [int(access.properties[name]) for name in _BUFFERS if name in access.properties]
    if buffers and max(buffers) > 0:
        given["socket_buffer_bytes"] = max(buffers)
    lookup = access.properties.get(_LOOKUP, "").lower()
    given["canonical_bootstrap"] = lookup == "resolve_canonical_bootstrap_servers_only"
    given["rebootstrap"] = access.properties.get(_RECOVERY, "").lower() != "none"
    return settings.ConnectionSettings(
        bootstrap=access.bootstrap,
        security=security_settings.Security.from_dict(access.security),
        client_id=access.client_id,
        **given,
    )


def fetch_limits(properties: Mapping[str, str]) -> FetchLimits:
    names = dict(
        zip(_FETCH, ("max_bytes", "max_wait_ms", "min_bytes", "partition_bytes"), strict=True)
    )
    given: dict[str, Any] = {
        option: int(properties[name]) for name, option in names.items() if name in properties
    }
    if "metadata.max.age.ms" in properties:
        given["replica_max_age_s"] = int(properties["metadata.max.age.ms"]) / 1000.0
    return FetchLimits(rack=properties.get(_RACK, ""), **given)
