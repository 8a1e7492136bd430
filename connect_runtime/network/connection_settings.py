"""Connection settings of a cluster's clients, and how they follow from Kafka client properties.

`ConnectionSettings` travels to executors over the control channel.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.protocol.security_settings import SecuritySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionSettings:
    """Kafka's names in their own units: seconds here, milliseconds in client properties.

    bootstrap: host:port each. socket_buffer_bytes None: the system tunes them, which beats fixed
    ones on long lines. reconnect_* and retry_*: exponential between the two, with jitter.
    canonical_bootstrap: bootstrap hosts stand for the hosts behind their addresses, by those' names
    (`client.dns.lookup`); all addresses of a host are tried in any case. rebootstrap: bootstrap
    addresses are asked again once no known broker can be (KIP-899); otherwise only at first.
    quiet: failed connections are logged at DEBUG alone, for callers that report them themselves.
    """

    bootstrap: tuple[str, ...]
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
    waiting_calls_max: int = 50_000
    canonical_bootstrap: bool = False
    rebootstrap: bool = True
    quiet: bool = False


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
"""No secret is among them."""

_MIN_DURATION_S = 0.001
_DEFAULT_BACKOFF_S, _DEFAULT_BACKOFF_MAX_S = 0.05, 1.0


def create_connection_settings(
    properties: Mapping[str, str],
    *,
    bootstrap: tuple[str, ...],
    security: SecuritySettings,
    client_id: str,
) -> ConnectionSettings:
    """Values were checked when the properties were read; what is not in `CONNECTION_KEYS` is not
    looked at.

    `client_id`: as brokers see it.
    """
    given: dict[str, Any] = {
        option: _convert_to_seconds(name, int(properties[name]))
        for name, option in _DURATION_KEYS.items()
        if name in properties
    }
    for first, last in (
        ("reconnect_backoff_s", "reconnect_backoff_max_s"),
        ("retry_backoff_s", "retry_backoff_max_s"),
    ):
        if first in given:
            given[last] = max(given[first], given.get(last, _DEFAULT_BACKOFF_MAX_S))
        elif last in given:
            given[first] = min(given[last], _DEFAULT_BACKOFF_S)
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
        return math.inf  # as in Java: never
    return max(_MIN_DURATION_S, ms / 1000.0)
