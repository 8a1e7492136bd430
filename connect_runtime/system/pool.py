"""Calls that may take long, or hang for ever, on threads that nobody else waits for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, TypeVar

from connect_runtime.base import errors
from connect_runtime.system import threads

T = TypeVar("T")
_IDLE_S = 5.0


class PoolFull(errors.RetriableError):
    """So many calls run and wait that another would only wait in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    run: Callable[[], Any] = field(repr=False)
    future: futures.Future[Any]

    def make(self) -> None:
        try:
            result = self.run()
        except BaseException as error:  # noqa: BLE001 - whoever asked is told
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Pool:
    """Up to `threads_max` calls at a time, each on a thread that is made when none is free.

    A thread without work ends soon. What hangs keeps its thread, and nobody from ending: threads
    do not keep the process alive. Any thread may submit. Invariant: `_idle` threads wait for a
    call, and no call waits while one of them does.
    """

    def __init__(self, name: str, *, threads_max: int, waiting_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._waiting_max = waiting_max
        self._changed = threading.Condition()
        self._waiting: deque[_Call] = deque()
        self._threads = threads.Threads(on_unasked_end=lambda _: None)
        self._alive = 0
        self._idle = 0
        self._made = 0
        self._closed = False

    def submit(self, run: Callable[[], T]) -> futures.Future[T]:
        """Its result, or what it raised. Raises `PoolFull`, also once the pool is stopped."""
        future: futures.Future[T] = futures.Future()
        future.set_running_or_notify_cancel()  # who gives up on it must not get in the way
        with self._changed:
            if self._closed:
                raise PoolFull(f"{self._name}: it is stopping")
            if len(self._waiting) >= self._waiting_max:
                raise PoolFull(
                    f"{self._name}: {self._alive} calls run and {len(self._waiting)} wait; try "
                    "again later"
                )
            if len(self._waiting) >= self._idle and self._alive < self._threads_max:
                self._threads.start(f"{self._name}-{self._made + 1}", self._work)
                self._alive += 1
                self._made += 1
            self._waiting.append(_Call(run=run, future=future))
            self._changed.notify()
        return future

    def stop(self, timeout_s: float) -> list[str]:
        """Take no more; what waits fails, what runs may end; returns who still runs."""
        with self._changed:
            self._closed = True
            refused, self._waiting = list(self._waiting), deque()
            self._changed.notify_all()
        for call in refused:
            call.future.set_exception(PoolFull(f"{self._name}: it is stopping"))
        return self._threads.stop_all(timeout_s)

    def _work(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._changed:
                self._idle += 1
                self._changed.wait_for(lambda: self._waiting or self._closed, timeout=_IDLE_S)
                self._idle -= 1
                if not self._waiting:
                    self._alive -= 1
                    return
                call = self._waiting.popleft()
            call.make()
