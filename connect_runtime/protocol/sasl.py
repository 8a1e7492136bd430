"""SASL exchanges without a socket: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER.

RFC 4616, 5802, 7677, 7628. An exchange gives its `first` message and is then fed the broker's
answers until it has nothing more to send. Kafka compares names and passwords as plain UTF-8 (Java's
ScramFormatter does not apply SASLprep), so they are sent unprepared. No message or repr contains a
secret.
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
MAX_SCRAM_ITERATIONS = 1_000_000
"""Kafka stores 16,384 at most. Each costs about 0.3 us in which nothing else runs."""


class SaslExchangeRefused(FatalError):
    """The broker's part of an exchange is malformed, out of bounds, or not signed as it must be."""


class SaslExchange(Protocol):
    """One authentication. Use it once."""

    def first(self) -> bytes:
        """The first message to the broker."""

    def answer(self, challenge: bytes) -> bytes | None:
        """The next message; None when the broker's last one was right. Raises ExchangeRefused."""


def create_exchange(
    mechanism: str, username: str, *, password: str, nonce: str | None = None
) -> SaslExchange:
    """`nonce` is for tests; otherwise it comes from the system's secure source."""
    if mechanism == PLAIN:
        return _PlainExchange(username, password)
    assert mechanism in SCRAM_MECHANISMS, mechanism
    return _ScramExchange(mechanism, username, password=password, nonce=nonce)


class _PlainExchange:
    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0".join((b"", username.encode(), password.encode()))

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise SaslExchangeRefused("PLAIN: the broker sent a challenge, which PLAIN has not")
        return None


def create_oauthbearer_exchange(token: str, extensions: Mapping[str, str]) -> SaslExchange:
    """OAUTHBEARER: the token is all that is said; `extensions` are as RFC 7628, 3.1."""
    return _OAuthBearerExchange(token, extensions)


class _OAuthBearerExchange:
    def __init__(self, token: str, extensions: Mapping[str, str]) -> None:
        pairs = {"auth": f"Bearer {token}", **extensions}
        told = "\x01".join(f"{name}={value}" for name, value in pairs.items())
        self._message = f"n,,\x01{told}\x01\x01".encode()
        self._refused = False

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        """A challenge is the broker's refusal in JSON; it says so properly after one more turn."""
        if self._refused:
            raise SaslExchangeRefused(f"{OAUTHBEARER}: the broker refused the token and went on")
        if not challenge:
            return None
        self._refused = True
        return b"\x01"


class _UnpreparedText:
    """A name or password that scramp takes as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __bytes__(self) -> bytes:
        return self._text.encode()

    def escape(self) -> str:
        return self._text.replace("=", "=3D").replace(",", "=2C")


class _ScramExchange:
    def __init__(self, mechanism: str, username: str, *, password: str, nonce: str | None) -> None:
        self._mechanism = mechanism
        self._client = scramp.ScramClient([mechanism], "unprepared", "unprepared", c_nonce=nonce)
        self._client.username = _UnpreparedText(username)
        self._client.password = _UnpreparedText(password)
        self._proven = False

    def first(self) -> bytes:
        return str(self._client.get_client_first()).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        try:
            text = challenge.decode()
            if self._proven:
                self._client.set_server_final(text)
                return None
            self._client.set_server_first(text)
            self._check_iterations()
            final = str(self._client.get_client_final())
        except (scramp.ScramException, UnicodeDecodeError) as error:
            raise SaslExchangeRefused(f"{self._mechanism}: {error}") from None
        self._proven = True
        return final.encode()

    def _check_iterations(self) -> None:
        iterations = int(self._client.iterations)
        if not MIN_SCRAM_ITERATIONS <= iterations <= MAX_SCRAM_ITERATIONS:
            raise SaslExchangeRefused(
                f"{self._mechanism}: the broker asks for {iterations} iterations, "
                f"allowed are {MIN_SCRAM_ITERATIONS} to {MAX_SCRAM_ITERATIONS}"
            )
