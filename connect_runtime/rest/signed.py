"""Verifies requests from worker to worker, on a listener for workers alone.

In Java's dedicated mode nothing but the two internal requests goes from worker to worker. Here a
worker forwards what its own users ask, too, to the leader mostly. It signs all of these with the
key of the group: method, path, receiver, body and time. Each is accepted once.
"""

from __future__ import annotations

import hmac
from http import HTTPStatus

from starlette import datastructures, requests, types

from connect_runtime.base import clock as base_clock
from connect_runtime.core.herder import session_keys
from connect_runtime.ports import herder
from connect_runtime.rest import body_slots, errors, exchange


class Signed:
    """ASGI: 404 for whoever does not sign at all, as if there were nothing here."""

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        of: herder.Herder,
        receiver: str,
        keys: session_keys.KeySettings,
        clock: base_clock.Clock,
        body_timeout_s: float,
    ) -> None:
        """`receiver`: the URL that this worker advertises."""
        self._app = app
        self._herder = of
        self._keys = keys
        self._clock = clock
        self._replays = session_keys.ReplayGuard(receiver, started_ms=clock.wall_ms())
        """Used on the server's event loop alone."""
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        try:
            digest = self._verified_head(scope)
            body = await self._body(scope, receive, digest)
        except Exception as error:  # noqa: BLE001 - as all handlers: it is answered
            await errors.respond(errors.of(error))(scope, receive, send)
            return
        given = False

        async def receive_again() -> types.Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        verified = {**scope, exchange.IS_SIGNED: True, body_slots.SCOPE: None}
        await self._app(verified, receive_again, send)

    def _verified_head(self, scope: types.Scope) -> str:
        """What the body's digest must be. Until this was signed nothing of the body is read."""
        headers = datastructures.Headers(scope=scope)
        if session_keys.SIGNATURE_HEADER not in headers:
            raise errors.RestError(HTTPStatus.NOT_FOUND, "HTTP 404 Not Found")
        digest = headers.get(session_keys.BODY_HEADER, "")
        query = scope.get("query_string", b"").decode("latin-1")
        target = f"{scope['path']}?{query}" if query else scope["path"]
        verdict = self._replays.verify(
            scope["method"],
            target,
            headers,
            key=self._herder.config().session_key,
            settings=self._keys,
            wall_ms=self._clock.wall_ms(),
        )
        if isinstance(verdict, session_keys.NotGenuine):
            raise errors.RestError(verdict.status, verdict.message)
        return digest

    async def _body(self, scope: types.Scope, receive: types.Receive, digest: str) -> bytes:
        """No slot is needed: a worker of the group does not wait for what strangers send."""
        request = requests.Request({**scope, body_slots.SCOPE: None}, receive)
        body = await exchange.Exchange(request, body_timeout_s=self._body_timeout_s).body()
        if not hmac.compare_digest(session_keys.body_digest(body).encode(), digest.encode()):
            raise errors.RestError(
                HTTPStatus.FORBIDDEN,
                f"The body is not the one that {session_keys.BODY_HEADER} is of",
            )
        return body
