"""Client properties, as Java spells them, that shape connections of our own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from connect_runtime.wire.codec import security_settings
from connect_runtime.wire.connection import settings as connection_settings

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
_IDLE = "connections.max.idle.ms"
_LOOKUP = "client.dns.lookup"
_CANONICAL = "resolve_canonical_bootstrap_servers_only"
_RECOVERY = "metadata.recovery.strategy"
BUFFERS = ("receive.buffer.bytes", "send.buffer.bytes")
NAMES = frozenset({*_SECONDS, *BUFFERS, _LOOKUP, _RECOVERY})
"""No secret is among them."""

_LEAST_S = 0.001
_BACKOFF_S, _BACKOFF_MAX_S = 0.05, 1.0


def settings(
    properties: Mapping[str, str],
    *,
    bootstrap: tuple[str, ...],
    security: security_settings.Security,
    client_id: str,
) -> connection_settings.ConnectionSettings:
    """Values were checked when the properties were read; what is not in `NAMES` is not looked at.

    `client_id`: as brokers see it.
    """
    given: dict[str, Any] = {
        option: _seconds(name, int(properties[name]))
        for name, option in _SECONDS.items()
        if name in properties
    }
    for first, last in (
        ("reconnect_backoff_s", "reconnect_backoff_max_s"),
        ("retry_backoff_s", "retry_backoff_max_s"),
    ):
        if first in given:
            given[last] = max(given[first], given.get(last, _BACKOFF_MAX_S))
        elif last in given:
            given[first] = min(given[last], _BACKOFF_S)
    buffers = [int(properties[name]) for name in BUFFERS if name in properties]
    if buffers and max(buffers) > 0:
        given["socket_buffer_bytes"] = max(buffers)
    return connection_settings.ConnectionSettings(
        bootstrap=bootstrap,
        security=security,
        client_id=client_id,
        canonical_bootstrap=properties.get(_LOOKUP, "").lower() == _CANONICAL,
        rebootstrap=properties.get(_RECOVERY, "").lower() != "none",
        **given,
    )


def _seconds(name: str, ms: int) -> float:
    if name == _IDLE and ms < 0:
        return math.inf  # as in Java: never
    return max(_LEAST_S, ms / 1000.0)
