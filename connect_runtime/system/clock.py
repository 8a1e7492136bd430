"""The real clock: the only place that asks the machine for the time."""

from __future__ import annotations

import time


class SystemClock:
    """Implements `base.clock.Clock`."""

    def now_s(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000
