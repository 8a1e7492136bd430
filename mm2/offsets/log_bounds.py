"""First and last offsets of a partition's log."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LogBounds:
    """The offset of the first record that is still there, and the one behind the last that readers
    of committed records may see (the last stable offset).

    `pending` offsets stand behind that: of transactions that are open, and what came after them.
    """

    start: int
    end: int
    pending: int = 0

    def __post_init__(self) -> None:
        assert self.start <= self.end, self
        assert self.pending >= 0, self

    @property
    def high_watermark(self) -> int:
        """Behind the last record, whoever may see it by now."""
        return self.end + self.pending

    def left(self, at: int | None) -> int:
        """Offsets from `at` on to the end, of those that are still there; None: from the first."""
        return max(0, self.end - max(self.start if at is None else at, self.start))
