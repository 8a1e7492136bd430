"""Start and end offsets of a partition's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """Log start offset and last stable offset of a partition. Consumers with read_committed read up
    to the last stable offset."""

    start: int
    end: int
    pending: int = 0
    """Number of offsets from `end`, where the first open transaction begins, to the high
    watermark."""

    def __post_init__(self) -> None:
        assert self.start <= self.end, self
        assert self.pending >= 0, self

    @property
    def high_watermark(self) -> int:
        """Offset after the last record that all in-sync replicas have. Includes records of open
        transactions, which read_committed consumers cannot read yet."""
        return self.end + self.pending

    def count_offsets_from(self, offset: int | None) -> int:
        """Count the offsets from `offset`, or from the log start if that is higher or if `offset`
        is None, to the last stable offset."""
        return max(0, self.end - max(self.start if offset is None else offset, self.start))
