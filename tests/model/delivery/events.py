"""Virtual time: what happens when, in one reproducible order, drawn from one seed."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

WALL_AT_ZERO_MS = 1_790_000_000_000
STEPS_MAX = 50_000


class UnsettledError(AssertionError):
    """So much happened that something must be running in circles."""


class Events:
    """A queue of things to happen. `trace` collects notes when `tracing` is on."""

    def __init__(self, seed: int | str, *, tracing: bool = False) -> None:
        self.random = Random(seed)
        self.now_s = 0.0
        self.steps = 0
        self.tracing = tracing
        self.trace: list[str] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def wall_ms(self) -> int:
        return WALL_AT_ZERO_MS + int(self.now_s * 1000)

    def after(self, delay_s: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now_s + delay_s, self._count, action))

    def run(self, until_s: float, *, enough: Callable[[], bool] | None = None) -> None:
        """Everything due by `until_s`, which is then the time, unless it was enough before."""
        queue = self._queue
        while queue and queue[0][0] <= until_s:
            self.now_s, _, action = heapq.heappop(queue)
            self.steps += 1
            action()
            if self.steps > STEPS_MAX:
                raise UnsettledError(f"{self.steps} steps, {self.now_s:.0f} s")
            if enough is not None and self.steps % 16 == 0 and enough():
                return
        self.now_s = max(self.now_s, until_s)

    def note(self, who: str, what: object) -> None:
        if self.tracing:
            self.trace.append(f"{self.now_s:12.3f} {who:8} {what}")
