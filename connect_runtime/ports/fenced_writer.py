"""Port: writes to a shared log by one writer at a time, all or nothing.

For the leader of a cluster that runs sources exactly once: one that was deposed and does not know
it yet must not write any more (KIP-618).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from connect_runtime.base import errors
from connect_runtime.ports import shared_log


class PrivilegeLost(errors.FatalError):
    """Nothing was written: this writer was never claimed, failed before, or another was claimed."""


class FencedWriter(Protocol):
    """One thread at a time."""

    def claim(self, timeout_s: float) -> None:
        """Become the one writer: whoever was before cannot write any more.

        Raises `ConnectError` when that failed: then this is not the one.
        """

    def write(self, records: Sequence[shared_log.Record], timeout_s: float) -> None:
        """Write all of them or none. Raises `PrivilegeLost`: then `claim` again."""

    def stop(self) -> None:
        """Let go, without waiting."""
