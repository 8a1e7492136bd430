"""What a cluster's connections need to know; travels to executors over the control channel."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect_runtime.wire.codec import security_settings


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
    security: security_settings.Security = field(default_factory=security_settings.Security)
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
