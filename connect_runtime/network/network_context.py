"""What all connections of one cluster share: poller, resolver, clock, TLS context, limits, tokens."""

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
    """Of one connection: seconds, and bytes. `socket_buffer_bytes` None: the system tunes them."""

    connect_timeout_s: float = 10.0
    max_response_bytes: int = 256 << 20
    socket_buffer_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkContext:
    """`tls` None: plain connections. `pool` None: every response gets a buffer of its own.

    canonical_bootstrap, quiet: as in `connection_settings`.
    tokens: where OAUTHBEARER has them from, None with other mechanisms.
    """

    poller: Poller
    names: HostResolver
    clock: Clock
    rng: random.Random
    security: SecuritySettings
    tls: ssl.SSLContext | None
    client_id: bytes
    limits: BrokerConnectionLimits
    pool: BufferPool | None
    canonical_bootstrap: bool = False
    quiet: bool = False
    tokens: OAuthTokenSource | None = None


def create_network_context(
    options: ConnectionSettings,
    *,
    poller: Poller,
    clock: Clock,
    rng: random.Random,
    pool: BufferPool | None,
) -> NetworkContext:
    """As the settings say; raises UnusableCertificate."""
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
