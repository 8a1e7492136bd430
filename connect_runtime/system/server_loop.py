"""The event loop of a server that strangers reach, and the sockets that it accepts from."""

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

BACKLOG = 1024
"""So many connections the kernel holds until they are accepted."""
ACCEPTED_AT_ONCE = 8
"""So many are accepted before those that are there are read again: whoever has sent a request is
heard before a flood of others comes in."""
SILENT_PER_S = 500
"""So many connections of one client a second may come without a request that is there already."""
HANDSHAKE_S = 10.0
"""So long a client may take for TLS."""
_TURNED_AWAY_AT_ONCE = 256
_RESET = struct.pack("ii", 1, 0)
_TLS_HEADER = struct.Struct(">BHH")
_TLS_HANDSHAKE = 22


class Accepted(socket.socket):
    """An accepted connection: reports when it is closed, and can be closed by `cut` at any time."""

    def __init__(self, come: socket.socket, host: str, on_close: Callable[[Accepted], None]):
        self.number = come.fileno()
        self.host = host
        self.abort: Callable[[], None] | None = None
        """What closes it once a protocol has it. Before, and while TLS is agreed on: None."""
        self._on_close: Callable[[Accepted], None] | None = on_close
        super().__init__(come.family, come.type, come.proto, fileno=come.detach())

    def cut(self) -> None:
        """Close it now or, where the loop still has to notice, in its next round."""
        if self.abort is not None:
            self.abort()
            return
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        on_close, self._on_close, self.abort = self._on_close, None, None
        super().close()
        if on_close is not None:
            on_close(self)


class Admission(Protocol):
    """Decides which connections a server holds, TLS handshakes included."""

    def admit(self, come: Accepted) -> bool:
        """Whether it may stay. May cut others."""

    def leave(self, come: Accepted) -> None:
        """It was closed. Also called for what was not admitted."""


class ServerLoop(asyncio.SelectorEventLoop):
    """`asyncio.Runner(loop_factory=ServerLoop)`."""

    admission: Admission | None = None
    """Of all servers that are made afterwards; None admits everybody."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """`sock` is needed, and remains its owner's to close. `backlog` would be both: what the
        kernel holds, and what is accepted at once."""
        opened: socket.socket = options["sock"]
        is_tls = options.get("ssl") is not None
        options["sock"] = _Listening(
            fileno=os.dup(opened.fileno()), is_tls=is_tls, admission=self.admission
        )
        options["backlog"] = ACCEPTED_AT_ONCE
        if is_tls:
            options["ssl_handshake_timeout"] = HANDSHAKE_S
        made = await super().create_server(*args, **options)
        opened.listen(BACKLOG)
        return made


class _Listening(socket.socket):
    """Turns away who floods it with connections that ask nothing, before they cost anything."""

    def __init__(
        self,
        *,
        fileno: int,
        is_tls: bool = False,
        admission: Admission | None = None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(fileno=fileno)
        self._has_sent: Callable[[socket.socket], bool] = _has_sent_hello if is_tls else _has_sent
        self._admission = admission
        self._now_s = now_s
        self._accepted_counts: Counter[str] = Counter()
        self._second = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises `BlockingIOError` where nobody is to be accepted now."""
        for _ in range(_TURNED_AWAY_AT_ONCE):
            come, address = super().accept()
            if self._may_accept(come, address):
                if self._admission is None:
                    return come, address
                come = Accepted(come, str(address[0]), self._admission.leave)
                if self._admission.admit(come):
                    return come, address
            come.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            come.close()
        raise BlockingIOError

    def _may_accept(self, come: socket.socket, address: Any) -> bool:
        second = int(self._now_s())
        if second != self._second:
            self._second = second
            self._accepted_counts.clear()
        client = connection_limits.client_of(str(address[0]))
        self._accepted_counts[client] += 1
        return self._accepted_counts[client] <= SILENT_PER_S or self._has_sent(come)


def _has_sent(come: socket.socket) -> bool:
    return _sent(come, 1) != b""


def _has_sent_hello(come: socket.socket) -> bool:
    """Whether a whole first record of TLS is there: a client's hello."""
    head = _sent(come, _TLS_HEADER.size)
    if len(head) < _TLS_HEADER.size:
        return False
    kind, _, length = _TLS_HEADER.unpack(head)
    whole = _TLS_HEADER.size + length
    is_hello: bool = kind == _TLS_HANDSHAKE and length > 0
    return is_hello and len(_sent(come, whole)) == whole


def _sent(come: socket.socket, size: int) -> bytes:
    """As much of the first `size` bytes as has arrived; they remain to be read."""
    try:
        return come.recv(size, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except OSError:
        return b""
