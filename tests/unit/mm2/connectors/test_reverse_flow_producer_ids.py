"""Many copies ask at once whose producer ids are; one thread reads.

The ids of the flow that leads back, read from its map topic on our source."""

from __future__ import annotations

import threading

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka.client_errors import (
    NotAuthorizedError,
    TopicMissingError,
    UnreachableError,
)
from mm2.connectors import reverse_flow_producer_ids
from mm2.connectors.reverse_flow_producer_ids import ReverseOffsetMapReader
from mm2.copier import control_channel_messages
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapProducerKey
from mm2.kafka.kafka_client_interfaces import LogTruncatedError
from tests.fakes import opposite
from tests.fakes.opposite import Source
from tests.fakes.plugin_contexts import Clock


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
    return Source()


@pytest.fixture
def ids(source):
    made = source.ids()
    yield made
    made.close()
    assert all(each.closed for each in source.tails)
    assert not [each for each in threading.enumerate() if each.name == "reverse-flow east->west"]


def test_each_is_told_of_its_own_ids(source, ids):
    source.writes(4)
    source.writes(5)
    one, other = Answers(), Answers()
    ids.query_reverse_flow_producers([4, 9], one)
    ids.query_reverse_flow_producers([5, 9], other)
    assert one.wait() == [(frozenset({4}), "")]
    assert other.wait() == [(frozenset({5}), "")]


def test_what_cannot_be_read_is_answered_with_the_reason_and_asked_again_later(source, ids):
    source.writes(4)
    source.failures.append(UnreachableError("the source is away"))
    told = Answers()
    ids.query_reverse_flow_producers([4], told)
    assert told.wait() == [(None, "the source is away")]
    ids.query_reverse_flow_producers([4], told)
    assert told.wait()[1] == (frozenset({4}), "")


def test_a_missing_right_is_told_as_such(source, ids):
    source.writes(4)
    source.failures.append(NotAuthorizedError("you may not"))
    told = Answers()
    ids.query_reverse_flow_producers([4], told)
    told.wait()
    assert told.denied == [True]


def test_a_fault_of_ours_is_answered_too_and_the_next_question_is_read_again(source, ids):
    source.writes(4)
    source.failures.append(RuntimeError("a bug"))
    told = Answers()
    ids.query_reverse_flow_producers([4], told)
    assert told.wait() == [(None, "a bug")]
    ids._thread.join(5.0)
    ids.query_reverse_flow_producers([4], told)
    assert told.wait()[1] == (frozenset({4}), "")


def test_more_questions_than_may_wait_are_told_so(source, ids, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(source, "admin", lambda: go_on.wait(10.0) and Source().admin())
    monkeypatch.setattr(ids._map, "_connect_admin", lambda: source.admin())
    ids._queries.maxsize = 1
    told = Answers()
    ids.query_reverse_flow_producers([1], told)
    while ids._queries.qsize():
        pass  # it is being answered, and that takes a while
    ids.query_reverse_flow_producers([2], told)
    ids.query_reverse_flow_producers([3], told)
    ((theirs, why),) = told.wait()
    assert theirs is None
    assert "producer id queries are already pending" in why
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
    reverse_flow_producer_ids.create_response_sender(channel, 3)(frozenset({4}), "")
    reverse_flow_producer_ids.create_response_sender(channel, 5)(None, "away")
    reverse_flow_producer_ids.create_response_sender(channel, 6)(None, "forbidden", denied=True)
    assert channel.sent == [
        control_channel_messages.encode_reverse_flow_producers(3, {4}),
        control_channel_messages.encode_reverse_flow_producers(5, None, failure="away"),
        control_channel_messages.encode_reverse_flow_producers(
            6, None, failure="forbidden", denied=True
        ),
    ]


def test_a_copy_that_takes_no_words_is_given_up():
    channel = Channel(RetriableError("it does not keep up"))
    reverse_flow_producer_ids.create_response_sender(channel, 3)(frozenset(), "")
    assert channel.closed == "it does not keep up"


TOPIC = opposite.TOPIC


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def found(source, clock):
    made = ReverseOffsetMapReader(
        TOPIC, connect_admin=source.admin, connect_tail=source.tail, clock=clock, flow="west->east"
    )
    yield made
    made.close()
    assert all(each.closed for each in source.tails)


def test_without_the_topic_nobody_is_theirs(source, found):
    assert found.find_reverse_flow_producers([4, 5], 1.0) == frozenset()
    assert source.tails == []


def test_ids_of_every_partition_and_order_are_theirs(source, found):
    source.writes(4)
    source.writes(5, topic="u", partition=3)
    source.says_other_things()
    assert found.find_reverse_flow_producers([3, 4, 5, 6], 1.0) == {4, 5}


def test_what_comes_later_is_read_when_somebody_asks_and_once(source, found):
    source.writes(4)
    assert found.find_reverse_flow_producers([4, 5], 1.0) == {4}
    source.writes(5)
    assert found.find_reverse_flow_producers([4, 5], 1.0) == {4, 5}
    assert len(source.tails) == 1
    source.failures.append(UnreachableError("away"))
    assert found.find_reverse_flow_producers([4, 5], 1.0) == {4, 5}  # nothing had to be read


def test_a_flow_that_leads_back_may_come_later(source, found):
    assert found.find_reverse_flow_producers([4], 1.0) == frozenset()
    source.writes(4)
    assert found.find_reverse_flow_producers([4], 1.0) == {4}


@pytest.mark.parametrize("error", [UnreachableError("away"), NotAuthorizedError("no right")])
def test_what_cannot_be_read_is_no_answer(source, found, error):
    source.writes(4)
    source.failures.append(error)
    with pytest.raises(type(error)):
        found.find_reverse_flow_producers([4], 1.0)
    assert found.find_reverse_flow_producers([4], 1.0) == {4}


def test_a_topic_that_we_may_not_look_at_is_not_taken_for_missing(source, found):
    source.writes(4)
    source.cluster.failures["describe_topics", TOPIC] = NotAuthorizedError("no right")
    with pytest.raises(NotAuthorizedError):
        found.find_reverse_flow_producers([4], 1.0)


def test_a_broker_that_knows_of_no_topic_at_all_is_not_believed(source, found):
    source.cluster.topics.clear()
    with pytest.raises(RetriableError, match="just started"):
        found.find_reverse_flow_producers([4], 1.0)


def test_a_topic_that_was_cut_is_read_anew_and_no_id_is_forgotten(source, found):
    source.writes(4)
    assert found.find_reverse_flow_producers([4], 1.0) == {4}
    source.log.clear()
    source.writes(5)
    source.failures.append(LogTruncatedError("cut"))
    with pytest.raises(RetriableError):
        found.find_reverse_flow_producers([5], 1.0)
    assert found.find_reverse_flow_producers([4, 5], 1.0) == {4, 5}
    assert len(source.tails) == 2


def test_a_topic_that_was_there_is_missing_for_a_while_before_it_counts_as_deleted(
    source, found, clock
):
    source.writes(4)
    assert found.find_reverse_flow_producers([4], 1.0) == {4}
    del source.cluster.topics[TOPIC]
    source.failures.append(TopicMissingError("gone"))
    for after_s in (0.0, 0.0, reverse_flow_producer_ids.MISSING_TOPIC_GRACE_S / 2):
        clock.now += after_s
        with pytest.raises(RetriableError):
            found.find_reverse_flow_producers([5], 1.0)
    clock.now += reverse_flow_producer_ids.MISSING_TOPIC_GRACE_S
    assert found.find_reverse_flow_producers([4, 5], 1.0) == {4}


@pytest.mark.parametrize("key", [None, b"", b"\x63strange"])
def test_what_nobody_can_read_is_refused_and_not_passed_over(source, found, key):
    source.log.append((key, b"v"))
    source.writes(4)
    for _ in range(2):
        with pytest.raises(FatalError, match=r"offset 0 cannot be read: .* --offset 0"):
            found.find_reverse_flow_producers([4, 5], 1.0)
    source.log.append((key, None))
    assert found.find_reverse_flow_producers([4, 5], 1.0) == {4}


def test_a_deleted_id_is_still_theirs(source, found):
    """What it wrote may stand in the log for as long as its topic is kept."""
    source.writes(4)
    key = offset_map_records.encode_map_key(MapProducerKey(topic="t", partition=0, producer_id=5))
    source.log.append((key, None))
    assert found.find_reverse_flow_producers([4, 5], 1.0) == {4, 5}
