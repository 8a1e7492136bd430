"""One HTTP request on a connection of its own, in the loop of everything else; bytes, no HTTP.

Whoever asked gets the answer as it comes, and closes this once it has what it wants.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from connect_runtime.base import clock, errors
from connect_runtime.wire.codec import failures
from connect_runtime.wire.connection import dialling, poller, transport

_CHUNK = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Seconds until bytes can flow, and from then on until the answer is there; its size."""

    connect_s: float
    read_s: float
    answer_bytes: int


class HttpRequest:
    """Use it once. `on_answer` gets each piece of the answer, and whether no more will come.

    `on_failure` is called at most once, and not after `close`; either may be called from `start`,
    `tick` and the poller. `due_s`: when to call `tick` at the latest.
    """

    def __init__(
        self,
        to: dialling.Dialling,
        *,
        request: bytes,
        limits: Limits,
        poller: poller.Poller,
        clock: clock.Clock,
        on_answer: Callable[[bytes, bool], None],
        on_failure: Callable[[errors.ConnectError], None],
    ) -> None:
        self._dialling = to
        self._unsent = memoryview(request)
        self._limits = limits
        self._poller = poller
        self._clock = clock
        self._on_answer, self._on_failure = on_answer, on_failure
        self._transport: transport.Transport | None = None
        self._open = False
        self._answer_bytes = 0
        self._ends_s = math.inf

    @property
    def due_s(self) -> float:
        return min(self._ends_s, self._dialling.attempt_ends_s)

    def start(self, now_s: float) -> None:
        """Resolve the host's name, and begin to connect."""
        self._ends_s = now_s + self._limits.connect_s
        self._dialling.resolve(now_s, ends_s=self._ends_s, resolved=self._on_resolved)

    def tick(self, now_s: float) -> None:
        """Give up what takes too long."""
        if now_s >= self._dialling.attempt_ends_s:
            self._try_next(now_s, TimeoutError("no connection in time"))
        elif now_s >= self._ends_s:
            self._fail(TimeoutError("no answer in time"))
        elif self._transport is not None and self._transport.holds_bytes():
            self._read()

    def close(self) -> None:
        """End it, whatever it waits for."""
        self._dialling.close()
        self._drop()
        self._ends_s = math.inf

    def _drop(self) -> None:
        if self._transport is not None:
            self._poller.unregister(self._transport.socket)
            self._transport.close()
            self._transport = None

    def _on_resolved(self) -> None:
        self._try_next(self._clock.now_s(), OSError("no address"))

    def _try_next(self, now_s: float, error: Exception) -> None:
        self._drop()
        found = self._dialling.next_transport(now_s, error)
        if isinstance(found, Exception):
            self._fail(found)
            return
        self._transport = found
        self._poller.register(found.socket, found.interest, handler=self._on_event)

    def _on_event(self, mask: int) -> None:
        if not self._open:
            self._advance()
            return
        if self._unsent and mask & poller.WRITE:
            self._write()
        if mask & poller.READ and self._transport is not None:
            self._read()

    def _advance(self) -> None:
        assert self._transport is not None
        try:
            self._open = self._transport.advance()
        except (OSError, ValueError) as error:  # ValueError: a host name that TLS cannot take
            if self._transport.connected:
                self._fail(error)
            else:
                self._try_next(self._clock.now_s(), error)
            return
        # TLS wraps the socket: the poller has to know the new one.
        self._poller.modify(self._transport.socket, self._transport.interest)
        if self._open:
            self._dialling.connected()
            self._ends_s = self._clock.now_s() + self._limits.read_s
            self._write()

    def _write(self) -> None:
        assert self._transport is not None
        try:
            while self._unsent:
                sent = self._transport.send((self._unsent,))
                if sent == 0:
                    break
                self._unsent = self._unsent[sent:]
        except OSError as error:
            self._fail(error)
            return
        waiting = poller.READ | poller.WRITE if self._unsent else poller.READ
        self._poller.modify(self._transport.socket, waiting)

    def _read(self) -> None:
        room = memoryview(bytearray(_CHUNK))
        ended = False
        while self._transport is not None and not ended:
            try:
                received = self._transport.receive_into(room)
            except EOFError:
                ended, received = True, 0
            except OSError as error:
                self._fail(error)
                return
            if received == 0 and not ended:
                return
            self._answer_bytes += received
            if self._answer_bytes > self._limits.answer_bytes:
                self._fail(OSError("the answer is too large"))
                return
            self._on_answer(bytes(room[:received]), ended)

    def _fail(self, error: Exception) -> None:
        self.close()
        if isinstance(error, errors.ConnectError):
            self._on_failure(error)
            return
        if isinstance(error, ssl.SSLCertVerificationError):
            problem = (
                f"TLS: its certificate was not accepted: {error.verify_message}; name its "
                "authority in sasl.jaas.config: ssl.truststore.type=PEM ssl.truststore.location=…"
            )
            self._on_failure(failures.AuthenticationFailed(self._dialling.address, problem))
            return
        said = (error.strerror if isinstance(error, OSError) else None) or str(error)
        self._on_failure(failures.ConnectionFailed(self._dialling.address, said))
