"""Handles stop and reload signals.

The first SIGTERM or SIGINT requests an orderly stop, the second ends the process at once.
SIGHUP requests a reload of the configuration.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class SignalFlag:
    """What handlers of signals set, and others look at now and then.

    An event would not do: its lock may be held where the handler interrupts, which then waits for
    itself.
    """

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set

    def clear(self) -> None:
        self._is_set = False


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
        self.asked = SignalFlag()
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


class ReloadSignal:
    """While entered, SIGHUP sets `asked`, as daemons have it.

    A process that was started from a terminal also gets it when that goes away: then it is told to
    stop (SIGTERM), unless it was started to outlive its terminal (`nohup`). Main thread only.
    """

    def __init__(self) -> None:
        self.asked = SignalFlag()
        self._previous: Any = None
        self._had_terminal = _has_terminal()

    def __enter__(self) -> ReloadSignal:
        self._previous = signal.signal(signal.SIGHUP, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGHUP, self._previous)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._had_terminal or _has_terminal():
            self.asked.set()
        elif self._previous is not signal.SIG_IGN:
            os.kill(os.getpid(), signal.SIGTERM)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
