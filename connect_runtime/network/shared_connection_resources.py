"""Objects that all connections of a cluster share: poller, resolver, clock, TLS context and
tokens."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.network import tls_contexts
from connect_runtime.network.connection_settings import ConnectionSettings
from connect_runtime.network.dns_resolver import HostResolver
from connect_runtime.network.oauth_token_source import OAuthTokenSource
from connect_runtime.network.tcp_and_tls_transport import BufferPool, Poller
from connect_runtime.protocol.security_settings import SecuritySettings


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConnectionLimits:
    """Limits of a connection to a broker: connect timeout, maximum response size and socket buffer
    size."""

    connect_timeout_s: float = 10.0
    max_response_bytes: int = 256 << 20
    socket_buffer_bytes: int | None = None
    """Socket buffer size; None for the system's autotuning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkContext:
    """Objects that all connections of a cluster share."""

    poller: Poller
    names: HostResolver
    clock: Clock
    rng: random.Random
    security: SecuritySettings
    tls: ssl.SSLContext | None
    """TLS context; None for connections without TLS."""
    client_id: bytes
    limits: BrokerConnectionLimits
    pool: BufferPool | None
    """Pool of response buffers; None to allocate a new buffer for every response."""
    canonical_bootstrap: bool = False
    """True to use the canonical host names of the bootstrap addresses (`client.dns.lookup`)."""
    quiet: bool = False
    """True to log failed connections at DEBUG, for callers that report failures themselves."""
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
    """Create the objects that the connections of a cluster share. Raises UnusableCertificate."""
    oauth = options.security.oauth
    names = HostResolver(poller=poller)
    return NetworkContext(
        poller=poller,
        names=names,
        clock=clock,
        rng=rng,
        security=options.security,
        tls=tls_contexts.create_tls_context(options.security),
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
