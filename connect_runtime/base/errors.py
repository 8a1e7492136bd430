"""Base classes of operational errors, which are retriable or fatal.

Every error that a user, a broker or a network can cause derives from one of these classes.
Programming errors are assertions.
"""

from __future__ import annotations


class ConnectError(Exception):
    """Base class of operational errors. The message states what failed, where, and what to do
    next."""


class RetriableError(ConnectError):
    """An error that a retry may resolve. `delay_ms` is the minimum delay before a retry, if
    known."""

    def __init__(self, message: str, *, delay_ms: int | None = None) -> None:
        super().__init__(message)
        self.delay_ms = delay_ms


class FatalError(ConnectError):
    """An error that persists until someone changes the configuration or the environment."""
