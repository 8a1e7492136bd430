"""Other workers over HTTP: implements `ports.peers` with httpx. Follows Java's RestClient."""

from __future__ import annotations

import asyncio
import json
import ssl
from http import HTTPStatus
from typing import Any
from urllib import parse

import httpx

from connect_runtime.ports import peers

TIMEOUT_S = 90.0


class HttpPeers:
    """Every call has a connection of its own: other workers come and go.

    `tls` is for workers that advertise https; None trusts the authorities of the system.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._tls = tls
        self._timeout_s = timeout_s

    async def send(self, call: peers.Call) -> peers.Said:
        url = _url(call)
        try:
            async with asyncio.timeout(self._timeout_s), self._client(url) as client:
                answer = await client.request(
                    call.method, url, content=call.body, headers=_headers(call)
                )
        except TimeoutError:
            raise peers.PeerFailed(
                f"{call.method} {url}: no answer within {self._timeout_s:g} s"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            told = str(error) or type(error).__name__
            raise peers.PeerFailed(f"{call.method} {url}: {told}") from error
        return _said(answer, f"{call.method} {url}")

    def send_and_wait(self, call: peers.Call) -> peers.Said:
        return asyncio.run(self.send(call))

    def _client(self, url: str) -> httpx.AsyncClient:
        verify: ssl.SSLContext | bool = False  # for http, where it means nothing
        if url.lower().startswith("https:"):
            verify = self._tls or ssl.create_default_context()
        # Proxies of the environment are for the world outside, not for the worker next door.
        return httpx.AsyncClient(
            verify=verify, timeout=self._timeout_s, follow_redirects=False, trust_env=False
        )


def _url(call: peers.Call) -> str:
    query = f"?{parse.urlencode(call.query)}" if call.query else ""
    return f"{call.url.rstrip('/')}{call.path}{query}"


def _headers(call: peers.Call) -> dict[str, str]:
    headers = {"Accept": "application/json", "User-Agent": "kafka-connect", **call.signature}
    if call.authorization is not None:
        headers["Authorization"] = call.authorization
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    return headers


def _said(answer: httpx.Response, what: str) -> peers.Said:
    status = answer.status_code
    if status >= HTTPStatus.BAD_REQUEST:
        raise _refusal(answer, what)
    if not answer.is_success:
        raise peers.PeerFailed(
            f"{what}: Unexpected status code when handling forwarded request: {status}"
        )
    if status == HTTPStatus.NO_CONTENT or not answer.content:
        return peers.Said(status=status)
    return peers.Said(status=status, value=_json(answer, what))


def _refusal(answer: httpx.Response, what: str) -> Exception:
    told = _json(answer, what)
    if not isinstance(told, dict) or not isinstance(told.get("error_code"), int):
        return peers.PeerFailed(f"{what}: status {answer.status_code} without a message")
    return peers.PeerRefused(
        str(told.get("message")), status=answer.status_code, error_code=told["error_code"]
    )


def _json(answer: httpx.Response, what: str) -> Any:
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError):
        raise peers.PeerFailed(
            f"{what}: status {answer.status_code} with what is no JSON"
        ) from None
