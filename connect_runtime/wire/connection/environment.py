"""What all connections of a cluster share."""

from __future__ import annotations

import random
import ssl
from dataclasses import dataclass

from connect_runtime.base import clock
from connect_runtime.wire.codec import security_settings
from connect_runtime.wire.connection import (
    buffers,
    poller,
    resolver,
    security,
    settings,
    token_source,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one connection: seconds, and bytes. `socket_buffer_bytes` None: the system tunes them."""

    connect_timeout_s: float = 10.0
    max_response_bytes: int = 256 << 20
    socket_buffer_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """`tls` None: plain connections. `pool` None: every response gets a buffer of its own.

    canonical_bootstrap, quiet: as in `settings`.
    tokens: where OAUTHBEARER has them from, None with other mechanisms.
    """

    poller: poller.Poller
    names: resolver.Resolver
    clock: clock.Clock
    rng: random.Random
    security: security_settings.Security
    tls: ssl.SSLContext | None
    client_id: bytes
    limits: Limits
    pool: buffers.BufferPool | None
    canonical_bootstrap: bool = False
    quiet: bool = False
    tokens: token_source.TokenSource | None = None


def make(
    options: settings.ConnectionSettings,
    *,
    poller: poller.Poller,
    clock: clock.Clock,
    rng: random.Random,
    pool: buffers.BufferPool | None,
) -> Environment:
    """As the settings say; raises UnusableCertificate."""
    oauth = options.security.oauth
    names = resolver.Resolver(poller=poller)
    return Environment(
        poller=poller,
        names=names,
        clock=clock,
        rng=rng,
        security=options.security,
        tls=security.tls_context(options.security),
        client_id=options.client_id.encode(),
        limits=Limits(
            connect_timeout_s=options.connect_timeout_s,
            max_response_bytes=options.max_response_bytes,
            socket_buffer_bytes=options.socket_buffer_bytes,
        ),
        pool=pool,
        canonical_bootstrap=options.canonical_bootstrap,
        quiet=options.quiet,
        tokens=None
        if oauth is None
        else token_source.TokenSource(oauth, poller=poller, names=names, clock=clock, rng=rng),
    )
