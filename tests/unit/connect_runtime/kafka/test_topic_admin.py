"""Ends of a log are all there, or they are no answer."""

from __future__ import annotations

from concurrent import futures
from types import SimpleNamespace
from unittest import mock

import confluent_kafka
import pytest

from connect_runtime.base.timing import Deadline
from connect_runtime.kafka import client_errors, librdkafka_clients, topic_admin
from connect_runtime.kafka.client_errors import TopicMissingError
from connect_runtime.kafka.cluster_access import KafkaClusterAccess
from connect_runtime.kafka.topic_admin import TopicAdmin


def waiting(count):
    return {confluent_kafka.TopicPartition("t", each): futures.Future() for each in range(count)}


def answer(future, offset):
    future.set_result(SimpleNamespace(offset=offset))


def test_the_answer_comes_when_every_leader_has_answered():
    asked = waiting(3)
    whole = topic_admin._combine_offset_futures(asked)
    for number, future in enumerate(asked.values()):
        assert not whole.done()
        answer(future, number * 10)
    assert whole.result(0) == {0: 0, 1: 10, 2: 20}


def test_a_leader_that_did_not_answer_is_a_time_out_and_no_offset():
    asked = waiting(2)
    whole = topic_admin._combine_offset_futures(asked)
    first, second = asked.values()
    answer(first, -1001)
    answer(second, 7)
    with pytest.raises(confluent_kafka.KafkaException) as failed:
        whole.result(0)
    assert client_errors.is_retriable(failed.value.args[0])


def test_the_first_error_is_the_answer():
    asked = waiting(2)
    whole = topic_admin._combine_offset_futures(asked)
    first, second = asked.values()
    second.set_exception(ValueError("no"))
    answer(first, 7)
    with pytest.raises(ValueError, match="no"):
        whole.result(0)


class Clock:
    """Goes on by a second with each look."""

    def __init__(self):
        self.at_s = 0.0

    def now_s(self):
        self.at_s += 1.0
        return self.at_s

    def wall_ms(self):
        raise NotImplementedError


class Client:
    """Answers with these errors, one a request, then with offset 7; no brokers, no metadata."""

    def __init__(self, *codes):
        self.codes = list(codes)

    def list_offsets(self, asked, **_):
        found = waiting(len(asked))
        for future in found.values():
            if self.codes:
                error = confluent_kafka.KafkaError(self.codes.pop(0))
                future.set_exception(confluent_kafka.KafkaException(error))
            else:
                answer(future, 7)
        return found

    def list_topics(self, **_):
        return None

    def poll(self, _):
        return 0


@pytest.fixture
def admin(monkeypatch):
    def made(*codes):
        monkeypatch.setattr(
            librdkafka_clients, "create_admin_client", lambda *_, **__: Client(*codes)
        )
        monkeypatch.setattr(topic_admin, "MetadataClient", mock.Mock())
        access = KafkaClusterAccess(name="west", bootstrap=("b:1",))
        return TopicAdmin(access, client_id="c", clock=Clock())

    return made


MISSING = confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_broker_that_has_not_heard_of_a_topic_yet_is_asked_again(admin):
    asked = admin(MISSING, MISSING)
    assert asked.list_end_offsets("t", 1, Deadline.after(60.0, now_s=0.0)) == {0: 7}


def test_a_topic_that_stays_unknown_is_missing_before_all_time_is_over(admin):
    asked = admin(*[MISSING] * 100)
    with pytest.raises(TopicMissingError, match="offsets of t on west"):
        asked.list_start_offsets("t", 1, Deadline.after(1000.0, now_s=0.0))
    assert asked._clock.at_s < 30.0
