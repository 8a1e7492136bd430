"""Offsets of connectors viewed, altered and reset where they really are: in groups of a broker,
and in a worker's offsets topic."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.config import connector_client_settings, worker_config
from connect_runtime.herder.herder_interface import ConnectRestError
from connect_runtime.kafka import internal_topic_logs, librdkafka_connection_settings
from connect_runtime.kafka.task_client_factory import KafkaTaskClients
from connect_runtime.network import keystore_files
from connect_runtime.plugins import plugin_discovery
from connect_runtime.storage import cluster_config_state, internal_topic_settings, offset_store
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker import connector_offsets
from connect_runtime.worker.connector_offsets import ConnectorOffsetRequests, OffsetChangeKind
from connect_runtime.worker.task_client_interfaces import ConsumerGroupInUseError
from connect_runtime.worker.task_factory import WorkerDeps
from connect_runtime.worker.worker_metrics import WorkerMetrics
from tests.fakes.task_clients import Membership, Statuses
from tests.support import eventually, kafka

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = pytest.mark.integration

CLOCK = SystemClock()
FILES = keystore_files.create_store_files(pathlib.Path())
WAIT_S = 30.0
ALTERED = connector_offsets.format_offset_change_success(
    OffsetChangeKind.ALTER, by_connector_too=True
)
RESET = connector_offsets.format_offset_change_success(
    OffsetChangeKind.RESET, by_connector_too=True
)
"""What both file connectors have a part in."""


@pytest.fixture
def offsets(east: SandboxCluster, topic: Callable[..., str]) -> Iterator[LogOffsetBackingStore]:
    """The offsets topic of a worker, of its own."""
    name = topic("worker")
    logs = internal_topic_logs.create_internal_topic_logs(
        librdkafka_connection_settings.parse_cluster_access(east.client_properties(), files=FILES),
        internal_topic_settings.read_required_topics(
            {
                "config.storage.topic": f"{name}-configs",
                "offset.storage.topic": f"{name}-offsets",
                "status.storage.topic": f"{name}-statuses",
                "offset.storage.partitions": "3",
                "offset.storage.replication.factor": "1",
            }
        ),
        group_id=name,
        clock=CLOCK,
    )
    store = LogOffsetBackingStore(logs.offset)
    store.start(WAIT_S)
    yield store
    store.stop(5.0)


class World:
    def __init__(self, properties, offsets) -> None:
        self.clients = KafkaTaskClients(files=FILES, clock=CLOCK)
        self.config = worker_config.parse_standalone_config(
            {
                **properties,
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "offset.storage.file.filename": "unused",
            }
        )
        self.requests = ConnectorOffsetRequests(
            WorkerDeps(
                config=self.config,
                worker_id="here:8083",
                generation=lambda: 0,
                configs=lambda: cluster_config_state.EMPTY_CONFIG_STATE,
                installed=plugin_discovery.discover_plugins(file_paths=["/"]),
                clients=self.clients,
                statuses=Statuses(),
                offsets=offsets,
                resolve=dict,
                membership=Membership(),
                metrics=WorkerMetrics("here:8083", CLOCK),
                clock=CLOCK,
            )
        )

    def read(self, config):
        found = self.requests.read_offsets(config["name"], config).offsets
        return [(dict(each.partition), each.offset) for each in found]

    def alter(self, config, *pairs):
        return self.requests.modify_offsets(config["name"], config, pairs).message

    def reset(self, config):
        return self.requests.modify_offsets(config["name"], config, None).message


@pytest.fixture
def world(east, offsets):
    return World(east.client_properties(), offsets)


def sink(topic, name):
    return {
        "name": name,
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": "/dev/null",
    }


def place(topic, partition):
    return {"kafka_topic": topic, "kafka_partition": partition}


def at(offset):
    return {"kafka_offset": offset}


def test_offsets_of_a_sink(world, east, topic):
    name = topic()
    kafka.create_topic(east.client_properties(), name, partitions=2)
    config = sink(name, f"{name}-sink")
    assert world.read(config) == []
    assert world.alter(config, (place(name, 0), at(5)), (place(name, "1"), at("7"))) == ALTERED
    assert world.read(config) == [(place(name, 0), at(5)), (place(name, 1), at(7))]
    assert world.alter(config, (place(name, 0), None), (place(name, 1), at(8))) == ALTERED
    assert world.read(config) == [(place(name, 1), at(8))]

    with pytest.raises(ConnectRestError, match="Partition values for sink connectors"):
        world.alter(config, (place(name, "x"), at(1)))
    for wrong in (place(name, 99), place(f"{name}-none", 0)):
        with pytest.raises(ConnectError, match="Failed to alter consumer group") as raised:
            world.alter(config, (wrong, at(1)))
        assert "UNKNOWN_TOPIC_OR_PART" in str(raised.value.__cause__)
    assert world.read(config) == [(place(name, 1), at(8))]

    assert world.reset(config) == RESET
    assert world.read(config) == []
    assert world.reset(config) == RESET, "a group that is gone stays gone"


def test_whoever_is_in_the_group_keeps_others_out(world, east, topic):
    name = topic()
    kafka.create_topic(east.client_properties(), name)
    config = {**sink(name, f"{name}-sink"), "consumer.override.group.id": f"{name}-group"}
    world.alter(config, (place(name, 0), at(5)))
    consumer = confluent_kafka.Consumer(
        kafka.client_config(
            east.client_properties(), group_id=f"{name}-group", auto_offset_reset="earliest"
        )
    )
    consumer.subscribe([name])
    eventually.eventually(
        lambda: consumer.poll(0.1) is None and consumer.assignment(), WAIT_S, "it joins"
    )
    for change, act in (
        (OffsetChangeKind.ALTER, lambda: world.alter(config, (place(name, 0), at(6)))),
        (OffsetChangeKind.ALTER, lambda: world.alter(config, (place(name, 0), None))),
        (OffsetChangeKind.RESET, lambda: world.reset(config)),
    ):
        with pytest.raises(ConnectError) as raised:
            act()
        assert str(raised.value) == connector_offsets.format_consumer_group_in_use(
            change, config["name"]
        )
        assert isinstance(raised.value.__cause__, ConsumerGroupInUseError)
    consumer.close()
    assert world.read(config) == [(place(name, 0), at(5))]
    eventually.eventually(lambda: world.reset(config) == RESET, WAIT_S, "it has left")


def test_offsets_of_a_source(world, offsets, topic):
    name = topic("source")
    config = {
        "name": name,
        "connector.class": "FileStreamSource",
        "topic": "t",
        "file": "/dev/null",
    }
    one, two = {"filename": "/dev/null"}, {"filename": "before"}
    offset_store.commit_offsets(offsets, name, [(one, {"position": 3})], timeout_s=WAIT_S)
    assert world.read(config) == [(one, {"position": 3})]
    assert world.alter(config, (one, {"position": 9}), (two, {"position": 1})) == ALTERED
    assert world.read(config) == [(one, {"position": 9}), (two, {"position": 1})]
    for wrong in ({"position": -1}, {"position": "9"}, {}, {"position": [1]}):
        with pytest.raises(ConnectError):
            world.alter(config, (one, wrong))
    assert world.alter(config, (two, None)) == ALTERED
    assert world.read(config) == [(one, {"position": 9})]
    assert world.reset(config) == RESET
    assert world.read(config) == []
    assert offsets.read_offsets(name, [one], WAIT_S) == [None]
    assert world.reset(config) == RESET


def test_a_connectors_own_settings_of_its_administrator_count(world, topic):
    """The broker has no such listener: with these it cannot be asked."""
    config = {
        **sink("t", topic()),
        "admin.override.security.protocol": "SASL_PLAINTEXT",
        "admin.override.sasl.mechanism": "PLAIN",
        "admin.override.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required "
            'username="u" password="p";'
        ),
    }
    plan = connector_client_settings.build_offsets_admin_config(
        world.config, config, config["name"]
    )
    with (
        contextlib.closing(world.clients.create_group_offsets_client(plan)) as asked,
        pytest.raises(FatalError, match="the listener does not use SASL"),
    ):
        asked.fetch_offsets("g", 10.0)
