"""Clients of tasks are made from Java's settings; no broker is needed to say which are wrong."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import threading
from collections.abc import Mapping

import pytest

from connect_runtime.adapters.kafka import clients, record_consumer
from connect_runtime.base import errors, ids
from connect_runtime.core.task import client_settings, worker_config
from connect_runtime.ports import clients as port
from connect_runtime.system import clock
from connect_runtime.wire.connection import store_files

TASK = ids.ConnectorTaskId("c", 0)
WORKER = worker_config.standalone(
    {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": "K",
        "value.converter": "V",
        "offset.storage.file.filename": "f",
        "connector.client.config.override.policy": "All",
    }
)
RECORD = port.KafkaRecord(
    topic="t", partition=0, key=b"k", value=None, timestamp=7, headers=(("h", None),)
)


@pytest.fixture
def made():
    return clients.KafkaClients(files=store_files.below(pathlib.Path()), clock=clock.SystemClock())


def producer_plan(**overrides):
    config = {f"producer.override.{key}": value for key, value in overrides.items()}
    return client_settings.source_producer(WORKER, config, TASK)


def test_what_was_never_acknowledged_is_told_of_when_it_is_closed(made):
    producer = made.producer(producer_plan(**{"buffer.memory": "2097152", "linger.ms": "0"}))
    told = []
    answered = threading.Event()

    def on_delivered(metadata, error):
        told.append((metadata, error))
        answered.set()

    producer.send(RECORD, on_delivered=on_delivered)
    assert not producer.flush(0.05)
    producer.close(0.05)
    assert answered.wait(5.0)
    [(metadata, error)] = told
    assert metadata is None
    assert isinstance(error, errors.RetriableError)


def test_who_sends_too_much_is_asked_to_wait(made):
    producer = made.producer(producer_plan(**{"buffer.memory": "1024"}))
    big = port.KafkaRecord(topic="t", partition=0, key=None, value=bytes(900), timestamp=None)

    def send(count):
        for _ in range(count):
            producer.send(big, on_delivered=lambda _metadata, _error: None)

    with pytest.raises(errors.RetriableError, match="1 record waits already"):
        send(10)
    producer.close(0.05)


@pytest.mark.parametrize(
    "overrides", [{"acks": "some"}, {"linger.ms": "soon"}, {"security.protocol": "TELEPATHY"}]
)
def test_settings_that_cannot_be_meant_are_refused(made, overrides):
    with pytest.raises(errors.ConnectError):
        made.producer(producer_plan(**overrides))


def test_settings_that_only_java_has_are_named(made, caplog):
    with caplog.at_level(logging.WARNING):
        made.producer(producer_plan(**{"interceptor.classes": "x"})).close(0.0)
    assert [each for each in caplog.messages if "client setting" in each] == [
        "client setting interceptor.classes is left out: librdkafka has nothing like it"
    ]


def test_a_consumer_is_made_with_javas_settings(made):
    config = {
        "consumer.override.max.poll.records": "7",
        "consumer.override.fetch.max.wait.ms": "100",
        "consumer.override.isolation.level": "read_committed",
    }
    consumer = made.consumer(client_settings.sink_consumer(WORKER, config, TASK))
    assert list(consumer.poll(0.0)) == []
    consumer.close(1.0)
    with pytest.raises(errors.ConnectError):
        made.consumer(
            client_settings.sink_consumer(
                WORKER, {"consumer.override.auto.offset.reset": "sideways"}, TASK
            )
        )


def test_a_reset_to_nowhere_goes_by_the_librarys_name(made):
    config = {"consumer.override.auto.offset.reset": "none"}
    made.consumer(client_settings.sink_consumer(WORKER, config, TASK)).close(1.0)


JAVA = "org.apache.kafka.clients.consumer."


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (f"{JAVA}CooperativeStickyAssignor", "cooperative-sticky"),
        (f"{JAVA}RangeAssignor, {JAVA}CooperativeStickyAssignor", "range"),
        (f"{JAVA}RoundRobinAssignor,{JAVA}RangeAssignor", "roundrobin,range"),
        (f"{JAVA}StickyAssignor", None),
        ("", None),
    ],
)
def test_assignors_go_by_javas_names(made, monkeypatch, given, passed):
    """All take all away where only some can do otherwise; what the library lacks is left out."""
    seen: list[Mapping[str, object]] = []
    monkeypatch.setattr(
        record_consumer, "KafkaRecordConsumer", lambda *_, settings, **__: seen.append(settings)
    )
    config = {"consumer.override.partition.assignment.strategy": given}
    made.consumer(client_settings.sink_consumer(WORKER, config, TASK))
    assert seen[0].get("partition.assignment.strategy") == passed


def test_who_asks_for_group_offsets_of_nobody_hears_it_in_time(made):
    plan = client_settings.offsets_admin(WORKER, {"admin.override.request.timeout.ms": "1000"}, "c")
    with contextlib.closing(made.group_offsets(plan)) as asked:
        for ask in (
            lambda: asked.fetch("g", 0.2),
            lambda: asked.commit("g", {ids.TopicPartition("t", 0): 1}, 0.2),
            lambda: asked.forget("g", [ids.TopicPartition("t", 0)], 0.2),
            lambda: asked.delete("g", 0.2),
        ):
            with pytest.raises(errors.RetriableError, match="the coordinator of group g"):
                ask()


def test_an_address_that_is_none_is_refused(made):
    plan = client_settings.offsets_admin(WORKER, {"admin.override.bootstrap.servers": "x"}, "c")
    with pytest.raises(errors.FatalError, match="x"):
        made.group_offsets(plan)
