"""Bytes that one task holds between fetching and acknowledgement, against what it may hold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Budget:
    """Shared by all partitions of a task. Invariant: `held_bytes` is never negative."""

    limit_bytes: int
    held_bytes: int = 0

    @property
    def free_bytes(self) -> int:
        return max(0, self.limit_bytes - self.held_bytes)

    def hold(self, size: int) -> None:
        self.held_bytes += size

    def release(self, size: int) -> None:
        self.held_bytes -= size
        assert self.held_bytes >= 0, self.held_bytes
