"""Other workers over HTTP: implements `ports.peers` with httpx. Follows Java's RestClient."""

from __future__ import annotations

import asyncio
import dataclasses
import ipaddress
import json
import logging
import ssl
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib import parse

import httpx

from connect_runtime.ports import peers

_LOG = logging.getLogger(__name__)
TIMEOUT_S = 90.0
Sign = Callable[[peers.Call], Mapping[str, str]]


class HttpPeers:
    """Every call has a connection of its own: other workers come and go.

    `tls` is for workers that advertise https; None trusts the authorities of the system.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._tls = tls
        self._timeout_s = timeout_s
        self._has_warned = False

    async def send(self, call: peers.Call) -> peers.Said:
        url = _url(call)
        self._warn_of_plain(call.url)
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

    def _warn_of_plain(self, url: str) -> None:
        """Once, at the first call that the network can read."""
        parts = parse.urlsplit(url)
        if self._has_warned or parts.scheme != "http" or _is_loopback(parts.hostname or ""):
            return
        self._has_warned = True
        _LOG.warning(
            "requests between workers are sent to %s unencrypted: the network can read connector"
            " configurations and their plaintext passwords; give every worker an https listener"
            " (mm2: rest.listeners with listeners.https.ssl.*)",
            url,
        )

    def _client(self, url: str) -> httpx.AsyncClient:
        verify: ssl.SSLContext | bool = False  # for http, where it means nothing
        if url.lower().startswith("https:"):
            verify = self._tls or ssl.create_default_context()
        # Proxies of the environment are for the world outside, not for the worker next door.
        return httpx.AsyncClient(
            verify=verify, timeout=self._timeout_s, follow_redirects=False, trust_env=False
        )


class NamespacedPeers:
    """Workers that serve several groups, each under `prefix`, percent-encoded (KIP-710).

    `sign` returns the headers that show other workers of the group who it is. They take the place
    of Java's signature, which is of the body alone. Java's own workers refuse them: a request that
    Java knows is then sent again as Java signs it.
    """

    def __init__(self, peers_: HttpPeers, *, prefix: str, sign: Sign) -> None:
        self._peers = peers_
        self._prefix = prefix
        self._sign = sign

    async def send(self, call: peers.Call) -> peers.Said:
        try:
            return await self._peers.send(self._placed(call, self._sign(call)))
        except peers.PeerRefused as refused:
            if not _is_for_java(call, refused):
                raise
        return await self._peers.send(self._placed(call, call.signature))

    def send_and_wait(self, call: peers.Call) -> peers.Said:
        try:
            return self._peers.send_and_wait(self._placed(call, self._sign(call)))
        except peers.PeerRefused as refused:
            if not _is_for_java(call, refused):
                raise
        return self._peers.send_and_wait(self._placed(call, call.signature))

    def _placed(self, call: peers.Call, signature: Mapping[str, str]) -> peers.Call:
        """What users sent to get in here is not for others."""
        path = self._prefix + call.path
        return dataclasses.replace(call, path=path, authorization=None, signature=signature)


def _is_for_java(call: peers.Call, refused: peers.PeerRefused) -> bool:
    """Was a request refused for its signature that Java's workers know, and sign otherwise?"""
    return bool(call.signature) and refused.status == HTTPStatus.FORBIDDEN


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


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
