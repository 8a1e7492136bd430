"""Many copies ask at once whose producer ids are; one thread reads."""

from __future__ import annotations

import threading

import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.connectors.share import opposite_ids
from mm2.core.copy import messages
from tests.fakes import opposite


class Answers:
    def __init__(self):
        self.got = []
        self.denied = []
        self._came = threading.Semaphore(0)

    def __call__(self, theirs, why, *, denied=False):
        self.got.append((theirs, why))
        self.denied.append(denied)
        self._came.release()

    def wait(self, count=1):
        for _ in range(count):
            assert self._came.acquire(timeout=10.0)
        return self.got


@pytest.fixture
def source():
    return opposite.Source()


@pytest.fixture
def ids(source):
    made = source.ids()
    yield made
    made.close()
    assert all(each.closed for each in source.tails)
    assert not [each for each in threading.enumerate() if each.name == "opposite east->west"]


def test_each_is_told_of_its_own_ids(source, ids):
    source.writes(4)
    source.writes(5)
    one, other = Answers(), Answers()
    ids.ask([4, 9], one)
    ids.ask([5, 9], other)
    assert one.wait() == [(frozenset({4}), "")]
    assert other.wait() == [(frozenset({5}), "")]


def test_what_cannot_be_read_is_answered_with_the_reason_and_asked_again_later(source, ids):
    source.writes(4)
    source.failures.append(kafka_errors.UnreachableError("the source is away"))
    told = Answers()
    ids.ask([4], told)
    assert told.wait() == [(None, "the source is away")]
    ids.ask([4], told)
    assert told.wait()[1] == (frozenset({4}), "")


def test_a_missing_right_is_told_as_such(source, ids):
    source.writes(4)
    source.failures.append(kafka_errors.NotAuthorizedError("you may not"))
    told = Answers()
    ids.ask([4], told)
    told.wait()
    assert told.denied == [True]


def test_a_fault_of_ours_is_answered_too_and_the_next_question_is_read_again(source, ids):
    source.writes(4)
    source.failures.append(RuntimeError("a bug"))
    told = Answers()
    ids.ask([4], told)
    assert told.wait() == [(None, "a bug")]
    ids._thread.join(5.0)
    ids.ask([4], told)
    assert told.wait()[1] == (frozenset({4}), "")


def test_more_questions_than_may_wait_are_told_so(source, ids, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(source, "admin", lambda: go_on.wait(10.0) and opposite.Source().admin())
    monkeypatch.setattr(ids._map, "_connect_admin", lambda: source.admin())
    ids._asked.maxsize = 1
    told = Answers()
    ids.ask([1], told)
    while ids._asked.qsize():
        pass  # it is being answered, and that takes a while
    ids.ask([2], told)
    ids.ask([3], told)
    ((theirs, why),) = told.wait()
    assert theirs is None
    assert "wait for the source already" in why
    go_on.set()
    told.wait(2)


def test_nothing_runs_before_the_first_question(source, ids):
    assert ids._thread is None


class Channel:
    def __init__(self, error=None):
        self.sent, self.error, self.closed = [], error, ""

    def send(self, message):
        if self.error is not None:
            raise self.error
        self.sent.append(message)

    def close(self, reason):
        self.closed = reason


def test_a_copy_is_told_by_its_channel():
    channel = Channel()
    opposite_ids.sender(channel, 3)(frozenset({4}), "")
    opposite_ids.sender(channel, 5)(None, "away")
    opposite_ids.sender(channel, 6)(None, "forbidden", denied=True)
    assert channel.sent == [
        messages.opposite_answer(3, {4}),
        messages.opposite_answer(5, None, failure="away"),
        messages.opposite_answer(6, None, failure="forbidden", denied=True),
    ]


def test_a_copy_that_takes_no_words_is_given_up():
    channel = Channel(errors.RetriableError("it does not keep up"))
    opposite_ids.sender(channel, 3)(frozenset(), "")
    assert channel.closed == "it does not keep up"
