"""Who is told to end is waited for, at a reload and again at the process's end."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from connect_runtime.system import clock, threads
from mm2.app import endings

CLOCK = clock.SystemClock()


@dataclass
class Worker:
    name: str
    ended: bool = False
    joined: bool = True
    stop_asked: threading.Event = field(default_factory=threading.Event)


def test_who_is_late_is_told_and_waited_for_at_the_end(caplog):
    made, slow = endings.Endings(CLOCK), Worker("a->b")
    made.ask([slow])
    made.wait(CLOCK.now_s() + 0.05)
    assert slow.stop_asked.is_set()
    assert "a->b did not stop in time" in caplog.text
    fresh = Worker("a->b", ended=True)
    made.ask([fresh])
    assert [each is slow for each in made.left] == [True]
    owned = threads.Threads(on_unasked_end=lambda end: None)

    def ends(stop: threading.Event) -> None:
        stop.wait(0.1)
        slow.ended = True
        stop.set()

    owned.start("ends", ends)
    caplog.clear()
    made.wait(CLOCK.now_s() + 10.0)
    assert made.left == []
    assert caplog.text == ""
    assert owned.stop_all(1.0) == []


def test_nobody_is_waited_for_at_once():
    made = endings.Endings(CLOCK)
    made.ask([Worker("a->b", ended=True)])
    made.wait(CLOCK.now_s() - 1.0)
    assert made.left == []
