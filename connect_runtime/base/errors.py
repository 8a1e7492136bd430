"""Base classes of operational errors: retriable or fatal.

Every error that a user, a broker or a network can cause derives from one of them. Programming
errors are assertions.
"""

from __future__ import annotations


class ConnectError(Exception):
    """An operational error. Its message says what failed, on what, and what to do next."""


class RetriableError(ConnectError):
    """An error that may disappear on retry. `delay_ms`: minimum delay before a retry, if known."""

    def __init__(self, message: str, *, delay_ms: int | None = None) -> None:
        super().__init__(message)
        self.delay_ms = delay_ms


class FatalError(ConnectError):
    """An error that remains until someone changes the configuration or the environment."""
