"""Waiting for something that cannot wake us: another process, a file, a remote state."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], bool], *, timeout_s: float, interval_s: float = 0.05) -> bool:
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
