"""The selector loop that every socket of one process shares; what they say is not its business."""

from __future__ import annotations

import selectors
from collections.abc import Callable
from typing import Protocol

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE

Handler = Callable[[int], None]


class HasFileno(Protocol):
    def fileno(self) -> int: ...


class Poller:
    """Waits for many file objects and calls each one's handler with its ready mask (READ | WRITE).

    One thread owns a poller. A handler may register, modify and unregister any source, also its
    own.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, source: HasFileno, interest: int, *, handler: Handler) -> None:
        self._selector.register(source, interest, handler)

    def modify(self, source: HasFileno, interest: int) -> None:
        key = self._selector.get_key(source)
        if key.events != interest:
            self._selector.modify(source, interest, key.data)

    def unregister(self, source: HasFileno) -> None:
        self._selector.unregister(source)

    def poll(self, timeout_s: float, *, woken: Callable[[], None] | None = None) -> int:
        """Wait `timeout_s` at most, run the handlers of what is ready; returns how many ran.

        `woken` is called in between: only up to there was there nothing to do.
        """
        ran = 0
        ready = self._selector.select(max(0.0, timeout_s))
        if woken is not None:
            woken()
        for key, mask in ready:
            if self._selector.get_map().get(key.fd) is not key:
                continue  # an earlier handler of this round unregistered or replaced it
            key.data(mask)
            ran += 1
        return ran

    def close(self) -> None:
        self._selector.close()
