"""A point in monotonic time by which something must have happened."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    """`at_s` is a reading of `Clock.now_s`."""

    at_s: float

    @classmethod
    def after(cls, timeout_s: float, *, now_s: float) -> Deadline:
        return cls(now_s + timeout_s)

    def left_s(self, now_s: float) -> float:
        """Seconds left, never negative: fit for a wait."""
        return max(0.0, self.at_s - now_s)

    def passed(self, now_s: float) -> bool:
        return now_s >= self.at_s
