"""The system clock, and a function that waits for a condition by polling.

`SystemClock` is the only code that reads the system clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class SystemClock:
    """The clock of the operating system; implements `base.clock_and_deadline.Clock`."""

    def now_s(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


def wait_until(
    condition: Callable[[], bool], *, timeout_s: float, interval_s: float = 0.05
) -> bool:
    """Evaluate `condition` every `interval_s` until it is true. Return False if it is still false
    after `timeout_s`.

    The condition is evaluated at least once, and once more after the timeout has expired.
    """
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(interval_s, left_s))
    return True
