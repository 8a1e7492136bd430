"""Connects to every bootstrap address and advertised broker of a cluster, and reads certificates.

Connections use the same protocol, TLS and SASL settings as the copy processes.
"""

from __future__ import annotations

import dataclasses
import socket
import ssl
from collections.abc import Callable, Collection, Hashable
from random import Random
from typing import TypeVar

from cryptography import x509

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.network import tls_contexts
from connect_runtime.network.cluster_connections import (
    ClientResponse,
    ClusterConnections,
    ConnectionSettings,
)
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.network.tls_contexts import UnusableCertificate
from connect_runtime.protocol import cluster_metadata, request_builders, request_errors
from connect_runtime.protocol.request_builders import AnyNodeTarget, NodeTarget
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    ConnectionFailed,
    RequestFailureLayer,
)
from connect_runtime.protocol.security_settings import SecuritySettings
from mm2.kafka import suggested_command_arguments
from mm2.preflight.client_authentication import ClusterLogin
from mm2.preflight.connectivity_findings import ConnectAttempt, ConnectResult


def fetch_broker_certificate_expiry_ms(
    address: str, settings: SecuritySettings, timeout_s: float
) -> int | None:
    """Connect to `address` ("host:port") and return the expiry time of the broker's certificate.
    Returns None if the connection does not use TLS or fails."""
    context = tls_contexts.create_tls_context(settings)
    if context is None:
        return None
    host, _, port = address.rpartition(":")
    name = host.strip("[]")
    try:
        with (
            socket.create_connection((name, int(port)), timeout_s) as link,
            context.wrap_socket(link, server_hostname=name) as told,
        ):
            shown = told.getpeercert()
    except (OSError, ValueError):
        return None
    until = (shown or {}).get("notAfter")
    return ssl.cert_time_to_seconds(until) * 1000 if isinstance(until, str) else None


def read_client_certificate_expiry_ms(settings: SecuritySettings) -> int | None:
    """Read the expiry time of the client certificate. Returns None if no client certificate is
    configured."""
    if settings.certificate_pem is None or not settings.uses_tls:
        return None
    found = x509.load_pem_x509_certificate(settings.certificate_pem.encode())
    return round(found.not_valid_after_utc.timestamp() * 1000)


K = TypeVar("K", bound=Hashable)

_POLL_INTERVAL_S = 0.05
_DEADLINE_MARGIN_S = 1.0
"""Margin by which the deadline exceeds the timeouts of the connections. Connection errors are
therefore reported before the deadline: they name the cause."""


def check_connectivity(
    login: ClusterLogin, *, clock: Clock, random: Random, timeout_s: float
) -> ConnectResult:
    """Check a cluster's bootstrap addresses, then its brokers, then their certificates. All
    addresses of a step are checked concurrently. Takes at most three times `timeout_s`."""
    access = login.access
    blank = build_unreachable_result(login, clock=clock)
    options = dataclasses.replace(
        access.to_connection_settings("mm2-check"),
        connect_timeout_s=timeout_s,
        request_timeout_s=timeout_s,
    )
    try:
        looks = _AddressChecks(options, clock=clock, random=random, timeout_s=timeout_s)
    except UnusableCertificate as error:
        tried = tuple(_build_connect_attempt(each, error) for each in access.bootstrap)
        return dataclasses.replace(blank, bootstrap=tried)
    with looks:
        bootstrap = looks.check_bootstrap_addresses()
        brokers = looks.check_brokers()
    end = Deadline.after(timeout_s, now_s=clock.now_s())

    def add_certificate_expiry(each: ConnectAttempt) -> ConnectAttempt:
        left_s = end.remaining_s(clock.now_s())
        if each.layer is not None or left_s == 0.0:
            return each
        until_ms = fetch_broker_certificate_expiry_ms(each.address, access.security, left_s)
        return dataclasses.replace(each, expires_ms=until_ms)

    return dataclasses.replace(
        blank,
        bootstrap=tuple(map(add_certificate_expiry, bootstrap)),
        brokers=brokers,
        client_expires_ms=read_client_certificate_expiry_ms(access.security),
    )


def build_unreachable_result(login: ClusterLogin, *, clock: Clock, why: str = "") -> ConnectResult:
    """Build the connection result of a cluster that cannot be reached. `why` is the error of all
    bootstrap addresses, or "" if no connection was attempted."""
    access = login.access
    tried = (
        ConnectAttempt(address=each, layer=RequestFailureLayer.NETWORK, text=why)
        for each in access.bootstrap
    )
    return ConnectResult(
        alias=login.alias,
        clients=login.clients,
        protocol=access.security.protocol,
        user=suggested_command_arguments.resolve_principal(access.security).removeprefix("User:"),
        bootstrap=tuple(tried) if why else (),
        tool=suggested_command_arguments.build_cluster_commands(access),
        at_ms=clock.wall_ms(),
    )


class _AddressChecks:
    """Connections to all bootstrap addresses, which share one poller."""

    def __init__(
        self,
        options: ConnectionSettings,
        *,
        clock: Clock,
        random: Random,
        timeout_s: float,
    ) -> None:
        self._clock = clock
        self._timeout_s = timeout_s
        self._poller = Poller()
        self._by_address: dict[str, ClusterConnections] = {}
        for address in options.bootstrap:
            alone = dataclasses.replace(options, bootstrap=(address,))
            self._by_address[address] = ClusterConnections(
                alone, poller=self._poller, clock=clock, random=random
            )

    def __enter__(self) -> _AddressChecks:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._by_address.values():
            each.close()
        self._poller.close()

    def check_bootstrap_addresses(self) -> tuple[ConnectAttempt, ...]:
        """Request metadata from each bootstrap address and return the results."""
        replies: dict[str, ClientResponse] = {}

        def build_response_handler(address: str) -> Callable[[ClientResponse], None]:
            return lambda reply: replies.update({address: reply})

        def get_failure(address: str) -> ConnectError | None:
            reply = replies.get(address)
            troubles = self._by_address[address].get_connection_errors()
            return reply.failure if reply is not None else next(iter(troubles.values()), None)

        for address, each in self._by_address.items():
            each.call(
                AnyNodeTarget(),
                request_builders.build_metadata_request(()),
                done=build_response_handler(address),
            )
        found = self._poll_until_requests_complete(
            self._by_address,
            lambda address: bool(self._by_address[address].view.brokers),
            get_failure,
        )
        return tuple(
            _build_connect_attempt(address, found[address]) for address in self._by_address
        )

    def check_brokers(self) -> tuple[ConnectAttempt, ...]:
        """Connect to the advertised address of each broker in the first metadata response and
        return the results."""
        known = next((each for each in self._by_address.values() if each.view.brokers), None)
        if known is None:
            return ()
        replies: dict[int, ClientResponse] = {}
        addresses = {
            node: cluster_metadata.format_address(each.host, each.port)
            for node, each in sorted(known.view.brokers.items())
        }

        def build_response_handler(node: int) -> Callable[[ClientResponse], None]:
            return lambda reply: replies.update({node: reply})

        for node in addresses:
            known.call(
                NodeTarget(node),
                request_builders.build_metadata_request(()),
                done=build_response_handler(node),
            )

        def get_failure(node: int) -> ConnectError | None:
            reply = replies.get(node)
            return known.get_connection_error(node) if reply is None else reply.failure

        found = self._poll_until_requests_complete(
            addresses,
            lambda node: node in replies and replies[node].failure is None,
            get_failure,
        )
        return tuple(
            _build_connect_attempt(addresses[node], found[node], node=node) for node in addresses
        )

    def _poll_until_requests_complete(
        self,
        wanted: Collection[K],
        done: Callable[[K], bool],
        failed: Callable[[K], ConnectError | None],
    ) -> dict[K, ConnectError | None]:
        """Poll until every request has succeeded, failed or timed out. Returns the failure of each
        request, or None if it succeeded."""
        end = Deadline.after(self._timeout_s + _DEADLINE_MARGIN_S, now_s=self._clock.now_s())
        found: dict[K, ConnectError | None] = {}
        while len(found) < len(wanted):
            late = end.is_expired(self._clock.now_s())
            for key in wanted:
                if key in found:
                    continue
                if done(key):
                    found[key] = None
                elif (failure := failed(key)) is not None:
                    found[key] = failure
                elif late:
                    found[key] = RetriableError(f"no response within {self._timeout_s:g} s")
            now_s = self._clock.now_s()
            due_s = min(each.tick(now_s) for each in self._by_address.values())
            self._poller.poll(min(_POLL_INTERVAL_S, due_s))
        return found


def _build_connect_attempt(
    address: str, failure: ConnectError | None, *, node: int | None = None
) -> ConnectAttempt:
    if failure is None:
        return ConnectAttempt(address=address, node=node)
    layer = request_errors.find_request_failure_layer(failure)
    if isinstance(failure, UnusableCertificate):
        layer = RequestFailureLayer.TLS
    return ConnectAttempt(
        address=address, layer=layer, text=_describe_failure_cause(failure, address), node=node
    )


def _describe_failure_cause(failure: ConnectError, address: str) -> str:
    """Format the cause of a connection error. The address is omitted because it is shown
    separately, unless the error concerns another address, such as a token endpoint."""
    match failure:
        case ConnectionFailed() if failure.address == address:
            return failure.cause
        case AuthenticationFailed() if failure.address == address:
            return failure.problem
        case _:
            return str(failure)
