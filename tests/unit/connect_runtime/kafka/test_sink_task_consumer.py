"""Where a sink task's partitions begin, when brokers do not answer as they should."""

from __future__ import annotations

import pathlib
import types
from collections import deque
from typing import Any

import confluent_kafka
import pytest

from connect_runtime.base import bounded_regex
from connect_runtime.base.ids import TopicPartition
from connect_runtime.config.connector_client_settings import ClientConfig
from connect_runtime.kafka.client_errors import NotAuthorizedError
from connect_runtime.kafka.sink_task_consumer import KafkaRecordConsumer, TopicPatternMatcher
from connect_runtime.kafka.task_client_factory import KafkaTaskClients
from connect_runtime.network import keystore_files
from connect_runtime.system.system_clock import SystemClock

NAMES = ["orders-1", "orders-12", "orders-x", "my-orders-1", "__consumer_offsets"]


def watching(pattern: str) -> TopicPatternMatcher:
    compiled = bounded_regex.compile_pattern(pattern)
    return TopicPatternMatcher(compiled, refresh_s=300.0)


def test_whole_names_match_in_the_language_of_java():
    found = watching(r"orders-\d+")
    assert found.update_matching_topics(NAMES, 0.0)
    assert found.topics == ("orders-1", "orders-12")
    assert not found.update_matching_topics(reversed(NAMES), 1.0)
    assert found.update_matching_topics([*NAMES, "orders-3"], 2.0)
    every = watching(r"(?!my).*")
    every.update_matching_topics(NAMES, 0.0)
    assert every.topics == ("orders-1", "orders-12", "orders-x")


def test_looked_up_at_once_then_when_due_and_soon_after_a_failure():
    found = watching("a")
    assert found.is_lookup_due(-5.0)
    found.update_matching_topics(["a"], 0.0)
    assert not found.is_lookup_due(299.0)
    assert found.is_lookup_due(300.0)
    found.on_lookup_failed(300.0)
    assert not found.is_lookup_due(309.0)
    assert found.is_lookup_due(310.0)


PLACE = TopicPartition("t", 0)


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
    made = KafkaTaskClients(
        files=keystore_files.create_store_files(pathlib.Path()), clock=SystemClock()
    )
    plan = ClientConfig(
        client_id="c", properties={"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
    )
    consumer = made.create_consumer(plan)
    assert isinstance(consumer, KafkaRecordConsumer)
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
    with pytest.raises(NotAuthorizedError, match="fetching offsets"):
        consumer.positions([PLACE])
