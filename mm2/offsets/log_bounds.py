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
    """Number of offsets between `end` and the high watermark, which are in open transactions or
    follow their start."""

    def __post_init__(self) -> None:
        assert self.start <= self.end, self
        assert self.pending >= 0, self

    @property
    def high_watermark(self) -> int:
        """High watermark: the offset after the last record that is replicated within the cluster,
        visible to read_committed consumers or not."""
        return self.end + self.pending

    def count_from(self, offset: int | None) -> int:
        """Count the existing offsets from `offset` to the end; None counts from the log start."""
        return max(0, self.end - max(self.start if offset is None else offset, self.start))
