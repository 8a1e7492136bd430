"""Handles stop and reload signals.

The first SIGTERM or SIGINT requests an orderly stop; the second exits immediately. SIGHUP requests
a configuration reload.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Any

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class SignalFlag:
    """A flag that signal handlers set and other code polls.

    A `threading.Event` could deadlock, because the code that the handler interrupts may hold the
    event's lock.
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
    """Context manager in which SIGTERM and SIGINT set `stop_requested`. A second signal exits with
    128 + its number.

    Main thread only, because Python runs signal handlers there. The handler calls `wake` to
    interrupt a waiting loop. `wake` must be short and must not acquire locks.
    """

    def __init__(
        self,
        *,
        wake: Callable[[], None] | None = None,
        exit_now: Callable[[int], object] = os._exit,
    ) -> None:
        self.stop_requested = SignalFlag()
        self.signal_number: int | None = None
        self._wake = wake
        self._exit_now = exit_now
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        for number in STOP_SIGNALS:
            self._previous[number] = signal.signal(number, self._handle_signal)
        return self

    def __exit__(self, *_: object) -> None:
        while self._previous:
            number, previous = self._previous.popitem()
            signal.signal(number, previous)

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if self.stop_requested.is_set():
            self._exit_now(128 + number)
            return
        self.signal_number = number
        self.stop_requested.set()
        if self._wake is not None:
            self._wake()


class ReloadSignal:
    """Context manager in which SIGHUP sets `reload_requested`, as is usual for daemons.

    A process started from a terminal also receives SIGHUP when the terminal closes. It then stops
    as after SIGTERM, unless it was started with `nohup`. Main thread only.
    """

    def __init__(self) -> None:
        self.reload_requested = SignalFlag()
        self._previous: Any = None
        self._had_terminal = _has_controlling_terminal()

    def __enter__(self) -> ReloadSignal:
        self._previous = signal.signal(signal.SIGHUP, self._handle_signal)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGHUP, self._previous)

    def _handle_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._had_terminal or _has_controlling_terminal():
            self.reload_requested.set()
        elif self._previous is not signal.SIG_IGN:
            os.kill(os.getpid(), signal.SIGTERM)


def _has_controlling_terminal() -> bool:
    """Return whether this process has a controlling terminal."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
