"""Engine that runs copy processes as threads of the driver, for tests and for small machines
without Java.

All copy processes share one interpreter, and therefore one core. A thread cannot be killed: after
`cancel`, a running copy process ends only when the driver closes its channel.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2.copier import copy_engine
from mm2.copier.copy_engine import CopyJob, CopyState, CopyStateTracker, EngineState, SlotUsage

INLINE_SLOTS = 64

_CANCELLED_REASON = "cancelled"
_STOPPED_REASON = "the engine has stopped"


class InlineCopy:
    """Handle to a copy process that runs on a thread of the driver."""

    def __init__(self, copy: CopyJob) -> None:
        self.copy = copy
        self.progress = CopyStateTracker()

    @property
    def state(self) -> CopyState:
        return self.progress.state

    @property
    def error(self) -> str | None:
        return self.progress.error

    def cancel(self) -> None:
        """Cancel a copy process that is waiting for a slot. A running copy process ends only when
        its control channel is closed."""
        if self.state is CopyState.WAITING_FOR_SLOT:
            self.progress.set_ended(_CANCELLED_REASON)

    def wait(self, timeout_s: float) -> bool:
        return self.progress.wait(timeout_s)

    def run(self, stop: threading.Event) -> None:
        """Run the copy process until it ends. This is the body of the thread."""
        try:
            copy_engine.resolve_entry_point(self.copy.entry)(self.copy.address, self.copy.token, 0)
        except Exception as error:  # noqa: BLE001 - reported by the handle, as on Spark
            self.progress.set_ended(f"{type(error).__name__}: {error}")
        else:
            self.progress.set_ended(None)
        finally:
            stop.set()


class InlineEngine:
    """Copy engine that runs each copy process on a thread of the driver process."""

    def __init__(self, *, clock: Clock, slots: int = INLINE_SLOTS) -> None:
        self._now = clock
        self._slots = slots
        self._state = EngineState.STARTING
        self._lock = threading.Lock()
        self._waiting: list[InlineCopy] = []
        self._running: list[InlineCopy] = []
        self._numbers = itertools.count(1)
        self._threads = ThreadGroup(on_unexpected_end=_ignore_thread_end)

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def is_warm(self) -> bool:
        return self._state is EngineState.READY

    @property
    def failure(self) -> str | None:
        return None

    def open(self) -> None:
        with self._lock:
            self._state = EngineState.READY
        self._start_waiting_copies()

    def start(self, job: CopyJob) -> InlineCopy:
        copy = InlineCopy(job)
        with self._lock:
            if self._state is EngineState.STOPPED:
                copy.progress.set_ended(_STOPPED_REASON)
            else:
                self._waiting.append(copy)
        self._start_waiting_copies()
        return copy

    def get_slot_usage(self) -> SlotUsage:
        with self._lock:
            waiting = [copy for copy in self._waiting if copy.state is not CopyState.ENDED]
            return SlotUsage(total=self._slots, used=len(self._running), waiting=len(waiting))

    def stop(self, deadline_s: float) -> None:
        """Wait until all copy processes have ended. Their control channels must already be
        closed."""
        end = Deadline.after(deadline_s, now_s=self._now.now_s())
        with self._lock:
            self._state = EngineState.STOPPED
            waiting, self._waiting = self._waiting, []
            running = list(self._running)
        for copy in waiting:
            copy.progress.set_ended(_STOPPED_REASON)
        for copy in running:
            copy.wait(end.remaining_s(self._now.now_s()))
        self._threads.stop_all(end.remaining_s(self._now.now_s()))

    def _start_waiting_copies(self) -> None:
        """Start waiting copy processes on free slots, oldest first."""
        with self._lock:
            if self._state is not EngineState.READY:
                return
            while self._waiting and len(self._running) < self._slots:
                copy = self._waiting.pop(0)
                if copy.state is CopyState.ENDED:
                    continue
                copy.progress.set_running()
                self._running.append(copy)
                name = f"copy {next(self._numbers)} {copy.copy.description}"
                self._threads.start(name, self._build_thread_body(copy))

    def _build_thread_body(self, copy: InlineCopy) -> Callable[[threading.Event], None]:
        def run_thread_body(stop: threading.Event) -> None:
            copy.run(stop)
            with self._lock:
                self._running.remove(copy)
            self._start_waiting_copies()

        return run_thread_body


def _ignore_thread_end(_end: UnexpectedThreadEnd) -> None:
    """Do nothing when a thread ends unexpectedly, because the handle of its copy process has
    already reported the failure."""
