"""Offsets of connectors viewed, altered and reset where they really are: in groups of a broker,
and in a worker's offsets topic."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import confluent_kafka
import pytest

from connect_runtime.adapters.kafka import clients, worker_logs
from connect_runtime.adapters.plugins import discovery
from connect_runtime.base import errors
from connect_runtime.core.offsets import told
from connect_runtime.core.state import cluster_config, topic_settings
from connect_runtime.core.task import client_settings as plans
from connect_runtime.core.task import worker_config
from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.ports import clients as port
from connect_runtime.ports import herder
from connect_runtime.runtime import offset_requests, task_bodies, worker_metrics
from connect_runtime.runtime.stores import offset_store
from connect_runtime.system import clock
from connect_runtime.wire.connection import store_files
from tests.fakes import task_clients
from tests.support import eventually, kafka

if TYPE_CHECKING:
    from mm2.sandbox import cluster

pytestmark = pytest.mark.integration

CLOCK = clock.SystemClock()
FILES = store_files.below(pathlib.Path())
WAIT_S = 30.0
ALTERED = told.changed(told.Change.ALTER, by_connector_too=True)
RESET = told.changed(told.Change.RESET, by_connector_too=True)
"""What both file connectors have a part in."""


@pytest.fixture
def offsets(east: cluster.Cluster, topic: Callable[..., str]) -> Iterator[offset_store.OffsetStore]:
    """The offsets topic of a worker, of its own."""
    name = topic("worker")
    logs = worker_logs.make(
        kafka_access.parse(east.client_properties(), files=FILES),
        topic_settings.wanted(
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
    store = offset_store.OffsetStore(logs.offset)
    store.start(WAIT_S)
    yield store
    store.stop(5.0)


class World:
    def __init__(self, properties, offsets) -> None:
        self.clients = clients.KafkaClients(files=FILES, clock=CLOCK)
        self.config = worker_config.standalone(
            {
                **properties,
                "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                "offset.storage.file.filename": "unused",
            }
        )
        self.requests = offset_requests.OffsetRequests(
            task_bodies.Surroundings(
                config=self.config,
                worker_id="here:8083",
                generation=lambda: 0,
                configs=lambda: cluster_config.EMPTY,
                installed=discovery.discover(file_paths=["/"]),
                clients=self.clients,
                statuses=task_clients.Statuses(),
                offsets=offsets,
                resolve=dict,
                membership=task_clients.Membership(),
                metrics=worker_metrics.WorkerMetrics("here:8083", CLOCK),
                clock=CLOCK,
            )
        )

    def read(self, config):
        found = self.requests.read(config["name"], config).offsets
        return [(dict(each.partition), each.offset) for each in found]

    def alter(self, config, *pairs):
        return self.requests.modify(config["name"], config, pairs).message

    def reset(self, config):
        return self.requests.modify(config["name"], config, None).message


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

    with pytest.raises(herder.Refusal, match="Partition values for sink connectors"):
        world.alter(config, (place(name, "x"), at(1)))
    for wrong in (place(name, 99), place(f"{name}-none", 0)):
        with pytest.raises(errors.ConnectError, match="Failed to alter consumer group") as raised:
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
        (told.Change.ALTER, lambda: world.alter(config, (place(name, 0), at(6)))),
        (told.Change.ALTER, lambda: world.alter(config, (place(name, 0), None))),
        (told.Change.RESET, lambda: world.reset(config)),
    ):
        with pytest.raises(errors.ConnectError) as raised:
            act()
        assert str(raised.value) == told.group_in_use(change, config["name"])
        assert isinstance(raised.value.__cause__, port.GroupInUseError)
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
    offset_store.commit(offsets, name, [(one, {"position": 3})], timeout_s=WAIT_S)
    assert world.read(config) == [(one, {"position": 3})]
    assert world.alter(config, (one, {"position": 9}), (two, {"position": 1})) == ALTERED
    assert world.read(config) == [(one, {"position": 9}), (two, {"position": 1})]
    for wrong in ({"position": -1}, {"position": "9"}, {}, {"position": [1]}):
        with pytest.raises(errors.ConnectError):
            world.alter(config, (one, wrong))
    assert world.alter(config, (two, None)) == ALTERED
    assert world.read(config) == [(one, {"position": 9})]
    assert world.reset(config) == RESET
    assert world.read(config) == []
    assert offsets.read(name, [one], WAIT_S) == [None]
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
    plan = plans.offsets_admin(world.config, config, config["name"])
    with (
        contextlib.closing(world.clients.group_offsets(plan)) as asked,
        pytest.raises(errors.FatalError, match="the listener has no SASL"),
    ):
        asked.fetch("g", 10.0)
