"""What the herder's thread has not looked at yet."""

from __future__ import annotations

import threading
from collections import deque

from connect_runtime.core.herder import events, requests


class Inbox:
    """Any thread posts, one takes. Invariant: at most `requests.QUEUE_MAX` of askers, and one of
    each wish for other task configs, wait here; the rest is as much as was written and runs."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: deque[events.Event] = deque()
        self._asked = 0
        self._wishes: set[str] = set()
        self._woken = False
        self._closed = False

    def post(self, event: events.Event) -> bool:
        """False: it is closed, and nobody will look. Raises `QueueFull` for an asker's."""
        with self._changed:
            if self._closed:
                return False
            if isinstance(event, events.Submitted):
                if self._asked >= requests.QUEUE_MAX:
                    raise requests.QueueFull(f"{self._asked} requests wait")
                self._asked += 1
            if isinstance(event, events.ReconfigurationWanted):
                if event.connector in self._wishes:
                    return True
                self._wishes.add(event.connector)
            self._events.append(event)
            self._changed.notify_all()
        return True

    def wake(self) -> None:
        """There is something to see elsewhere."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def take_all(self) -> list[events.Event]:
        """Without waiting, in the order in which they came."""
        with self._changed:
            taken, self._events = list(self._events), deque()
            self._asked, self._woken = 0, False
            self._wishes.clear()
            return taken

    def wait(self, timeout_s: float) -> None:
        """Until something comes, or time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._woken, timeout=max(0.0, timeout_s))

    def close(self) -> None:
        """Take no more. What is there already can still be taken: a herder that was slow to end
        must yet learn that it was to."""
        with self._changed:
            self._closed = True
