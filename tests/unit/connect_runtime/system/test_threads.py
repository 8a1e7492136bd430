from __future__ import annotations

import queue
import threading

from connect_runtime.system import threads


def owner() -> tuple[threads.Threads, queue.Queue[threads.UnaskedEnd]]:
    reports: queue.Queue[threads.UnaskedEnd] = queue.Queue()
    return threads.Threads(on_unasked_end=reports.put), reports


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
    assert reports.get(timeout=5) == threads.UnaskedEnd(name="t", error=None)


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
