"""The event loop of a server that strangers reach, and the sockets that it accepts from."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

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


class ServerLoop(asyncio.SelectorEventLoop):
    """`asyncio.Runner(loop_factory=ServerLoop)`."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """`sock` is needed, and remains its owner's to close. `backlog` would be both: what the
        kernel holds, and what is accepted at once."""
        opened: socket.socket = options["sock"]
        options["sock"] = _Listening(fileno=os.dup(opened.fileno()))
        options["backlog"] = ACCEPTED_AT_ONCE
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = HANDSHAKE_S
        made = await super().create_server(*args, **options)
        opened.listen(BACKLOG)
        return made


class _Listening(socket.socket):
    """Turns away who floods it with connections that ask nothing, before they cost anything."""

    def __init__(self, *, fileno: int, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(fileno=fileno)
        self._now_s = now_s
        self._accepted_counts: Counter[str] = Counter()
        self._second = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises `BlockingIOError` where nobody is to be accepted now."""
        for _ in range(_TURNED_AWAY_AT_ONCE):
            come, address = super().accept()
            if self._may_accept(come, address):
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
        return self._accepted_counts[client] <= SILENT_PER_S or _has_sent(come)


def _has_sent(come: socket.socket) -> bool:
    try:
        return come.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
    except OSError:
        return False
