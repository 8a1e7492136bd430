"""Connection handshake: ApiVersions, SASL authentication, and re-authentication (KIP-368).

A handshake is a generator without a socket: it yields a kio request, receives the response body,
and finally returns the negotiated result. The order is ApiVersions, SaslHandshake, then
SaslAuthenticate until the exchange is complete. To re-authenticate before the broker ends the
session, only `authenticate_connection` is run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import kio.index
from kio.schema.errors import ErrorCode

from connect_runtime.base import terminal_escape
from connect_runtime.protocol import (
    api_versions,
    request_builders,
    request_errors,
    request_framing,
    sasl,
)
from connect_runtime.protocol.api_versions import ApiVersionRange, NodeApiVersions
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    ConnectionFailed,
    RequestFailureLayer,
)
from connect_runtime.protocol.sasl import SaslExchange, SaslExchangeRefused
from connect_runtime.protocol.security_settings import SecuritySettings

_RENEWAL_WINDOW_START, _RENEWAL_WINDOW_END = 0.85, 0.95
"""Earliest and latest re-authentication, as fractions of the session lifetime. The time between
them is chosen at random, as in Java's clients."""
_RENEWAL_RETRY_DELAY_S = 0.25
_MIN_SESSION_LEFT_S = 0.2
"""Minimum remaining lifetime of a session. A session with less time left is closed, because
requests in flight when it expires would be lost."""


@dataclass(slots=True)
class SaslSessionLifetime:
    """End of a SASL session and time of the next re-authentication, in monotonic seconds; infinity
    if the session does not expire."""

    renew_at_s: float = math.inf
    ends_s: float = math.inf

    def start_session(self, life_s: float | None, now_s: float, rng: random.Random) -> None:
        """Start a SASL session. `life_s` is the lifetime in seconds that the broker granted; None
        if it is unlimited."""
        self.renew_at_s = self.ends_s = math.inf
        if life_s is not None:
            self.ends_s = now_s + life_s
            self.renew_at_s = now_s + life_s * rng.uniform(
                _RENEWAL_WINDOW_START, _RENEWAL_WINDOW_END
            )

    def start_reauthentication(self) -> None:
        """Record that re-authentication is in progress until `start_session` is called or the
        connection is closed."""
        self.renew_at_s = math.inf

    def postpone_reauthentication(self, now_s: float) -> bool:
        """Schedule another attempt to re-authenticate, because no token is available yet. Returns
        False if the session is about to expire, so that another attempt would be too late."""
        self.renew_at_s = min(
            now_s + _RENEWAL_RETRY_DELAY_S, max(now_s, self.ends_s - _MIN_SESSION_LEFT_S)
        )
        return now_s < self.ends_s - _MIN_SESSION_LEFT_S


UNSUPPORTED_VERSION = 35
UNSUPPORTED_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
_SOFTWARE_VERSION = "1"
_HANDSHAKE_VERSION = 1
"""Version of SaslHandshake requests. Since version 1, SASL messages are sent in SaslAuthenticate
requests (brokers 1.0 and later)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HandshakeResult:
    """Result of a connection handshake: the broker's API versions and the SASL session lifetime in
    seconds (None if unlimited)."""

    versions: NodeApiVersions
    session_lifetime_s: float | None


HandshakeConversation: TypeAlias = Generator[Any, memoryview, HandshakeResult]


def perform_handshake(
    security: SecuritySettings, *, address: str, token: str | None = None
) -> HandshakeConversation:
    """Perform the complete handshake of a new connection to a broker.

    `token` is the OAUTHBEARER token. Raises AuthenticationFailed, UnsupportedVersion or
    MalformedResponseError.
    """
    known = yield from _request_api_versions(address)
    if not security.uses_sasl:
        return HandshakeResult(versions=known, session_lifetime_s=None)
    return (yield from authenticate_connection(security, address=address, known=known, token=token))


def _request_api_versions(
    address: str,
) -> Generator[Any, memoryview, NodeApiVersions]:
    message = request_builders.build_api_versions_request(software_version=_SOFTWARE_VERSION)
    body = yield message.build_request_message(message.high)
    asked = message.high
    # A broker that does not know version 3 (before 2.4) answers error 35 in version 0 (KIP-511).
    if int.from_bytes(body[:2], "big") == UNSUPPORTED_VERSION:
        asked = 0
        body = yield kio.index.load_request_schema(api_versions.API_VERSIONS_KEY, asked)()
    response = request_framing.decode_response(message.get_response_type(asked), body)
    if response.error_code != ErrorCode.none:
        problem = f"ApiVersions failed: {request_errors.format_error_code(response.error_code)}"
        raise ConnectionFailed(address, problem)
    ranges = {
        int(api.api_key): ApiVersionRange(int(api.min_version), int(api.max_version))
        for api in response.api_keys
    }
    return NodeApiVersions(address=address, ranges=ranges)


def authenticate_connection(
    security: SecuritySettings,
    *,
    address: str,
    known: NodeApiVersions,
    token: str | None = None,
) -> HandshakeConversation:
    """Authenticate with SASL on a connection whose API versions are already known."""
    mechanism, username = security.mechanism or "", security.username or ""
    yield from _negotiate_sasl_mechanism(mechanism, address)
    key = api_versions.API_KEYS["sasl_authenticate"]
    version = known.choose_version(key, low=0, high=2)
    request_type = kio.index.load_request_schema(key, version)
    exchange = _create_sasl_exchange(security, token)
    message: bytes | None = exchange.create_first_message()
    lifetime_ms = 0
    while True:  # ends with the exchange: PLAIN after one round trip, SCRAM after two
        body = yield request_type(auth_bytes=message)  # type: ignore[call-arg]  # generated class
        response = request_framing.decode_response(
            kio.index.load_response_schema(key, version), body
        )
        if response.error_code != ErrorCode.none:
            raise AuthenticationFailed(
                address, _explain_sasl_refusal(response, mechanism, username)
            )
        try:
            message = exchange.respond_to_challenge(bytes(response.auth_bytes))
        except SaslExchangeRefused as refused:
            raise AuthenticationFailed(address, str(refused)) from None
        if version > 0:
            lifetime_ms = round(response.session_lifetime.total_seconds() * 1000)
        if message is None:
            return HandshakeResult(
                versions=known, session_lifetime_s=lifetime_ms / 1000 if lifetime_ms > 0 else None
            )


def _create_sasl_exchange(security: SecuritySettings, token: str | None) -> SaslExchange:
    if security.oauth is None:
        return sasl.create_sasl_exchange(
            security.mechanism or "", security.username or "", password=security.password or ""
        )
    assert token is not None, "OAUTHBEARER requires a token to connect"
    return sasl.create_oauthbearer_exchange(token, security.oauth.extensions)


def _negotiate_sasl_mechanism(mechanism: str, address: str) -> Generator[Any, memoryview, None]:
    key = api_versions.API_KEYS["sasl_handshake"]
    request_type = kio.index.load_request_schema(key, _HANDSHAKE_VERSION)
    body = yield request_type(mechanism=mechanism)  # type: ignore[call-arg]  # generated class
    response_type = kio.index.load_response_schema(key, _HANDSHAKE_VERSION)
    response: Any = request_framing.decode_response(response_type, body)
    code = int(response.error_code)
    if code == UNSUPPORTED_MECHANISM:
        offered = ", ".join(response.mechanisms) or "none"
        problem = f"the broker does not offer {mechanism}; it offers {offered}: set sasl.mechanism"
        raise AuthenticationFailed(address, problem)
    if code == ILLEGAL_SASL_STATE:
        problem = "the listener does not use SASL: set security.protocol to PLAINTEXT or SSL"
        raise AuthenticationFailed(address, problem, layer=RequestFailureLayer.LISTENER)
    if code != 0:
        problem = f"SASL handshake: {request_errors.format_error_code(code)}"
        raise AuthenticationFailed(address, problem)


def _explain_sasl_refusal(response: Any, mechanism: str, username: str) -> str:
    """Format the error message for a SASL authentication that the broker rejected."""
    said = terminal_escape.replace_remedy_labels(response.error_message or response.error_code.name)
    return f"{mechanism} as {username!r} was refused: {said} ({response.error_code.value})"
