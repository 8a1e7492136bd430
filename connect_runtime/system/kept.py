"""What takes a while to make: made by one at a time, and kept for a moment for who comes next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from connect_runtime.base import clock as base_clock

T = TypeVar("T")


class Kept(Generic[T]):
    """Any thread may `get`; who comes while it is made waits, and has the same."""

    def __init__(self, make: Callable[[], T], *, for_s: float, clock: base_clock.Clock) -> None:
        """`for_s` counts from when it was made."""
        self._make = make
        self._for_s = for_s
        self._clock = clock
        self._lock = threading.Lock()
        self._made: tuple[T, float] | None = None

    def get(self) -> T:
        """Raises what `make` raises: that is not kept."""
        with self._lock:
            if self._made is None or self._clock.now_s() >= self._made[1]:
                found = self._make()
                self._made = (found, self._clock.now_s() + self._for_s)
            return self._made[0]
