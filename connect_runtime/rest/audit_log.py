"""Audit log: reports the sender, content and status of every request that may change something.

Install this middleware behind authentication: it reports the user name without checking the
password.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from starlette import datastructures, types

from connect_runtime.rest import basic_auth

MAX_AUDITED_BODY_BYTES = 64 * 1024
"""Maximum size of a reported body. Longer bodies are reported as empty."""
_READ_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedRequest:
    """A request that may change something, with the status of its response."""

    method: str
    path: str
    """Percent-encoded request path, including the namespace."""
    query: str
    body: bytes = field(repr=False)
    user: str
    """User name from the request's basic authentication header; "" if there is none."""
    client: str
    """The client's address as host:port; "" if it is unknown."""
    status: int
    """HTTP status of the response; 0 if no response was sent."""


class AuditLogMiddleware:
    """ASGI middleware that calls `report` for each audited request after its response, on the
    server's thread."""

    def __init__(self, app: types.ASGIApp, report: Callable[[AuditedRequest], None]) -> None:
        self._app = app
        self._report = report

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http" or scope["method"] in _READ_METHODS:
            await self._app(scope, receive, send)
            return
        body, status = bytearray(), 0

        async def receive_and_record() -> types.Message:
            message = await receive()
            if len(body) <= MAX_AUDITED_BODY_BYTES:
                body.extend(message.get("body", b""))
            return message

        async def send_and_record(message: types.Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive_and_record, send_and_record)
        finally:
            self._report(_build_audited_request(scope, body=bytes(body), status=status))


def _build_audited_request(scope: types.Scope, *, body: bytes, status: int) -> AuditedRequest:
    headers = datastructures.Headers(scope=scope)
    given = basic_auth.parse_credentials(headers.get("authorization"))
    client = scope.get("client")
    sent = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    return AuditedRequest(
        method=scope["method"],
        path=str(sent.partition("?")[0]),
        query=scope.get("query_string", b"").decode("latin-1"),
        body=body if len(body) <= MAX_AUDITED_BODY_BYTES else b"",
        user="" if given is None else given[0],
        client=f"{client[0]}:{client[1]}" if client else "",
        status=status,
    )
