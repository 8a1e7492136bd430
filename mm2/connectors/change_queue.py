"""Changes on their way to a running flow, in order: from any thread to the flow's own."""

from __future__ import annotations

import queue

from connect_runtime.base import errors
from mm2.connectors import flow_changes

CHANGES_MAX = 16


class ChangeQueue:
    """Any thread may `put`; the rest is the flow's own thread's.

    Invariant: what was postponed comes before all that was put after it.
    """

    def __init__(self) -> None:
        self._queue: queue.Queue[flow_changes.Change] = queue.Queue(CHANGES_MAX)
        self._postponed: flow_changes.Change | None = None

    def put(self, change: flow_changes.Change) -> None:
        """Raises `RetriableError` while `CHANGES_MAX` earlier ones wait."""
        try:
            self._queue.put_nowait(change)
        except queue.Full:
            text = f"{CHANGES_MAX} earlier changes have not been taken up yet"
            raise errors.RetriableError(text) from None

    def take(self) -> flow_changes.Change | None:
        """The next one, None for none."""
        change, self._postponed = self._postponed, None
        if change is not None:
            return change
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None

    def postpone(self, change: flow_changes.Change) -> None:
        """What was taken cannot be carried out yet: it comes again next."""
        self._postponed = change

    @property
    def empty(self) -> bool:
        return self._queue.empty() and self._postponed is None

    def close(self) -> None:
        """Nobody will take the rest: what is open in it is closed."""
        while (change := self.take()) is not None:
            if isinstance(change, flow_changes.Adopt):
                change.connector.close()
