"""Starts, names, supervises and joins threads. Also contains thread pools, a counter of operations
in progress, and a thread-safe cache of one value.

The owner that starts a thread stops and joins it. If a thread ends before `stop` is set, with or
without an exception, an error is reported to the owner.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from connect_runtime.base import log_context
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import RetriableError
from connect_runtime.system.system_clock import SystemClock


@dataclass(frozen=True, slots=True, kw_only=True)
class UnexpectedThreadEnd:
    """Describes a thread that ended before its owner stopped it."""

    name: str
    error: BaseException | None
    """Exception that ended the thread; None if the thread's `body` returned without being
    stopped."""


class StoppableThread:
    """A running thread that its owner can stop.

    `body` receives the event `stop`, and must return soon after it is set. The thread's log records
    name the replication flow of the code that started the thread.
    """

    def __init__(
        self,
        name: str,
        body: Callable[[threading.Event], None],
        *,
        on_unexpected_end: Callable[[UnexpectedThreadEnd], None],
    ) -> None:
        self.name = name
        self.stop = threading.Event()
        self.failure: BaseException | None = None
        """Exception that `body` raised."""
        self._body = body
        self._on_unexpected_end = on_unexpected_end
        self._logging = log_context.bind_caller_flow_to_log_fields()
        # A daemon thread, so that a thread that hangs cannot keep the process alive.
        self._thread = threading.Thread(target=self._run_thread_body, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """True while the thread has not ended."""
        return self._thread.is_alive()

    def join(self, timeout_s: float) -> bool:
        """Wait for the thread to end. Return False if it is still running after `timeout_s`."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run_thread_body(self) -> None:
        try:
            with self._logging:
                self._body(self.stop)
        except BaseException as error:  # noqa: BLE001 - reported to the owner, who decides
            self.failure = error
        if self.failure is not None or not self.stop.is_set():
            self._on_unexpected_end(UnexpectedThreadEnd(name=self.name, error=self.failure))


@dataclass(slots=True, kw_only=True)
class ThreadGroup:
    """The threads of one owner. An exception in a thread is reported to the owner even while the
    thread is being stopped."""

    on_unexpected_end: Callable[[UnexpectedThreadEnd], None]
    """Called on a thread that ends unexpectedly, just before it ends. The callback should only post
    an event."""
    _owned: list[StoppableThread] = field(default_factory=list)

    def start(self, name: str, body: Callable[[threading.Event], None]) -> StoppableThread:
        """Start a thread that runs `body` and belongs to this group."""
        self._owned = [thread for thread in self._owned if thread.is_alive]
        thread = StoppableThread(name, body, on_unexpected_end=self.on_unexpected_end)
        self._owned.append(thread)
        return thread

    def stop_all(self, timeout_s: float) -> list[str]:
        """Stop all threads of the group, and wait for up to `timeout_s` in total. Return the names
        of threads that are still running."""
        for thread in self._owned:
            thread.stop.set()
        now_s = SystemClock().now_s
        end = Deadline.after(timeout_s, now_s=now_s())
        for thread in self._owned:
            thread.join(end.remaining_s(now_s()))
        self._owned = [thread for thread in self._owned if thread.is_alive]
        return [thread.name for thread in self._owned]


T = TypeVar("T")
_IDLE_TIMEOUT_S = 5.0


class ThreadPoolFull(RetriableError):
    """Raised if the thread pool's queue is full or the pool has been stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PooledCall:
    run: Callable[[], Any] = field(repr=False)
    future: futures.Future[Any]

    def execute(self) -> None:
        """Run the call and set the result of its future."""
        try:
            result = self.run()
        except BaseException as error:  # noqa: BLE001 - delivered through the future
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class ThreadPool:
    """Runs up to `threads_max` calls concurrently, on threads that are started on demand.

    Idle threads end after a short timeout. A hanging call keeps its thread, but does not keep the
    process alive. Thread-safe. Invariant: `_idle` threads are waiting for a call, and no call is
    queued while a thread is idle.
    """

    def __init__(self, name: str, *, threads_max: int, waiting_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._waiting_max = waiting_max
        self._changed = threading.Condition()
        self._waiting: deque[_PooledCall] = deque()
        self._threads = ThreadGroup(on_unexpected_end=lambda _: None)
        self._alive = 0
        self._idle = 0
        self._started_count = 0
        self._closed = False

    def submit(self, run: Callable[[], T]) -> futures.Future[T]:
        """Queue a call for execution. Return a future with its result or exception. Raises
        `ThreadPoolFull`."""
        future: futures.Future[T] = futures.Future()
        future.set_running_or_notify_cancel()  # callers that give up cannot cancel it
        with self._changed:
            if self._closed:
                raise ThreadPoolFull(f"{self._name}: the thread pool is stopping")
            if len(self._waiting) >= self._waiting_max:
                raise ThreadPoolFull(
                    f"{self._name}: {self._alive} calls are running and {len(self._waiting)} are "
                    "queued; try again later"
                )
            if len(self._waiting) >= self._idle and self._alive < self._threads_max:
                self._threads.start(f"{self._name}-{self._started_count + 1}", self._run_calls)
                self._alive += 1
                self._started_count += 1
            self._waiting.append(_PooledCall(run=run, future=future))
            self._changed.notify()
        return future

    def stop(self, timeout_s: float) -> list[str]:
        """Reject new calls, fail queued calls, and give running calls up to `timeout_s` to finish.
        Returns the names of the threads that are still running."""
        with self._changed:
            self._closed = True
            refused, self._waiting = list(self._waiting), deque()
            self._changed.notify_all()
        for call in refused:
            call.future.set_exception(ThreadPoolFull(f"{self._name}: the thread pool is stopping"))
        return self._threads.stop_all(timeout_s)

    def _run_calls(self, stop: threading.Event) -> None:
        """Run queued calls until the pool is stopped or the thread has been idle for
        `_IDLE_TIMEOUT_S`. This is the body of a pool thread."""
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
            call.execute()


@dataclass(slots=True)
class PendingOperations:
    """Counts operations in progress, and waits until they have finished. Thread-safe.

    Invariant: the sequence numbers in `_numbers` are in the order in which the operations began.
    """

    _begun: int = 0
    _numbers: dict[int, None] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def __len__(self) -> int:
        return len(self._numbers)

    def begin_operation(self) -> int:
        """Register the start of an operation, and return the sequence number to pass to
        `end_operation`."""
        with self._changed:
            self._begun += 1
            self._numbers[self._begun] = None
            self._changed.notify_all()
            return self._begun

    def end_operation(self, number: int) -> None:
        """Record that the operation with this sequence number has ended. Idempotent."""
        with self._changed:
            self._numbers.pop(number, None)
            self._changed.notify_all()

    def wait_for_earlier_operations(self, timeout_s: float) -> bool:
        """Wait until all operations that began before this call have ended. Return False on
        timeout."""
        with self._changed:
            last = self._begun
            return self._changed.wait_for(
                lambda: self._find_oldest_operation() > last, timeout=timeout_s
            )

    def wait_for_any_operation(self, timeout_s: float) -> bool:
        """Wait until at least one operation is in progress. Return False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: bool(self._numbers), timeout=timeout_s)

    def _find_oldest_operation(self) -> int:
        return next(iter(self._numbers), self._begun + 1)


class CachedValue(Generic[T]):
    """A value that is created on demand and cached for a limited time. Thread-safe.

    Concurrent callers of `get` wait for one creation and receive the same value.
    """

    def __init__(self, make: Callable[[], T], *, ttl_s: float, clock: Clock) -> None:
        """`ttl_s` is the time in seconds for which a value is cached after its creation."""
        self._make = make
        self._for_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: tuple[T, float] | None = None

    def get(self) -> T:
        """Return the cached value, creating it if it is missing or expired. Exceptions raised by
        `make` propagate and are not cached."""
        with self._lock:
            if self._cached is None or self._clock.now_s() >= self._cached[1]:
                found = self._make()
                self._cached = (found, self._clock.now_s() + self._for_s)
            return self._cached[0]
