"""Objects that all connections of a cluster share: poller, resolver, clock, TLS context, tokens."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass

from connect_runtime.base.timing import Clock
from connect_runtime.network import tls
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.network.oauth_token_source import OAuthTokenSource
from connect_runtime.network.resolver import HostResolver
from connect_runtime.network.transport import BufferPool, Poller
from connect_runtime.protocol.security_settings import SecuritySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConnectionLimits:
    """Limits of one connection."""

    connect_timeout_s: float = 10.0
    max_response_bytes: int = 256 << 20
    socket_buffer_bytes: int | None = None
    """None leaves them to the system's autotuning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkContext:
    """Objects that all connections of a cluster share."""

    poller: Poller
    names: HostResolver
    clock: Clock
    rng: random.Random
    security: SecuritySettings
    tls: ssl.SSLContext | None
    """None for connections without TLS."""
    client_id: bytes
    limits: BrokerConnectionLimits
    pool: BufferPool | None
    """None allocates a buffer for every response."""
    canonical_bootstrap: bool = False
    """See `ConnectionSettings`."""
    quiet: bool = False
    """See `ConnectionSettings`."""
    tokens: OAuthTokenSource | None = None
    """Source of OAUTHBEARER tokens; None with other mechanisms."""


def create_network_context(
    options: ConnectionSettings,
    *,
    poller: Poller,
    clock: Clock,
    rng: random.Random,
    pool: BufferPool | None,
) -> NetworkContext:
    """Create the shared objects from settings. Raises UnusableCertificate."""
    oauth = options.security.oauth
    names = HostResolver(poller=poller)
    return NetworkContext(
        poller=poller,
        names=names,
        clock=clock,
        rng=rng,
        security=options.security,
        tls=tls.create_tls_context(options.security),
        client_id=options.client_id.encode(),
        limits=BrokerConnectionLimits(
            connect_timeout_s=options.connect_timeout_s,
            max_response_bytes=options.max_response_bytes,
            socket_buffer_bytes=options.socket_buffer_bytes,
        ),
        pool=pool,
        canonical_bootstrap=options.canonical_bootstrap,
        quiet=options.quiet,
        tokens=None
        if oauth is None
        else OAuthTokenSource(oauth, poller=poller, names=names, clock=clock, rng=rng),
    )
