"""Stop signals: the first asks for an orderly end, the second means now."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """While entered, SIGTERM and SIGINT set `asked`; another one ends the process (128 + number).

    Main thread only (Python delivers signals there). `wake`, if given, is called from the handler
    to get a loop out of its wait: it must be short and must not take locks.
    """

    def __init__(
        self,
        *,
        wake: Callable[[], None] | None = None,
        exit_now: Callable[[int], object] = os._exit,
    ) -> None:
        self.asked = threading.Event()
        self.signal_number: int | None = None
        self._wake = wake
        self._exit_now = exit_now
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in STOP_SIGNALS:
            self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        while self._previous:
            number, previous = self._previous.popitem()
            signal.signal(number, previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            self._exit_now(128 + number)
            return
        self.signal_number = number
        self.asked.set()
        if self._wake is not None:
            self._wake()
