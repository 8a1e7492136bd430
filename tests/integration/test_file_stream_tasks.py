"""A file's lines go through a broker into another file, and go on where they were."""

from __future__ import annotations

import pathlib

import pytest

from connect_runtime.adapters.files import offset_file
from connect_runtime.adapters.kafka import clients
from connect_runtime.adapters.plugins import discovery
from connect_runtime.base import ids
from connect_runtime.core.state import cluster_config, status_records
from connect_runtime.core.task import worker_config
from connect_runtime.runtime import task_bodies, worker, worker_metrics
from connect_runtime.runtime.stores import memory_log, offset_store, status_store
from connect_runtime.system import clock
from connect_runtime.wire.connection import store_files
from tests.support import eventually, kafka

pytestmark = pytest.mark.integration

CLOCK = clock.SystemClock()
STARTED = cluster_config.TargetState.STARTED
State = status_records.State
WAIT_S = 30.0


class Reached:
    def on_reached(self, connector, state, error) -> None: ...

    def on_reconfiguration_wanted(self, connector) -> None: ...


class Process:
    """One life of a worker alone, over a file of offsets."""

    def __init__(self, folder: pathlib.Path, properties) -> None:
        self.generation = 0
        self.offsets = offset_store.OffsetStore(offset_file.OffsetFile(folder / "offsets"))
        self.offsets.start(WAIT_S)
        self.statuses = status_store.StatusStore(memory_log.MemoryLog("statuses"), clock=CLOCK)
        self.statuses.start(WAIT_S)
        around = task_bodies.Surroundings(
            config=worker_config.standalone(
                {
                    **properties,
                    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
                    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                    "offset.storage.file.filename": str(folder / "offsets"),
                    "offset.flush.interval.ms": "200",
                }
            ),
            worker_id="here:8083",
            generation=lambda: self.generation,
            installed=discovery.discover(),
            clients=clients.KafkaClients(files=store_files.below(folder), clock=CLOCK),
            statuses=self.statuses,
            offsets=self.offsets,
            resolve=dict,
            metrics=worker_metrics.WorkerMetrics("here:8083", CLOCK),
            clock=CLOCK,
        )
        self.worker = worker.Worker(around, Reached())

    def run(self, config) -> None:
        """The connector, then its tasks."""
        name = config["name"]
        self.worker.start_connector(name, config, STARTED)
        self.wait_for(name, State.RUNNING)
        found = self.worker.task_configs(name, config)
        assert found is not None
        assert found[0]["task.class"].startswith("org.apache.kafka.connect.file.FileStream")
        assert found[0]["task.class"].endswith("Task")
        for number, each in enumerate(found):
            self.worker.start_task(
                ids.ConnectorTaskId(name, number),
                connector=config,
                config=each,
                state=STARTED,
            )

    def state(self, subject):
        known = self.statuses.snapshot().get(subject)
        return None if known is None else known.state

    def wait_for(self, subject, state) -> None:
        eventually.eventually(
            lambda: self.state(subject) is state,
            WAIT_S,
            lambda: f"{state}: {self.statuses.snapshot().get(subject)}",
        )

    def stop(self) -> None:
        """In a newer generation: else what it says of tasks that ran would count as stale."""
        self.generation += 1
        self.worker.close()
        self.statuses.stop(1.0)
        self.offsets.stop(1.0)


def source(name: str, file: pathlib.Path, topic: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": topic,
        "producer.override.linger.ms": "0",
    }


def sink(name: str, file: pathlib.Path, topic: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "file": str(file),
        "topics": topic,
    }


def wait_for_lines(file: pathlib.Path, expected: list[str]) -> None:
    eventually.eventually(
        lambda: file.exists() and file.read_text().splitlines() == expected,
        WAIT_S,
        lambda: file.read_text() if file.exists() else "no file",
    )


def test_lines_go_through_a_broker_and_on_where_they_were(east, topic, tmp_path):
    name = topic()
    kafka.create_topic(east.client_properties(), name)
    read, written = tmp_path / "read", tmp_path / "written"
    configs = [source(f"{name}-out", read, name), sink(f"{name}-in", written, name)]
    read.write_text("one\ntwo\n")
    first = Process(tmp_path, east.client_properties())
    for config in configs:
        first.run(config)
    wait_for_lines(written, ["one", "two"])
    for config in configs:
        first.wait_for(ids.ConnectorTaskId(config["name"], 0), State.RUNNING)
    first.stop()
    for config in configs:
        assert first.state(ids.ConnectorTaskId(config["name"], 0)) is State.UNASSIGNED
        assert first.state(config["name"]) is State.UNASSIGNED
    assert [each.topic for each in first.statuses.snapshot().topics(configs[0]["name"])] == [name]

    with read.open("a") as stream:
        stream.write("three\n")
    second = Process(tmp_path, east.client_properties())
    for config in configs:
        second.run(config)
    wait_for_lines(written, ["one", "two", "three"])
    second.stop()
