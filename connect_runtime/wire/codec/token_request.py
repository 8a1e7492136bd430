"""Asking an OIDC issuer for a token: the HTTP request, and what its answer says (RFC 6749, 4.4).

As Java's ClientCredentialsJwtRetriever: id and secret in a Basic header, the grant and the scope in
the body. One connection per request. No failure here holds the secret or a token, nor what the
issuer wrote: a connector's configuration may name any host as its issuer, whose answer would be
read in the connector's status.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base import errors
from connect_runtime.wire.codec import cluster_view, failures, oauth_settings

ANSWER_BYTES_MAX = 1 << 20
_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile("[0-9]{1,9}")
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,6}")
_CHUNK_LINE_MAX = 1024
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""RFC 6750, 2.1: nothing in it can end a SASL message early."""
_PASSING = frozenset({408, 425, 429})
ERROR_CODES = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "unauthorized_client",
        "unsupported_grant_type",
        "access_denied",
        "server_error",
        "temporarily_unavailable",
    }
)
"""RFC 6749, 4.1.2.1 and 5.2: the only words of an issuer that are repeated."""
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """`life_s`: seconds until it expires, counted from when it was received."""

    text: str = field(repr=False)
    life_s: float


def place(endpoint: str) -> tuple[str, int, bool]:
    """(host, port, whether it speaks TLS) of a token endpoint."""
    parts = urllib.parse.urlsplit(endpoint)
    return parts.hostname or "", parts.port or _PORTS[parts.scheme], parts.scheme == "https"


def encode(oauth: oauth_settings.OAuth) -> bytes:
    """The whole request; it holds the secret."""
    parts = urllib.parse.urlsplit(oauth.endpoint)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    asked = {"grant_type": "client_credentials"} | ({"scope": oauth.scope} if oauth.scope else {})
    body = urllib.parse.urlencode(asked).encode()
    head = (
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        f"Authorization: Basic {_credentials(oauth)}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        "Accept: application/json",
        "User-Agent: mm2",
        "Connection: close",
    )
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def _credentials(oauth: oauth_settings.OAuth) -> str:
    pair = (oauth.client_id, oauth.client_secret)
    if oauth.urlencode:
        pair = (urllib.parse.quote_plus(pair[0]), urllib.parse.quote_plus(pair[1]))
    return base64.b64encode(":".join(pair).encode()).decode()


class Answer:
    """What an issuer answers, read as it comes: each byte is looked at once, however small the
    pieces are that it comes in."""

    def __init__(self, oauth: oauth_settings.OAuth) -> None:
        host, port, _ = place(oauth.endpoint)
        self._oauth = oauth
        self._address = cluster_view.format_address(host, port)
        self._data = bytearray()
        self._at = 0
        """Where the head, the body or the next chunk begins."""
        self._searched = 0
        self._status = 0
        self._headers: dict[str, str] = {}
        self._chunks: list[bytes] = []

    def feed(self, data: bytes, *, ended: bool, wall_ms: int) -> Token | None:
        """What is known with these bytes; None while more must come. `ended`: no more will.

        Raises AuthenticationFailed if the issuer refuses, ConnectionFailed if another try may help.
        """
        self._data += data
        while (
            self._status < 200
        ):  # interim answers (RFC 9110, 15.2) come before the one that counts
            if not self._take_head():
                if ended:
                    problem = "the issuer closed without an answer"
                    raise failures.ConnectionFailed(self._address, problem)
                return None
        body = self._body(ended=ended)
        if body is None:
            if ended:
                raise failures.ConnectionFailed(self._address, "the issuer's answer ends too early")
            return None
        said = _json(body)
        if self._status != 200:
            raise _refusal(self._status, said, address=self._address, oauth=self._oauth)
        return _token(said, address=self._address, wall_ms=wall_ms)

    def _take_head(self) -> bool:
        """Whether the next head is there."""
        end = self._data.find(_HEAD_END, max(self._at, self._searched - len(_HEAD_END) + 1))
        self._searched = len(self._data)
        if end < 0:
            return False
        self._status, self._headers = _read_head(bytes(self._data[self._at : end]), self._address)
        self._at = self._searched = end + len(_HEAD_END)
        return True

    def _body(self, *, ended: bool) -> bytes | None:
        """None while it is not whole."""
        if "chunked" in self._headers.get("transfer-encoding", "").lower():
            return self._join_chunks()
        length = self._headers.get("content-length", "")
        if not _LENGTH.fullmatch(length):
            return bytes(self._data[self._at :]) if ended else None
        end = self._at + int(length)
        return bytes(self._data[self._at : end]) if len(self._data) >= end else None

    def _join_chunks(self) -> bytes | None:
        """None while the last chunk is missing, or where one is malformed."""
        while True:
            end = self._data.find(b"\r\n", self._at, self._at + _CHUNK_LINE_MAX)
            if end < 0:
                return None
            size = bytes(self._data[self._at : end]).partition(b";")[0].strip()
            if not _CHUNK_SIZE.fullmatch(size):
                return None
            length = int(size, 16)
            if length == 0:
                return b"".join(self._chunks)
            begin = end + 2
            if len(self._data) < begin + length + 2:
                return None
            self._chunks.append(bytes(self._data[begin : begin + length]))
            self._at = begin + length + 2


def _read_head(head: bytes, address: str) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    match = re.match(r"HTTP/1\.[01] (\d{3})", first)
    if match is None:
        raise failures.ConnectionFailed(address, "what answers is no HTTP server")
    pairs = (line.partition(":") for line in lines)
    return int(match[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _json(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):  # the latter: brackets in brackets, by the thousand
        return {}
    return said if isinstance(said, dict) else {}


def _refusal(
    status: int, said: dict[str, Any], *, address: str, oauth: oauth_settings.OAuth
) -> errors.ConnectError:
    code = error_code(said)
    problem = f"the issuer answers with status {status}" + (f" ({code})" if code else "")
    if status >= 500 or status in _PASSING:
        return failures.ConnectionFailed(address, problem)
    if 300 <= status < 400:
        advice = "it points to another address: set the endpoint's own address"
    else:
        advice = (
            f"a token for client {oauth.client_id!r} was refused: check its id, its secret, the "
            "scope and sasl.oauthbearer.token.endpoint.url"
        )
    return failures.AuthenticationFailed(address, f"{problem}; {advice}")


def error_code(said: Mapping[str, Any]) -> str | None:
    """The error of an issuer's answer, if it is one of `ERROR_CODES`."""
    code = said.get("error")
    return code if isinstance(code, str) and code in ERROR_CODES else None


def _token(said: dict[str, Any], *, address: str, wall_ms: int) -> Token:
    text = said.get("access_token") or said.get("id_token")
    if not isinstance(text, str) or not _TOKEN.fullmatch(text):
        raise failures.AuthenticationFailed(address, "the issuer's answer holds no access_token")
    life_s = _number(said.get("expires_in"))
    if life_s is None:
        expires_s = _number(_claims(text).get("exp"))
        life_s = None if expires_s is None else expires_s - wall_ms / 1000
    if life_s is None:
        problem = "the issuer says neither expires_in nor, in the token, exp"
        raise failures.AuthenticationFailed(address, problem)
    if life_s <= 0:
        raise failures.ConnectionFailed(address, "the issuer's token has expired already")
    return Token(text=text, life_s=life_s)


def _claims(token: str) -> dict[str, Any]:
    """The payload of a JWT, unverified; empty for opaque tokens."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return _json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _number(value: object) -> float | None:
    """A finite number, which some issuers write as text."""
    try:
        found = float(value)  # type: ignore[arg-type]  # None and others raise TypeError
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) < 1e12 else None
