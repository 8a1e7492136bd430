"""The session machine against a model of the broker's side of KIP-227."""

from __future__ import annotations

import random

import pytest

from connect_runtime.wire.codec import fetch, fetch_session

ID = b"i" * 16


def partition(number: int, offset: int = 0, topic_id: bytes = ID) -> fetch.FetchPartition:
    return fetch.FetchPartition("t", topic_id, number, 1, offset, -1, 1 << 20)


def answer(*partitions: int, session_id: int = 9, error_code: int = 0) -> fetch.FetchResponse:
    found = [
        fetch.FetchedPartition("t", ID, p, 0, 0, 0, 0, [], -1, -1, None, memoryview(b""))
        for p in partitions
    ]
    return fetch.FetchResponse(0, error_code, session_id, found)


def opened(*numbers: int) -> fetch_session.FetchSession:
    session = fetch_session.FetchSession()
    for number in numbers:
        session.want(number, partition(number))
    request = session.next_request()
    assert request == (0, 0, [partition(n) for n in numbers], [])
    session.answered(answer(*numbers))
    return session


def test_after_the_first_full_request_only_news_is_sent():
    session = opened(0, 1, 2)
    assert session.next_request() == (9, 1, [], [])
    session.answered(answer())
    session.want(1, partition(1, offset=50))
    session.want(1, partition(1, offset=60))
    session.want(2, partition(2))
    assert session.next_request() == (9, 2, [partition(1, offset=60)], [])


def test_dropped_partitions_are_forgotten_and_may_come_back():
    session = opened(0, 1)
    session.drop(0)
    session.drop(7)
    assert session.next_request() == (9, 1, [], [partition(0)])
    session.answered(answer())
    session.want(0, partition(0, offset=5))
    session.drop(1)
    session.want(1, partition(1))
    assert session.next_request() == (9, 2, [partition(0, offset=5)], [])


def test_what_changes_while_a_request_is_in_flight_goes_with_the_next():
    session = opened(0)
    session.next_request()
    session.want(0, partition(0, offset=10))
    session.want(1, partition(1))
    session.answered(answer())
    assert session.next_request() == (9, 2, [partition(0, offset=10), partition(1)], [])


def test_a_recreated_topic_is_forgotten_under_its_old_id():
    session = opened(0)
    new = partition(0, topic_id=b"j" * 16)
    session.want(0, new)
    assert session.next_request() == (9, 1, [new], [partition(0)])


@pytest.mark.parametrize(
    ("error_code", "next_id"),
    [(70, 0), (71, 9), (106, 9), (100, 9), (-1, 9)],
    ids=["id not found", "bad epoch", "topic id error", "unknown topic id", "other"],
)
def test_a_refused_request_starts_anew_with_everything(error_code, next_id):
    session = opened(0, 1)
    session.drop(0)
    session.want(2, partition(2))
    session.next_request()
    session.answered(answer(error_code=error_code, session_id=0))
    assert session.next_request() == (next_id, 0, [partition(1), partition(2)], [])


def test_a_lost_request_starts_anew_and_closes_the_old_session():
    session = opened(0, 1)
    session.want(0, partition(0, offset=3))
    session.next_request()
    session.failed()
    assert session.next_request() == (9, 0, [partition(0, offset=3), partition(1)], [])
    session.failed()
    assert session.next_request().session_id == 9


def test_without_a_session_every_request_is_full():
    session = fetch_session.FetchSession()
    session.want(0, partition(0))
    for _ in range(3):
        assert session.next_request() == (0, 0, [partition(0)], [])
        session.answered(answer(0, session_id=0))


def test_a_session_that_misses_partitions_or_was_closed_is_opened_again():
    session = fetch_session.FetchSession()
    session.want(0, partition(0))
    session.want(1, partition(1))
    session.next_request()
    session.answered(answer(0, session_id=4))
    assert session.next_request()[:2] == (4, 0)
    session.answered(answer(0, 1, session_id=5))
    assert session.next_request()[:2] == (5, 1)
    session.answered(answer(session_id=0))
    assert session.next_request()[:2] == (0, 0)


def test_the_epoch_wraps_to_one():
    session = opened(0)
    session._epoch = 2**31 - 1
    assert session.next_request().session_epoch == 2**31 - 1
    session.answered(answer())
    assert session.next_request().session_epoch == 1


def test_one_request_at_a_time():
    session = opened(0)
    session.next_request()
    assert session.in_flight()
    with pytest.raises(AssertionError, match="one request in flight"):
        session.next_request()


class Broker:
    """The broker's cache: applies requests in order, refuses what does not follow."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.sessions: dict[int, tuple[int, dict]] = {}
        self.last_id = 0

    def handle(self, request: fetch_session.FetchSessionRequest) -> fetch.FetchResponse:
        session_id, epoch, partitions, forgotten = request
        if epoch == 0:
            self.sessions.pop(session_id, None)
            cached = {(p.topic_id, p.partition): p for p in partitions}
            assert not forgotten
            self.fetched = dict(cached)
            if self.rng.random() < 0.2:
                return answer(*(p.partition for p in partitions), session_id=0)
            self.last_id += 1
            self.sessions[self.last_id] = (1, cached)
            return answer(*(p.partition for p in partitions), session_id=self.last_id)
        if session_id not in self.sessions:
            return answer(session_id=0, error_code=70)
        expected, cached = self.sessions[session_id]
        if epoch != expected:
            return answer(session_id=0, error_code=71)
        for p in forgotten:
            assert cached.pop((p.topic_id, p.partition)), "forgot what it never had"
        cached.update({(p.topic_id, p.partition): p for p in partitions})
        self.sessions[session_id] = (epoch + 1, cached)
        self.fetched = dict(cached)
        return answer(session_id=session_id)


@pytest.mark.parametrize("seed", range(60))
def test_whatever_happens_an_accepted_request_makes_the_broker_fetch_exactly_what_is_wanted(seed):
    rng = random.Random(seed)
    broker, session = Broker(rng), fetch_session.FetchSession()
    for _ in range(200):
        for _ in range(rng.randrange(4)):
            key = rng.randrange(6)
            if rng.random() < 0.3:
                session.drop(key)
            else:
                topic_id = rng.choice([ID, ID, ID, b"j" * 16])
                session.want(key, partition(key, rng.randrange(3), topic_id))
        request = session.next_request()
        wanted = {(p.topic_id, p.partition): p for p in session._wanted.values()}
        fate = rng.random()
        if fate < 0.1:
            session.failed()
        elif fate < 0.2:
            broker.handle(request)
            session.failed()
        else:
            response = broker.handle(request)
            if response.error_code == 0:
                assert broker.fetched == wanted
            session.answered(response)
        session.check_invariants()
        if rng.random() < 0.05:
            broker.sessions.clear()
