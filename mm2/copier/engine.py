"""Port `CopyEngine`: starts copies as Spark tasks, or as threads of the driver (`inline`).

An engine starts a copy, reports whether it runs or waits for a slot, and when it has ended. It
neither restarts copies nor knows what they do: configuration, progress and graceful stop travel
over the control channel.
"""

from __future__ import annotations

import enum
import importlib
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

COPY_ENTRY = "mm2.copier.copy_process:run"
"""The function that every copy runs, as `module:function`, called with the channel's address (str),
the channel's token (bytes) and the attempt number (int)."""

CopyEntry = Callable[[str, bytes, int], object]


def resolve_entry(entry: str) -> CopyEntry:
    """The function that `module:function` names. Raises ImportError or AttributeError."""
    module, _, function = entry.partition(":")
    resolved: CopyEntry = getattr(importlib.import_module(module), function)
    return resolved


class CopyState(enum.Enum):
    """A copy is RUNNING only once its engine runs it; before, it waits, for whatever reason."""

    WAITING_FOR_SLOT = "WAITING_FOR_SLOT"
    RUNNING = "RUNNING"
    ENDED = "ENDED"


class EngineState(enum.Enum):
    """STARTING also before it was asked to start; FAILED and STOPPED are final."""

    STARTING = "STARTING"
    READY = "READY"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob:
    """One copy to run. `address` and `token` name its control channel and travel to it; nothing
    else about it does.

    `flow` and `index` make the name that operators see, in Spark's UI too: `east->west task 3`.
    """

    flow: str
    index: int
    address: str
    token: bytes = field(repr=False)
    entry: str = COPY_ENTRY

    @property
    def description(self) -> str:
        return f"{self.flow} task {self.index}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotUsage:
    """Task slots as the engine sees them now. `waiting` copies have none.

    `total` is 0 while an engine that must ask a cluster has no answer yet.
    """

    total: int
    used: int
    waiting: int

    @property
    def missing(self) -> int:
        """How many slots the cluster lacks for everything to run."""
        return max(0, self.waiting - max(0, self.total - self.used))


class CopyHandle(Protocol):
    """One started copy. Safe to ask from any thread."""

    @property
    def state(self) -> CopyState: ...

    @property
    def error(self) -> str | None:
        """Why it ended, when it did not end by itself and in order; final once ENDED."""

    def cancel(self) -> None:
        """End it without asking it: the last resort, and idempotent. It may be killed."""

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ENDED; False when `timeout_s` have passed."""


class CopyEngine(Protocol):
    """Safe to use from any thread."""

    @property
    def state(self) -> EngineState: ...

    @property
    def warm(self) -> bool:
        """READY, and a copy that is started now runs soon: what its process needs is loaded."""

    @property
    def failure(self) -> str | None:
        """Why the engine FAILED: every copy has ended then, and no new one starts."""

    def open(self) -> None:
        """Begin to start, in the background; returns at once. Copies may be started meanwhile."""

    def start(self, job: CopyJob) -> CopyHandle:
        """Run a copy as soon as the engine is ready and has a slot. Never raises for the copy's
        own failures: the handle carries them."""

    def slots(self) -> SlotUsage: ...

    def stop(self, deadline_s: float) -> None:
        """End what still runs and release everything within about `deadline_s` seconds."""


class CopyProgress:
    """The state behind a handle: moves only forward, and the first error stands."""

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

    def running(self) -> None:
        with self._lock:
            if self._state is CopyState.WAITING_FOR_SLOT:
                self._state = CopyState.RUNNING

    def ended(self, error: str | None) -> bool:
        """Returns whether this call ended it."""
        with self._lock:
            if self._state is CopyState.ENDED:
                return False
            self._error = error
            self._state = CopyState.ENDED
        self._ended.set()
        return True

    def wait(self, timeout_s: float) -> bool:
        return self._ended.wait(timeout_s)
