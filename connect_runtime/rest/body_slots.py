"""How many large bodies of requests a server holds at a time, however many clients send them."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from http import HTTPStatus

from connect_runtime.base import connection_limits
from connect_runtime.rest import errors

SCOPE = "connect_runtime.body_slots"
"""In an ASGI scope: the server's `BodySlots`."""
SMALL_BYTES = 64 * 1024
"""No longer bodies need no slot: as much of each request is read anyway."""


@dataclass(slots=True)
class BodySlots:
    """One event loop's. Whoever has a slot keeps it until the request was answered."""

    total: int = 4
    per_address: int = 2
    wait_s: float = 10.0
    _taken: Counter[str] = field(default_factory=Counter)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def take(self, host: str) -> str:
        """Returns what `give_back` takes. Raises `RestError`: 503, none has become free in time."""
        client = connection_limits.client_of(host)
        try:
            async with asyncio.timeout(self.wait_s), self._changed:
                await self._changed.wait_for(lambda: self._is_free(client))
        except TimeoutError:
            raise errors.RestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"Too many requests with a body of more than {SMALL_BYTES} bytes are being read;"
                " try again soon",
            ) from None
        self._taken[client] += 1
        return client

    async def give_back(self, slot: str) -> None:
        self._taken[slot] -= 1
        if not self._taken[slot]:
            del self._taken[slot]
        async with self._changed:
            self._changed.notify_all()

    def _is_free(self, client: str) -> bool:
        return self._taken.total() < self.total and self._taken[client] < self.per_address
