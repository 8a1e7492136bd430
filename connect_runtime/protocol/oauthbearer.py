"""OAUTHBEARER with OIDC client credentials (KIP-768, KIP-1139): settings, token request, refresh.

Settings: client id, client secret and scope are read from their own properties (since Kafka 4.1) or
from options in `sasl.jaas.config`. As in Java, the certificate authorities for the token endpoint
are also set as options in `sasl.jaas.config` (`ssl.truststore.*`). The certificate authorities for
the brokers do not apply to the token endpoint.

Token request (RFC 6749, 4.4), as sent by Java's ClientCredentialsJwtRetriever: the Basic
authorization header contains client id and secret, the body contains grant type and scope, and
every request uses a new connection. Error messages never contain the secret, a token or text from
the issuer, because a connector configuration may name any host as its issuer, and the text would be
visible in the connector's status.

Refresh follows Java's ExpiringCredentialRefreshConfig: a token is refreshed after a fraction of its
lifetime, but not before a minimum age and not later than a buffer before its expiry. Both limits
are ignored if the lifetime is too short for them.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from connect_runtime.base.errors import ConnectError
from connect_runtime.protocol import client_property_reader, cluster_metadata, jaas, tls_settings
from connect_runtime.protocol.client_property_reader import PropertyReader
from connect_runtime.protocol.request_errors import AuthenticationFailed, ConnectionFailed
from connect_runtime.protocol.tls_settings import KeyStoreFileReader

OAUTH_LOGIN_MODULE = "OAuthBearerLoginModule"
TOKEN_ENDPOINT_KEY = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105  # a key
_HANDLER_KEY = "sasl.login.callback.handler.class"
_RETRIEVER_KEY = "sasl.oauthbearer.jwt.retriever.class"
_VALIDATOR_KEY = "sasl.oauthbearer.jwt.validator.class"
_CLIENT_ID_KEY = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET_KEY = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 - its name
_OAUTH_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
JAAS_FORM_ADVICE = (
    f'write {_OAUTH_PACKAGE}{OAUTH_LOGIN_MODULE} required clientId="…" clientSecret="…" scope="…"; '
    "(scope only if the issuer requires one)"
)

OAUTH_KEYS = frozenset({
    TOKEN_ENDPOINT_KEY,
    _CLIENT_ID_KEY,
    _CLIENT_SECRET_KEY,
    "sasl.oauthbearer.scope",
    "sasl.oauthbearer.header.urlencode",
    _RETRIEVER_KEY,
    _VALIDATOR_KEY,
    _HANDLER_KEY,
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.retry.backoff.ms",
    "sasl.login.retry.backoff.max.ms",
    "sasl.login.refresh.window.factor",
    "sasl.login.refresh.window.jitter",
    "sasl.login.refresh.min.period.seconds",
    "sasl.login.refresh.buffer.seconds",
})  # fmt: skip

# Java's own classes, which this client replaces: accepted values by key.
_ACCEPTED_CLASSES = {
    _HANDLER_KEY: (
        f"{_OAUTH_PACKAGE}OAuthBearerLoginCallbackHandler",
        f"{_OAUTH_PACKAGE}secured.OAuthBearerLoginCallbackHandler",
    ),
    _RETRIEVER_KEY: (
        f"{_OAUTH_PACKAGE}DefaultJwtRetriever",
        f"{_OAUTH_PACKAGE}ClientCredentialsJwtRetriever",
    ),
    _VALIDATOR_KEY: (f"{_OAUTH_PACKAGE}DefaultJwtValidator", f"{_OAUTH_PACKAGE}ClientJwtValidator"),
}
_EXTENSION_PREFIX = "extension_"
_TRUST_STORE_PREFIX = "ssl.truststore."
_INT_MAX = 2_147_483_647


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    """Settings for requesting OAuth access tokens. Durations are in seconds."""

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    """Scope of the requested token; empty to request no scope."""
    urlencode: bool = False
    extensions: Mapping[str, str] = field(default_factory=dict)
    ca_pem: str | None = field(default=None, repr=False)
    """PEM text of the certificate authorities for the token endpoint; None for the system's
    authorities."""
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 10.0
    retry_s: float = 0.1
    retry_max_s: float = 10.0
    refresh_factor: float = 0.8
    """Fraction of the token's lifetime after which the token is refreshed."""
    refresh_jitter: float = 0.05
    refresh_min_period_s: float = 60.0
    refresh_buffer_s: float = 300.0

    @property
    def is_unencrypted(self) -> bool:
        """True if the client secret would be sent over a network without encryption."""
        parts = urllib.parse.urlsplit(self.endpoint)
        host = parts.hostname or ""
        try:
            loopback = ipaddress.ip_address(host).is_loopback
        except ValueError:
            loopback = host == "localhost" or host.endswith(".localhost")
        return parts.scheme == "http" and not loopback

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-serializable dict that contains the client secret in plain text."""
        return asdict(self)


def read_oauth_settings(
    reader: PropertyReader, options: Mapping[str, str], files: KeyStoreFileReader
) -> OAuthSettings:
    """Read the OAUTHBEARER settings from client properties and the login module's `options`.

    Errors are collected in `reader`; settings without a value remain empty.
    """
    _reject_unsupported_classes(reader)
    _check_login_module_options(reader, options)
    endpoint = _read_token_endpoint(reader)
    client_id = _read_credential(reader, _CLIENT_ID_KEY, option=("clientId", options))
    secret = _read_credential(reader, _CLIENT_SECRET_KEY, option=("clientSecret", options))
    retry_ms = reader.get_integer("sasl.login.retry.backoff.ms", 100, minimum=0, maximum=_INT_MAX)
    retry_max_ms = reader.get_integer(
        "sasl.login.retry.backoff.max.ms", 10_000, minimum=0, maximum=_INT_MAX
    )
    return OAuthSettings(
        endpoint=endpoint,
        client_id=client_id,
        client_secret=secret,
        scope=reader.get("sasl.oauthbearer.scope") or options.get("scope", ""),
        urlencode=reader.get_boolean("sasl.oauthbearer.header.urlencode"),
        extensions={
            name.removeprefix(_EXTENSION_PREFIX): value
            for name, value in options.items()
            if name.startswith(_EXTENSION_PREFIX)
        },
        ca_pem=_read_certificate_authorities(reader, options, files),
        connect_timeout_s=_read_timeout_s(reader, "sasl.login.connect.timeout.ms"),
        read_timeout_s=_read_timeout_s(reader, "sasl.login.read.timeout.ms"),
        retry_s=max(retry_ms, 1) / 1000,
        retry_max_s=max(retry_max_ms, retry_ms, 1) / 1000,
        refresh_factor=reader.get_decimal(
            "sasl.login.refresh.window.factor", 0.8, minimum=0.5, maximum=1.0
        ),
        refresh_jitter=reader.get_decimal(
            "sasl.login.refresh.window.jitter", 0.05, minimum=0.0, maximum=0.25
        ),
        refresh_min_period_s=reader.get_integer(
            "sasl.login.refresh.min.period.seconds", 60, minimum=0, maximum=900
        ),
        refresh_buffer_s=reader.get_integer(
            "sasl.login.refresh.buffer.seconds", 300, minimum=0, maximum=3600
        ),
    )


def _read_timeout_s(reader: PropertyReader, key: str) -> float:
    return reader.get_integer(key, 10_000, minimum=1, maximum=_INT_MAX) / 1000


def _reject_unsupported_classes(reader: PropertyReader) -> None:
    for key, ours in _ACCEPTED_CLASSES.items():
        name = reader.get(key)
        if not name or name in ours:
            continue
        advice = jaas.suggest_vendor_class_replacement(name) or (
            "remove this setting: this client cannot load Java classes"
        )
        reader.add_error(
            key,
            f"{name} is not supported",
            f"{advice}; {client_property_reader.format_choices(ours)}",
        )


def _check_login_module_options(reader: PropertyReader, options: Mapping[str, str]) -> None:
    unknown = sorted(
        name
        for name in options
        if name not in {"clientId", "clientSecret", "scope"}
        and not name.startswith((_EXTENSION_PREFIX, _TRUST_STORE_PREFIX))
    )
    for name in unknown[:1]:  # one error per key
        reader.add_error("sasl.jaas.config", f"option {name} is not supported", JAAS_FORM_ADVICE)
    for name, value in options.items():
        if name.startswith(_EXTENSION_PREFIX) and not _is_valid_extension(
            name.removeprefix(_EXTENSION_PREFIX), value
        ):
            allowed = (
                "use letters in the name and printable ASCII in the value, and do not use "
                "extension_auth"
            )
            reader.add_error("sasl.jaas.config", f"option {name} is malformed", allowed)


def _is_valid_extension(name: str, value: str) -> bool:
    """Return True if the SASL extension is valid according to RFC 7628, section 3.1, as in Java's
    OAuthBearerClientInitialResponse."""
    return (
        name.isascii()
        and name.isalpha()
        and name != "auth"
        and all(" " <= char <= "~" or char in "\t\r\n" for char in value)
    )


def _read_token_endpoint(reader: PropertyReader) -> str:
    allowed = "the issuer's token endpoint, such as https://host/path"
    text = reader.get(TOKEN_ENDPOINT_KEY)
    if not text:
        reader.add_error(TOKEN_ENDPOINT_KEY, "it is missing", allowed)
        return ""
    try:
        parts = urllib.parse.urlsplit(text)
        right = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or 1)
    except ValueError:
        right = None
    if not right:
        reader.add_error(TOKEN_ENDPOINT_KEY, "the value is not an http or https URL", allowed)
    elif parts.username or parts.password:
        reader.add_error(
            TOKEN_ENDPOINT_KEY,
            "it contains credentials",
            ("set the credentials as clientId and clientSecret"),
        )
    return text


def _read_credential(
    reader: PropertyReader,
    name: str,
    *,
    option: tuple[str, Mapping[str, str]],
) -> str:
    """Read a credential from a property or a login module option. The property takes precedence, as
    in Java's ConfigOrJaas."""
    found = reader.get(name) or option[1].get(option[0], "")
    if not found:
        where = f"this property, and {option[0]} in sasl.jaas.config, are not set"
        reader.add_error(name, where, f"set it, or {JAAS_FORM_ADVICE}")
    return found


def _read_certificate_authorities(
    reader: PropertyReader, options: Mapping[str, str], files: KeyStoreFileReader
) -> str | None:
    trust = {name: value for name, value in options.items() if name.startswith(_TRUST_STORE_PREFIX)}
    inner = PropertyReader(trust)
    for name in sorted(trust.keys() - tls_settings.TLS_KEYS)[:1]:
        reader.add_error("sasl.jaas.config", f"option {name} is not supported", JAAS_FORM_ADVICE)
    found = tls_settings.read_tls_settings(inner, files, uses_tls=True)
    for error in inner.errors[:1]:
        problem = f"its option {error.key}: {error.problem}"
        reader.add_error("sasl.jaas.config", problem, error.allowed)
    return found.ca_pem


MAX_TOKEN_RESPONSE_BYTES = 1 << 20
_HEAD_END = b"\r\n\r\n"
_CONTENT_LENGTH = re.compile("[0-9]{1,9}")
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,6}")
_MAX_CHUNK_LINE_BYTES = 1024
_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9._~+/=-]+")
"""Characters allowed in a bearer token (RFC 6750, 2.1). None of them can terminate a SASL message
early."""
_RETRIABLE_STATUS_CODES = frozenset({408, 425, 429})
OAUTH_ERROR_CODES = frozenset(
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
"""Error codes of RFC 6749, 4.1.2.1 and 5.2. Error messages contain only these values from an
issuer's response."""
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessToken:
    """An OAuth access token. `lifetime_s` is the time in seconds from receiving the token until it
    expires."""

    text: str = field(repr=False)
    lifetime_s: float


def parse_token_endpoint(endpoint: str) -> tuple[str, int, bool]:
    """Parse a token endpoint URL into (host, port, True if it uses TLS)."""
    parts = urllib.parse.urlsplit(endpoint)
    return parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme], parts.scheme == "https"


def encode_token_request(oauth: OAuthSettings) -> bytes:
    """Encode the HTTP request for an access token. The result contains the client secret."""
    parts = urllib.parse.urlsplit(oauth.endpoint)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    asked = {"grant_type": "client_credentials"} | ({"scope": oauth.scope} if oauth.scope else {})
    body = urllib.parse.urlencode(asked).encode()
    head = (
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        f"Authorization: Basic {_encode_basic_credentials(oauth)}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        "Accept: application/json",
        "User-Agent: mm2",
        "Connection: close",
    )
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def _encode_basic_credentials(oauth: OAuthSettings) -> str:
    pair = (oauth.client_id, oauth.client_secret)
    if oauth.urlencode:
        pair = (urllib.parse.quote_plus(pair[0]), urllib.parse.quote_plus(pair[1]))
    return base64.b64encode(":".join(pair).encode()).decode()


class TokenResponseReader:
    """Parses the token issuer's HTTP response incrementally, in linear time even if the response
    arrives in small pieces."""

    def __init__(self, oauth: OAuthSettings) -> None:
        host, port, _ = parse_token_endpoint(oauth.endpoint)
        self._oauth = oauth
        self._address = cluster_metadata.format_address(host, port)
        self._data = bytearray()
        self._at = 0
        """Position at which the header section, the body or the next chunk starts."""
        self._searched = 0
        self._status = 0
        self._headers: dict[str, str] = {}
        self._chunks: list[bytes] = []

    def feed(self, data: bytes, *, ended: bool, wall_ms: int) -> AccessToken | None:
        """Parse more bytes of the token issuer's response. Return the token, or None if the
        response is incomplete.

        `ended` is True if no more bytes will arrive. Raises AuthenticationFailed if the issuer
        rejects the request, ConnectionFailed if a retry may succeed.
        """
        self._data += data
        while self._status < 200:  # interim responses (RFC 9110, 15.2) precede the final one
            if not self._parse_header():
                if ended:
                    problem = "the issuer closed the connection without a response"
                    raise ConnectionFailed(self._address, problem)
                return None
        body = self._read_body(ended=ended)
        if body is None:
            if ended:
                raise ConnectionFailed(self._address, "the issuer's response is incomplete")
            return None
        content = _decode_json_object(body)
        if self._status != 200:
            raise _explain_token_refusal(
                self._status, content, address=self._address, oauth=self._oauth
            )
        return _read_token(content, address=self._address, wall_ms=wall_ms)

    def _parse_header(self) -> bool:
        """Parse the next HTTP header section. Return False if it is incomplete."""
        end = self._data.find(_HEAD_END, max(self._at, self._searched - len(_HEAD_END) + 1))
        self._searched = len(self._data)
        if end < 0:
            return False
        self._status, self._headers = _read_http_head(
            bytes(self._data[self._at : end]), self._address
        )
        self._at = self._searched = end + len(_HEAD_END)
        return True

    def _read_body(self, *, ended: bool) -> bytes | None:
        """Return the HTTP response body; None if it is incomplete."""
        if "chunked" in self._headers.get("transfer-encoding", "").lower():
            return self._read_chunked_body()
        length = self._headers.get("content-length", "")
        if not _CONTENT_LENGTH.fullmatch(length):
            return bytes(self._data[self._at :]) if ended else None
        end = self._at + int(length)
        return bytes(self._data[self._at : end]) if len(self._data) >= end else None

    def _read_chunked_body(self) -> bytes | None:
        """Decode a chunked HTTP response body; None if a chunk is incomplete or malformed."""
        while True:
            end = self._data.find(b"\r\n", self._at, self._at + _MAX_CHUNK_LINE_BYTES)
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


def _read_http_head(head: bytes, address: str) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    match = re.match(r"HTTP/1\.[01] (\d{3})", first)
    if match is None:
        raise ConnectionFailed(address, "the server's response is not HTTP")
    pairs = (line.partition(":") for line in lines)
    return int(match[1]), {name.strip().lower(): value.strip() for name, _, value in pairs}


def _decode_json_object(body: bytes) -> dict[str, Any]:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):  # RecursionError: thousands of nested brackets
        return {}
    return content if isinstance(content, dict) else {}


def _explain_token_refusal(
    status: int, content: dict[str, Any], *, address: str, oauth: OAuthSettings
) -> ConnectError:
    code = read_oauth_error_code(content)
    problem = f"the issuer responded with status {status}" + (f" ({code})" if code else "")
    if status >= 500 or status in _RETRIABLE_STATUS_CODES:
        return ConnectionFailed(address, problem)
    if 300 <= status < 400:
        advice = "the token endpoint redirects to another address: configure that address"
    else:
        advice = (
            f"the issuer refused the token request of client {oauth.client_id!r}: check client "
            "id, secret, scope and sasl.oauthbearer.token.endpoint.url"
        )
    return AuthenticationFailed(address, f"{problem}; {advice}")


def read_oauth_error_code(content: Mapping[str, Any]) -> str | None:
    """Return the error code in a token issuer's response, or None if it is not one of
    `OAUTH_ERROR_CODES`."""
    code = content.get("error")
    return code if isinstance(code, str) and code in OAUTH_ERROR_CODES else None


def _read_token(content: dict[str, Any], *, address: str, wall_ms: int) -> AccessToken:
    text = content.get("access_token") or content.get("id_token")
    if not isinstance(text, str) or not _TOKEN_PATTERN.fullmatch(text):
        raise AuthenticationFailed(address, "the issuer's response contains no access_token")
    life_s = _read_finite_number(content.get("expires_in"))
    if life_s is None:
        expires_s = _read_finite_number(_read_jwt_claims(text).get("exp"))
        life_s = None if expires_s is None else expires_s - wall_ms / 1000
    if life_s is None:
        problem = "the issuer's response contains no expires_in, and the token has no exp claim"
        raise AuthenticationFailed(address, problem)
    if life_s <= 0:
        raise ConnectionFailed(address, "the issuer returned a token that has already expired")
    return AccessToken(text=text, lifetime_s=life_s)


def _read_jwt_claims(token: str) -> dict[str, Any]:
    """Return the claims of a JWT without verifying its signature; empty if the token is opaque."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return _decode_json_object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _read_finite_number(value: object) -> float | None:
    """Convert a JSON number to float. Some issuers send numbers as strings. Returns None if the
    value is not a finite number."""
    try:
        found = float(value)  # type: ignore[arg-type]  # None and others raise TypeError
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) < 1e12 else None
