"""Ends of a log are all there, or they are no answer."""

from __future__ import annotations

from concurrent import futures
from types import SimpleNamespace

import confluent_kafka
import pytest

from connect_runtime.adapters.kafka import topic_admin
from connect_runtime.kafka_client import translate_errors


def waiting(count):
    return {confluent_kafka.TopicPartition("t", each): futures.Future() for each in range(count)}


def answer(future, offset):
    future.set_result(SimpleNamespace(offset=offset))


def test_the_answer_comes_when_every_leader_has_answered():
    asked = waiting(3)
    whole = topic_admin._offsets_of(asked)
    for number, future in enumerate(asked.values()):
        assert not whole.done()
        answer(future, number * 10)
    assert whole.result(0) == {0: 0, 1: 10, 2: 20}


def test_a_leader_that_did_not_answer_is_a_time_out_and_no_offset():
    asked = waiting(2)
    whole = topic_admin._offsets_of(asked)
    first, second = asked.values()
    answer(first, -1001)
    answer(second, 7)
    with pytest.raises(confluent_kafka.KafkaException) as failed:
        whole.result(0)
    assert translate_errors.is_retriable(failed.value.args[0])


def test_the_first_error_is_the_answer():
    asked = waiting(2)
    whole = topic_admin._offsets_of(asked)
    first, second = asked.values()
    second.set_exception(ValueError("no"))
    answer(first, 7)
    with pytest.raises(ValueError, match="no"):
        whole.result(0)
