"""What time is, for those who must not read it themselves."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Two clocks: one that never jumps, for waiting; one that people read, for timestamps."""

    def now_s(self) -> float:
        """Monotonic seconds from an arbitrary start; only differences mean anything."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC. It may jump either way."""
