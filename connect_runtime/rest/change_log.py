"""Reports each request that may change something: who sent it, what it asks for, its status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from starlette import datastructures, types

from connect_runtime.rest import basic_auth

BODY_MAX = 64 * 1024
"""A longer body is reported as empty."""
_READS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """`path` with the namespace, still encoded. `user` is the name that the request was
    authenticated with, "" for none; `client` is its address. `status` 0: it was never answered."""

    method: str
    path: str
    query: str
    body: bytes = field(repr=False)
    user: str
    client: str
    status: int


class ChangeLog:
    """ASGI: `report` is called on the server's thread once the answer is out."""

    def __init__(self, app: types.ASGIApp, report: Callable[[Change], None]) -> None:
        self._app = app
        self._report = report

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http" or scope["method"] in _READS:
            await self._app(scope, receive, send)
            return
        body, status = bytearray(), 0

        async def receive_seen() -> types.Message:
            message = await receive()
            if len(body) <= BODY_MAX:
                body.extend(message.get("body", b""))
            return message

        async def send_seen(message: types.Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive_seen, send_seen)
        finally:
            self._report(_change(scope, body=bytes(body), status=status))


def _change(scope: types.Scope, *, body: bytes, status: int) -> Change:
    headers = datastructures.Headers(scope=scope)
    given = basic_auth.credentials(headers.get("authorization"))
    client = scope.get("client")
    sent = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    return Change(
        method=scope["method"],
        path=str(sent.partition("?")[0]),
        query=scope.get("query_string", b"").decode("latin-1"),
        body=body if len(body) <= BODY_MAX else b"",
        user="" if given is None else given[0],
        client=f"{client[0]}:{client[1]}" if client else "",
        status=status,
    )
