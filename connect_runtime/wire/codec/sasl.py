"""SASL exchanges without a socket: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER
(RFC 4616, 5802, 7677, 7628).

An exchange is asked for its `first` message and then fed what the broker answers, until it has no
more to say. Kafka compares names and passwords as plain UTF-8 (Java's ScramFormatter does not apply
SASLprep), so they go in unprepared. No message or repr holds a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import scramp  # type: ignore[import-untyped]  # it ships no types

from connect_runtime.base import errors

PLAIN = "PLAIN"
SCRAM_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM_MECHANISMS, OAUTHBEARER)

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000
"""Kafka stores 16,384 at most. Each costs about 0.3 us in which nothing else runs."""


class ExchangeRefused(errors.FatalError):
    """The broker's part of an exchange is malformed, out of bounds, or not signed as it must be."""


class Exchange(Protocol):
    """One authentication. Use it once."""

    def first(self) -> bytes:
        """The first message to the broker."""

    def answer(self, challenge: bytes) -> bytes | None:
        """The next message; None when the broker's last one was right. Raises ExchangeRefused."""


def exchange(mechanism: str, username: str, *, password: str, nonce: str | None = None) -> Exchange:
    """`nonce` is for tests; otherwise it comes from the system's secure source."""
    if mechanism == PLAIN:
        return _Plain(username, password)
    assert mechanism in SCRAM_MECHANISMS, mechanism
    return _Scram(mechanism, username, password=password, nonce=nonce)


class _Plain:
    def __init__(self, username: str, password: str) -> None:
        self._message = b"\0".join((b"", username.encode(), password.encode()))

    def first(self) -> bytes:
        return self._message

    def answer(self, challenge: bytes) -> bytes | None:
        if challenge:
            raise ExchangeRefused("PLAIN: the broker sent a challenge, which PLAIN has not")
        return None


def bearer(token: str, extensions: Mapping[str, str]) -> Exchange:
    """OAUTHBEARER: the token is all that is said; `extensions` are as RFC 7628, 3.1."""
    return _Bearer(token, extensions)


class _Bearer:
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
            raise ExchangeRefused(f"{OAUTHBEARER}: the broker refused the token and went on")
        if not challenge:
            return None
        self._refused = True
        return b"\x01"


class _Raw:
    """A name or password that scramp takes as it is."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __bytes__(self) -> bytes:
        return self._text.encode()

    def escape(self) -> str:
        return self._text.replace("=", "=3D").replace(",", "=2C")


class _Scram:
    def __init__(self, mechanism: str, username: str, *, password: str, nonce: str | None) -> None:
        self._mechanism = mechanism
        self._client = scramp.ScramClient([mechanism], "unprepared", "unprepared", c_nonce=nonce)
        self._client.username = _Raw(username)
        self._client.password = _Raw(password)
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
            raise ExchangeRefused(f"{self._mechanism}: {error}") from None
        self._proven = True
        return final.encode()

    def _check_iterations(self) -> None:
        iterations = int(self._client.iterations)
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ExchangeRefused(
                f"{self._mechanism}: the broker asks for {iterations} iterations, "
                f"allowed are {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
