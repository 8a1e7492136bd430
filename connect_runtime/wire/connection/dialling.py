"""The addresses of one host, tried one after the other until a connection is under way."""

from __future__ import annotations

import math
import ssl
from collections import deque

from connect_runtime.wire.connection import transport

_ADDRESS_SHARE_S = 3.0
"""If a host has several addresses, one that does not answer may not use up the whole deadline.

Of many addresses each gets less, so that all are tried in time.
"""


class Dialling:
    """`resolve` first, then `next_transport` for every try.

    `canonical`: an address is called by its own name, not by the host's: TLS then checks that one.
    `attempt_ends_s`: when the try under way has failed (monotonic seconds), infinity for none.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None,
        buffer_bytes: int | None,
        canonical: bool = False,
    ) -> None:
        self._host, self._port = host, port
        self._canonical = canonical
        self._tls = tls
        self._buffer_bytes = buffer_bytes
        self._addresses: deque[transport.Address] = deque()
        self._ends_s = math.inf
        self.attempt_ends_s = math.inf

    def resolve(self, *, ends_s: float) -> None:
        """Raises ConnectionFailed; blocks as long as the resolver does."""
        self._ends_s = ends_s
        self._addresses = deque(transport.resolve(self._host, self._port))

    def next_transport(self, now_s: float, failed: Exception) -> transport.Transport | Exception:
        """Begin to connect to the next address; `failed` is what became of the one before.

        The last failure once no address or no time is left.
        """
        while self._addresses and now_s < self._ends_s:
            address = self._addresses.popleft()
            name = transport.canonical_name(address) if self._canonical else self._host
            try:
                found = transport.Transport(
                    address, host=name, context=self._tls, buffer_bytes=self._buffer_bytes
                )
            except OSError as refused:
                failed = refused
                continue
            left_s = self._ends_s - now_s
            share_s = min(_ADDRESS_SHARE_S, left_s / (len(self._addresses) + 1))
            self.attempt_ends_s = now_s + share_s if self._addresses else self._ends_s
            return found
        return failed

    def connected(self) -> None:
        """Bytes can flow."""
        self.attempt_ends_s = math.inf
