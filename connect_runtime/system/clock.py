"""The machine's clock, and waiting for a condition by polling it.

`SystemClock` is the only code that asks the machine for the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class SystemClock:
    """Implements `base.clock.Clock`."""

    def now_s(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


def wait_until(
    condition: Callable[[], bool], *, timeout_s: float, interval_s: float = 0.05
) -> bool:
    """Ask `condition` every `interval_s` until it holds; False when `timeout_s` have passed.

    It is asked at least once, and once more at the very end.
    """
    deadline_s = time.monotonic() + timeout_s
    while not condition():
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            return False
        time.sleep(min(interval_s, left_s))
    return True
