"""Every thread of the product is started, named, watched and joined here.

A thread is owned: whoever started it stops and joins it. One that ends before it was asked to,
with an exception or without, is an error and is reported to the owner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from connect_runtime.base import deadline, log_context
from connect_runtime.system import clock


@dataclass(frozen=True, slots=True, kw_only=True)
class UnaskedEnd:
    """A thread ended although nobody had asked it to. `error` is None when it just returned."""

    name: str
    error: BaseException | None


class OwnedThread:
    """One running thread and the way to end it.

    The body gets `stop`, an event: it returns soon after it is set. `failure` is what it raised.
    What it logs is of the flow that it was started for.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[threading.Event], None],
        *,
        on_unasked_end: Callable[[UnaskedEnd], None],
    ) -> None:
        self.name = name
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self._body = body
        self._on_unasked_end = on_unasked_end
        self._logging = log_context.of_flow()
        # A thread that cannot be stopped must not keep a dying process alive: daemon, but joined.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; False when it still runs after `timeout_s`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with self._logging:
                self._body(self.stop)
        except BaseException as error:  # noqa: BLE001 - the owner is told, and decides
            self.failure = error
        if self.failure is not None or not self.stop.is_set():
            self._on_unasked_end(UnaskedEnd(name=self.name, error=self.failure))


@dataclass(slots=True, kw_only=True)
class Threads:
    """The threads of one owner. `on_unasked_end` runs on the ending thread: post an event, no more.

    A body that raises after it was asked to stop is reported too: errors at the end are errors.
    """

    on_unasked_end: Callable[[UnaskedEnd], None]
    _owned: list[OwnedThread] = field(default_factory=list)

    def start(self, name: str, body: Callable[[threading.Event], None]) -> OwnedThread:
        self._owned = [thread for thread in self._owned if thread.alive]
        thread = OwnedThread(name, body, on_unasked_end=self.on_unasked_end)
        self._owned.append(thread)
        return thread

    def stop_all(self, timeout_s: float) -> list[str]:
        """Ask all to stop, wait `timeout_s` for all together; returns who still runs."""
        for thread in self._owned:
            thread.stop.set()
        now_s = clock.SystemClock().now_s
        end = deadline.Deadline.after(timeout_s, now_s=now_s())
        for thread in self._owned:
            thread.join(end.left_s(now_s()))
        self._owned = [thread for thread in self._owned if thread.alive]
        return [thread.name for thread in self._owned]
