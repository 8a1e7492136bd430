"""A flow's log on real brokers that fail, and with strangers in it."""

from __future__ import annotations

import collections
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import admin as library

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from mm2.kafka import kafka_client_interfaces
from mm2.kafka.flow_state_log import KafkaFlowStateLog
from mm2.kafka.flow_state_log_writer import UnacknowledgedRecordLimits
from mm2.kafka.kafka_client_interfaces import (
    FlowStateLog,
    FlowStateLogBrokenError,
    FlowStateLogFullError,
    FlowStateTopic,
    StoredLogRecord,
)
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import cluster_access, eventually, kafka, log_judge, state_records
from tests.support.kafka import Outgoing

pytestmark = pytest.mark.integration

MAP, INCIDENTS = FlowStateTopic.MAP, FlowStateTopic.INCIDENTS
WAIT_S = 60.0
LOOK_S = 3.0
CORES_AT_REST = 0.2
LIBRARYS_BYTES = 100_000_000
"""No record that is handed to the library may be larger."""


class Writer:
    """Appends numbered records and knows which of them were recorded."""

    def __init__(self, name: str, log: FlowStateLog) -> None:
        self.name = name
        self.log = log
        self.recorded: dict[FlowStateTopic, list[bytes]] = collections.defaultdict(list)
        self.refused: list[ConnectError] = []
        self._next = 0

    def append(self, topic: FlowStateTopic) -> None:
        key = f"{self.name}-{self._next:06d}".encode()
        self._next += 1

        def on_recorded(error: ConnectError | None) -> None:
            if error is None:
                self.recorded[topic].append(key)
            else:
                self.refused.append(error)

        while True:
            try:
                self.log.append(topic, key, b"value", on_recorded=on_recorded)
            except FlowStateLogFullError:
                self.log.poll(0.1)
            else:
                return

    def settle(self) -> None:
        def settled() -> bool:
            self.log.poll(0.1)
            return self.log.pending_record_count == 0

        eventually.eventually(settled, WAIT_S, f"{self.name} has every answer", interval_s=0.0)


@pytest.fixture
def logs() -> Iterator[Callable[..., KafkaFlowStateLog]]:
    made: list[KafkaFlowStateLog] = []

    def make(
        access: KafkaClusterAccess, alias: str = "src", *, replication_factor: int = 1
    ) -> KafkaFlowStateLog:
        made.append(cluster_access.flow_log(access, alias, replication_factor=replication_factor))
        made[-1].open(WAIT_S)
        return made[-1]

    yield make
    for log in made:
        log.close(0.0)


def map_name(alias: str) -> str:
    return kafka_client_interfaces.build_flow_state_topic_names(alias)[MAP]


def keys(records: list[StoredLogRecord], topic: FlowStateTopic) -> list[bytes]:
    return [record.key for record in records if record.topic is topic]


def judge(
    running: SandboxCluster, writers: list[Writer], read: list[list[StoredLogRecord]]
) -> None:
    """Nothing recorded is lost, doubled or out of order, and all readers saw what the log holds."""
    for topic, name in kafka_client_interfaces.build_flow_state_topic_names("src").items():
        held = [
            record.key or b"" for record in kafka.read_partition(running.client_properties(), name)
        ]
        for records in read:
            assert keys(records, topic) == held
        recorded = {writer.name: writer.recorded[topic] for writer in writers}
        assert log_judge.verdicts(held, recorded) == []


def interleave(writers: list[Writer], rounds: int) -> None:
    for number in range(rounds):
        for writer in writers:
            writer.append(INCIDENTS if number % 5 == 0 else MAP)
            writer.log.poll(0.0)


@pytest.mark.full
def test_a_killed_broker_loses_and_reorders_nothing(own_cluster, logs):
    running = own_cluster("single")
    access = cluster_access.of(running)
    writers = [Writer("one", logs(access)), Writer("two", logs(access))]
    read: list[list[StoredLogRecord]] = [[], []]
    for fault in (running.kill, running.stop, None):
        interleave(writers, 2_000)
        for records, writer in zip(read, writers, strict=True):
            writer.log.read_to_end(WAIT_S, records.append)
        interleave(writers, 200)
        if fault is not None:
            fault()
            interleave(writers, 200)
            running.start()
    for writer in writers:
        writer.settle()
        assert writer.refused == []
    for records, writer in zip(read, writers, strict=True):
        writer.log.read_to_end(WAIT_S, records.append)
    judge(running, writers, read)
    assert len(writers[0].recorded[MAP]) > 4_000


@pytest.mark.full
@pytest.mark.timeout(240)
def test_moving_leaders_lose_and_reorder_nothing(own_cluster, logs):
    running = own_cluster("triple", brokers=3, settings={"min.insync.replicas": "2"})
    access = cluster_access.of(running)
    writers = [Writer(name, logs(access, replication_factor=3)) for name in ("one", "two")]
    read: list[list[StoredLogRecord]] = [[], []]
    for node in (1, 2, 3):
        broker = running.brokers[node]
        interleave(writers, 300)
        broker.freeze() if node == 2 else broker.kill()
        interleave(writers, 300)
        for writer in writers:
            writer.settle()
        for records, writer in zip(read, writers, strict=True):
            writer.log.read_to_end(WAIT_S, records.append)
            recorded = {key for known in writers for key in known.recorded[MAP]}
            assert recorded <= set(keys(records, MAP))
        broker.unfreeze() if node == 2 else broker.start()
        caught_up(running)
    judge(running, writers, read)
    assert [writer.refused for writer in writers] == [[], []]


def caught_up(running: SandboxCluster) -> None:
    """Wait until every replica is in sync, so that the next fault meets a whole cluster."""
    admin = library.AdminClient(kafka.client_config(running.client_properties()))
    names = kafka_client_interfaces.build_flow_state_topic_names("src").values()

    def in_sync() -> bool:
        found = admin.list_topics(timeout=10).topics
        return all(len(found[name].partitions[0].isrs) == 3 for name in names)

    eventually.eventually(in_sync, WAIT_S, "all replicas are in sync")


@pytest.mark.timeout(120)
def test_waiting_for_a_silent_broker_costs_nothing(own_cluster, logs):
    """However much waits behind what it was sent; it is all recorded in order afterwards."""
    running = own_cluster("silent")
    writer = Writer("w", logs(cluster_access.of(running)))
    writer.append(MAP)
    writer.settle()
    running.freeze()
    for _ in range(3):
        for _ in range(500):
            writer.append(MAP)
        writer.log.poll(0.1)
    began_s, busy_s = cluster_access.CLOCK.now_s(), time.process_time()
    while cluster_access.CLOCK.now_s() - began_s < LOOK_S:
        writer.log.poll(0.2)
    assert time.process_time() - busy_s < CORES_AT_REST * LOOK_S
    running.unfreeze()
    writer.settle()
    assert (len(writer.recorded[MAP]), writer.refused) == (1501, [])
    judge(running, [writer], [])


def test_what_the_library_itself_refuses_breaks_the_log(east):
    """And nothing behind it is sent."""
    bounds = UnacknowledgedRecordLimits(bytes=2 * LIBRARYS_BYTES)
    log = cluster_access.flow_log(cluster_access.of(east), "refused", bounds=bounds)
    log.open(WAIT_S)
    told: list[ConnectError | None] = []
    for value in (bytes(LIBRARYS_BYTES + 1), b"small"):
        log.append(MAP, b"key", value, on_recorded=told.append)
    log.poll(0.1)
    refused, behind = told
    assert "Message size too large" in str(refused)
    assert isinstance(behind, FlowStateLogBrokenError)
    with pytest.raises(FlowStateLogBrokenError):
        log.append(MAP, b"key", b"small", on_recorded=told.append)
    log.open(WAIT_S)
    assert state_records.read(log, WAIT_S) == []
    log.close(0.0)


def test_a_hundred_thousand_records_are_read_in_seconds(east, logs):
    access = cluster_access.of(east)
    writer = Writer("w", logs(access, "big"))
    for _ in range(100_000):
        writer.append(MAP)
    writer.settle()
    log = logs(access, "big")
    started_s = cluster_access.CLOCK.now_s()
    records = state_records.read(log, WAIT_S)
    assert cluster_access.CLOCK.now_s() - started_s < 10.0
    assert keys(records, MAP) == writer.recorded[MAP]


def test_offsets_without_records_do_not_hold_a_read_up(east, logs):
    """A transaction's marker at the very end, and aborted data: reads see the data and end."""
    log = logs(cluster_access.of(east), "markers")
    for number, commit in enumerate((True, False)):
        kafka.produce_transaction(
            east.client_properties(),
            map_name("markers"),
            [Outgoing(key=b"k%d" % number, value=b"v")],
            transactional_id="stranger",
            commit=commit,
        )
        assert keys(state_records.read(log, 10.0), MAP) == [b"k%d" % number]
        assert state_records.read(log, 10.0) == []


def test_what_compaction_took_away_is_not_waited_for(own_cluster, logs):
    running = own_cluster("compacting", settings={"log.cleaner.backoff.ms": "100"})
    eager = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": "100",
        "max.compaction.lag.ms": "1",
    }
    kafka.create_topic(running.client_properties(), map_name("src"), config=eager)
    log = logs(cluster_access.of(running))
    rewritten = 0

    def write(key: bytes, value: bytes) -> None:
        log.append(MAP, key, value, on_recorded=_must_be_recorded)
        eventually.eventually(lambda: log.poll(0.1), WAIT_S, "recorded", interval_s=0.0)

    def compacted() -> bool:
        nonlocal rewritten
        rewritten += 1
        write(b"hot", b"%d" % rewritten)
        held = kafka.read_partition(running.client_properties(), map_name("src"))
        return len(held) < rewritten

    write(b"cold", b"kept")
    eventually.eventually(compacted, WAIT_S, "the cleaner has run", interval_s=0.2)
    fresh = state_records.read(logs(cluster_access.of(running)), 10.0)
    assert fresh[0].key == b"cold"
    assert fresh[-1].value == b"%d" % rewritten
    assert len(fresh) <= rewritten
    assert len(state_records.read(log, 10.0)) == len(fresh)


def test_a_record_without_a_key_is_named(east, logs):
    kafka.create_topic(east.client_properties(), map_name("keyless"))
    kafka.produce(east.client_properties(), map_name("keyless"), [Outgoing(value=b"stray")])
    admin = cluster_access.admin(cluster_access.of(east))
    change = cluster_access.compact()
    assert admin.alter_configs({map_name("keyless"): change}, WAIT_S).failed == {}
    log = logs(cluster_access.of(east), "keyless")
    with pytest.raises(
        FatalError, match=rf"{map_name('keyless')}.*offset 0 has no key.*kafka-delete"
    ):
        state_records.read(log, 10.0)


def _must_be_recorded(error: ConnectError | None) -> None:
    assert error is None
