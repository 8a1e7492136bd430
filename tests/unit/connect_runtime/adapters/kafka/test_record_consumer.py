"""Where a sink task's partitions begin, when brokers do not answer as they should."""

from __future__ import annotations

import pathlib
import types
from collections import deque
from typing import Any

import confluent_kafka
import pytest

from connect_runtime.adapters.kafka import clients, record_consumer
from connect_runtime.base import ids
from connect_runtime.core.task import client_settings
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import clock
from connect_runtime.wire.connection import store_files

PLACE = ids.TopicPartition("t", 0)


def failure(code):
    return confluent_kafka.KafkaException(confluent_kafka.KafkaError(code))


class Library:
    """Of the library's consumer, what it says of offsets: the next answers, or what it raises."""

    def __init__(self) -> None:
        self.answers: deque[Any] = deque()

    def committed(self, partitions, timeout):
        answer = self.answers.popleft()
        if isinstance(answer, Exception):
            raise answer
        offset, error = answer
        return [types.SimpleNamespace(topic="t", partition=0, offset=offset, error=error)]

    def get_watermark_offsets(self, partition, timeout):
        return 3, 9

    def close(self): ...


@pytest.fixture
def library():
    return Library()


@pytest.fixture
def consumer(library):
    made = clients.KafkaClients(files=store_files.below(pathlib.Path()), clock=clock.SystemClock())
    plan = client_settings.ClientPlan(
        client_id="c", properties={"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    )
    consumer = made.consumer(plan)
    assert isinstance(consumer, record_consumer.KafkaRecordConsumer)
    consumer._consumer.close()
    consumer._consumer = library
    return consumer


def test_a_group_without_an_offset_begins_at_the_beginning(consumer, library):
    library.answers.append((-1001, None))
    assert consumer.positions([PLACE]) == {PLACE: 3}


@pytest.mark.parametrize(
    "answer",
    [
        failure(confluent_kafka.KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        failure(confluent_kafka.KafkaError._TIMED_OUT),
        (-1001, confluent_kafka.KafkaError(confluent_kafka.KafkaError.NOT_COORDINATOR)),
        (-1001, confluent_kafka.KafkaError(confluent_kafka.KafkaError.UNSTABLE_OFFSET_COMMIT)),
    ],
)
def test_a_coordinator_that_cannot_say_yet_is_asked_again(consumer, library, answer):
    """It is no answer: who takes it for none would read everything once more."""
    library.answers += [answer, (7, None)]
    assert consumer.positions([PLACE]) == {PLACE: 7}


def test_what_may_not_be_known_is_no_beginning(consumer, library):
    error = confluent_kafka.KafkaError(confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED)
    library.answers.append((-1001, error))
    with pytest.raises(kafka_errors.NotAuthorizedError, match="asking for offsets"):
        consumer.positions([PLACE])
