"""The memory budget of one task (`buffer.memory`): bytes held from fetch to acknowledgement."""

from __future__ import annotations

from dataclasses import dataclass

DECODED_BYTES_MIN = 1024 * 1024
"""So much one batch may unpack to, however small the budget."""


@dataclass(slots=True)
class MemoryBudget:
    """Shared by all partitions of a task. Invariant: `held_bytes` is never negative.

    `decoded_bytes` is the part of it that was not fetched: batches that had to be decoded, and what
    they were re-encoded to. One batch may decompress to `largest_decoded_bytes`. While decoded
    bytes are more than half of the limit, no other batch is decoded (`may_decode`), so that copying
    holds at most one and a half times the limit of decoded batches. At most half of the limit is
    taken from fetching for them (`free_bytes`): one large batch never stops other partitions.
    """

    limit_bytes: int
    held_bytes: int = 0
    decoded_bytes: int = 0

    @property
    def free_bytes(self) -> int:
        fetched = self.held_bytes - self.decoded_bytes
        return max(0, self.limit_bytes - fetched - min(self.decoded_bytes, self.limit_bytes // 2))

    @property
    def largest_decoded_bytes(self) -> int:
        return max(self.limit_bytes, DECODED_BYTES_MIN)

    def may_decode(self) -> bool:
        """Whether one more batch may be decoded."""
        return self.decoded_bytes <= self.limit_bytes // 2

    def hold(self, size: int, *, opened: bool = False) -> None:
        self.held_bytes += size
        self.decoded_bytes += size if opened else 0

    def release(self, size: int, *, opened: bool = False) -> None:
        self.held_bytes -= size
        self.decoded_bytes -= size if opened else 0
        assert self.held_bytes >= 0, self.held_bytes
        assert self.decoded_bytes >= 0, self.decoded_bytes
