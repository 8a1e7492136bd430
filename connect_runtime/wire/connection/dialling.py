"""The addresses of one host, tried one after the other until a connection is under way."""

from __future__ import annotations

import math
import ssl
from collections import deque
from collections.abc import Callable

from connect_runtime.base import errors
from connect_runtime.wire.codec import cluster_view
from connect_runtime.wire.connection import resolver, transport

_ADDRESS_SHARE_S = 3.0
"""If a host has several addresses, one that does not answer may not use up the whole deadline.

Of many addresses each gets less, so that all are tried in time.
"""
_RESOLVE_SHARE_S = 2.0
"""So long an answer of the resolver is waited for if an older one can serve."""


class Dialling:
    """`resolve` first, then `next_transport` for every try; `close` when nobody wants it any more.

    `canonical`: an address is called by its own name, not by the host's: TLS then checks that one.
    `attempt_ends_s`: when the try under way has failed, or the wait for addresses is over
    (monotonic seconds), infinity for none.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        names: resolver.Resolver,
        tls: ssl.SSLContext | None,
        buffer_bytes: int | None,
        canonical: bool = False,
    ) -> None:
        self.address = cluster_view.format_address(host, port)
        self._question = resolver.Question(host, port, canonical)
        self._names = names
        self._tls = tls
        self._buffer_bytes = buffer_bytes
        self._places: deque[resolver.Place] = deque()
        self._unresolved: errors.ConnectError | None = None
        self._asking: Callable[[], None] | None = None
        self._ends_s = math.inf
        self.attempt_ends_s = math.inf

    def resolve(self, now_s: float, *, ends_s: float, resolved: Callable[[], None]) -> None:
        """Find the addresses; `resolved` is called once there are some or none, also from here.

        It is called by the poller, or not at all: whoever waited for it until `attempt_ends_s`
        goes on with `next_transport`, which takes the addresses of before.
        """
        self._ends_s = ends_s
        found = resolver.literal(self._question)
        if found is not None:
            self._places = deque(found)
            resolved()
            return
        self.attempt_ends_s = ends_s
        if self._names.known(self._question):
            self.attempt_ends_s = now_s + min(_RESOLVE_SHARE_S, (ends_s - now_s) / 2)
        self._asking = resolved
        self._names.ask(self._question, self._answered)

    def next_transport(self, now_s: float, failed: Exception) -> transport.Transport | Exception:
        """Begin to connect to the next address; `failed` is what became of the one before.

        The last failure once no address or no time is left; a ConnectError says all by itself.
        """
        if self._asking is not None:
            self.close()
            self._take(self._names.given_up(self._question))
        while self._places and now_s < self._ends_s:
            place = self._places.popleft()
            try:
                found = transport.Transport(
                    place.address,
                    host=place.name,
                    context=self._tls,
                    buffer_bytes=self._buffer_bytes,
                )
            except OSError as refused:
                failed = refused
                continue
            left_s = self._ends_s - now_s
            share_s = min(_ADDRESS_SHARE_S, left_s / (len(self._places) + 1))
            self.attempt_ends_s = now_s + share_s if self._places else self._ends_s
            return found
        return self._unresolved or failed

    def connected(self) -> None:
        """Bytes can flow."""
        self.attempt_ends_s = math.inf

    def close(self) -> None:
        """Nobody is told of addresses any more."""
        if self._asking is not None:
            self._asking = None
            self._names.leave(self._question, self._answered)

    def _answered(self, answer: resolver.Answer) -> None:
        resolved, self._asking = self._asking, None
        self._take(answer)
        if resolved is not None:
            resolved()

    def _take(self, answer: resolver.Answer) -> None:
        if isinstance(answer, errors.ConnectError):
            self._unresolved = answer
        else:
            self._places = deque(answer)
