"""Who waits for an answer of the herder, by ticket."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable
from concurrent import futures
from typing import cast

from connect_runtime.core.herder import requests
from connect_runtime.ports import herder as port

CLOSED = requests.Refused(500, "Worker is shutting down")


class Tickets:
    """Any thread. Every future is answered once; a second answer is dropped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, futures.Future[port.Reply]] = {}

    def issue(self) -> tuple[int, futures.Future[port.Reply]]:
        future: futures.Future[port.Reply] = futures.Future()
        future.set_running_or_notify_cancel()  # who gives up on it must not get in the way
        with self._lock:
            ticket = next(self._numbers)
            self._waiting[ticket] = future
        return ticket, future

    def answer(self, ticket: int, reply: port.Reply) -> None:
        future = self._take(ticket)
        if future is not None:
            future.set_result(reply)

    def fail(self, ticket: int, error: BaseException) -> None:
        future = self._take(ticket)
        if future is not None:
            future.set_exception(error)

    def settle(self, ticket: int, outcome: futures.Future[object]) -> None:
        """Answer with what comes of this, a reply."""

        def done(future: futures.Future[object]) -> None:
            error = future.exception()
            if error is not None:
                self.fail(ticket, error)
            else:
                self.answer(ticket, cast("port.Reply", future.result()))

        outcome.add_done_callback(done)

    def fail_with(self, ticket: int, outcome: futures.Future[object]) -> None:
        """Should this fail, then so does the ticket."""

        def done(future: futures.Future[object]) -> None:
            error = future.exception()
            if error is not None:
                self.fail(ticket, error)

        outcome.add_done_callback(done)

    def refuse_all(self, reply: requests.Refused) -> None:
        """Nobody will look any more."""
        with self._lock:
            waiting: Iterable[int] = list(self._waiting)
        for ticket in waiting:
            self.answer(ticket, reply)

    def _take(self, ticket: int) -> futures.Future[port.Reply] | None:
        with self._lock:
            return self._waiting.pop(ticket, None)
