"""Root classes of operating errors: retriable or fatal.

Whatever a user, a broker or a network can cause derives from one of them. Programming errors
are assertions.
"""

from __future__ import annotations


class ConnectError(Exception):
    """An operating error. Its message says what was being done, to what, and what to do."""


class RetriableError(ConnectError):
    """Trying again may succeed. `delay_ms` is the least wait that makes sense, if known."""

    def __init__(self, message: str, *, delay_ms: int | None = None) -> None:
        super().__init__(message)
        self.delay_ms = delay_ms


class FatalError(ConnectError):
    """Trying again changes nothing until somebody changes something."""
