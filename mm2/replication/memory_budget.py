"""Limits the memory of one task (`buffer.memory`): bytes held from fetch to acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass

DECODED_BYTES_MIN = 1024 * 1024
"""Minimum limit for the uncompressed size of one batch in bytes, even if the memory budget is
smaller."""


@dataclass(slots=True)
class MemoryBudget:
    """Memory of one task, shared by its partitions.

    While decoded bytes exceed half of the limit, no other batch is decoded (`may_decode`), so
    decoded batches use at most one and a half times the limit. Decoded batches reduce the bytes
    available for fetching (`free_bytes`) by at most half of the limit, so one large batch never
    blocks other partitions. Invariant: `held_bytes` is never negative.
    """

    limit_bytes: int
    held_bytes: int = 0
    decoded_bytes: int = 0
    """Part of `held_bytes` that is used by decoded batches and their re-encoded form."""

    @property
    def free_bytes(self) -> int:
        """Number of bytes that may still be fetched."""
        fetched = self.held_bytes - self.decoded_bytes
        return max(0, self.limit_bytes - fetched - min(self.decoded_bytes, self.limit_bytes // 2))

    @property
    def largest_decoded_bytes(self) -> int:
        """Maximum uncompressed size of one batch."""
        return max(self.limit_bytes, DECODED_BYTES_MIN)

    def may_decode(self) -> bool:
        """Return True if another batch may be decoded."""
        return self.decoded_bytes <= self.limit_bytes // 2

    def reserve(self, size: int, *, decoded: bool = False) -> None:
        """Reserve `size` bytes of the task's memory. If `decoded` is True, they are also counted as
        decoded bytes."""
        self.held_bytes += size
        self.decoded_bytes += size if decoded else 0

    def release(self, size: int, *, decoded: bool = False) -> None:
        """Return reserved bytes to the budget."""
        self.held_bytes -= size
        self.decoded_bytes -= size if decoded else 0
        assert self.held_bytes >= 0, self.held_bytes
        assert self.decoded_bytes >= 0, self.decoded_bytes
