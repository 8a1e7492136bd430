"""Internal topics and offset files change hands between Java's workers and our stores."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.kafka import internal_topic_logs
from connect_runtime.kafka.internal_topic_logs import InternalTopicLogs
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.storage import internal_topic_settings, offset_store
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.config_store import ConfigBackingStore
from connect_runtime.storage.internal_topic_log import SharedLogRecord
from connect_runtime.storage.internal_topic_settings import InternalTopicKind
from connect_runtime.storage.memory_and_offset_file_logs import OffsetFileLog
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.storage.status_records import RunState, RunStatus, TopicStatus
from connect_runtime.storage.status_store import StatusBackingStore
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import connect_workers, eventually, kafka
from tests.support.connect_workers import Kind, Mode, Worker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CLOCK = SystemClock()
WAIT_S = 30.0
State = RunState


class Stores:
    """Ours, on the topics of one cluster."""

    def __init__(self, running: SandboxCluster, name: str) -> None:
        logs = self.logs(running, name)
        self.changes: list[object] = []
        self.config = ConfigBackingStore(logs.config, clock=CLOCK, on_change=self.changes.append)
        self.offset = LogOffsetBackingStore(logs.offset)
        self.status = StatusBackingStore(logs.status, clock=CLOCK)

    @staticmethod
    def logs(running: SandboxCluster, name: str) -> InternalTopicLogs:
        given = connect_workers.storage(name)
        for each in InternalTopicKind:
            given[f"{each.value}replication.factor"] = "1"
        return internal_topic_logs.create_internal_topic_logs(
            KafkaClusterAccess(bootstrap=(running.bootstrap,)),
            internal_topic_settings.read_required_topics(given),
            group_id=name,
            clock=CLOCK,
        )

    def __enter__(self) -> Stores:
        for each in (self.config, self.offset, self.status):
            each.start(WAIT_S)
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self.config, self.offset, self.status):
            each.stop(5.0)


def source(path: Path, topic: str, *, name: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "tasks.max": "1",
        "file": str(path),
        "topic": topic,
    }


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"line {number}\n" for number in range(10)))
    return path


def values(running: SandboxCluster, topic: str) -> list[bytes | None]:
    return [each.value for each in kafka.read_partition(running.client_properties(), topic)]


def test_a_cluster_changes_hands(east, topic, lines, tmp_path, caplog):
    name, moved, made = topic("connect"), topic("moved"), topic("made")
    properties = {"bootstrap.servers": east.bootstrap, **connect_workers.storage(name)}
    for each in (moved, made):
        kafka.create_topic(east.client_properties(), each)
    caplog.set_level(logging.WARNING)
    with Stores(east, name) as ours:
        write_as_a_worker(ours, lines, moved)
        with Worker(Kind.JAVA, properties, folder=tmp_path) as java:
            java_goes_on(java, east, lines, moved)
            java_does_its_own(java, lines, made)
            we_read_it_as_it_comes(ours, java, lines)
            stays = java.get("/connectors?expand=info&expand=status")
            java.stop()
        with Stores(east, name) as later:
            later_workers_read_the_same(later, ours, stays)
    every_key_has_one_partition(east, name)
    assert "skipping" not in caplog.text


def write_as_a_worker(ours: Stores, lines: Path, topic: str) -> None:
    """Five of ten lines were read, as it seems; of another connector everything is stopped."""
    config = source(lines, topic, name="moved")
    ours.config.put_connector("moved", config)
    task = {
        **config,
        "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask",
    }
    ours.config.put_task_configs("moved", [task])
    ours.config.put_connector(
        "stopped",
        source(lines, topic, name="stopped"),
        target_state=TargetState.STOPPED,
    )
    ours.config.put_task_configs("stopped", [])
    ours.config.put_connector("removed", source(lines, topic, name="removed"))
    ours.config.remove_connector("removed")
    position = sum(len(f"line {number}\n") for number in range(5))
    pairs = [({"filename": str(lines)}, {"position": position})]
    offset_store.commit_offsets(ours.offset, "moved", pairs, timeout_s=WAIT_S)
    for subject in ("moved", ConnectorTaskId("moved", 0)):
        said = RunStatus(
            state=State.FAILED, worker_id="ours:8083", generation=1, trace="ours\n\tat x"
        )
        ours.status.put(subject, said)
    ours.status.put_topic_status(
        TopicStatus(topic="t-ours", connector="moved", task=0, discovered_ms=1)
    )
    ours.status.wait_for_writes(WAIT_S)


def java_goes_on(java: Worker, east: SandboxCluster, lines: Path, topic: str) -> None:
    assert sorted(java.get("/connectors")) == ["moved", "stopped"]
    assert java.get("/connectors/moved")["config"] == source(lines, topic, name="moved")
    eventually.eventually(lambda: java.runs("moved"), WAIT_S, java.log_text)
    assert java.get("/connectors/stopped/status")["connector"]["state"] == "STOPPED"
    eventually.eventually(lambda: len(values(east, topic)) >= 5, WAIT_S, java.log_text)
    assert values(east, topic) == [b"line %d" % number for number in range(5, 10)]
    assert "t-ours" in java.get("/connectors/moved/topics")["moved"]["topics"]
    offsets = java.get("/connectors/moved/offsets")["offsets"]
    assert [each["partition"] for each in offsets] == [{"filename": str(lines)}]


def java_does_its_own(java: Worker, lines: Path, topic: str) -> None:
    body = {
        "name": "made-1",
        "config": source(lines, topic, name="made-1"),
        "initial_state": "PAUSED",
    }
    assert java.ask("POST", "/connectors", body).status_code == 201
    body = {"name": "made 2-3", "config": source(lines, topic, name="made 2-3")}
    assert java.ask("POST", "/connectors", body).status_code == 201
    eventually.eventually(lambda: java.runs("made%202-3"), WAIT_S, java.log_text)
    path = "/connectors/made%202-3/restart?includeTasks=true&onlyFailed=false"
    assert java.ask("POST", path).status_code == 202
    body = {"level": "WARN"}
    assert java.ask("PUT", "/admin/loggers/org.x?scope=cluster", body).status_code == 204
    eventually.eventually(lambda: java.runs("made%202-3"), WAIT_S, java.log_text)
    assert java.ask("DELETE", "/connectors/moved").status_code == 204


def we_read_it_as_it_comes(ours: Stores, java: Worker, lines: Path) -> None:
    ours.config.refresh(WAIT_S)
    view = ours.config.snapshot()
    assert view.connectors() == ["made 2-3", "made-1", "stopped"]
    assert view.config("made 2-3") == java.get("/connectors/made%202-3")["config"]
    assert view.target_state("made-1") is TargetState.PAUSED
    (task,) = java.get("/connectors/made%202-3/tasks")
    assert view.task_config(ConnectorTaskId("made 2-3", 0)) == task["config"]
    assert view.session_key is not None
    assert len(view.session_key.key) == 32
    names = {type(each).__name__ for each in ours.changes}
    assert {"RestartRequested", "LoggerLevelSet", "SessionKeyChanged"} <= names
    restart = RestartRequest(connector="made 2-3", include_tasks=True)
    assert restart in [getattr(each, "request", None) for each in ours.changes]

    def said() -> bool:
        ours.status.refresh(WAIT_S)
        found = ours.status.snapshot()
        task_status = found.task(ConnectorTaskId("made 2-3", 0))
        assert task_status is not None
        assert task_status.state is State.RUNNING
        assert task_status.worker_id == java.address
        assert task_status.version == "4.3.1"
        assert found.connector("moved") is None
        assert found.tasks("moved") == {}
        return bool(found.topics("made 2-3"))

    eventually.eventually(said, WAIT_S)
    partition = {"filename": str(lines)}

    def committed() -> bool:
        return ours.offset.read_offsets("made 2-3", [partition], WAIT_S) == [
            {"position": lines.stat().st_size}
        ]

    eventually.eventually(committed, WAIT_S)
    assert ours.offset.read_all_offsets("made 2-3", WAIT_S) == [
        (partition, {"position": lines.stat().st_size})
    ]


def later_workers_read_the_same(later: Stores, ours: Stores, seen: dict) -> None:
    """What compaction would leave is not asked for here: all of it is read again."""
    ours.config.refresh(WAIT_S)
    view, before = later.config.snapshot(), ours.config.snapshot()
    assert view.entries.keys() >= before.entries.keys()
    for name in before.connectors():
        assert view.config(name) == before.config(name) == seen[name]["info"]["config"]
        assert view.tasks(name) == before.tasks(name)
        assert view.target_state(name) is before.target_state(name)
    assert view.session_key == before.session_key
    ours.status.refresh(WAIT_S)
    assert later.status.snapshot() == ours.status.snapshot()
    assert {each.state for each in later.status.snapshot().by_connector.values()} == {
        State.UNASSIGNED,
    }


class Places:
    """Implements `LogListener`: where each key was found."""

    def __init__(self) -> None:
        self.partitions: dict[bytes | None, set[int]] = {}

    def on_record(self, record: SharedLogRecord) -> None:
        self.partitions.setdefault(record.key, set()).add(record.partition)

    def on_replay_completed(self) -> None: ...

    def on_log_reset(self) -> None: ...


def every_key_has_one_partition(east: SandboxCluster, name: str) -> None:
    """Whoever wrote it: else one's last word would be read before the other's first."""
    logs = Stores.logs(east, name)
    places = Places()
    for log in (logs.offset, logs.status):
        log.start(places, WAIT_S)
        log.stop(5.0)
    assert {len(each) for each in places.partitions.values()} == {1}
    assert len(set().union(*places.partitions.values())) > 1
    assert {b"status-connector-moved", b"status-task-moved-0"} <= places.partitions.keys()


@pytest.mark.full
def test_an_offset_file_changes_hands(east, topic, lines, tmp_path):
    target, path = topic("lines"), tmp_path / "connect.offsets"
    kafka.create_topic(east.client_properties(), target)
    partition, position = {"filename": str(lines)}, len("line 0\n") * 3
    ours = LogOffsetBackingStore(OffsetFileLog(path))
    ours.start(WAIT_S)
    offset_store.commit_offsets(
        ours, "file", [(partition, {"position": position})], timeout_s=WAIT_S
    )
    ours.stop(WAIT_S)
    connector = source(lines, target, name="file")
    settings = {
        "bootstrap.servers": east.bootstrap,
        "offset.storage.file.filename": str(path),
    }
    with Worker(
        Kind.JAVA,
        settings,
        folder=tmp_path,
        mode=Mode.STANDALONE,
        connectors=(connector,),
    ) as java:
        eventually.eventually(lambda: len(values(east, target)) >= 7, WAIT_S, java.log_text)
        assert values(east, target) == [b"line %d" % number for number in range(3, 10)]
        java.stop()
    after = LogOffsetBackingStore(OffsetFileLog(path))
    after.start(WAIT_S)
    try:
        assert after.read_offsets("file", [partition], WAIT_S) == [
            {"position": lines.stat().st_size}
        ]
    finally:
        after.stop(WAIT_S)
