"""When calls must have ended: a heap, and the bound on how many may wait at once."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator

from connect_runtime.wire.connection import calls


class Deadlines:
    """Invariant: every call that was added and still waits is in `_heap`."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._heap: list[tuple[float, int, calls.Call]] = []
        self._order = itertools.count()

    def __len__(self) -> int:
        """Calls that wait; at times some that no longer do are counted too."""
        return len(self._heap)

    def add(self, call: calls.Call) -> bool:
        """False: so many calls wait already that this one may not."""
        if len(self._heap) >= self._waiting_max:
            self._heap = [entry for entry in self._heap if entry[2].waiting]
            heapq.heapify(self._heap)
        if len(self._heap) >= self._waiting_max:
            return False
        heapq.heappush(self._heap, (call.deadline_s, next(self._order), call))
        return True

    @property
    def due_s(self) -> float:
        """The earliest deadline (monotonic seconds), infinity for none."""
        return self._heap[0][0] if self._heap else math.inf

    def late(self, now_s: float) -> Iterator[calls.Call]:
        """Take out the calls that wait in vain; others may be added meanwhile."""
        while self._heap and (self._heap[0][0] <= now_s or not self._heap[0][2].waiting):
            _, _, call = heapq.heappop(self._heap)
            if call.waiting:
                yield call
