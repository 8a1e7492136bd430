"""HTTP client for requests to other workers, based on httpx. Follows Java's RestClient."""

from __future__ import annotations

import asyncio
import dataclasses
import hmac
import ipaddress
import json
import logging
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib import parse

import httpx

from connect_runtime.base import json_limits
from connect_runtime.herder import session_keys
from connect_runtime.herder.requests_to_other_workers import (
    PeerRefusedError,
    PeerRequest,
    PeerResponse,
    PeerUnavailableError,
)
from connect_runtime.rest import request_bodies

_LOG = logging.getLogger(__name__)
REQUEST_TIMEOUT_S = 90.0
MAX_RESPONSE_BYTES = 8 * 1024 * 1024
"""Maximum size of a response body in bytes."""
RequestSigner = Callable[[PeerRequest], PeerRequest]
_QUOTED_RESPONSE_BYTES = 300


class RestClient:
    """HTTP client for requests to other workers.

    It opens a new connection for every request, because workers may join and leave. `tls` is used
    for workers that advertise https; None selects the system's certificate authorities.
    """

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> None:
        self._tls = tls
        self._timeout_s = timeout_s
        self._has_warned = False

    async def send(self, call: PeerRequest) -> PeerResponse:
        url = _build_request_url(call)
        self._warn_about_plaintext(call.url)
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._create_http_client(url) as client,
                client.stream(
                    call.method, url, content=call.body, headers=_build_request_headers(call)
                ) as answer,
            ):
                body = await _read_body(answer, f"{call.method} {url}")
        except TimeoutError:
            raise PeerUnavailableError(
                f"{call.method} {url}: no response within {self._timeout_s:g} s"
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            told = str(error) or type(error).__name__
            raise PeerUnavailableError(f"{call.method} {url}: {told}") from error
        if call.response_key is not None:
            _require_signed_response(answer, body, call, f"{call.method} {url}")
        return _build_peer_response(answer.status_code, body, f"{call.method} {url}")

    def send_and_wait(self, call: PeerRequest) -> PeerResponse:
        return asyncio.run(self.send(call))

    def _warn_about_plaintext(self, url: str) -> None:
        """Log a warning when the first unencrypted request is sent to another machine."""
        parts = parse.urlsplit(url)
        if self._has_warned or parts.scheme != "http" or _is_loopback(parts.hostname or ""):
            return
        self._has_warned = True
        _LOG.warning(
            "requests between workers to %s are not encrypted: connector configurations and"
            " plaintext passwords can be read on the network; configure https listeners on every"
            " worker (mm2: rest.listeners with listeners.https.ssl.*)",
            url,
        )

    def _create_http_client(self, url: str) -> httpx.AsyncClient:
        verify: ssl.SSLContext | bool = False  # not used for http
        if url.lower().startswith("https:"):
            verify = self._tls or ssl.create_default_context()
        # Other workers are in the same network: ignore proxies set in the environment.
        return httpx.AsyncClient(
            verify=verify, timeout=self._timeout_s, follow_redirects=False, trust_env=False
        )


class NamespacedRestClient:
    """HTTP client for workers that serve several groups, each under an encoded path `prefix`
    (KIP-710).

    `sign` adds headers with a signature of the whole request, because Java's signature covers only
    the body. Java workers reject requests with these headers. While a Java worker is in the group,
    a rejected request that Java workers support is therefore retried with Java's signature.
    """

    def __init__(
        self,
        client: RestClient,
        *,
        prefix: str,
        sign: RequestSigner,
        has_java_workers: Callable[[], bool],
    ) -> None:
        """`has_java_workers` returns True if the group's metadata may include a Java worker.
        A 403 response alone does not prove that the receiver is a Java worker, because anyone on an
        unencrypted network can forge it."""
        self._peers = client
        self._prefix = prefix
        self._sign = sign
        self._has_java_workers = has_java_workers

    async def send(self, call: PeerRequest) -> PeerResponse:
        try:
            return await self._peers.send(self._add_namespace_to_request(self._sign(call)))
        except PeerRefusedError as refused:
            if not self._needs_java_signature(call, refused):
                raise
        return await self._peers.send(self._add_namespace_to_request(call))

    def send_and_wait(self, call: PeerRequest) -> PeerResponse:
        try:
            return self._peers.send_and_wait(self._add_namespace_to_request(self._sign(call)))
        except PeerRefusedError as refused:
            if not self._needs_java_signature(call, refused):
                raise
        return self._peers.send_and_wait(self._add_namespace_to_request(call))

    def _needs_java_signature(self, call: PeerRequest, refused: PeerRefusedError) -> bool:
        """Return True if the receiver rejected this client's signature, and Java workers accept the
        request with Java's signature."""
        return (
            bool(call.signature)
            and refused.status == HTTPStatus.FORBIDDEN
            and self._has_java_workers()
        )

    def _add_namespace_to_request(self, call: PeerRequest) -> PeerRequest:
        """Return the request with the group's path prefix and without the user's credentials."""
        return dataclasses.replace(call, path=self._prefix + call.path, authorization=None)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _build_request_url(call: PeerRequest) -> str:
    query = f"?{parse.urlencode(call.query)}" if call.query else ""
    return f"{call.url.rstrip('/')}{call.path}{query}"


def _build_request_headers(call: PeerRequest) -> dict[str, str]:
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": "kafka-connect",
        **call.signature,
    }
    if call.authorization is not None:
        headers["Authorization"] = call.authorization
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    return headers


async def _read_body(answer: httpx.Response, what: str) -> bytes:
    """Read a response's body without decompressing it. A compressed body is refused, because it may
    expand without limit."""
    if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise PeerUnavailableError(f"{what}: the response is compressed, which is not supported")
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > MAX_RESPONSE_BYTES:
            raise PeerUnavailableError(
                f"{what}: the response has more than {MAX_RESPONSE_BYTES >> 20} MiB"
            )
    return bytes(body)


def _require_signed_response(
    answer: httpx.Response, body: bytes, call: PeerRequest, what: str
) -> None:
    """Raise `PeerUnavailableError` unless the response has a valid signature, which proves that a
    worker of the group responded to this request."""
    assert call.response_key is not None
    expected = session_keys.sign_response(
        call.response_key,
        nonce=call.signature[session_keys.NONCE_HEADER],
        status=answer.status_code,
        body=body,
    )
    signature = answer.headers.get(session_keys.RESPONSE_SIGNATURE_HEADER, "")
    if hmac.compare_digest(expected.encode(), signature.encode()):
        return
    said = body[:_QUOTED_RESPONSE_BYTES].decode("utf-8", "replace")
    raise PeerUnavailableError(
        f"{what}: the response is not signed with the group's session key, so the worker may or may"
        f" not have executed the request; status {answer.status_code}: {said!a}",
        unsigned_status=answer.status_code,
    )


def _build_peer_response(status: int, body: bytes, what: str) -> PeerResponse:
    if status >= HTTPStatus.BAD_REQUEST:
        raise _build_refusal_error(status, body, what)
    if not HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES:
        raise PeerUnavailableError(
            f"{what}: Unexpected status code when handling forwarded request: {status}"
        )
    if status == HTTPStatus.NO_CONTENT or not body:
        return PeerResponse(status=status)
    return PeerResponse(status=status, value=_decode_json(status, body, what))


def _build_refusal_error(status: int, body: bytes, what: str) -> Exception:
    told = _decode_json(status, body, what)
    if not isinstance(told, dict) or not isinstance(told.get("error_code"), int):
        return PeerUnavailableError(f"{what}: status {status} without an error message")
    return PeerRefusedError(str(told.get("message")), status=status, error_code=told["error_code"])


def _decode_json(status: int, body: bytes, what: str) -> Any:
    if json_limits.exceeds_json_value_limit(body, request_bodies.JSON_VALUES_MAX):
        raise PeerUnavailableError(
            f"{what}: the response has more than {request_bodies.JSON_VALUES_MAX:,} JSON values"
        )
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise PeerUnavailableError(
            f"{what}: status {status} with a body that is not JSON"
        ) from None
