"""Questions are shared, and nobody gets an answer that is older than its own."""

from __future__ import annotations

import threading

import pytest

from connect_runtime.base.clock_and_deadline import Deadline
from connect_runtime.base.errors import ConnectError, RetriableError
from connect_runtime.kafka.kafka_shared_log import EndOffsetsQuery
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from tests.support import eventually

CLOCK = SystemClock()


def soon(timeout_s=10.0):
    return Deadline.after(timeout_s, now_s=CLOCK.now_s())


class Slow:
    """Answers with the number of the question, when it is let."""

    def __init__(self):
        self.asked = 0
        self.go = threading.Semaphore(0)
        self.failures = []

    def __call__(self, end):
        self.asked += 1
        number = self.asked
        assert self.go.acquire(timeout=10.0)
        if self.failures:
            raise self.failures.pop()
        return {0: number}


@pytest.fixture
def slow():
    return Slow()


@pytest.fixture
def ends(slow):
    return EndOffsetsQuery(slow, clock=CLOCK)


@pytest.fixture
def asking(ends):
    """Asks on a thread of its own; the answers, or errors, as they come."""
    answers = []
    running = ThreadGroup(on_unexpected_end=lambda _: None)

    def ask(_):
        try:
            answers.append(ends.fetch_end_offsets(soon())[0])
        except ConnectError as error:
            answers.append(error)

    def start():
        running.start("asks", ask)
        return answers

    yield start
    assert running.stop_all(10.0) == []


def test_alone_each_question_is_asked(ends, slow):
    for number in (1, 2, 3):
        slow.go.release()
        assert ends.fetch_end_offsets(soon()) == {0: number}


def test_who_asks_meanwhile_shares_the_next_answer(asking, ends, slow):
    answers = asking()
    eventually.eventually(lambda: slow.asked == 1)
    for _ in range(20):
        asking()
    eventually.eventually(lambda: len(ends._changed._waiters) == 20)
    slow.go.release()
    slow.go.release()
    eventually.eventually(lambda: len(answers) == 21)
    assert sorted(answers) == [1] + [2] * 20
    assert slow.asked == 2


def test_a_failure_is_only_that_of_who_asked(asking, ends, slow):
    slow.failures = [RetriableError("nobody answered")]
    answers = asking()
    eventually.eventually(lambda: slow.asked == 1)
    asking()
    eventually.eventually(lambda: len(ends._changed._waiters) == 1)
    slow.go.release()
    slow.go.release()
    eventually.eventually(lambda: len(answers) == 2)
    assert str(answers[0]) == "nobody answered"
    assert answers[1] == 2


def test_nobody_waits_longer_than_it_wants(asking, ends, slow):
    asking()
    eventually.eventually(lambda: slow.asked == 1)
    with pytest.raises(RetriableError, match="an earlier request is still pending"):
        ends.fetch_end_offsets(soon(0.05))
    slow.go.release()
