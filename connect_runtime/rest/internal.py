"""What workers ask each other, and nobody else may: signed with the key of the group (KIP-507)."""

from __future__ import annotations

from http import HTTPStatus

from starlette import responses

from connect_runtime.core.herder import requests, session_keys
from connect_runtime.ports import herder, peers
from connect_runtime.rest import asking, bodies, errors, exchange, routing, shapes

BODY_BYTES_MAX = 4 * 1024 * 1024
"""Of task configs that are signed as Java signs them, those of all tasks of a connector together.
"""


class Internal:
    """The endpoints; they hold no state."""

    def __init__(
        self, of: herder.Herder, *, asks: asking.Asking, must_be_signed: bool = False
    ) -> None:
        """`must_be_signed`: refuse unsigned requests even while the group speaks a protocol that
        signs none."""
        self._herder = of
        self._asks = asks
        self._must_be_signed = must_be_signed

    def endpoints(self) -> list[routing.Endpoint]:
        one = "/connectors/{connector}"
        return [
            routing.Endpoint("POST", f"{one}/tasks", self.put_task_configs),
            routing.Endpoint("PUT", f"{one}/fence", self.fence),
        ]

    async def put_task_configs(self, asked: exchange.Exchange) -> responses.Response:
        data = await self._genuine_body(asked)
        configs = exchange.readable(bodies.configs, data)
        name = asked.connector
        await self._asks.ask_or_forward(
            requests.PutTaskConfigs(connector=name, configs=configs),
            asking.Route(method="POST", path=peers.connector_path(name, "tasks"), body=configs),
            asker=asked,
        )
        return shapes.empty(HTTPStatus.NO_CONTENT)

    async def fence(self, asked: exchange.Exchange) -> responses.Response:
        await self._genuine_body(asked)
        name = asked.connector
        kind = self._herder.connector_type(self._herder.config().config(name))
        await self._asks.ask_or_forward(
            requests.FenceTasks(connector=name, is_source=kind is herder.ConnectorType.SOURCE),
            asking.Route(method="PUT", path=peers.connector_path(name, "fence")),
            asker=asked,
        )
        return shapes.empty(HTTPStatus.NO_CONTENT)

    async def _genuine_body(self, asked: exchange.Exchange) -> bytes:
        """Java's workers sign the body alone, so it has to be read first: not where the head shows
        already that it is not signed, and no more of it than a group's task configs need."""
        if asked.is_signed:
            return await asked.body()
        verdict = self._verdict(b"", asked)
        if isinstance(verdict, session_keys.NotGenuine) and (
            verdict.status != session_keys.FORBIDDEN
        ):
            raise errors.RestError(verdict.status, verdict.message)
        data = await asked.body(bytes_max=BODY_BYTES_MAX)
        self._check(data, asked)
        return data

    def _check(self, body: bytes, asked: exchange.Exchange) -> None:
        verdict = self._verdict(body, asked)
        if isinstance(verdict, session_keys.NotGenuine):
            raise errors.RestError(verdict.status, verdict.message)

    def _verdict(self, body: bytes, asked: exchange.Exchange) -> session_keys.Verdict:
        return self._herder.verify(
            body, asked.headers, must_be_signed=asked.must_be_signed or self._must_be_signed
        )
