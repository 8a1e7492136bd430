"""Waiting for what was begun before, and for nothing else."""

from __future__ import annotations

import threading

from connect_runtime.system import outstanding, threads
from tests.support import eventually


def test_nothing_begun_is_nothing_to_wait_for():
    assert outstanding.Outstanding().wait(0.0)


def test_what_has_not_ended_is_waited_for():
    work = outstanding.Outstanding()
    first, second = work.begin(), work.begin()
    work.end(second)
    assert len(work) == 1
    assert not work.wait(0.0)
    work.end(first)
    assert work.wait(0.0)
    work.end(first)
    assert len(work) == 0


def test_anything_under_way_is_noticed():
    work = outstanding.Outstanding()
    assert not work.wait_for_some(0.0)
    noticed: list[bool] = []
    waiter = threads.OwnedThread(
        "waits", lambda _: noticed.append(work.wait_for_some(10.0)), on_unasked_end=lambda _: None
    )
    number = work.begin()
    assert waiter.join(10.0)
    assert noticed == [True]
    work.end(number)
    assert not work.wait_for_some(0.0)


def test_what_began_after_the_wait_is_not_waited_for():
    work = outstanding.Outstanding()
    before = work.begin()
    waits = threading.Event()
    waited: list[bool] = []

    def wait(_: threading.Event) -> None:
        waits.set()
        waited.append(work.wait(30.0))

    running = threads.Threads(on_unasked_end=lambda _: None)
    running.start("waits", wait)
    assert waits.wait(5.0)
    work.begin()
    work.end(before)
    eventually.eventually(lambda: waited == [True], deadline_s=5.0, what="the wait ends")
    assert running.stop_all(5.0) == []
