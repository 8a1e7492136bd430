"""Connection settings of a cluster's clients, derived from Kafka client properties.

`ConnectionSettings` can be serialized, because it is sent to the processes that copy records.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.protocol.security_settings import SecuritySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Connection settings of Kafka clients, with Kafka's names but in seconds instead of
    milliseconds.

    Backoffs grow exponentially from the initial value to the maximum, with jitter.
    """

    bootstrap: tuple[str, ...]
    """Bootstrap addresses, each as host:port."""
    security: SecuritySettings = field(default_factory=SecuritySettings)
    client_id: str = "mm2"
    request_timeout_s: float = 30.0
    connect_timeout_s: float = 10.0
    reconnect_backoff_s: float = 0.05
    reconnect_backoff_max_s: float = 1.0
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0
    metadata_max_age_s: float = 300.0
    connections_max_idle_s: float = 540.0
    max_response_bytes: int = 256 << 20
    socket_buffer_bytes: int | None = None
    """Socket buffer size in bytes. None means that the operating system tunes the size
    automatically. This is faster on high-latency connections."""
    waiting_calls_max: int = 50_000
    canonical_bootstrap: bool = False
    """True to use the canonical host names of the bootstrap addresses (`client.dns.lookup`). In
    either case, all addresses of a host are tried."""
    rebootstrap: bool = True
    """True to use the bootstrap addresses again when no known broker is reachable (KIP-899)."""
    quiet: bool = False
    """True to log failed connections at DEBUG, for callers that report failures themselves."""


_DURATION_KEYS = {
    "connections.max.idle.ms": "connections_max_idle_s",
    "metadata.max.age.ms": "metadata_max_age_s",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_s",
    "reconnect.backoff.ms": "reconnect_backoff_s",
    "request.timeout.ms": "request_timeout_s",
    "retry.backoff.max.ms": "retry_backoff_max_s",
    "retry.backoff.ms": "retry_backoff_s",
    "socket.connection.setup.timeout.ms": "connect_timeout_s",
}
_IDLE_KEY = "connections.max.idle.ms"
_DNS_LOOKUP_KEY = "client.dns.lookup"
_CANONICAL_LOOKUP = "resolve_canonical_bootstrap_servers_only"
_RECOVERY_KEY = "metadata.recovery.strategy"
BUFFER_SIZE_KEYS = ("receive.buffer.bytes", "send.buffer.bytes")
CONNECTION_KEYS = frozenset({*_DURATION_KEYS, *BUFFER_SIZE_KEYS, _DNS_LOOKUP_KEY, _RECOVERY_KEY})
"""Client properties that `create_connection_settings` supports. None of them is secret."""

_MIN_DURATION_S = 0.001


def create_connection_settings(
    properties: Mapping[str, str],
    *,
    bootstrap: tuple[str, ...],
    security: SecuritySettings,
    client_id: str,
) -> ConnectionSettings:
    """Create connection settings from client properties, ignoring keys that are not in
    `CONNECTION_KEYS`.

    The values must have been validated. `client_id` is sent to the brokers.
    """
    given: dict[str, Any] = {
        option: _convert_to_seconds(name, int(properties[name]))
        for name, option in _DURATION_KEYS.items()
        if name in properties
    }
    defaults = {each.name: each.default for each in dataclasses.fields(ConnectionSettings)}
    for first, last in (
        ("reconnect_backoff_s", "reconnect_backoff_max_s"),
        ("retry_backoff_s", "retry_backoff_max_s"),
    ):
        if first in given:
            given[last] = max(given[first], given.get(last, defaults[last]))
        elif last in given:
            given[first] = min(given[last], defaults[first])
    buffers = [int(properties[name]) for name in BUFFER_SIZE_KEYS if name in properties]
    if buffers and max(buffers) > 0:
        given["socket_buffer_bytes"] = max(buffers)
    return ConnectionSettings(
        bootstrap=bootstrap,
        security=security,
        client_id=client_id,
        canonical_bootstrap=properties.get(_DNS_LOOKUP_KEY, "").lower() == _CANONICAL_LOOKUP,
        rebootstrap=properties.get(_RECOVERY_KEY, "").lower() != "none",
        **given,
    )


def _convert_to_seconds(name: str, ms: int) -> float:
    if name == _IDLE_KEY and ms < 0:
        return math.inf  # never, as in Java
    return max(_MIN_DURATION_S, ms / 1000.0)
