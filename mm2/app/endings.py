"""Workers of flows that were told to end, until they have: at a reload, and when all ends.

Who takes longer than a reload waits is left to itself, and not forgotten: the process waits for it
at its own end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from connect_runtime.base import clock as base_clock

TURN_S = 0.02

_log = logging.getLogger(__name__)


class Worker(Protocol):
    """`mm2.app.flow_worker.FlowWorker`."""

    @property
    def name(self) -> str: ...

    @property
    def stop_asked(self) -> threading.Event: ...

    @property
    def ended(self) -> bool: ...

    @property
    def joined(self) -> bool: ...


class Endings:
    """Used by one thread at a time."""

    def __init__(self, clock: base_clock.Clock) -> None:
        self._clock = clock
        self._ending: list[Worker] = []

    @property
    def left(self) -> Sequence[Worker]:
        """Those that have not ended yet."""
        self._ending = [each for each in self._ending if not each.ended]
        return self._ending

    def ask(self, workers: Iterable[Worker]) -> None:
        """They are to end, from now on."""
        for each in workers:
            each.stop_asked.set()
            self._ending.append(each)

    def wait(self, until_s: float) -> None:
        """For all that were asked, now or earlier; each that is late is logged, unless it never
        joined its group."""
        self.wait_for(lambda: not self.left, until_s)
        for each in self.left:
            if each.joined:
                _log.warning(
                    "%s did not stop in time: this process no longer waits for it. Whoever copies "
                    "its partitions next fences it",
                    each.name,
                )

    def wait_for(self, done: Callable[[], bool], until_s: float) -> None:
        """Until then, or until it is so."""
        waiting = threading.Event()
        while not done() and self._clock.now_s() < until_s:
            waiting.wait(TURN_S)
