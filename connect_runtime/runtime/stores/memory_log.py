"""A log that is nobody else's and ends with the process: standalone's config and status.

Nothing is kept: whoever listens has heard it.
"""

from __future__ import annotations

import threading

from connect_runtime.base import errors
from connect_runtime.ports import shared_log


class MemoryLog:
    """Implements `shared_log.SharedLog`. The listener hears a record on the thread that sends it:
    whoever sends while he holds a lock that the listener wants must hold it whenever he sends."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()
        self._next_offset = 0
        self._listener: shared_log.Listener | None = None

    @property
    def name(self) -> str:
        """See `shared_log.SharedLog`; so for all below."""
        return self._name

    def start(self, listener: shared_log.Listener, timeout_s: float) -> None:
        del timeout_s  # there is nothing to wait for
        with self._lock:
            self._listener = listener
            listener.on_replayed()

    def send(self, record: shared_log.Record, *, on_recorded: shared_log.OnRecorded) -> None:
        with self._lock:
            if self._listener is None:
                raise errors.FatalError(f"writing to {self._name}: the log was stopped")
            offset = self._next_offset
            self._next_offset += 1
            self._listener.on_record(
                shared_log.LogRecord(
                    topic=self._name, partition=0, offset=offset, key=record.key, value=record.value
                )
            )
        on_recorded(None)

    def read_to_end(self, timeout_s: float) -> None:
        """What was sent was heard."""

    def stop(self, timeout_s: float) -> None:
        with self._lock:
            self._listener = None
