"""Interface `CopyEngine`: starts copy processes as Spark tasks, or as threads of the driver
(`inline`).

An engine starts a copy process and reports whether it runs, waits for a slot, or has ended. It
neither restarts copy processes nor knows what they do: configuration, progress and graceful stop
use the control channel.
"""

from __future__ import annotations

import enum
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

COPY_ENTRY = "mm2.copier.copy_process:run"
"""The function that every copy process runs, as `module:function`. Arguments: address of the
channel (str), token of the channel (bytes), attempt number (int).
"""

CopyEntry = Callable[[str, bytes, int], object]


def resolve_entry(entry: str) -> CopyEntry:
    """Import the function named `module:function`. Raises ImportError or AttributeError."""
    module, _, function = entry.partition(":")
    resolved: CopyEntry = getattr(importlib.import_module(module), function)
    return resolved


class CopyState(enum.Enum):
    """RUNNING once the engine runs the copy process; before, WAITING_FOR_SLOT."""

    WAITING_FOR_SLOT = "WAITING_FOR_SLOT"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


class EngineState(enum.Enum):
    """STARTING also before `open`; FAILED and STOPPED are final."""

    STARTING = "STARTING"
    READY = "READY"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob:
    """A copy process to run."""

    flow: str
    """With `index`, the name that operators see, also in Spark's UI: `east->west task 3`."""
    index: int
    address: str
    """Address of the control channel. Only the address and the token are passed to the process."""
    token: bytes = field(repr=False)
    entry: str = COPY_ENTRY

    @property
    def description(self) -> str:
        return f"{self.flow} task {self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUsage:
    """Task slots of the engine now."""

    total: int
    """0 while the number of slots of a cluster is unknown."""
    used: int
    waiting: int
    """Copy processes without a slot."""

    @property
    def missing(self) -> int:
        """Number of additional slots needed to run all copy processes."""
        return max(0, self.waiting - max(0, self.total - self.used))


class CopyHandle(Protocol):
    """Handle of one started copy process. Thread-safe."""

    @property
    def state(self) -> CopyState: ...

    @property
    def error(self) -> str | None:
        """Why the copy process failed, None if it ended normally; final once it has ENDED."""

    def cancel(self) -> None:
        """Abort without a graceful stop; the process may be killed. Idempotent."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ENDED; False after `timeout_s`."""


class CopyEngine(Protocol):
    """Runs copy processes. Thread-safe."""

    @property
    def state(self) -> EngineState: ...

    @property
    def is_warm(self) -> bool:
        """True if READY and the modules of a copy process are loaded, so that it starts quickly."""

    @property
    def failure(self) -> str | None:
        """Why the engine FAILED. All copy processes have ended then, and no new one starts."""

    def open(self) -> None:
        """Start the engine in the background. Copies may be submitted before it is ready."""

    def start(self, job: CopyJob) -> CopyHandle:
        """Run a copy process as soon as the engine is ready and has a slot.

        Never raises for a failure of the copy process: the handle reports it.
        """

    def get_slot_usage(self) -> SlotUsage: ...

    def stop(self, deadline_s: float) -> None:
        """Stop all copy processes and release all resources within about `deadline_s` seconds."""


class CopyProgress:
    """State of a copy process behind its handle. States only advance, and only the first error
    counts.
    """

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
        """Record the end; return True if this call was the first."""
        with self._lock:
            if self._state is CopyState.ENDED:
                return False
            self._error = error
            self._state = CopyState.ENDED
        self._ended.set()
        return True

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)
