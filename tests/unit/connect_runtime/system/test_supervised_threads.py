"""Waiting for what was begun before, and for nothing else."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field

import pytest

from connect_runtime.system.supervised_threads import (
    CachedValue,
    PendingOperations,
    StoppableThread,
    ThreadGroup,
    ThreadPool,
    ThreadPoolFull,
    UnexpectedThreadEnd,
)
from tests.support import eventually


@dataclass
class Clock:
    at_s: float = 50.0

    def now_s(self) -> float:
        return self.at_s

    def wall_ms(self) -> int:
        return 0


@dataclass
class Maker:
    made: int = 0
    takes_s: float = 0.0
    may_end: threading.Event = field(default_factory=threading.Event)
    broken: bool = False
    clock: Clock = field(default_factory=Clock)

    def make(self) -> int:
        if self.broken:
            raise ValueError("not now")
        self.may_end.wait(30)
        self.clock.at_s += self.takes_s
        self.made += 1
        return self.made


@pytest.fixture
def maker():
    made = Maker()
    made.may_end.set()
    yield made
    made.may_end.set()


def keeping(maker: Maker) -> CachedValue[int]:
    return CachedValue(maker.make, ttl_s=1.0, clock=maker.clock)


def test_for_a_moment_it_is_the_same_and_then_made_anew(maker):
    found = keeping(maker)
    assert found.get() == found.get() == 1
    maker.clock.at_s += 0.9
    assert found.get() == 1
    maker.clock.at_s += 0.1
    assert found.get() == 2


def test_the_moment_begins_when_it_is_made(maker):
    maker.takes_s = 20.0
    found = keeping(maker)
    assert found.get() == found.get() == 1


def test_who_comes_while_it_is_made_has_the_same(maker):
    maker.may_end.clear()
    found, asking = keeping(maker), ThreadPool("asking", threads_max=4, waiting_max=4)
    answers = [asking.submit(found.get) for _ in range(4)]
    maker.may_end.set()
    assert {each.result(20) for each in answers} == {1}
    asking.stop(1.0)


def test_what_went_wrong_is_not_kept(maker):
    found = keeping(maker)
    maker.broken = True
    with pytest.raises(ValueError, match="not now"):
        found.get()
    maker.broken = False
    assert found.get() == 1


def test_nothing_begun_is_nothing_to_wait_for():
    assert PendingOperations().wait_for_earlier_operations(0.0)


def test_what_has_not_ended_is_waited_for():
    work = PendingOperations()
    first, second = work.begin_operation(), work.begin_operation()
    work.end_operation(second)
    assert len(work) == 1
    assert not work.wait_for_earlier_operations(0.0)
    work.end_operation(first)
    assert work.wait_for_earlier_operations(0.0)
    work.end_operation(first)
    assert len(work) == 0


def test_anything_under_way_is_noticed():
    work = PendingOperations()
    assert not work.wait_for_any_operation(0.0)
    noticed: list[bool] = []
    waiter = StoppableThread(
        "waits",
        lambda _: noticed.append(work.wait_for_any_operation(10.0)),
        on_unexpected_end=lambda _: None,
    )
    number = work.begin_operation()
    assert waiter.join(10.0)
    assert noticed == [True]
    work.end_operation(number)
    assert not work.wait_for_any_operation(0.0)


def test_what_began_after_the_wait_is_not_waited_for():
    work = PendingOperations()
    before = work.begin_operation()
    waits = threading.Event()
    waited: list[bool] = []

    def wait(_: threading.Event) -> None:
        waits.set()
        waited.append(work.wait_for_earlier_operations(30.0))

    running = ThreadGroup(on_unexpected_end=lambda _: None)
    running.start("waits", wait)
    assert waits.wait(5.0)
    work.begin_operation()
    work.end_operation(before)
    eventually.eventually(lambda: waited == [True], deadline_s=5.0, what="the wait ends")
    assert running.stop_all(5.0) == []


def owner() -> tuple[ThreadGroup, queue.Queue[UnexpectedThreadEnd]]:
    reports: queue.Queue[UnexpectedThreadEnd] = queue.Queue()
    return ThreadGroup(on_unexpected_end=reports.put), reports


def test_a_thread_that_was_asked_to_stop_is_joined_and_not_reported():
    owned, reports = owner()
    names: list[str] = []

    def body(stop: threading.Event) -> None:
        names.append(threading.current_thread().name)
        stop.wait(5)

    owned.start("copy east->west", body)
    assert owned.stop_all(5) == []
    assert names == ["copy east->west"]
    assert reports.empty()


def test_an_exception_is_reported_with_the_thread_name():
    owned, reports = owner()

    def body(stop: threading.Event) -> None:
        raise ValueError("boom")

    thread = owned.start("t", body)
    report = reports.get(timeout=5)
    assert (report.name, str(report.error)) == ("t", "boom")
    assert thread.join(5)
    assert thread.failure is report.error


def test_returning_unasked_is_reported_too():
    owned, reports = owner()
    owned.start("t", lambda stop: None)
    assert reports.get(timeout=5) == UnexpectedThreadEnd(name="t", error=None)


def test_stop_all_names_what_does_not_stop():
    owned, _ = owner()
    release = threading.Event()

    def deaf(stop: threading.Event) -> None:
        release.wait(30)

    thread = owned.start("deaf", deaf)
    assert owned.stop_all(0.05) == ["deaf"]
    release.set()
    assert thread.join(5)
    assert owned.stop_all(0) == []


WAIT_S = 10.0


@pytest.fixture
def two():
    made = ThreadPool("calls", threads_max=2, waiting_max=2)
    yield made
    assert made.stop(WAIT_S) == []


def test_answers_with_the_result_or_what_was_raised(two):
    def fail() -> None:
        raise KeyError("k")

    assert two.submit(lambda: 7).result(WAIT_S) == 7
    assert isinstance(two.submit(fail).exception(WAIT_S), KeyError)


def test_what_hangs_holds_up_nobody_else(two):
    hangs = threading.Event()
    hanging = two.submit(lambda: hangs.wait(WAIT_S))
    assert [two.submit(lambda n=n: n).result(WAIT_S) for n in range(5)] == list(range(5))
    hangs.set()
    assert hanging.result(WAIT_S)


def test_turns_away_what_would_wait_in_vain(two):
    hangs = threading.Event()
    begun = threading.Semaphore(0)

    def hang() -> bool:
        begun.release()
        return hangs.wait(WAIT_S)

    running = [two.submit(hang) for _ in range(2)]
    for _ in running:
        assert begun.acquire(timeout=WAIT_S)
    waiting = [two.submit(hang) for _ in range(2)]
    with pytest.raises(ThreadPoolFull, match="2 calls are running and 2 are queued"):
        two.submit(hang)
    hangs.set()
    assert all(each.result(WAIT_S) for each in (*running, *waiting))


def test_when_stopped_takes_no_more_and_leaves_nobody_waiting():
    made = ThreadPool("calls", threads_max=1, waiting_max=2)
    hangs, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        hangs.wait(WAIT_S)

    running = made.submit(hang)
    assert begun.wait(WAIT_S)
    waiting = made.submit(hang)
    assert made.stop(0.01) == ["calls-1"]
    assert isinstance(waiting.exception(WAIT_S), ThreadPoolFull)
    with pytest.raises(ThreadPoolFull, match="stopping"):
        made.submit(hang)
    hangs.set()
    assert running.result(WAIT_S) is None
    assert made.stop(WAIT_S) == []


def test_who_gives_up_on_a_call_does_not_harm_the_thread_that_makes_it():
    made = ThreadPool("calls", threads_max=1, waiting_max=3)
    hangs = threading.Event()
    running = made.submit(lambda: hangs.wait(WAIT_S))
    waiting = made.submit(lambda: 1)
    assert not running.cancel()
    assert not waiting.cancel()
    hangs.set()
    assert made.submit(lambda: 2).result(WAIT_S) == 2
    assert made.stop(WAIT_S) == []


def test_a_thread_that_cannot_be_made_costs_no_place(monkeypatch):
    made = ThreadPool("calls", threads_max=1, waiting_max=2)

    def refuse(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(ThreadGroup, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            made.submit(lambda: 1)
    assert made.submit(lambda: 2).result(WAIT_S) == 2
    assert made.stop(WAIT_S) == []
