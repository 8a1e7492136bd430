"""The judge of mirrors must see every kind of fault."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterator
from concurrent import futures

import pytest
from confluent_kafka import KafkaError, KafkaException

from tests.support import kafka
from tests.support.kafka import Record

_RECORDS = [
    Record(
        offset=offset,
        key=b"k",
        value=b"v%d" % offset,
        headers=(("h", b"1"),),
        timestamp_type=kafka.CREATE_TIME,
        timestamp=1000 + offset,
    )
    for offset in range(3)
]


def test_equal_contents_at_other_offsets_are_no_difference():
    moved = [dataclasses.replace(record, offset=record.offset + 100) for record in _RECORDS]

    assert kafka.differences(_RECORDS, moved) == []


@pytest.mark.parametrize(
    "fault",
    [
        {"key": None},
        {"key": b""},
        {"value": b"other"},
        {"value": None},
        {"headers": ()},
        {"headers": (("h", None),)},
        {"headers": (("h", b"1"), ("h", b"1"))},
        {"timestamp": 1},
        {"timestamp_type": kafka.LOG_APPEND_TIME},
    ],
    ids=str,
)
def test_an_altered_record_is_found_and_shown(fault):
    altered = [*_RECORDS[:1], dataclasses.replace(_RECORDS[1], **fault), *_RECORDS[2:]]

    (found,) = kafka.differences(_RECORDS, altered)

    assert found.startswith("record 1: source offset 1 has ")


def test_a_lost_a_doubled_and_a_moved_record_are_found():
    first, second, third = _RECORDS

    lost = kafka.differences(_RECORDS, [first, third])
    doubled = kafka.differences(_RECORDS, [first, second, second, third])
    moved = kafka.differences(_RECORDS, [second, first, third])

    assert "the source has 3 records, the target 2" in lost
    assert "the source has 3 records, the target 4" in doubled
    assert [line.split(":")[0] for line in moved] == ["record 0", "record 1"]


def test_java_properties_become_librdkafkas():
    config = kafka.client_config(
        {
            "bootstrap.servers": "h:1",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'x.PlainLoginModule required username="a" password="b";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "/ca.pem",
        },
        message_timeout_ms=5,
    )

    del config["error_cb"], config["log_level"]
    assert config == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "a",
        "sasl.password": "b",
        "ssl.ca.location": "/ca.pem",
        "message.timeout.ms": 5,
    }


def failure(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


@pytest.mark.parametrize(
    "error",
    [
        failure(KafkaError.COORDINATOR_LOAD_IN_PROGRESS),
        failure(KafkaError.NOT_COORDINATOR),
        failure(KafkaError.NOT_LEADER_FOR_PARTITION),
        failure(KafkaError.UNKNOWN_TOPIC_OR_PART),
        KafkaException(KafkaError(KafkaError.UNKNOWN, "", False, True)),
        futures.TimeoutError(),
    ],
    ids=repr,
)
def test_what_kafka_calls_retriable_is_asked_again(error):
    answers: Iterator[int | Exception] = iter([error, error, 7])

    def ask() -> int:
        answer = next(answers)
        if isinstance(answer, int):
            return answer
        raise answer

    assert kafka.retried(ask) == 7


def test_other_errors_come_at_once_and_the_last_retriable_one_at_the_deadline():
    asked = []

    def refused(code: int) -> None:
        asked.append(code)
        raise failure(code)

    with pytest.raises(KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        kafka.retried(lambda: refused(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert len(asked) == 1
    with pytest.raises(KafkaException, match="COORDINATOR_LOAD_IN_PROGRESS"):
        kafka.retried(lambda: refused(KafkaError.COORDINATOR_LOAD_IN_PROGRESS), deadline_s=0.3)
    assert len(asked) > 2


class Admin:
    """An admin client whose answers to `create_topics` and `delete_topics` are given."""

    def __init__(self, *answers: Exception | None) -> None:
        self.answers = list(answers)

    def create_topics(self, new):
        return {new[0].topic: self._next()}

    def delete_topics(self, names):
        return {names[0]: self._next()}

    def list_topics(self, name, timeout):
        led = types.SimpleNamespace(leader=1, error=None)
        found = types.SimpleNamespace(error=None, partitions={0: led})
        return types.SimpleNamespace(topics={name: found})

    def _next(self):
        future: futures.Future[None] = futures.Future()
        answer = self.answers.pop(0)
        if answer is None:
            future.set_result(None)
        else:
            future.set_exception(answer)
        return future


LOST = failure(KafkaError._TIMED_OUT)
EXISTS = failure(KafkaError.TOPIC_ALREADY_EXISTS)
MISSING = failure(KafkaError.UNKNOWN_TOPIC_OR_PART)


def test_a_topic_is_created_also_where_the_first_answer_was_lost(monkeypatch):
    admin = Admin(LOST, EXISTS)
    monkeypatch.setattr(kafka, "admin_client", lambda properties: admin)
    assert kafka.create_topic({}, "t") == "t"
    admin.answers = [EXISTS]
    with pytest.raises(KafkaException, match="TOPIC_ALREADY_EXISTS"):
        kafka.create_topic({}, "t")


def test_a_topic_is_deleted_also_where_the_first_answer_was_lost(monkeypatch):
    admin = Admin(LOST, MISSING)
    monkeypatch.setattr(kafka, "admin_client", lambda properties: admin)
    kafka.delete_topic({}, "t")
    admin.answers = [MISSING]
    with pytest.raises(AssertionError, match="no topic t"):
        kafka.delete_topic({}, "t")
