"""Offsets of connectors viewed, altered and reset: asked the same, Java's worker and ours say the
same, of the same consumer group and of a source each."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest

from connect_runtime.base.errors import ConnectError
from connect_runtime.config import worker_config
from connect_runtime.herder.herder_interface import ConnectRestError
from connect_runtime.kafka.task_client_factory import KafkaTaskClients
from connect_runtime.network import keystore_files
from connect_runtime.plugins import plugin_discovery
from connect_runtime.rest import request_bodies, rest_responses
from connect_runtime.storage import cluster_config_state, offset_file_format
from connect_runtime.storage.memory_and_offset_file_logs import OffsetFileLog
from connect_runtime.storage.offset_store import LogOffsetBackingStore
from connect_runtime.system.system_clock import SystemClock
from connect_runtime.worker.connector_offsets import ConnectorOffsetRequests
from connect_runtime.worker.task_factory import WorkerDeps
from connect_runtime.worker.worker_metrics import WorkerMetrics
from tests.fakes.task_clients import Membership, Statuses
from tests.support import eventually, kafka
from tests.support.connect_workers import Kind, Mode, Worker

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(300)]

CLOCK = SystemClock()
TOPIC = "offsets-beside-java"
SINK = {
    "name": "beside-sink",
    "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
    "topics": TOPIC,
    "file": "/dev/null",
    "consumer.override.group.id": "beside-group",
}
SOURCE = {
    "name": "beside-source",
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "topic": TOPIC,
    "file": "/dev/null",
}
STDIN = {**SOURCE, "name": "beside-stdin"}
del STDIN["file"]
BIG = 99_999_999_999_999_999_999

Question = tuple[str, Any]
GET: Question = ("GET", None)
DELETE: Question = ("DELETE", None)


def patch(*pairs: tuple[Any, Any]) -> Question:
    return "PATCH", {"offsets": [{"partition": at, "offset": offset} for at, offset in pairs]}


def place(partition: Any, topic: Any = TOPIC) -> dict[str, Any]:
    return {"kafka_topic": topic, "kafka_partition": partition}


def at(offset: Any) -> dict[str, Any]:
    return {"kafka_offset": offset}


OF_SINKS = [
    GET,
    DELETE,
    patch((place(0), at(5)), (place("1"), at("7"))),
    GET,
    patch((place(1), None), (place(0), at(6))),
    GET,
    patch((place(1), None)),
    patch((place(0), {**at(8), "more": [1]})),
    GET,
    # what is wrong with them
    patch((None, at(1))),
    patch(({}, at(1))),
    patch(({"kafka_topic": TOPIC}, at(1))),
    patch((place(0, None), at(1))),
    patch((place(None), at(1))),
    *(patch((place(each), at(1))) for each in ("x", 1.5, 3_000_000_000, True, [0], " 0", "")),
    patch((place(0), {})),
    *(
        patch((place(0), at(each)))
        for each in (None, "x", 1.5, 1e300, 1e25, BIG, [1, "a"], {"a": None}, False, "0x1")
    ),
    patch((place(0), at(-1))),
    patch((place(0, 5), at(1))),
    patch((place(99), at(1))),
    patch((place(-1), at(1))),
    patch((place(0, "no-such-topic"), at(1))),
    patch((place(0, "no-such-topic"), None)),
    patch((place(0, "bad topic!"), at(1))),
    GET,
]
WHILE_READ = [patch((place(0), at(1))), patch((place(0), None)), DELETE]
AFTERWARDS = [GET, DELETE, GET, DELETE, patch((place(0), None))]

FILE = {"filename": "/dev/null"}
OF_SOURCES = [
    GET,
    DELETE,
    patch((FILE, {"position": 5})),
    GET,
    patch(({"filename": "b", "zz": None, "a": 1.5, "Bb": True, "long": 2**40}, {"position": 0})),
    patch(({}, None), (None, None), (FILE, {"position": 9})),
    GET,
    # what is wrong with them
    patch((FILE, {"position": -1})),
    patch((FILE, {"position": "5"})),
    patch((FILE, {"position": 5.0})),
    patch((FILE, {})),
    patch(({}, {"position": 5})),
    patch((None, {"position": 5})),
    patch((FILE, {"position": [5]})),
    patch((FILE, {"position": {"a": 5}})),
    patch((FILE, {"position": BIG})),
    patch(({"filename": ["a"]}, None)),
    patch(({"filename": {}}, None)),
    GET,
    DELETE,
    GET,
    DELETE,
]
OF_STDIN = [GET, patch((FILE, {"position": 5})), DELETE]


class Ours:
    """What the worker says, as REST tells it."""

    def __init__(self, folder: pathlib.Path, properties: dict[str, str]) -> None:
        offsets = LogOffsetBackingStore(OffsetFileLog(folder / "our-offsets"))
        offsets.start(10.0)
        self.requests = ConnectorOffsetRequests(
            WorkerDeps(
                config=worker_config.parse_standalone_config(
                    {
                        **properties,
                        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
                        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
                        "offset.storage.file.filename": str(folder / "our-offsets"),
                    }
                ),
                worker_id="here:8083",
                generation=lambda: 0,
                configs=lambda: cluster_config_state.EMPTY_CONFIG_STATE,
                installed=plugin_discovery.discover_plugins(file_paths=["/"]),
                clients=KafkaTaskClients(
                    files=keystore_files.create_store_files(folder), clock=CLOCK
                ),
                statuses=Statuses(),
                offsets=offsets,
                resolve=dict,
                membership=Membership(),
                metrics=WorkerMetrics("here:8083", CLOCK),
                clock=CLOCK,
            )
        )

    def ask(self, config: dict[str, str], question: Question) -> tuple[int, Any]:
        method, body = question
        name = config["name"]
        try:
            if method == "GET":
                return 200, rest_responses.encode_connector_offsets(
                    self.requests.read_offsets(name, config)
                )
            given = (
                None
                if body is None
                else request_bodies.parse_offset_changes(json.dumps(body).encode())
            )
            return 200, {"message": self.requests.modify_offsets(name, config, given).message}
        except ConnectRestError as error:
            return error.status, {"error_code": error.status, "message": str(error)}
        except ConnectError as error:
            return 500, {"error_code": 500, "message": str(error)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    return tmp_path_factory.mktemp("java")


@pytest.fixture(scope="module")
def java(east: SandboxCluster, folder: pathlib.Path) -> Iterator[Worker]:
    kafka.create_topic(east.client_properties(), TOPIC, partitions=2)
    settings = {
        **east.client_properties(),
        "offset.storage.file.filename": str(folder / "offsets"),
        "connector.client.config.override.policy": "All",
    }
    with Worker(Kind.JAVA, settings, folder=folder, mode=Mode.STANDALONE) as worker:
        for config in (SINK, SOURCE, STDIN):
            body = {"name": config["name"], "config": config, "initial_state": "STOPPED"}
            answer = worker.ask("POST", "/connectors", body)
            assert answer.is_success, answer.text
        yield worker


@pytest.fixture
def ours(east: SandboxCluster, tmp_path: pathlib.Path) -> Ours:
    return Ours(tmp_path, dict(east.client_properties()))


def of_java(worker: Worker, config: dict[str, str], questions: list[Question]) -> list[Any]:
    answers = []
    for method, body in questions:
        answer = worker.ask(method, f"/connectors/{config['name']}/offsets", body)
        answers.append(told(answer.status_code, answer.json()))
    return answers


def told(status: int, body: dict[str, Any]) -> Any:
    """Java lists offsets in no order."""
    if "offsets" in body:
        return status, sorted(json.dumps(each, sort_keys=True) for each in body["offsets"])
    return status, body


def of_ours(ours: Ours, config: dict[str, str], questions: list[Question]) -> list[Any]:
    return [told(*ours.ask(config, each)) for each in questions]


def differences(questions: list[Question], theirs: list[Any], our: list[Any]) -> list[Any]:
    assert len(questions) == len(theirs) == len(our)
    every = zip(questions, theirs, our, strict=True)
    return [(asked, one, other) for asked, one, other in every if one != other]


def test_a_sinks_offsets(java, ours, east):
    theirs = of_java(java, SINK, OF_SINKS)
    of_ours(ours, SINK, [DELETE])
    assert differences(OF_SINKS, theirs, of_ours(ours, SINK, OF_SINKS)) == []

    consumer = confluent_kafka.Consumer(
        kafka.client_config(
            east.client_properties(), group_id="beside-group", auto_offset_reset="earliest"
        )
    )
    consumer.subscribe([TOPIC])
    eventually.eventually(
        lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2,
        30.0,
        "the consumer joins",
    )
    theirs = of_java(java, SINK, WHILE_READ)
    assert differences(WHILE_READ, theirs, of_ours(ours, SINK, WHILE_READ)) == []
    assert all(status == 500 for status, _ in theirs)
    consumer.close()

    theirs = of_java(java, SINK, AFTERWARDS)
    of_ours(ours, SINK, [patch((place(0), at(8)))])
    assert differences(AFTERWARDS, theirs, of_ours(ours, SINK, AFTERWARDS)) == []


@pytest.mark.parametrize(("config", "questions"), [(SOURCE, OF_SOURCES), (STDIN, OF_STDIN)])
def test_a_sources_offsets(java, ours, config, questions):
    theirs = of_java(java, config, questions)
    assert differences(questions, theirs, of_ours(ours, config, questions)) == []


def test_a_source_finds_its_offsets_again_whoever_altered_them(java, ours, folder, tmp_path):
    """Under the same bytes: so they are found."""
    topic = {"topic": "t", "partition": 3, "cluster": "east", "filename": "ü\U0001f600"}
    mixed = {"zz": None, "filename": "b", "a": 1.5, "Bb": True, "Aa": 2**40, "d": 1e25}
    questions = [patch((topic, {"position": 1, "b": 2.0}), (mixed, {"position": 0}))]
    assert of_java(java, SOURCE, questions) == of_ours(ours, SOURCE, questions)
    theirs = offset_file_format.decode_offsets((folder / "offsets").read_bytes())
    assert theirs == offset_file_format.decode_offsets((tmp_path / "our-offsets").read_bytes())
    assert len(theirs) == 2
