"""Where a log ends now, asked once for all who want to know at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline as base_deadline
from connect_runtime.base import errors

Ends = Mapping[int, int]


class LogEnds:
    """Hundreds of tasks that start at once ask for the same ends: they share questions.

    Nobody is given the answer to a question that was under way when it asked: what it waits for
    may have been written behind that.
    """

    def __init__(
        self, ask: Callable[[base_deadline.Deadline], Ends], *, clock: base_clock.Clock
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._changed = threading.Condition()
        self._begun = 0
        self._under_way = False
        self._answered = 0
        self._ends: Ends = {}

    def now(self, end: base_deadline.Deadline) -> Ends:
        """Raises what asking raises, `RetriableError` when time is up."""
        with self._changed:
            wanted = self._begun + 1
            self._changed.wait_for(
                lambda: self._answered >= wanted or not self._under_way,
                timeout=end.left_s(self._clock.now_s()),
            )
            if self._answered >= wanted:
                return self._ends
            if self._under_way:
                raise errors.RetriableError("asking for the end of a log: another question hangs")
            self._under_way = True
            self._begun += 1
        ends: Ends | None = None
        try:
            ends = self._ask(end)
        finally:
            with self._changed:
                self._under_way = False
                if ends is not None:
                    self._answered, self._ends = self._begun, ends
                self._changed.notify_all()
        return ends
