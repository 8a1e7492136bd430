"""A loop of a client on a thread of its own, which says at its end what went wrong."""

from __future__ import annotations

import threading
from typing import Self

from connect_runtime.base import clock as base_clock
from connect_runtime.system import clock as system_clock
from connect_runtime.system import threads
from mm2.sandbox import failures

STOP_S = 10.0


class Loop:
    """Runs `_run` from `start` to `stop`, or inside `with`. `name` and `where` are for messages."""

    def __init__(
        self,
        name: str,
        where: str,
        *,
        stop_s: float = STOP_S,
        now: base_clock.Clock | None = None,
    ) -> None:
        self._name = name
        self._where = where
        self._stop_s = stop_s
        self._clock = now or system_clock.SystemClock()
        self._failure: BaseException | None = None
        self._thread: threads.OwnedThread | None = None
        self._threads = threads.Threads(on_unasked_end=self._note_end)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.alive

    def start(self) -> None:
        self._thread = self._threads.start(f"{self._name} {self._where}", self._run)

    def stop(self) -> None:
        """End it; raises what went wrong on the way, if anything did."""
        still_there = self._threads.stop_all(self._stop_s)
        if self._failure is not None:
            raise failures.SandboxError(
                f"{self._name} on {self._where}: {self._failure}"
            ) from self._failure
        if still_there:
            raise failures.SandboxError(f"{self._name} on {self._where} did not end when asked")

    def end(self) -> None:
        """End it whatever happened, without a word: for cleaning up."""
        self._threads.stop_all(self._stop_s)

    def _run(self, stop: threading.Event) -> None:
        raise NotImplementedError

    def _note_end(self, end: threads.UnaskedEnd) -> None:
        self._failure = end.error or failures.SandboxError("it ended unasked")
