"""Limits a server's open connections, and selects the connection to close when a limit is reached.

No client address may use all connections. When a limit is reached, the server closes the connection
that has been idle longest, never one whose request is being answered. Loopback connections have
their own limit, so that other hosts cannot lock out local health probes. No I/O.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

LOOPBACK = "loopback"
"""Client key that all loopback addresses share."""
_IPV6_PREFIX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnectionLimits:
    """Maximum numbers of open connections that a server accepts."""

    total: int
    """Maximum connections in total, except loopback connections."""
    per_address: int
    """Maximum connections per client address, except loopback."""
    loopback: int
    """Maximum loopback connections."""


def get_client_network(host: str) -> str:
    """Return the client key of a host: an IPv4 address, the /64 network of an IPv6 address, or
    `LOOPBACK`.

    A /64 network counts as one client, because one client can use every address in it.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif not address.is_loopback:
            return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
    return LOOPBACK if address.is_loopback else str(address)


@dataclass(slots=True)
class OpenConnections(Generic[T]):
    """The open connections of one server. Not thread-safe.

    Call `admit_connection` when a connection is accepted and `remove_connection` when it is closed.
    """

    limits: ClientConnectionLimits
    _client: dict[T, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _idle: dict[T, None] = field(default_factory=dict)
    """Idle connections, longest idle first."""

    def admit_connection(self, connection: T, host: str) -> T | None:
        """Register a newly accepted connection as idle. Returns None if no limit is exceeded,
        otherwise the connection that the caller must close.

        The returned connection is already unregistered. It is `connection` itself if no other
        connection is idle.
        """
        client = get_client_network(host)
        victim = None
        if (
            self._is_connection_limit_reached(client)
            and (victim := self._select_connection_to_close(client)) is None
        ):
            return connection
        if victim is not None:
            self.remove_connection(victim)
        self._client[connection] = client
        self._counts[client] += 1
        self._idle[connection] = None
        return victim

    def mark_connection_idle(self, connection: T) -> None:
        """Mark the connection idle: the server is waiting for a request, or for the client to read
        the response. Idempotent."""
        if connection in self._client and connection not in self._idle:
            self._idle[connection] = None

    def mark_connection_busy(self, connection: T) -> None:
        """Mark the connection busy: its request is being answered."""
        self._idle.pop(connection, None)

    def remove_connection(self, connection: T) -> None:
        """Unregister a closed connection. Idempotent."""
        client = self._client.pop(connection, None)
        self._idle.pop(connection, None)
        if client is None:
            return
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]

    def __len__(self) -> int:
        return len(self._client)

    def _is_connection_limit_reached(self, client: str) -> bool:
        """Return whether the limit that applies to the client's next connection has been
        reached."""
        if client == LOOPBACK:
            return self._counts[client] >= self.limits.loopback
        others = len(self._client) - self._counts[LOOPBACK]
        return self._counts[client] >= self.limits.per_address or others >= self.limits.total

    def _select_connection_to_close(self, client: str) -> T | None:
        """Select an idle connection to close; None if there is no suitable one.

        Selects the longest-idle connection of `client` if the client has reached its own limit,
        otherwise the longest-idle connection of the client with the most connections.
        """
        most = self.limits.loopback if client == LOOPBACK else self.limits.per_address
        if self._counts[client] >= most:
            return next((each for each in self._idle if self._client[each] == client), None)
        found = {self._client[each]: None for each in self._idle}
        found.pop(LOOPBACK, None)
        greedy = max(found, key=lambda each: self._counts[each], default=None)
        return next((each for each in self._idle if self._client[each] == greedy), None)

    def check_invariants(self) -> None:
        assert self._counts == Counter(self._client.values())
        assert self._idle.keys() <= self._client.keys()
        local = self._counts[LOOPBACK]
        assert local <= self.limits.loopback
        assert len(self._client) - local <= self.limits.total
        assert all(
            count <= self.limits.per_address
            for client, count in self._counts.items()
            if client != LOOPBACK
        )
