"""Which connections a server holds, and which one makes room when another comes: pure.

No address may hold all of them. Where there are too many, the connection goes that has made the
server wait longest for its client; one whose request is being answered never does. Connections from
this machine have a budget of their own, so that strangers cannot keep its probes out.
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
class Limits:
    """`total` is without connections over loopback, which `local` limits; `per_address` is of any
    other address."""

    total: int
    per_address: int
    local: int


def client_of(host: str) -> str:
    """Whose connection it is: an IPv4 address, or an IPv6 network of 64 bits, for a client has as
    many addresses as it likes there; `LOOPBACK` for this machine."""
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
class Connections(Generic[T]):
    """One thread's. A connection is told of by `admit` first and by `leave` last."""

    limits: Limits
    _client: dict[T, str] = field(default_factory=dict)
    _counts: Counter[str] = field(default_factory=Counter)
    _waiting: dict[T, None] = field(default_factory=dict)
    """Those whose client the server waits for, in the order in which it began to."""

    def admit(self, connection: T, host: str) -> T | None:
        """Register a connection, whose client the server waits for. Returns the connection to close
        to make room, which has left already, or `connection` itself if it is rejected because all
        others are being answered."""
        client = client_of(host)
        victim = None
        if (self._is_full(client)) and (victim := self._victim(client)) is None:
            return connection
        if victim is not None:
            self.leave(victim)
        self._client[connection] = client
        self._counts[client] += 1
        self._waiting[connection] = None
        return victim

    def wait(self, connection: T) -> None:
        """From now on the server waits for its client: for a request, or until an answer was
        taken. Nothing happens where it does already."""
        if connection in self._client and connection not in self._waiting:
            self._waiting[connection] = None

    def answer(self, connection: T) -> None:
        """Its request is being answered: it is the client that waits."""
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
        """Of those that are waited for the longest: its own, where the client has too many, else
        one of whoever has most."""
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
