"""Reading, altering and resetting a connector's offsets: KIP-875."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from starlette import responses

from connect_runtime.core.herder import requests
from connect_runtime.ports import herder, peers
from connect_runtime.rest import asking, bodies, errors, exchange, routing, shapes


class Offsets:
    """The endpoints; they hold no state."""

    def __init__(self, *, asks: asking.Asking) -> None:
        self._asks = asks

    def endpoints(self) -> list[routing.Endpoint]:
        path = "/connectors/{connector}/offsets"
        return [
            routing.Endpoint("GET", path, self.read),
            routing.Endpoint("PATCH", path, self.alter),
            routing.Endpoint("DELETE", path, self.reset),
        ]

    async def read(self, asked: exchange.Exchange) -> responses.Response:
        reply = await self._asks.ask(requests.ReadOffsets(asked.connector))
        assert isinstance(reply, herder.Offsets), reply
        return shapes.json(shapes.offsets(reply))

    async def alter(self, asked: exchange.Exchange) -> responses.Response:
        offsets = await asked.offsets()
        if not offsets:
            raise errors.RestError(
                HTTPStatus.BAD_REQUEST,
                "Partitions / offsets need to be provided for an alter offsets request",
            )
        return await self._modify(asked, "PATCH", offsets)

    async def reset(self, asked: exchange.Exchange) -> responses.Response:
        return await self._modify(asked, "DELETE", None)

    async def _modify(
        self, asked: exchange.Exchange, method: str, offsets: list[bodies.Offset] | None
    ) -> responses.Response:
        name = asked.connector
        path = peers.connector_path(name, "offsets")
        body: Any = None
        if offsets is not None:
            body = {"offsets": [{"partition": each, "offset": offset} for each, offset in offsets]}
        reply = await self._asks.ask_or_forward(
            requests.ModifyOffsets(name, offsets),
            asking.Route(method=method, path=path, body=body),
            asker=asked,
        )
        if isinstance(reply, peers.Said):
            return shapes.json(reply.value)
        assert isinstance(reply, herder.OffsetsModified), reply
        return shapes.json({"message": reply.message})
