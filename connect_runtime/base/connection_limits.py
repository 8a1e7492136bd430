"""Limits on a server's open connections, and which connection is closed when one is reached.

No client address may use all connections. At a limit, the connection is closed whose client the
server has waited for longest, never one whose request is being answered. Loopback connections
have a limit of their own, so that other hosts cannot lock out local health probes. Pure.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")

LOOPBACK = "loopback"
"""The one address that all of this machine's loopback addresses count as."""
_IPV6_PREFIX = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnectionLimits:
    """`total` is without connections over loopback, which `local` limits; `per_address` is of any
    other address."""

    total: int
    per_address: int
    local: int


def identify_client(host: str) -> str:
    """The client that a connection counts for: an IPv4 address, a /64 network for IPv6 (one client
    can use every address in it), or `LOOPBACK` for this machine."""
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
    """The open connections of one server. Not thread-safe. Call `admit` when a connection is
    accepted and `leave` when it is closed."""

    limits: ClientConnectionLimits
    _client: dict[T, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _waiting: dict[T, None] = field(default_factory=dict)
    """Connections whose client the server waits for, the longest wait first."""

    def admit(self, connection: T, host: str) -> T | None:
        """Register a connection, whose client the server waits for. Returns the connection to close
        to make room, which has left already, or `connection` itself if it is rejected because all
        others are being answered."""
        client = identify_client(host)
        victim = None
        if self._is_full(client) and (victim := self._victim(client)) is None:
            return connection
        if victim is not None:
            self.leave(victim)
        self._client[connection] = client
        self._counts[client] += 1
        self._waiting[connection] = None
        return victim

    def wait(self, connection: T) -> None:
        """The server begins to wait for the client: for a request, or until it has read the
        response. Idempotent."""
        if connection in self._client and connection not in self._waiting:
            self._waiting[connection] = None

    def answer(self, connection: T) -> None:
        """A request is being answered: the client waits for the server."""
        self._waiting.pop(connection, None)

    def leave(self, connection: T) -> None:
        """Idempotent."""
        client = self._client.pop(connection, None)
        self._waiting.pop(connection, None)
        if client is None:
            return
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]

    def __len__(self) -> int:
        return len(self._client)

    def _is_full(self, client: str) -> bool:
        if client == LOOPBACK:
            return self._counts[client] >= self.limits.local
        others = len(self._client) - self._counts[LOOPBACK]
        return self._counts[client] >= self.limits.per_address or others >= self.limits.total

    def _victim(self, client: str) -> T | None:
        """The connection to close: the longest wait of `client` if it is at its own limit, else the
        longest wait of the client with the most connections."""
        most = self.limits.local if client == LOOPBACK else self.limits.per_address
        if self._counts[client] >= most:
            return next((each for each in self._waiting if self._client[each] == client), None)
        found = {self._client[each]: None for each in self._waiting}
        found.pop(LOOPBACK, None)
        greedy = max(found, key=lambda each: self._counts[each], default=None)
        return next((each for each in self._waiting if self._client[each] == greedy), None)

    def check_invariants(self) -> None:
        assert self._counts == Counter(self._client.values())
        assert self._waiting.keys() <= self._client.keys()
        local = self._counts[LOOPBACK]
        assert local <= self.limits.local
        assert len(self._client) - local <= self.limits.total
        assert all(
            count <= self.limits.per_address
            for client, count in self._counts.items()
            if client != LOOPBACK
        )
