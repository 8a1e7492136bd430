"""Runs a function for many partitions in threads, with one deadline (`PartitionThreadPool`).

Each thread has its own connections. An item that fails with a transient error is retried after the
queued items.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import RetriableError
from connect_runtime.system.supervised_threads import (
    StoppableThread,
    ThreadGroup,
    UnexpectedThreadEnd,
)
from mm2.copier.blocking_client import BlockingClient

K = TypeVar("K")
T = TypeVar("T")

MAX_THREADS = 8
POLL_INTERVAL_S = 0.2
PROGRESS_INTERVAL_S = 5.0
_CLOSE_TIMEOUT_S = 50.0
"""Maximum time in seconds that closing the pool waits for requests in flight."""

ConnectClient = Callable[[], BlockingClient]
PartitionWork = Callable[[BlockingClient, K, Deadline], T]
"""Function that processes one item of the pool. Long operations must check the deadline."""
ReportProgress = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class PoolResult(Generic[K, T]):
    """Result of a pool run: each item is either in `done` or in `unfinished`."""

    done: Mapping[K, T] = field(default_factory=dict)
    unfinished: Mapping[K, str] = field(default_factory=dict)
    """Last error of each unfinished item, or "" if the item was not attempted."""

    def __str__(self) -> str:
        """Describe how many items are done, and the first error."""
        all_of_them = plurals.format_count(
            len(self.done) + len(self.unfinished), "partition", "are"
        )
        count = f"{len(self.done):,} of {all_of_them} done"
        why = next((f"; {item}: {why}" for item, why in self.unfinished.items() if why), "")
        return count + why


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionThreadPool:
    """Runs a function for many items, in threads with their own connections."""

    connect: ConnectClient
    clock: Clock
    activity: str = ""
    """Name of the activity, printed in progress lines."""
    report_progress: ReportProgress = lambda _: None

    def process_items(
        self, work: PartitionWork[K, T], items: Collection[K], *, timeout_s: float
    ) -> PoolResult[K, T]:
        """Process items until all are done or the deadline expires.

        An item that fails with `RetriableError` is retried after the queued items; any other error
        stops processing and is raised.
        """
        end = Deadline.after(timeout_s, now_s=self.clock.now_s())
        shared = _PoolQueue(work, items, end=end, connect=self.connect, clock=self.clock)
        ends: list[UnexpectedThreadEnd] = []
        owned = ThreadGroup(on_unexpected_end=ends.append)
        try:
            size = min(MAX_THREADS, len(items))
            running = [
                owned.start(f"partitions {n}", shared.run_worker_thread) for n in range(size)
            ]
            self._report_progress(running, shared, ends)
        finally:
            owned.stop_all(_CLOSE_TIMEOUT_S)
        failure = next((each.error for each in ends if each.error is not None), None)
        if failure is not None:
            raise failure
        left = {item: shared.failed.get(item, "") for item in items if item not in shared.done}
        return PoolResult(shared.done, left)

    def _report_progress(
        self,
        running: list[StoppableThread],
        shared: _PoolQueue[K, T],
        ends: list[UnexpectedThreadEnd],
    ) -> None:
        told_s = self.clock.now_s()
        while any(each.is_alive for each in running) and not any(each.error for each in ends):
            next(each for each in running if each.is_alive).join(POLL_INTERVAL_S)
            if self.clock.now_s() - told_s >= PROGRESS_INTERVAL_S:
                told_s = self.clock.now_s()
                all_of_them = plurals.format_count(shared.count, "partition")
                self.report_progress(f"{self.activity}: {len(shared.done):,} of {all_of_them}")


class _PoolQueue(Generic[K, T]):
    """Queue of items shared by the pool's threads. An item is never processed by two threads at the
    same time; an item that failed is queued again."""

    def __init__(
        self,
        work: PartitionWork[K, T],
        items: Collection[K],
        *,
        end: Deadline,
        connect: ConnectClient,
        clock: Clock,
    ) -> None:
        self._work = work
        self._end = end
        self._connect = connect
        self._clock = clock
        self._waiting: queue.SimpleQueue[K] = queue.SimpleQueue()
        for each in items:
            self._waiting.put(each)
        self.count = len(items)
        self.done: dict[K, T] = {}
        self.failed: dict[K, str] = {}

    def run_worker_thread(self, stop: threading.Event) -> None:
        """Process queued items until the queue is empty, the deadline expires, or `stop` is set."""
        with self._connect() as questions:
            while not stop.is_set() and not self._is_expired:
                try:
                    item = self._waiting.get_nowait()
                except queue.Empty:
                    return
                self._process_item(item, questions, stop)

    @property
    def _is_expired(self) -> bool:
        return self._end.is_expired(self._clock.now_s())

    def _process_item(self, item: K, questions: BlockingClient, stop: threading.Event) -> None:
        try:
            self.done[item] = self._work(questions, item, self._end)
        except RetriableError as error:
            if item in self.failed and stop.wait(POLL_INTERVAL_S):
                return
            self.failed[item] = str(error)
            self._waiting.put(item)
