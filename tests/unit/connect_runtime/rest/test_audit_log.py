"""Requests that may change something are reported with who sent them."""

from __future__ import annotations

import base64

import anyio
import httpx
from starlette import responses, types

from connect_runtime.rest import audit_log
from connect_runtime.rest.audit_log import AuditedRequest, AuditLogMiddleware

HEADERS = {"Authorization": "Basic " + base64.b64encode(b"root (uid 0, pid 7):secret").decode()}


async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
    """Answers with what it was sent."""
    message = await receive()
    answer = responses.Response(message.get("body", b""), status_code=202)
    await answer(scope, receive, send)


def ask(method: str, path: str, body: bytes = b"") -> tuple[bytes, list[AuditedRequest]]:
    found: list[AuditedRequest] = []
    transport = httpx.ASGITransport(app=AuditLogMiddleware(app, found.append))

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://h") as client:
            return await client.request(method, path, content=body, headers=HEADERS)

    return anyio.run(asked).content, found


def test_a_request_that_changes_something_is_reported_and_passed_on():
    answer, (found,) = ask("PATCH", "/east/we%20st/connectors/c/config?x=1", b'{"a": "b"}')
    assert answer == b'{"a": "b"}'
    assert (found.method, found.path, found.query) == (
        "PATCH",
        "/east/we%20st/connectors/c/config",
        "x=1",
    )
    assert (found.body, found.user, found.status) == (b'{"a": "b"}', "root (uid 0, pid 7)", 202)
    assert found.client
    assert "secret" not in repr(found)


def test_a_request_that_reads_is_not():
    assert ask("GET", "/connectors")[1] == []


def test_a_long_body_is_passed_on_whole_and_not_reported():
    sent = b"x" * (audit_log.MAX_AUDITED_BODY_BYTES + 1)
    answer, (found,) = ask("PUT", "/connectors/c/config", sent)
    assert answer == sent
    assert found.body == b""
