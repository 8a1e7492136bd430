"""Nothing that was posted is lost, nor is a wake; what askers may put there is bounded."""

from __future__ import annotations

import threading

import pytest

from connect_runtime.core.herder import events, requests
from connect_runtime.runtime.herding import inbox
from connect_runtime.system import clock, threads

NOW_S = clock.SystemClock().now_s


@pytest.fixture
def box():
    return inbox.Inbox()


def submitted(number: int) -> events.Submitted:
    return events.Submitted(ticket=number, request=requests.CheckHealth())


def test_is_taken_in_order_and_once(box):
    told = [submitted(1), events.TimePassed(), submitted(2)]
    assert all(box.post(each) for each in told)
    assert box.take_all() == told
    assert box.take_all() == []


def test_askers_are_turned_away_when_it_is_full_and_others_are_not(box, monkeypatch):
    monkeypatch.setattr(requests, "QUEUE_MAX", 2)
    box.post(submitted(1))
    box.post(submitted(2))
    with pytest.raises(requests.QueueFull, match="2 requests wait"):
        box.post(submitted(3))
    assert box.post(events.ShutdownRequested())
    assert len(box.take_all()) == 3
    assert box.post(submitted(4))


def test_a_wish_waits_once_for_each_connector(box):
    for name in ("a", "b", "a"):
        assert box.post(events.ReconfigurationWanted(name))
    assert [each.connector for each in box.take_all()] == ["a", "b"]
    box.post(events.ReconfigurationWanted("a"))
    assert len(box.take_all()) == 1


@pytest.mark.parametrize("how", ["post", "wake"])
def test_what_came_before_the_wait_ends_it(box, how):
    if how == "wake":
        box.wake()
    else:
        box.post(events.TimePassed())
    began_s = NOW_S()
    box.wait(10.0)
    assert NOW_S() - began_s < 5


@pytest.mark.parametrize("how", ["post", "wake"])
def test_what_comes_during_the_wait_ends_it(box, how):
    waits = threading.Event()
    owner = threads.Threads(on_unasked_end=lambda _: None)

    def wait(_: threading.Event) -> None:
        waits.set()
        box.wait(10.0)

    waiter = owner.start("waits", wait)
    assert waits.wait(5.0)
    if how == "wake":
        box.wake()
    else:
        box.post(events.TimePassed())
    assert waiter.join(5.0)


def test_a_wake_counts_once(box):
    box.wake()
    box.take_all()
    began_s = NOW_S()
    box.wait(0.05)
    assert NOW_S() - began_s >= 0.04


def test_times_that_have_passed_are_no_wait(box):
    box.wait(-1.0)


def test_closed_it_takes_no_more_and_gives_what_it_has(box):
    """A herder that hung while it was told to end must learn of it when it comes back."""
    box.post(events.ShutdownRequested())
    box.close()
    assert not box.post(submitted(1))
    assert box.take_all() == [events.ShutdownRequested()]


def test_closed_it_does_not_keep_who_waits_busy(box):
    box.close()
    began_s = NOW_S()
    box.wait(0.05)
    assert NOW_S() - began_s >= 0.04
