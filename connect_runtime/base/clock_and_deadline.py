"""The `Clock` interface (monotonic and wall-clock time) and deadlines on the monotonic clock.

Code that needs the time receives a `Clock`. Only `connect_runtime.system.system_clock` reads the
system clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    """A monotonic clock for timeouts and a wall clock for timestamps."""

    def now_s(self) -> float:
        """Monotonic time in seconds since an arbitrary start; only differences are meaningful."""

    def wall_ms(self) -> int:
        """Wall-clock time in milliseconds since 1970-01-01 UTC. It may jump in both directions."""


@dataclass(frozen=True, slots=True, order=True)
class Deadline:
    """A point in time on the monotonic clock."""

    at_s: float
    """Time of the deadline as a value of `Clock.now_s`."""

    @classmethod
    def after(cls, timeout_s: float, *, now_s: float) -> Deadline:
        """Create a deadline that is `timeout_s` after the current time `now_s`."""
        return cls(now_s + timeout_s)

    def remaining_s(self, now_s: float) -> float:
        """Return the seconds until the deadline. Never negative, so that the result can be used
        as a wait timeout."""
        return max(0.0, self.at_s - now_s)

    def is_expired(self, now_s: float) -> bool:
        """Return whether the deadline has been reached."""
        return now_s >= self.at_s
