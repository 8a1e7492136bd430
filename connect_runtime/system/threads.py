"""Starts, names, supervises and joins all threads; thread pools, pending work and cached values.

Whoever starts a thread stops and joins it. A thread that ends before it was asked to, with or
without an exception, is an error and is reported to its owner.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from connect_runtime.base import log_context
from connect_runtime.base.errors import RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.system.clock import SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadDied:
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
        on_unasked_end: Callable[[ThreadDied], None],
    ) -> None:
        self.name = name
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        self._body = body
        self._on_unasked_end = on_unasked_end
        self._logging = log_context.bind_current_flow()
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
            self._on_unasked_end(ThreadDied(name=self.name, error=self.failure))


@dataclass(slots=True, kw_only=True)
class ThreadGroup:
    """The threads of one owner. `on_unasked_end` runs on the ending thread: post an event, no more.

    A body that raises after it was asked to stop is reported too: errors at the end are errors.
    """

    on_unasked_end: Callable[[ThreadDied], None]
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
        now_s = SystemClock().now_s
        end = Deadline.after(timeout_s, now_s=now_s())
        for thread in self._owned:
            thread.join(end.left_s(now_s()))
        self._owned = [thread for thread in self._owned if thread.alive]
        return [thread.name for thread in self._owned]


T = TypeVar("T")
_IDLE_TIMEOUT_S = 5.0


class ThreadPoolFull(RetriableError):
    """So many calls run and wait that another would only wait in vain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PooledCall:
    run: Callable[[], Any] = field(repr=False)
    future: futures.Future[Any]

    def make(self) -> None:
        try:
            result = self.run()
        except BaseException as error:  # noqa: BLE001 - whoever asked is told
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class ThreadPool:
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
        self._waiting: deque[_PooledCall] = deque()
        self._threads = ThreadGroup(on_unasked_end=lambda _: None)
        self._alive = 0
        self._idle = 0
        self._made = 0
        self._closed = False

    def submit(self, run: Callable[[], T]) -> futures.Future[T]:
        """Its result, or what it raised. Raises `ThreadPoolFull`, also once the pool is stopped."""
        future: futures.Future[T] = futures.Future()
        future.set_running_or_notify_cancel()  # who gives up on it must not get in the way
        with self._changed:
            if self._closed:
                raise ThreadPoolFull(f"{self._name}: it is stopping")
            if len(self._waiting) >= self._waiting_max:
                raise ThreadPoolFull(
                    f"{self._name}: {self._alive} calls run and {len(self._waiting)} wait; try "
                    "again later"
                )
            if len(self._waiting) >= self._idle and self._alive < self._threads_max:
                self._threads.start(f"{self._name}-{self._made + 1}", self._work)
                self._alive += 1
                self._made += 1
            self._waiting.append(_PooledCall(run=run, future=future))
            self._changed.notify()
        return future

    def stop(self, timeout_s: float) -> list[str]:
        """Take no more; what waits fails, what runs may end; returns who still runs."""
        with self._changed:
            self._closed = True
            refused, self._waiting = list(self._waiting), deque()
            self._changed.notify_all()
        for call in refused:
            call.future.set_exception(ThreadPoolFull(f"{self._name}: it is stopping"))
        return self._threads.stop_all(timeout_s)

    def _work(self, stop: threading.Event) -> None:
        while not stop.is_set():
            with self._changed:
                self._idle += 1
                self._changed.wait_for(
                    lambda: self._waiting or self._closed, timeout=_IDLE_TIMEOUT_S
                )
                self._idle -= 1
                if not self._waiting:
                    self._alive -= 1
                    return
                call = self._waiting.popleft()
            call.make()


@dataclass(slots=True)
class PendingWork:
    """Any thread may begin, end and wait.

    Invariant: `_numbers` are in the order of their beginnings.
    """

    _begun: int = 0
    _numbers: dict[int, None] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __len__(self) -> int:
        return len(self._numbers)

    def begin(self) -> int:
        """A number to end it with."""
        with self._changed:
            self._begun += 1
            self._numbers[self._begun] = None
            self._changed.notify_all()
            return self._begun

    def end(self, number: int) -> None:
        with self._changed:
            self._numbers.pop(number, None)
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Until all has ended that had begun before this call; False when time is up."""
        with self._changed:
            last = self._begun
            return self._changed.wait_for(lambda: self._oldest() > last, timeout=timeout_s)

    def wait_for_some(self, timeout_s: float) -> bool:
        """Until anything is under way; False when time is up."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._numbers), timeout=timeout_s)

    def _oldest(self) -> int:
        return next(iter(self._numbers), self._begun + 1)


class CachedValue(Generic[T]):
    """Any thread may `get`; who comes while it is made waits, and has the same."""

    def __init__(self, make: Callable[[], T], *, for_s: float, clock: Clock) -> None:
        """`for_s` counts from when it was made."""
        self._make = make
        self._for_s = for_s
        self._clock = clock
        self._lock = threading.Lock()
        self._made: tuple[T, float] | None = None

    def get(self) -> T:
        """Raises what `make` raises: that is not kept."""
        with self._lock:
            if self._made is None or self._clock.now_s() >= self._made[1]:
                found = self._make()
                self._made = (found, self._clock.now_s() + self._for_s)
            return self._made[0]
