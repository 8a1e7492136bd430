"""The event loop of a server that strangers reach."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

BACKLOG = 1024
"""So many connections the kernel holds until they are accepted."""
ACCEPTED_AT_ONCE = 8
"""So many are accepted before those that are there are read again: whoever has sent a request is
heard before a flood of others comes in."""
HANDSHAKE_S = 10.0
"""So long a client may take for TLS."""


class ServerLoop(asyncio.SelectorEventLoop):
    """`asyncio.Runner(loop_factory=ServerLoop)`."""

    async def create_server(self, *args: Any, **options: Any) -> asyncio.Server:
        """`sock` is needed. `backlog` would be both: what the kernel holds, and what is accepted at
        once."""
        opened: socket.socket = options["sock"]
        options["backlog"] = ACCEPTED_AT_ONCE
        if options.get("ssl") is not None:
            options["ssl_handshake_timeout"] = HANDSHAKE_S
        made = await super().create_server(*args, **options)
        opened.listen(BACKLOG)
        return made
