"""A file's lines go through a broker into another file, and go on where they were."""

from __future__ import annotations

import pathlib
import urllib.request

import pytest
from prometheus_client import parser

from connect_runtime.api.errors import ConnectError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.config import worker_config
from connect_runtime.group.connectors_and_tasks import ConnectorsAndTasks
from connect_runtime.kafka.task_client_factory import KafkaTaskClients
from connect_runtime.metrics_server.exporter import MetricsExporter
from connect_runtime.network import keystore_files
from connect_runtime.plugins import plugin_discovery
from connect_runtime.storage import cluster_config_state
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.memory_and_offset_file_logs import MemoryLog, OffsetFileLog
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.storage.status_records import RunState
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker.task_factory import WorkerDeps
from connect_runtime.worker.worker import Worker
from connect_runtime.worker.worker_metrics import WorkerMetrics
from tests.fakes.task_clients import Membership
from tests.support import eventually, kafka

pytestmark = pytest.mark.integration

CLOCK = SystemClock()
STARTED = TargetState.STARTED
State = RunState
WAIT_S = 30.0


class Reached:
    def on_target_state_reached(self, connector, state, error) -> None: ...

    def on_reconfiguration_requested(self, connector) -> None: ...


class Process:
    """One life of a worker alone, over a file of offsets."""

    def __init__(self, folder: pathlib.Path, properties) -> None:
        self.generation = 0
        self.metrics = WorkerMetrics("here:8083", CLOCK)
        self.offsets = LogOffsetBackingStore(OffsetFileLog(folder / "offsets"))
        self.offsets.start(WAIT_S)
        self.statuses = StatusBackingStore(MemoryLog("statuses"), clock=CLOCK)
        self.statuses.start(WAIT_S)
        around = WorkerDeps(
            config=worker_config.parse_standalone_config(
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
            configs=lambda: cluster_config_state.EMPTY_CONFIG_STATE,
            installed=plugin_discovery.discover_plugins(file_paths=["/"]),
            clients=KafkaTaskClients(files=keystore_files.create_store_files(folder), clock=CLOCK),
            statuses=self.statuses,
            offsets=self.offsets,
            resolve=dict,
            membership=Membership(),
            metrics=self.metrics,
            clock=CLOCK,
        )
        self.worker = Worker(around, Reached())

    def run(self, config) -> None:
        """The connector, then its tasks."""
        name = config["name"]
        self.worker.start_connector(name, config, STARTED)
        self.wait_for(name, State.RUNNING)
        found = self.worker.connector_task_configs(name, config)
        assert found is not None
        assert found[0]["task.class"].startswith("org.apache.kafka.connect.file.FileStream")
        assert found[0]["task.class"].endswith("Task")
        for number, each in enumerate(found):
            self.worker.start_task(
                ConnectorTaskId(name, number),
                connector=config,
                config=each,
                state=STARTED,
                tasks=len(found),
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
        first.wait_for(ConnectorTaskId(config["name"], 0), State.RUNNING)
    first.stop()
    for config in configs:
        assert first.state(ConnectorTaskId(config["name"], 0)) is State.UNASSIGNED
        assert first.state(config["name"]) is State.UNASSIGNED
    assert [each.topic for each in first.statuses.snapshot().topics(configs[0]["name"])] == [name]

    with read.open("a") as stream:
        stream.write("three\n")
    second = Process(tmp_path, east.client_properties())
    for config in configs:
        second.run(config)
    wait_for_lines(written, ["one", "two", "three"])
    second.stop()


class Scraped:
    """What Prometheus would read there, looked up by the end of a name and some labels."""

    def __init__(self, url: str) -> None:
        with urllib.request.urlopen(url, timeout=10) as answer:
            families = parser.text_string_to_metric_families(answer.read().decode())
        self.samples = [each for family in families for each in family.samples]

    def of(self, connector: str) -> list[str]:
        return [each.name for each in self.samples if each.labels.get("connector") == connector]

    def __call__(self, name: str, **labels: str) -> float | None:
        """None: there is no such series."""
        found = [
            each.value
            for each in self.samples
            if each.name == f"kafka_connect_{name}" and labels.items() <= each.labels.items()
        ]
        assert len(found) < 2, (name, labels)
        return found[0] if found else None


@pytest.fixture
def process(east, tmp_path):
    made = Process(tmp_path, east.client_properties())
    yield made
    made.stop()


@pytest.fixture
def url(process):
    exporter = MetricsExporter(process.metrics, host="127.0.0.1", port=0)
    exporter.start()
    yield exporter.url
    exporter.stop()


def test_metrics_say_what_moved_what_failed_and_forget_what_is_gone(
    east, topic, tmp_path, process, url
):
    name = topic()
    kafka.create_topic(east.client_properties(), name)
    out, into, bad = f"{name}-out", f"{name}-in", f"{name}-bad"
    read, written = tmp_path / "read", tmp_path / "written"
    read.write_text("one\ntwo\nthree\n")
    json = "org.apache.kafka.connect.json.JsonConverter"
    process.run(source(out, read, name))
    process.run(sink(into, written, name))
    process.run({**sink(bad, tmp_path / "never", name), "value.converter": json})
    with pytest.raises(ConnectError):
        process.worker.start_connector("none", {"connector.class": "NoSuchThing"}, STARTED)
    wait_for_lines(written, ["one", "two", "three"])
    process.wait_for(ConnectorTaskId(bad, 0), State.FAILED)
    eventually.eventually(
        lambda: Scraped(url)("sink_task_sink_record_active_count", connector=into) == 0,
        WAIT_S,
        lambda: "all is committed",
    )

    found = Scraped(url)
    for figure in ("source_record_poll_total", "source_record_write_total"):
        assert found(f"source_task_{figure}", connector=out, task="0") == 3
    assert found("source_task_source_record_active_count", connector=out) == 0
    for figure in ("sink_record_read_total", "sink_record_send_total"):
        assert found(f"sink_task_{figure}", connector=into, task="0") == 3
    assert found("sink_task_partition_count", connector=into) == 1
    assert found("sink_task_sink_record_send_total", connector=bad) == 0
    assert found("task_error_total_record_errors", connector=bad) == 1
    assert found("task_error_total_record_errors", connector=into) == 0
    assert found("connector_task_status", connector=bad, status="failed") == 1
    assert found("worker_connector_failed_task_count", connector=bad) == 1
    assert found("worker_connector_running_task_count", connector=out) == 1
    assert found("connector_connector_type", connector=out, connector_type="source") == 1
    java = "org.apache.kafka.connect.file.FileStreamSinkTask"
    assert found("connector_task_info", connector=into, task_class=java) == 1
    running_ratio = found("connector_task_running_ratio", connector=into)
    assert running_ratio is not None
    assert 0 < running_ratio <= 1
    assert found("worker_connector_count") == found("worker_task_count") == 3
    assert found("worker_connector_startup_success_total") == 3
    assert found("worker_connector_startup_failure_total") == 1
    assert found("worker_task_startup_success_total") == 3

    process.worker.stop_connectors_and_tasks(
        ConnectorsAndTasks(connectors=(bad,), tasks=(ConnectorTaskId(bad, 0),))
    )
    assert Scraped(url).of(bad) == []
    assert Scraped(url).of(into) != []
    process.worker.close()
    found = Scraped(url)
    assert found.of(out) == found.of(into) == []
    assert found("worker_task_count") == 0
    assert found("worker_task_startup_attempts_total") == 3
