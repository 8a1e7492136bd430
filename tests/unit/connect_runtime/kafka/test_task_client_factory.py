"""Requests that a coordinator does not answer are repeated; its refusals are reported.

Clients of tasks are made from Java's settings; no broker is needed to say which are wrong."""

from __future__ import annotations

import contextlib
import logging
import pathlib
import random
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import ConnectorTaskId, TopicPartition
from connect_runtime.config import connector_client_settings, worker_config
from connect_runtime.kafka import task_client_factory
from connect_runtime.kafka.client_errors import NotAuthorizedError, TopicMissingError
from connect_runtime.kafka.task_client_factory import KafkaGroupOffsets, KafkaTaskClients
from connect_runtime.network import keystore_files
from connect_runtime.network.cluster_connections import ConnectionSettings
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker.task_client_interfaces import ConsumerGroupInUseError, ProducerRecord
from tests.support import scripted_broker
from tests.support.scripted_broker import Asked, ScriptedBroker

T0 = TopicPartition("t", 0)
LOST = object()
WAIT_S = 20.0


class Coordinator:
    """A broker that answers with the error codes in `codes`, then with none."""

    def __init__(self) -> None:
        self.codes: deque[Any] = deque()
        self.loop = Poller()
        self.broker = ScriptedBroker(self.loop)
        for api in ("delete_groups", "offset_commit", "offset_delete", "offset_fetch"):
            self.broker.scripts[api] = self.answer
        self.broker.scripts["find_coordinator"] = self.tell_coordinator

    def move(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.loop.poll(0.01)
        self.broker.close()
        self.loop.close()

    def asked(self) -> list[str]:
        apis = [each.api for each in self.broker.asked]
        return [each for each in apis if each.startswith(("offset", "delete", "find"))]

    def tell_coordinator(self, asked: Asked) -> None:
        found = asked.module.Coordinator(
            key="g",
            node_id=1,
            host="127.0.0.1",
            port=self.broker.port,
            error_code=ErrorCode.none,
            error_message=None,
        )
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, coordinators=(found,)))

    def answer(self, asked: Asked) -> None:
        code = self.codes.popleft() if self.codes else 0
        if code is LOST:
            asked.link.close()
            return
        m, error = asked.module, ErrorCode(code)
        one = {"partition_index": 0, "error_code": error}
        fields: dict[str, Any]
        match asked.api:
            case "delete_groups":
                fields = {"results": (m.DeletableGroupResult(group_id="g", error_code=error),)}
            case "offset_commit":
                each = m.OffsetCommitResponsePartition(**one)
                topic = m.OffsetCommitResponseTopic(name="t", partitions=(each,))
                fields = {"topics": (topic,)}
            case "offset_delete":
                fields = {"topics": (), "error_code": code}
            case _:
                each = m.OffsetFetchResponsePartition(committed_offset=5, metadata="", **one)
                topic = m.OffsetFetchResponseTopic(name="t", partitions=(each,))
                fields = {"topics": (topic,), "error_code": 0}
        asked.answer(asked.response(throttle_time=scripted_broker.NO_TIME, **fields))


@pytest.fixture
def coordinator():
    made = Coordinator()
    failed: list[Any] = []
    running = ThreadGroup(on_unexpected_end=failed.append)
    running.start("coordinator", made.move)
    yield made
    assert running.stop_all(5.0) == []
    assert failed == []


@pytest.fixture
def offsets(coordinator):
    settings = ConnectionSettings(
        bootstrap=(coordinator.broker.address,),
        retry_backoff_s=0.01,
        reconnect_backoff_s=0.01,
        client_id="me",
    )
    made = KafkaGroupOffsets(settings, clock=SystemClock(), rng=random.Random(1))
    yield made
    made.close()


def asking(offsets):
    return {
        "offset_fetch": lambda: offsets.fetch_offsets("g", WAIT_S),
        "offset_commit": lambda: offsets.commit_offsets("g", {T0: 5}, WAIT_S),
        "offset_delete": lambda: offsets.delete_offsets("g", [T0], WAIT_S),
        "delete_groups": lambda: offsets.delete_group("g", WAIT_S),
    }


def test_each_is_one_question(coordinator, offsets):
    for ask in asking(offsets).values():
        ask()
    assert coordinator.asked() == ["find_coordinator", *asking(offsets)]
    assert offsets.fetch_offsets("g", WAIT_S) == {T0: 5}


@pytest.mark.parametrize("api", list(asking(None)))
@pytest.mark.parametrize(
    ("codes", "lookups"),
    [((14, 27), 1), ((16,), 2), ((15, 16), 3), ((LOST,), 2)],
)
def test_what_passes_is_asked_again_where_it_must_be(coordinator, offsets, api, codes, lookups):
    coordinator.codes.extend(codes)
    asking(offsets)[api]()
    assert coordinator.asked().count(api) == len(codes) + 1
    assert coordinator.asked().count("find_coordinator") == lookups


@pytest.mark.parametrize(
    ("api", "code", "kind"),
    [
        ("offset_fetch", 30, NotAuthorizedError),
        ("offset_commit", 3, TopicMissingError),
        ("offset_commit", 25, ConsumerGroupInUseError),
        ("offset_delete", 86, ConsumerGroupInUseError),
        ("offset_delete", 69, FatalError),
        ("delete_groups", 68, ConsumerGroupInUseError),
    ],
)
def test_what_is_refused_is_told_at_once(coordinator, offsets, api, code, kind):
    coordinator.codes.append(code)
    with pytest.raises(kind, match="group g on 127"):
        asking(offsets)[api]()
    assert coordinator.asked().count(api) == 1


def test_a_group_that_is_gone_is_deleted(coordinator, offsets):
    coordinator.codes.append(69)
    offsets.delete_group("g", WAIT_S)


def test_who_asks_long_enough_hears_what_stood_in_the_way(coordinator, offsets):
    coordinator.codes.extend([14] * 1_000)
    with pytest.raises(RetriableError, match="COORDINATOR_LOAD_IN_PROGRESS"):
        offsets.fetch_offsets("g", 0.3)
    assert coordinator.asked().count("offset_fetch") > 1


TASK = ConnectorTaskId("c", 0)
WORKER = worker_config.parse_standalone_config(
    {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": "K",
        "value.converter": "V",
        "offset.storage.file.filename": "f",
        "connector.client.config.override.policy": "All",
    }
)
RECORD = ProducerRecord(
    topic="t", partition=0, key=b"k", value=None, timestamp=7, headers=(("h", None),)
)


@pytest.fixture
def made():
    return KafkaTaskClients(
        files=keystore_files.create_store_files(pathlib.Path()), clock=SystemClock()
    )


def producer_plan(**overrides):
    config = {f"producer.override.{key}": value for key, value in overrides.items()}
    return connector_client_settings.build_source_producer_config(WORKER, config, TASK)


def test_what_was_never_acknowledged_is_told_of_when_it_is_closed(made):
    producer = made.create_producer(producer_plan(**{"buffer.memory": "2097152", "linger.ms": "0"}))
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
    assert isinstance(error, RetriableError)


def test_who_sends_too_much_is_asked_to_wait(made):
    producer = made.create_producer(producer_plan(**{"buffer.memory": "1024"}))
    big = ProducerRecord(topic="t", partition=0, key=None, value=bytes(900), timestamp=None)

    def send(count):
        for _ in range(count):
            producer.send(big, on_delivered=lambda _metadata, _error: None)

    with pytest.raises(RetriableError, match="1 record waits for acknowledgment"):
        send(10)
    producer.close(0.05)


@pytest.mark.parametrize(
    "overrides", [{"acks": "some"}, {"linger.ms": "soon"}, {"security.protocol": "TELEPATHY"}]
)
def test_settings_that_cannot_be_meant_are_refused(made, overrides):
    with pytest.raises(ConnectError):
        made.create_producer(producer_plan(**overrides))


def test_settings_that_only_java_has_are_named(made, caplog):
    with caplog.at_level(logging.WARNING):
        made.create_producer(producer_plan(**{"interceptor.classes": "x"})).close(0.0)
    assert [each for each in caplog.messages if "client setting" in each] == [
        "ignoring client setting interceptor.classes: librdkafka has no equivalent"
    ]


def test_a_consumer_is_made_with_javas_settings(made):
    config = {
        "consumer.override.max.poll.records": "7",
        "consumer.override.fetch.max.wait.ms": "100",
        "consumer.override.isolation.level": "read_committed",
    }
    consumer = made.create_consumer(
        connector_client_settings.build_sink_consumer_config(WORKER, config, TASK)
    )
    assert list(consumer.poll(0.0)) == []
    consumer.close(1.0)
    with pytest.raises(ConnectError):
        made.create_consumer(
            connector_client_settings.build_sink_consumer_config(
                WORKER, {"consumer.override.auto.offset.reset": "sideways"}, TASK
            )
        )


def test_a_reset_to_nowhere_goes_by_the_librarys_name(made):
    config = {"consumer.override.auto.offset.reset": "none"}
    made.create_consumer(
        connector_client_settings.build_sink_consumer_config(WORKER, config, TASK)
    ).close(1.0)


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
        task_client_factory, "KafkaRecordConsumer", lambda *_, settings, **__: seen.append(settings)
    )
    config = {"consumer.override.partition.assignment.strategy": given}
    made.create_consumer(connector_client_settings.build_sink_consumer_config(WORKER, config, TASK))
    assert seen[0].get("partition.assignment.strategy") == passed


def test_who_asks_for_group_offsets_of_nobody_hears_it_in_time(made):
    plan = connector_client_settings.build_offsets_admin_config(
        WORKER, {"admin.override.request.timeout.ms": "1000"}, "c"
    )
    with contextlib.closing(made.create_group_offsets_client(plan)) as asked:
        for ask in (
            lambda: asked.fetch_offsets("g", 0.2),
            lambda: asked.commit_offsets("g", {TopicPartition("t", 0): 1}, 0.2),
            lambda: asked.delete_offsets("g", [TopicPartition("t", 0)], 0.2),
            lambda: asked.delete_group("g", 0.2),
        ):
            with pytest.raises(RetriableError, match="the coordinator of group g"):
                ask()


def test_an_address_that_is_none_is_refused(made):
    plan = connector_client_settings.build_offsets_admin_config(
        WORKER, {"admin.override.bootstrap.servers": "x"}, "c"
    )
    with pytest.raises(FatalError, match="x"):
        made.create_group_offsets_client(plan)
