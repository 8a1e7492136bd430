"""Bytes that one task holds between fetching and acknowledgement, against what it may hold."""

from __future__ import annotations

from dataclasses import dataclass

OPENED_BYTES_LEAST = 1024 * 1024
"""So much one batch may unpack to, however small the budget."""


@dataclass(slots=True)
class Budget:
    """Shared by all partitions of a task. Invariant: `held_bytes` is never negative.

    `opened_bytes` is the part of it that was not fetched: batches that had to be unpacked, and what
    was made of them. One batch may unpack to `largest_opened_bytes`. While more than half of the
    limit is opened, no other batch is (`may_open`), so that opened batches hold one and a half
    times the limit at most.
    """

    limit_bytes: int
    held_bytes: int = 0
    opened_bytes: int = 0

    @property
    def free_bytes(self) -> int:
        return max(0, self.limit_bytes - self.held_bytes)

    @property
    def largest_opened_bytes(self) -> int:
        return max(self.limit_bytes, OPENED_BYTES_LEAST)

    @property
    def may_open(self) -> bool:
        return self.opened_bytes <= self.limit_bytes // 2

    def hold(self, size: int, *, opened: bool = False) -> None:
        self.held_bytes += size
        self.opened_bytes += size if opened else 0

    def release(self, size: int, *, opened: bool = False) -> None:
        self.held_bytes -= size
        self.opened_bytes -= size if opened else 0
        assert self.held_bytes >= 0, self.held_bytes
        assert self.opened_bytes >= 0, self.opened_bytes
