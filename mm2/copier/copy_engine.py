"""Interface of engines (`CopyEngine`), which run copy processes as Spark tasks, or as threads of
the driver (`inline`).

An engine starts a copy process and reports whether it is running, is waiting for a slot, or has
ended. The engine does not restart copy processes. Configuration, progress and graceful stop use the
control channel.
"""

from __future__ import annotations

import enum
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

COPY_ENTRY = "mm2.copier.copy_process:run"
"""The function that every copy process runs, as `module:function`. Arguments: channel address
(str), channel token (bytes), attempt number (int)."""

CopyEntry = Callable[[str, bytes, int], object]


def resolve_entry_point(entry: str) -> CopyEntry:
    """Import the function named `module:function`. Raises ImportError or AttributeError."""
    module, _, function = entry.partition(":")
    resolved: CopyEntry = getattr(importlib.import_module(module), function)
    return resolved


class CopyState(enum.Enum):
    """State of a copy process: WAITING_FOR_SLOT until the engine runs the process, then RUNNING,
    then ENDED."""

    WAITING_FOR_SLOT = "WAITING_FOR_SLOT"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


class EngineState(enum.Enum):
    """State of an engine: STARTING (also before `open` is called), READY, FAILED or STOPPED. A
    FAILED or STOPPED engine cannot be started again."""

    STARTING = "STARTING"
    READY = "READY"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob:
    """Parameters of a copy process that an engine runs."""

    flow: str
    """Flow name. Shown to operators and in Spark's UI together with `index`, as in `east->west task
    3`."""
    index: int
    address: str
    """Address of the control channel. The engine passes only this address and the token to the copy
    process."""
    token: bytes = field(repr=False)
    entry: str = COPY_ENTRY

    @property
    def description(self) -> str:
        return f"{self.flow} task {self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUsage:
    """Current usage of the engine's task slots."""

    total: int
    """Total number of task slots; 0 while the Spark cluster's slot count is unknown."""
    used: int
    waiting: int
    """Number of copy processes that wait for a task slot."""

    @property
    def missing_slots(self) -> int:
        """Number of additional slots needed to run all copy processes."""
        return max(0, self.waiting - max(0, self.total - self.used))


class CopyHandle(Protocol):
    """Handle to a started copy process. Thread-safe."""

    @property
    def state(self) -> CopyState: ...

    @property
    def error(self) -> str | None:
        """Reason why the copy process failed; None if it ended normally. The value does not change
        once the state is ENDED."""

    def cancel(self) -> None:
        """Abort the copy process without a graceful stop. The process may be killed. Idempotent."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until the copy process has ended. Return False if it has not ended after
        `timeout_s`."""


class CopyEngine(Protocol):
    """Runs copy processes. Thread-safe."""

    @property
    def state(self) -> EngineState: ...

    @property
    def is_warm(self) -> bool:
        """True if the engine is READY and has loaded the modules of a copy process, so that the
        process starts quickly."""

    @property
    def failure(self) -> str | None:
        """Reason why the engine FAILED, else None. After a failure, all copy processes have ended
        and no new one starts."""

    def open(self) -> None:
        """Start the engine in the background. Copy processes may be submitted before it is
        ready."""

    def start(self, job: CopyJob) -> CopyHandle:
        """Run a copy process as soon as the engine is ready and has a free slot.

        Never raises if the copy process fails; the handle reports the failure.
        """

    def get_slot_usage(self) -> SlotUsage: ...

    def stop(self, deadline_s: float) -> None:
        """Stop all copy processes and release all resources within about `deadline_s` seconds."""


class CopyStateTracker:
    """Thread-safe state of a copy process for its `CopyHandle`. The state never returns to an
    earlier one, and only the first error is kept."""

    def __init__(self) -> None:
        self._state = CopyState.WAITING_FOR_SLOT
        self._error: str | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()

    @property
    def state(self) -> CopyState:
        return self._state

    @property
    def error(self) -> str | None:
        return self._error

    def set_running(self) -> None:
        with self._lock:
            if self._state is CopyState.WAITING_FOR_SLOT:
                self._state = CopyState.RUNNING

    def set_ended(self, error: str | None) -> bool:
        """Record that the copy process ended. Return True if this call was the first."""
        with self._lock:
            if self._state is CopyState.ENDED:
                return False
            self._error = error
            self._state = CopyState.ENDED
        self._ended.set()
        return True

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)
