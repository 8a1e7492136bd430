"""Requests of users that another worker forwards, where only workers may ask.

In Java's dedicated mode nothing but the two internal requests goes from worker to worker. Here a
worker forwards what its own users ask, too, to the leader mostly, and signs it with the key of the
group: what is asked, to what path, with which body, and when. Each is taken once.
"""

from __future__ import annotations

from http import HTTPStatus

from starlette import datastructures, requests, types

from connect_runtime.base import clock as base_clock
from connect_runtime.core.herder import session_keys
from connect_runtime.ports import herder
from connect_runtime.rest import errors, exchange


class Signed:
    """ASGI: 404 for whoever does not sign at all, as if there were nothing here."""

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        of: herder.Herder,
        keys: session_keys.KeySettings,
        clock: base_clock.Clock,
        body_timeout_s: float,
    ) -> None:
        self._app = app
        self._herder = of
        self._keys = keys
        self._clock = clock
        self._replays = session_keys.ReplayGuard()  # used on the server's event loop alone
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        try:
            body = await self._genuine_body(scope, receive)
        except errors.RestError as error:
            await errors.respond(error)(scope, receive, send)
            return
        given = False

        async def receive_again() -> types.Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, receive_again, send)

    async def _genuine_body(self, scope: types.Scope, receive: types.Receive) -> bytes:
        headers = datastructures.Headers(scope=scope)
        if session_keys.SIGNATURE_HEADER not in headers:
            raise errors.RestError(HTTPStatus.NOT_FOUND, "HTTP 404 Not Found")
        request = requests.Request(scope, receive)
        body = await exchange.Exchange(request, body_timeout_s=self._body_timeout_s).body()
        query = scope.get("query_string", b"").decode("latin-1")
        target = f"{scope['path']}?{query}" if query else scope["path"]
        verdict = self._replays.verify(
            scope["method"],
            target,
            body,
            headers,
            key=self._herder.config().session_key,
            settings=self._keys,
            wall_ms=self._clock.wall_ms(),
        )
        if isinstance(verdict, session_keys.NotGenuine):
            raise errors.RestError(verdict.status, verdict.message)
        return body
