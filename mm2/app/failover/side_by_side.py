"""Work on many partitions at once, on a bounded number of threads, each with connections of its
own."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.system import threads
from mm2.pipeline import single_questions

K = TypeVar("K")
T = TypeVar("T")

AT_ONCE = 8
TURN_S = 0.2
_CLOSE_S = 50.0
"""A request that was sent is waited for."""

Connect = Callable[[], single_questions.SingleQuestions]


def run(
    work: Callable[[single_questions.SingleQuestions, K], T],
    items: Iterable[K],
    *,
    connect: Connect,
    clock: base_clock.Clock,
    timeout_s: float,
) -> dict[K, T]:
    """What became of each. What raises `RetriableError` is tried again, that one alone, until time
    is up: then that is raised, as every other error is at once."""
    crew = _Crew(work, list(items), connect=connect, clock=clock, end_s=clock.now_s() + timeout_s)
    ends: list[threads.UnaskedEnd] = []
    owned = threads.Threads(on_unasked_end=ends.append)
    try:
        running = [owned.start(f"partitions {n}", crew.body) for n in range(crew.size)]
        while any(each.alive for each in running) and not any(each.error for each in ends):
            running[0].join(TURN_S)
            running = [each for each in running if each.alive] or running[:1]
    finally:
        owned.stop_all(_CLOSE_S)
    failure = next((each.error for each in ends if each.error is not None), None)
    if failure is not None:
        raise failure
    return crew.done


class _Crew(Generic[K, T]):
    """`done` is written by several threads, an item by one of them."""

    def __init__(
        self,
        work: Callable[[single_questions.SingleQuestions, K], T],
        items: list[K],
        *,
        connect: Connect,
        clock: base_clock.Clock,
        end_s: float,
    ) -> None:
        self._work = work
        self._waiting: queue.SimpleQueue[K] = queue.SimpleQueue()
        for each in items:
            self._waiting.put(each)
        self._connect = connect
        self._clock = clock
        self._end_s = end_s
        self.size = min(AT_ONCE, len(items))
        self.done: dict[K, T] = {}

    def body(self, stop: threading.Event) -> None:
        with self._connect() as questions:
            while not stop.is_set():
                try:
                    item = self._waiting.get_nowait()
                except queue.Empty:
                    return
                self.done[item] = self._patiently(item, questions, stop)

    def _patiently(
        self, item: K, questions: single_questions.SingleQuestions, stop: threading.Event
    ) -> T:
        while True:
            try:
                return self._work(questions, item)
            except errors.RetriableError:
                if self._clock.now_s() >= self._end_s or stop.wait(TURN_S):
                    raise
