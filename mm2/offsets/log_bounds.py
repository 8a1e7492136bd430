"""First and last offsets of a partition's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """Log start offset of a partition, and its last stable offset, up to which read_committed
    consumers read."""

    start: int
    end: int
    pending: int = 0
    """Offsets after `end`: of open transactions and everything after them."""

    def __post_init__(self) -> None:
        assert self.start <= self.end, self
        assert self.pending >= 0, self

    @property
    def high_watermark(self) -> int:
        """Offset after the last replicated record, visible or not."""
        return self.end + self.pending

    def count_from(self, offset: int | None) -> int:
        """Number of existing offsets from `offset` to the end; None counts from the log start."""
        return max(0, self.end - max(self.start if offset is None else offset, self.start))
