"""Internal topics on real brokers: made, refused, and read past what transactions leave."""

from __future__ import annotations

import functools
import queue
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.config.worker_config import ExactlyOnceSourceMode
from connect_runtime.kafka import internal_topic_logs, librdkafka_connection_settings
from connect_runtime.kafka.internal_topics import InternalTopicManager
from connect_runtime.kafka.kafka_shared_log import KafkaSharedLog, LogOptions
from connect_runtime.kafka.topic_admin import TopicAdmin
from connect_runtime.network import keystore_files
from connect_runtime.storage import offset_store
from connect_runtime.storage.config_records import KeyedRecord, RestartRequest
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.internal_topic_log import SharedLogRecord, WritePrivilegeLost
from connect_runtime.storage.internal_topic_settings import (
    InternalTopic,
    InternalTopicKind,
    RequiredTopics,
)
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import eventually, kafka
from tests.support.kafka import Outgoing

pytestmark = pytest.mark.integration

CLOCK = SystemClock()
WAIT_S = 30.0
Purpose = InternalTopicKind


class Heard:
    def __init__(self) -> None:
        self.values: list[bytes | None] = []

    def on_record(self, record: SharedLogRecord) -> None:
        self.values.append(record.value)

    def on_replay_completed(self) -> None: ...

    def on_log_reset(self) -> None: ...


def internal(name: str, **more: Any) -> InternalTopic:
    given: dict[str, Any] = {
        "kind": Purpose.CONFIG,
        "partitions": 1,
        "replication_factor": 1,
        "settings": {"cleanup.policy": "compact"},
    }
    return InternalTopic(name=name, **(given | more))


class Place:
    """What makes and reads topics, with somebody's rights."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.access = librdkafka_connection_settings.parse_cluster_access(
            properties, files=keystore_files.create_store_files(Path())
        )
        self.admin = TopicAdmin(self.access, client_id="admin", clock=CLOCK)
        self.troubles: list[str] = []

    def ensure(self, timeout_s: float, *, may_create: bool = True, **wanted: Any) -> int:
        makes = InternalTopicManager(
            admin=self.admin, clock=CLOCK, may_create=may_create, on_trouble=self.troubles.append
        )
        return makes.ensure_topic(internal(**wanted), timeout_s)

    def log(self, name: str, **options: Any) -> KafkaSharedLog:
        return KafkaSharedLog(
            self.access,
            topic=name,
            client_id=f"log-of-{name}",
            admin=self.admin,
            prepare=functools.partial(self.ensure, name=name),
            clock=CLOCK,
            **options,
        )


@pytest.fixture
def place(east: SandboxCluster) -> Place:
    return Place(east.client_properties())


@pytest.fixture
def logs():
    """Starts logs, stops them in the end."""
    started: list[KafkaSharedLog] = []

    def start(log: KafkaSharedLog, timeout_s: float = WAIT_S) -> Heard:
        heard = Heard()
        started.append(log)
        log.start(heard, timeout_s)
        return heard

    yield start
    for each in started:
        each.stop(0.0)


@pytest.mark.parametrize(("purpose", "partitions"), [(Purpose.OFFSET, 25), (Purpose.STATUS, -1)])
def test_a_missing_topic_is_made_as_wanted(place, topic, purpose, partitions):
    name = topic()
    settings = {"cleanup.policy": "compact", "segment.bytes": "1048576"}
    wanted = {"kind": purpose, "partitions": partitions, "settings": settings}
    made = place.ensure(WAIT_S, name=name, **wanted)
    assert place.troubles in ([], [""])
    assert made == (partitions if partitions > 0 else 1)
    assert place.ensure(WAIT_S, name=name, may_create=False, **wanted) == made


@pytest.mark.parametrize(
    ("exists", "told"),
    [
        ({"partitions": 2}, "exactly one"),
        ({"config": {"cleanup.policy": "delete"}}, "cleanup.policy=delete"),
        ({"config": {"cleanup.policy": "compact,delete"}}, r"set cleanup\.policy=compact"),
        (None, r"internal\.topics\.automatic\.creation\.enable"),
    ],
)
def test_what_would_lose_configurations_is_refused(east, place, topic, exists, told):
    name = topic()
    if exists is not None:
        config = exists.get("config", {"cleanup.policy": "compact"})
        partitions = exists.get("partitions", 1)
        kafka.create_topic(east.client_properties(), name, partitions=partitions, config=config)
    with pytest.raises(FatalError, match=told):
        place.ensure(WAIT_S, name=name, may_create=exists is not None)


def test_too_few_brokers_are_waited_for_until_time_is_up(place, topic):
    begun_s = CLOCK.now_s()
    with pytest.raises(RetriableError, match=r"replication\.factor"):
        place.ensure(1.5, name=topic(), replication_factor=3)
    assert CLOCK.now_s() - begun_s >= 1.0
    (trouble,) = place.troubles
    assert "set replication.factor to at most the number of brokers; retrying" in trouble


@pytest.mark.parametrize("committed_only", [False, True])
def test_what_transactions_leave_behind_does_not_stop_a_reader(
    east, place, topic, logs, committed_only
):
    """KafkaBasedLogTest: ends that no record has. Markers, and records that are not shown."""
    name = topic()
    log = place.log(name, options=LogOptions(committed_only=committed_only))
    heard = logs(log)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": east.bootstrap, "transactional.id": name}
    )
    kafka.init_transactions(producer)
    seen: list[bytes] = []
    for number, commits in enumerate((True, False, False, True, False)):
        producer.begin_transaction()
        producer.produce(name, b"%d" % number, b"k")
        producer.flush(WAIT_S)
        if committed_only:
            with pytest.raises(RetriableError):
                log.read_to_end(0.3)
        kafka.end_transaction(producer, commit=commits)
        log.read_to_end(WAIT_S)
        seen += [b"%d" % number] if commits or not committed_only else []
        assert heard.values == seen
    again = place.log(name, options=LogOptions(committed_only=committed_only))
    assert logs(again).values == seen


def test_one_leader_writes_at_a_time(east, place, topic, logs):
    """KafkaConfigBackingStoreTest.testWritePrivileges."""
    name = topic()

    topics = RequiredTopics(
        topics=tuple(internal(name, kind=each) for each in Purpose), warnings=()
    )

    def store() -> ConfigBackingStore:
        logs = internal_topic_logs.create_internal_topic_logs(
            place.access,
            topics,
            group_id=name,
            exactly_once=ExactlyOnceSourceMode.ENABLED,
            clock=CLOCK,
        )
        made = ConfigBackingStore(
            logs.config, clock=CLOCK, on_change=lambda _: None, fenced=logs.fenced_writer
        )
        made.start(WAIT_S)
        return made

    old, new = store(), store()
    try:
        with pytest.raises(WritePrivilegeLost, match="not claimed"):
            old.put_connector("c", {"by": "nobody"})
        old.claim_write_privileges()
        old.put_connector("c", {"by": "old"})
        old.put_task_configs("c", [{"n": "0"}])
        new.claim_write_privileges()
        new.put_connector("c", {"by": "new"})
        with pytest.raises(WritePrivilegeLost):
            old.put_connector("c", {"by": "old"})
        with pytest.raises(WritePrivilegeLost, match="not claimed or has been lost"):
            old.remove_connector("c")
        for each in (old, new):
            each.refresh(WAIT_S)
            assert each.snapshot().config("c") == {"by": "new"}
            assert each.snapshot().tasks("c") == [ConnectorTaskId("c", 0)]
        old.claim_write_privileges()
        old.remove_connector("c")
        new.refresh(WAIT_S)
        assert new.snapshot().connectors() == []
    finally:
        old.stop(0.0)
        new.stop(0.0)


class Choking(Heard):
    """Cannot take one of the records."""

    def on_record(self, record: SharedLogRecord) -> None:
        if record.value == b"poison":
            raise ValueError("choked")
        super().on_record(record)


def test_who_waits_is_told_when_nobody_reads_any_more(place, topic, caplog):
    """KafkaBasedLogTest.testOffsetReadFailureWhenWorkThreadFails: and does not wait in vain."""
    name, heard = topic(), Choking()
    told: queue.Queue[str] = queue.Queue()
    log = place.log(name, on_broken=told.put)
    log.start(heard, WAIT_S)
    answers: list[ConnectError | None] = []
    try:
        log.send(KeyedRecord(key=b"k", value=b"good"), on_recorded=answers.append)
        log.read_to_end(WAIT_S)
        log.send(KeyedRecord(key=b"k", value=b"poison"), on_recorded=answers.append)
        for _ in range(2):
            with pytest.raises(FatalError, match=r"has stopped reading the topic: choked.*restart"):
                log.read_to_end(WAIT_S)
        assert told.get(timeout=WAIT_S) == f"the thread that reads {name} ended: choked"
    finally:
        log.stop(5.0)
    assert told.empty()
    assert heard.values == [b"good"]
    assert answers == [None, None]
    assert "choked" in caplog.text


@pytest.mark.full
def test_a_broker_that_comes_back_is_read_and_written_again(own_cluster, logs):
    running = own_cluster()
    place = Place(running.client_properties())
    log = place.log("connect-offsets")
    store = LogOffsetBackingStore(log)
    store.start(WAIT_S)
    try:
        offset_store.commit_offsets(store, "c", [({"p": 1}, {"n": 1})], timeout_s=WAIT_S)
        running.kill()
        with pytest.raises(RetriableError):
            store.read_offsets("c", [{"p": 1}], 1.0)
        with pytest.raises(RetriableError, match="not acknowledged"):
            offset_store.commit_offsets(store, "c", [({"p": 1}, {"n": 2})], timeout_s=0.2)
        running.start()
        eventually.eventually(
            lambda: store.read_offsets("c", [{"p": 1}], WAIT_S) == [{"n": 2}], deadline_s=WAIT_S
        )
    finally:
        store.stop(5.0)


@pytest.mark.full
def test_who_has_no_rights_is_told_so_at_start(own_cluster, logs, caplog):
    fort = own_cluster("fort", users=["alice"])
    admin, alice = Place(fort.client_properties()), Place(fort.client_properties("alice"))
    with pytest.raises(FatalError, match=r"nobody-made-it.*grant"):
        alice.ensure(1.0, name="nobody-made-it")
    admin.ensure(WAIT_S, name="made")
    begun_s = CLOCK.now_s()
    with pytest.raises(FatalError, match=r"grant"):
        logs(alice.log("made"))
    assert CLOCK.now_s() - begun_s < WAIT_S / 2
    wrong = dict(fort.client_properties("alice"))
    wrong["sasl.jaas.config"] = wrong["sasl.jaas.config"].replace('password="', 'password="x')
    begun_s = CLOCK.now_s()
    with pytest.raises(FatalError, match=r"sasl\.jaas\.config"):
        logs(Place(wrong).log("made"))
    assert CLOCK.now_s() - begun_s < WAIT_S / 2


def test_records_that_are_no_configuration_are_passed_over(east, place, topic, caplog):
    name = topic()
    store = ConfigBackingStore(place.log(name), clock=CLOCK, on_change=lambda _: None)
    store.start(WAIT_S)
    try:
        for key, value in ((b"connector-a", b"\x00{"), (b"\xff\xfe", b"{}"), (b"", b"[]")):
            kafka.produce(east.client_properties(), name, [Outgoing(key=key, value=value)])
        store.put_restart_request(RestartRequest(connector="a"))
        store.put_connector("b", {})
        assert store.snapshot().connectors() == ["b"]
        for offset in range(3):
            assert f"{name}-0 at offset {offset}:" in caplog.text
    finally:
        store.stop(5.0)


@pytest.mark.full
@pytest.mark.timeout(300)
def test_a_lost_leader_loses_no_write_and_no_reader(own_cluster):
    """What a deposed leader says of the end of the log is not believed."""
    running = own_cluster("three", brokers=3)
    place = Place(running.client_properties())
    properties = running.client_properties()
    name = kafka.create_topic(
        properties,
        "configs",
        replication_factor=3,
        config={"cleanup.policy": "compact", "min.insync.replicas": "2"},
    )
    writes, reads = (
        ConfigBackingStore(place.log(name), clock=CLOCK, on_change=lambda _: None) for _ in range(2)
    )
    for each in (writes, reads):
        each.start(WAIT_S)
    client = kafka.admin_client(properties)

    def put(number: int) -> bool:
        try:
            writes.put_connector(f"c{number}", {})
        except RetriableError:
            return False
        return True

    def read() -> bool:
        try:
            reads.refresh(5.0)
        except RetriableError:
            return False
        return True

    try:
        for number in range(40):
            if number in (10, 25):
                metadata = kafka.retried(lambda: client.list_topics(name, timeout=WAIT_S))
                leader = running.brokers[metadata.topics[name].partitions[0].leader]
                leader.freeze()
            eventually.eventually(functools.partial(put, number), deadline_s=90.0)
            assert writes.snapshot().has_connector(f"c{number}")
            eventually.eventually(read, deadline_s=60.0)
            assert reads.snapshot().has_connector(f"c{number}")
            if number in (20, 35):
                leader.unfreeze()
    finally:
        for each in (writes, reads):
            each.stop(0.0)
