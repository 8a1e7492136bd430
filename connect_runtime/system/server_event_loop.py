"""The asyncio event loop of network servers. It limits how fast connections are accepted."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from connect_runtime.base import connection_limits

LISTEN_BACKLOG = 1024
"""Length of the kernel's queue of connections that have not been accepted yet."""
ACCEPTS_PER_ITERATION = 8
"""Maximum number of connections accepted per loop iteration, so that a flood of new connections
does not delay requests on existing connections."""
SILENT_CONNECTIONS_PER_S = 500
"""Number of connections per second that are accepted from one client whether or not they have sent
data. Further connections are accepted only if data has already arrived."""
TLS_HANDSHAKE_TIMEOUT_S = 10.0
"""Time limit of a TLS handshake."""
_RESETS_PER_ITERATION = 256
_RESET = struct.pack("ii", 1, 0)
_TLS_HEADER = struct.Struct(">BHH")
_TLS_HANDSHAKE = 22


class AcceptedConnection(socket.socket):
    """The socket of an accepted connection. Calls `on_close` when it is closed; `force_close`
    closes it at any time."""

    def __init__(
        self, accepted: socket.socket, host: str, on_close: Callable[[AcceptedConnection], None]
    ):
        self.descriptor = accepted.fileno()
        self.host = host
        self.abort: Callable[[], None] | None = None
        """Function that closes the connection. None until an asyncio protocol owns the connection,
        for example during the TLS handshake."""
        self._on_close: Callable[[AcceptedConnection], None] | None = on_close
        super().__init__(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())

    def force_close(self) -> None:
        """Close the connection now, or in the next loop iteration if it has no asyncio protocol
        yet."""
        if self.abort is not None:
            self.abort()
            return
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the socket. Call `on_close` on the first call only."""
        on_close, self._on_close, self.abort = self._on_close, None, None
        super().close()
        if on_close is not None:
            on_close(self)


class ConnectionAdmission(Protocol):
    """Decides which connections a server accepts and keeps, including connections in a TLS
    handshake."""

    def admit_connection(self, accepted: AcceptedConnection) -> bool:
        """Return whether to keep this new connection. May close other connections to make room."""

    def on_connection_closed(self, accepted: AcceptedConnection) -> None:
        """Handle a closed connection. Also called for a connection that was not admitted."""


class ServerLoop(asyncio.SelectorEventLoop):
    """Event loop that limits accepted connections. Use as
    `asyncio.Runner(loop_factory=ServerLoop)`."""

    admission: ConnectionAdmission | None = None
    """Admission control for servers that are created from now on; None admits every connection."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """Create a server on the listening socket `sock`, which the caller must close.

        asyncio uses `backlog` both as the kernel's queue length and as the number of connections
        accepted per iteration, so the queue length is set separately.
        """
        opened: socket.socket = options["sock"]
        is_tls = options.get("ssl") is not None
        options["sock"] = _ListeningSocket(
            fileno=os.dup(opened.fileno()), is_tls=is_tls, admission=self.admission
        )
        options["backlog"] = ACCEPTS_PER_ITERATION
        if is_tls:
            options["ssl_handshake_timeout"] = TLS_HANDSHAKE_TIMEOUT_S
        made = await super().create_server(*args, **options)
        opened.listen(LISTEN_BACKLOG)
        return made


class _ListeningSocket(socket.socket):
    """Listening socket that resets connections when a client opens many of them without sending
    data, before they consume resources."""

    def __init__(
        self,
        *,
        fileno: int,
        is_tls: bool = False,
        admission: ConnectionAdmission | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(fileno=fileno)
        self._has_sent: Callable[[socket.socket], bool] = (
            _has_received_client_hello if is_tls else _has_received_data
        )
        self._admission = admission
        self._now_s = now_s
        self._accepted_counts: Counter[str] = Counter()
        self._second = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept the next waiting connection, after resetting connections that exceed a limit.
        Raises `BlockingIOError` if no acceptable connection is waiting."""
        for _ in range(_RESETS_PER_ITERATION):
            accepted, address = super().accept()
            if self._may_accept_connection(accepted, address):
                if self._admission is None:
                    return accepted, address
                accepted = AcceptedConnection(
                    accepted, str(address[0]), self._admission.on_connection_closed
                )
                if self._admission.admit_connection(accepted):
                    return accepted, address
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            accepted.close()
        raise BlockingIOError

    def _may_accept_connection(self, accepted: socket.socket, address: Any) -> bool:
        second = int(self._now_s())
        if second != self._second:
            self._second = second
            self._accepted_counts.clear()
        client = connection_limits.get_client_network(str(address[0]))
        self._accepted_counts[client] += 1
        return self._accepted_counts[client] <= SILENT_CONNECTIONS_PER_S or self._has_sent(accepted)


def _has_received_data(accepted: socket.socket) -> bool:
    return _peek_received_bytes(accepted, 1) != b""


def _has_received_client_hello(accepted: socket.socket) -> bool:
    """Return whether a complete TLS record with the ClientHello has arrived on an accepted
    connection."""
    head = _peek_received_bytes(accepted, _TLS_HEADER.size)
    if len(head) < _TLS_HEADER.size:
        return False
    kind, _, length = _TLS_HEADER.unpack(head)
    whole = _TLS_HEADER.size + length
    is_hello: bool = kind == _TLS_HANDSHAKE and length > 0
    return is_hello and len(_peek_received_bytes(accepted, whole)) == whole


def _peek_received_bytes(accepted: socket.socket, size: int) -> bytes:
    """Return up to `size` bytes that have arrived on a connection, without consuming them."""
    try:
        return accepted.recv(size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return b""
