"""Port: writes records of one topic's partition 0, and tells what became of each.

One thread calls. Callbacks run inside `poll` and `close`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from connect_runtime.base import errors

OnWritten = Callable[[errors.ConnectError | None], None]
"""Told once per record: None when it is in the topic, else why it is not, or may not be."""


class RecordWriter(Protocol):
    """Whoever writes bounds what is under way."""

    def write(self, key: bytes, value: bytes, *, on_written: OnWritten) -> None:
        """Hand one over; never waits."""

    def poll(self, timeout_s: float) -> None:
        """Run due callbacks; wait up to `timeout_s` for the first. Must be called regularly: it
        carries the library's log."""

    def close(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for what is under way, then give it up and let go."""
