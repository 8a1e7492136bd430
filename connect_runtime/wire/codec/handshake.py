"""What is said on a fresh connection before anything else: versions, then who we are.

Conversations without a socket: a generator yields a kio request, is sent the body of its answer,
and returns what was agreed. Order: ApiVersions, SaslHandshake, SaslAuthenticate until the exchange
is over. `authenticating` alone renews a session that is about to end (KIP-368).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias

import kio.index
from kio.schema.errors import ErrorCode

from connect_runtime.wire.codec import (
    failures,
    frames,
    messages,
    sasl,
    security_settings,
    versions,
)

UNSUPPORTED_VERSION = 35
UNSUPPORTED_MECHANISM = 33
ILLEGAL_SASL_STATE = 34
_SOFTWARE_VERSION = "1"
_HANDSHAKE_VERSION = 1
"""From 1 on tokens travel in SaslAuthenticate requests; brokers know it since 1.0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What was agreed. `session_s`: authenticate again within that many seconds; None: never."""

    versions: versions.BrokerVersions
    session_s: float | None


Conversation: TypeAlias = Generator[Any, memoryview, Opened]


def opening(
    security: security_settings.Security, *, address: str, token: str | None = None
) -> Conversation:
    """The whole handshake; raises AuthenticationFailed, UnsupportedVersion, TruncatedResponse.

    `token`: what OAUTHBEARER shows.
    """
    known = yield from _asking_versions(address)
    if not security.uses_sasl:
        return Opened(versions=known, session_s=None)
    return (yield from authenticating(security, address=address, known=known, token=token))


def _asking_versions(
    address: str,
) -> Generator[Any, memoryview, versions.BrokerVersions]:
    message = messages.api_versions(software_version=_SOFTWARE_VERSION)
    body = yield message.entity(message.high)
    asked = message.high
    # A broker that does not know version 3 (before 2.4) answers error 35 in version 0 (KIP-511).
    if int.from_bytes(body[:2], "big") == UNSUPPORTED_VERSION:
        asked = 0
        body = yield kio.index.load_request_schema(versions.API_VERSIONS_KEY, asked)()
    response = frames.decode_response(message.response_type(asked), body)
    if response.error_code != ErrorCode.none:
        problem = f"asking for API versions: {failures.error_name(response.error_code)}"
        raise failures.ConnectionFailed(address, problem)
    ranges = {
        int(api.api_key): versions.VersionRange(int(api.min_version), int(api.max_version))
        for api in response.api_keys
    }
    return versions.BrokerVersions(address=address, ranges=ranges)


def authenticating(
    security: security_settings.Security,
    *,
    address: str,
    known: versions.BrokerVersions,
    token: str | None = None,
) -> Conversation:
    """SASL alone, over a connection whose versions are known."""
    mechanism, username = security.mechanism or "", security.username or ""
    yield from _agreeing_on_mechanism(mechanism, address)
    key = versions.API_KEYS["sasl_authenticate"]
    version = known.choose(key, low=0, high=2)
    request_type = kio.index.load_request_schema(key, version)
    exchange = _exchange(security, token)
    message: bytes | None = exchange.first()
    lifetime_ms = 0
    while True:  # an exchange ends itself: PLAIN after one round, SCRAM after two
        body = yield request_type(auth_bytes=message)  # type: ignore[call-arg]  # generated class
        response = frames.decode_response(kio.index.load_response_schema(key, version), body)
        if response.error_code != ErrorCode.none:
            raise failures.AuthenticationFailed(address, _refusal(response, mechanism, username))
        try:
            message = exchange.answer(bytes(response.auth_bytes))
        except sasl.ExchangeRefused as refused:
            raise failures.AuthenticationFailed(address, str(refused)) from None
        if version > 0:
            lifetime_ms = round(response.session_lifetime.total_seconds() * 1000)
        if message is None:
            return Opened(versions=known, session_s=lifetime_ms / 1000 if lifetime_ms > 0 else None)


def _exchange(security: security_settings.Security, token: str | None) -> sasl.Exchange:
    if security.oauth is None:
        return sasl.exchange(
            security.mechanism or "", security.username or "", password=security.password or ""
        )
    assert token is not None, "nobody authenticates before there is a token"
    return sasl.bearer(token, security.oauth.extensions)


def _agreeing_on_mechanism(mechanism: str, address: str) -> Generator[Any, memoryview, None]:
    key = versions.API_KEYS["sasl_handshake"]
    request_type = kio.index.load_request_schema(key, _HANDSHAKE_VERSION)
    body = yield request_type(mechanism=mechanism)  # type: ignore[call-arg]  # generated class
    response_type = kio.index.load_response_schema(key, _HANDSHAKE_VERSION)
    response: Any = frames.decode_response(response_type, body)
    code = int(response.error_code)
    if code == UNSUPPORTED_MECHANISM:
        offered = ", ".join(response.mechanisms) or "none"
        problem = f"the broker does not offer {mechanism}; it offers {offered}: set sasl.mechanism"
        raise failures.AuthenticationFailed(address, problem)
    if code == ILLEGAL_SASL_STATE:
        problem = "the listener has no SASL: set security.protocol to PLAINTEXT or SSL"
        raise failures.AuthenticationFailed(address, problem, layer=failures.Layer.LISTENER)
    if code != 0:
        problem = f"SASL handshake: {failures.error_name(code)}"
        raise failures.AuthenticationFailed(address, problem)


def _refusal(response: Any, mechanism: str, username: str) -> str:
    said = response.error_message or response.error_code.name
    return f"{mechanism} as {username!r} was refused: {said} ({response.error_code.value})"
