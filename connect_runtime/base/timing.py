"""The `Clock` interface (monotonic and wall-clock time) and deadlines on the monotonic clock.

Code that needs the time gets a `Clock`; only `connect_runtime.system.clock` reads the machine's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that never jumps, for waiting; one that people read, for timestamps."""

    def now_s(self) -> float:
        """Monotonic seconds from an arbitrary start; only differences mean anything."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC. It may jump either way."""


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
