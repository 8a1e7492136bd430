"""SASL exchanges without a socket: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.

Follows RFC 4616, 5802, 7677 and 7628. An exchange creates its first message and then responds to
the broker's challenges until it has nothing more to send. Kafka compares names and passwords as
plain UTF-8 (Java's ScramFormatter does not apply SASLprep), so they are sent without SASLprep.
Messages and reprs never contain secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import scramp  # type: ignore[import-untyped]  # it ships no types

from connect_runtime.base.errors import FatalError

PLAIN = "PLAIN"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
SASL_MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)

MIN_SCRAM_ITERATIONS = 4096
MAX_SCRAM_ITERATIONS = 100_000
"""Maximum number of SCRAM iterations. Kafka stores at most 16,384. Each iteration takes about 0.3
us and blocks all other threads."""


class SaslExchangeRefused(FatalError):
    """The broker's SASL message is malformed, contains an out-of-range value, or has a wrong
    signature."""


class SaslExchange(Protocol):
    """A single SASL authentication attempt. Not reusable."""

    def create_first_message(self) -> bytes:
        """Return the first SASL message to send to the broker."""

    def respond_to_challenge(self, challenge: bytes) -> bytes | None:
        """Return the response to the broker's challenge; None if authentication has succeeded.
        Raises SaslExchangeRefused."""


def create_sasl_exchange(
    mechanism: str, username: str, *, password: str, nonce: str | None = None
) -> SaslExchange:
    """Create a PLAIN or SCRAM exchange. Tests may pass a fixed `nonce`; otherwise it is random."""
    if mechanism == PLAIN:
        return _PlainExchange(username, password)
    assert mechanism in SCRAM_MECHANISMS, mechanism
    return _ScramExchange(mechanism, username, password=password, nonce=nonce)


class _PlainExchange:
    """SASL exchange for PLAIN (RFC 4616)."""

    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0".join((b"", username.encode(), password.encode()))

    def create_first_message(self) -> bytes:
        return self._message

    def respond_to_challenge(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise SaslExchangeRefused("PLAIN: the broker sent an unexpected challenge")
        return None


def create_oauthbearer_exchange(token: str, extensions: Mapping[str, str]) -> SaslExchange:
    """Create an OAUTHBEARER exchange with a token and SASL extensions (RFC 7628, section 3.1)."""
    return _OAuthBearerExchange(token, extensions)


class _OAuthBearerExchange:
    """SASL exchange for OAUTHBEARER (RFC 7628)."""

    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = {"auth": f"Bearer {token}", **extensions}
        fields = "\x01".join(f"{name}={value}" for name, value in pairs.items())
        self._message = f"n,,\x01{fields}\x01\x01".encode()
        self._refused = False

    def create_first_message(self) -> bytes:
        return self._message

    def respond_to_challenge(self, challenge: bytes) -> bytes | None:
        """Handle the broker's challenge. A non-empty challenge contains an error as JSON. The
        returned byte 0x01 makes the broker end the authentication and respond with the error (RFC
        7628)."""
        if self._refused:
            raise SaslExchangeRefused(
                f"{OAUTHBEARER}: the broker sent another challenge after it refused the token"
            )
        if not challenge:
            return None
        self._refused = True
        return b"\x01"


class _CredentialWithoutSaslprep:
    """A user name or password to which scramp does not apply SASLprep."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __bytes__(self) -> bytes:
        return self._text.encode()

    def escape(self) -> str:
        return self._text.replace("=", "=3D").replace(",", "=2C")


class _ScramExchange:
    """SASL exchange for SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, 7677)."""

    def __init__(self, mechanism: str, username: str, *, password: str, nonce: str | None) -> None:
        self._mechanism = mechanism
        self._client = scramp.ScramClient([mechanism], "unprepared", "unprepared", c_nonce=nonce)
        self._client.username = _CredentialWithoutSaslprep(username)
        self._client.password = _CredentialWithoutSaslprep(password)
        self._proven = False

    def create_first_message(self) -> bytes:
        return str(self._client.get_client_first()).encode()

    def respond_to_challenge(self, challenge: bytes) -> bytes | None:
        try:
            text = challenge.decode()
            if self._proven:
                self._client.set_server_final(text)
                return None
            self._client.set_server_first(text)
            self._check_scram_iterations()
            final = str(self._client.get_client_final())
        except (scramp.ScramException, UnicodeDecodeError) as error:
            raise SaslExchangeRefused(f"{self._mechanism}: {error}") from None
        self._proven = True
        return final.encode()

    def _check_scram_iterations(self) -> None:
        iterations = int(self._client.iterations)
        if not MIN_SCRAM_ITERATIONS <= iterations <= MAX_SCRAM_ITERATIONS:
            raise SaslExchangeRefused(
                f"{self._mechanism}: the broker requests {iterations} iterations; allowed: "
                f"{MIN_SCRAM_ITERATIONS:,} to {MAX_SCRAM_ITERATIONS:,}"
            )
