"""Our worker's REST API beside Java's: asked the same both answer the same, and Java serves what
ours forwards.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import httpx
import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder import requests_to_other_workers
from connect_runtime.herder.requests_to_other_workers import PeerRefusedError, PeerResponse
from connect_runtime.rest.rest_client import RestClient
from connect_runtime.storage.cluster_config_state import ClusterConfigState, SessionKey
from connect_runtime.storage.config_topic import ConfigTopicState
from connect_runtime.system import system_clock
from tests.support import connect_workers, kafka
from tests.support.connect_workers import Group, Kind, Mode, Worker

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(400)]

JAVA, OURS = Kind.JAVA, Kind.OURS
SETTLE_S = 5.0
ACCESS = {
    "access.control.allow.origin": "http://a.example",
    "access.control.allow.methods": "PUT,GET",
    "response.http.headers.config": "add Cache-Control:no-cache, set X-A:b",
}
CONFIG = {"connector.class": "FileStreamSource", "topic": "t", "file": "/dev/null"}
SINK = {"connector.class": "FileStreamSink", "topics": "t", "file": "/dev/null"}
BAD = {
    "connector.class": "FileStreamSource",
    "tasks.max": "0",
    "batch.size": "many",
    "config.action.reload": "never",
}
"""Five errors: it has no topic either."""
JSON = "application/json"
GROUP = "beside-java"


@pytest.fixture(scope="module")
def groups(
    east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Kind, Group]]:
    """Of each kind a worker `leader`."""
    client, folder = east.client_properties(), tmp_path_factory.mktemp
    with (
        Group(client, GROUP, folder=folder("java"), settings=ACCESS) as java,
        Group(client, "beside-ours", folder=folder("ours"), settings=ACCESS) as ours,
    ):
        for group, kind in ((java, JAVA), (ours, OURS)):
            group.add("leader", kind).launch()
        for group in (java, ours):
            group["leader"].await_ready()
        yield {JAVA: java, OURS: ours}


@pytest.fixture(scope="module")
def alone(
    east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[Kind, Worker]]:
    """A standalone worker of each kind."""
    mode, folder = Mode.STANDALONE, tmp_path_factory.mktemp("alone")
    given = {"bootstrap.servers": east.bootstrap, **ACCESS}
    with contextlib.ExitStack() as workers:
        made = {
            kind: workers.enter_context(
                Worker(
                    kind,
                    {
                        **given,
                        "offset.storage.file.filename": str(folder / f"{kind.value}-offsets"),
                    },
                    folder=folder,
                    name=kind.value,
                    mode=mode,
                )
            )
            for kind in (JAVA, OURS)
        }
        yield made


def test_standalone_workers_answer_the_same(
    alone: dict[Kind, Worker],
) -> None:
    _compare(alone[JAVA], alone[OURS])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/connectors/internal/tasks", []), ("PUT", "/connectors/internal/fence", None)],
    ids=["task configs", "fence"],
)
def test_standalone_workers_refuse_what_workers_of_a_group_ask_each_other(
    alone: dict[Kind, Worker], method: str, path: str, body: object
) -> None:
    told = []
    for worker in (alone[JAVA], alone[OURS]):
        worker.configure("internal", CONFIG)
        answer = worker.ask(method, path, body)
        told.append((answer.status_code, answer.json()))
        worker.ask("DELETE", "/connectors/internal")
    assert told[0] == told[1]
    assert told[1][0] == 500


def test_workers_of_a_group_answer_the_same(
    groups: dict[Kind, Group],
) -> None:
    _compare(groups[JAVA]["leader"], groups[OURS]["leader"])


def _compare(java: Worker, ours: Worker) -> None:
    differ = []
    with _client(java) as asks_java, _client(ours) as asks_ours:
        for question in QUESTIONS:
            theirs, found = _answers(question, asks_java, asks_ours)
            if theirs != found:
                differ.append(f"{question}\n  Java: {theirs}\n  ours: {found}")
    assert differ == [], "\n".join(differ)


def _client(worker: Worker) -> httpx.Client:
    return httpx.Client(base_url=worker.url, trust_env=False, timeout=100)


def _answers(question: Question, *asked: httpx.Client) -> list[Any]:
    """What each says; who only looks looks again while what was asked before is being done."""
    method, path, options = question
    told: list[Any] = []

    def alike() -> bool:
        told[:] = [_told(each, each.request(method, path, **options)) for each in asked]
        return bool(told[0] == told[1])

    system_clock.wait_until(alike, timeout_s=SETTLE_S if method == "GET" else 0, interval_s=0.2)
    return told


Question: TypeAlias = tuple[str, str, dict[str, Any]]
QUESTIONS: list[Question] = [
    ("GET", "/", {}),
    ("GET", "/health", {}),
    ("GET", "/nope", {}),
    ("DELETE", "/", {}),
    ("HEAD", "/connectors", {}),
    ("GET", "/connectors/", {}),
    ("GET", "/connectors?expand=status", {}),
    (
        "POST",
        "/connectors",
        {"json": {"name": " c ", "config": CONFIG, "initial_state": "stopped"}},
    ),
    ("POST", "/connectors", {"json": {"name": "c", "config": CONFIG}}),
    ("POST", "/connectors", {"json": {"name": "d", "config": CONFIG, "initial_state": "odd"}}),
    ("POST", "/connectors", {"json": {"name": "d", "config": CONFIG | {"name": "e"}}}),
    ("POST", "/connectors", {"json": {"name": "d", "config": CONFIG, "more": 1}}),
    ("POST", "/connectors", {"json": {"name": "d"}}),
    ("POST", "/connectors", {"json": {"name": "d", "config": {"a": {"b": 1}}}}),
    ("POST", "/connectors", {"json": {"name": "d", "config": {}}}),
    ("POST", "/connectors", {"json": [1]}),
    ("POST", "/connectors", {"json": None, "headers": {"Content-Type": JSON}}),
    ("POST", "/connectors", {"content": b"{nope", "headers": {"Content-Type": JSON}}),
    ("POST", "/connectors", {"content": b"{}"}),
    ("POST", "/connectors", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}),
    ("GET", "/connectors", {"headers": {"Accept": "text/plain"}}),
    ("GET", "/connectors", {"headers": {"Accept": "text/html, */*;q=0.1"}}),
    ("GET", "/connectors", {"headers": {"Content-Type": "text/plain"}}),
    ("GET", "/connectors/c/config", {}),
    ("GET", "/connectors/none", {}),
    ("GET", "/connectors/none/config", {}),
    ("GET", "/connectors/none/status", {}),
    ("GET", "/connectors/none/tasks", {}),
    ("GET", "/connectors/c/tasks-config", {}),
    ("GET", "/connectors/c/tasks/9/status", {}),
    ("GET", "/connectors/c/tasks/x/status", {}),
    ("GET", "/connectors/c/topics", {}),
    ("GET", "/connectors/none/topics", {}),
    ("PUT", "/connectors/none/topics/reset", {}),
    ("PUT", "/connectors/c/config", {"json": CONFIG | {"name": "z"}}),
    ("PUT", "/connectors/c/config", {"json": {}}),
    ("PUT", "/connectors/c/config", {"json": CONFIG | {"x": True, "y": 1.5, "z": 7}}),
    ("PATCH", "/connectors/none/config", {"json": {}}),
    ("GET", "/connectors?expand=status&expand=info", {}),
    ("GET", "/connectors/c", {}),
    ("GET", "/connectors/c/config", {}),
    ("GET", "/connectors/c/status", {}),
    ("POST", "/connectors", {"json": {"name": "bad", "config": BAD}}),
    ("PUT", "/connectors/bad/config", {"json": BAD}),
    ("PUT", "/connectors/c/config", {"json": BAD}),
    ("PATCH", "/connectors/c/config", {"json": {"tasks.max": "-1", "topic": None}}),
    ("PUT", "/connectors/bad/config", {"json": SINK | {"topics.regex": "x"}}),
    ("PUT", "/connectors/bad/config", {"json": SINK | {"topics": ""}}),
    ("PUT", "/connectors/bad/config", {"json": SINK | {"topics": "a,a", "errors.tolerance": "x"}}),
    ("PUT", "/connectors/bad/config", {"json": CONFIG | {"value.converter": "Nope"}}),
    ("PUT", "/connectors/bad/config", {"json": CONFIG | {"connector.plugin.version": "[9"}}),
    ("PUT", "/connectors/bad/config", {"json": CONFIG | {"producer.override.acks": "1"}}),
    ("GET", "/connectors/bad", {}),
    ("POST", "/connectors/none/restart?includeTasks=true", {}),
    ("POST", "/connectors/c/tasks/x/restart", {}),
    ("PUT", "/connectors/c/pause", {}),
    ("PUT", "/connectors/none/pause", {}),
    ("PUT", "/connectors/none/resume", {}),
    ("GET", "/connectors/none/offsets", {}),
    ("PATCH", "/connectors/c/offsets", {"json": {"offsets": []}}),
    ("PATCH", "/connectors/c/offsets", {"json": {"x": 1}}),
    ("DELETE", "/connectors/c/offsets", {}),
    ("DELETE", "/connectors/none/offsets", {}),
    ("PUT", "/connectors/c/stop", {}),
    ("GET", "/connectors/c/offsets", {}),
    ("DELETE", "/connectors/c/offsets", {}),
    ("GET", "/connectors/c/tasks", {}),
    ("POST", "/connectors/c/tasks", {"content": b"[]", "headers": {"Content-Type": JSON}}),
    ("GET", "/connector-plugins/Nope/config", {}),
    ("GET", "/connector-plugins/FileStreamSource/config?version=9", {}),
    ("PUT", "/connector-plugins/FileStreamSink/config/validate", {"json": CONFIG}),
    ("GET", "/admin/loggers/nope", {}),
    ("PUT", "/admin/loggers/beside.java", {"json": {"level": "debug"}}),
    ("PUT", "/admin/loggers/beside.java", {"json": {"level": "odd"}}),
    ("PUT", "/admin/loggers/beside.java", {"json": {}}),
    ("PUT", "/admin/loggers/beside.java?scope=odd", {"json": {"level": "INFO"}}),
    ("PUT", "/admin/loggers/beside.java?scope=cluster", {"json": {"level": "WARN"}}),
    ("GET", "/connectors", {"headers": {"Origin": "http://a.example"}}),
    ("GET", "/connectors", {"headers": {"Origin": "http://b.example"}}),
    (
        "OPTIONS",
        "/connectors",
        {"headers": {"Origin": "http://a.example", "Access-Control-Request-Method": "DELETE"}},
    ),
    ("DELETE", "/connectors/c", {}),
    ("DELETE", "/connectors/c", {}),
    ("POST", "/connectors/c", {}),
]

_OWN = {
    "date",
    "server",
    "location",  # has the address of who was asked
    "content-length",
    "content-type",  # Java forgets it with errors of its framework
    "transfer-encoding",
    "allow",
    "access-control-allow-methods",  # in any order
}


_AS_TYPES = ("timestamp", "last_modified", "commit", "documentation")
"""Members whose values are each worker's own."""
_OWN_WORDS = (
    (re.compile(r"(?<=Connector config )\{.*\}"), "{…}"),  # Java shows passwords, too
    (re.compile(r"(?<=Unbounded range: \[9).*"), ""),  # we say how it is written
)


def _told(asked: httpx.Client, answer: httpx.Response) -> tuple[int, dict[str, str], Any]:
    """Status, headers and body, but for the address of who was asked and when it was."""
    headers = {name: value for name, value in answer.headers.items() if name not in _OWN}
    is_json = answer.headers.get("content-type") == JSON or answer.status_code >= 400
    if not is_json or not answer.content:
        return answer.status_code, headers, None
    body = json.loads(answer.text.replace(asked.base_url.netloc.decode(), "HERE"))
    if "message" in body:
        for words, instead in _OWN_WORDS:
            body["message"] = words.sub(instead, body["message"])
    if answer.status_code == httpx.codes.CREATED:
        body["tasks"] = "…"  # alone Java's has begun them by then; those who look see them soon
    if answer.status_code == httpx.codes.INTERNAL_SERVER_ERROR:
        body["message"] = "…"  # Java's tells of its classes
    return answer.status_code, headers, _plain(body)


def _plain(value: Any) -> Any:
    """Members stay in their order, but those of configurations; Java has none for names."""
    if isinstance(value, dict):
        if "connector.class" in value:
            return value
        return [
            (name, type(each).__name__ if name in _AS_TYPES else _plain(each))
            for name, each in value.items()
        ]
    if isinstance(value, list):
        return sorted((_plain(each) for each in value), key=str)
    return value


@pytest.fixture(scope="module")
def ours(groups: dict[Kind, Group]) -> Worker:
    """A worker of ours, which Java's leads."""
    return groups[JAVA].start("follower", OURS)


def test_java_serves_what_is_forwarded(ours: Worker) -> None:
    with _client(ours) as ask:
        made = {"name": "f", "config": CONFIG | {"gone": "1"}, "initial_state": "stopped"}
        answer = ask.post("/connectors", json=made)
        assert (answer.status_code, answer.json()["tasks"]) == (201, [])
        assert ask.post("/connectors", json=made).status_code == 409
        answer = ask.put("/connectors/%C3%A4%20x/config", json=CONFIG)
        assert (answer.status_code, answer.json()["name"]) == (201, "ä x")
        answer = ask.patch("/connectors/f/config", json={"gone": None, "more": 1})
        assert answer.json()["config"] == CONFIG | {"name": "f", "more": "1"}
        invalid = ask.patch("/connectors/f/config", json={"tasks.max": "0"})
        assert (invalid.status_code, invalid.json()["error_code"]) == (400, 400)
        offset = {"partition": {"filename": "ä"}, "offset": {"position": 2**40}}
        answer = ask.patch("/connectors/f/offsets", json={"offsets": [offset]})
        assert "altered successfully" in answer.json()["message"]
        assert ask.get("/connectors/f/offsets").json() == {"offsets": [offset]}
        assert ask.delete("/connectors/f/offsets").status_code == 200
        answer = ask.post("/connectors/%C3%A4%20x/restart?includeTasks=true")
        assert (answer.status_code, answer.json()["name"]) == (202, "ä x")
        assert ask.put("/connectors/%C3%A4%20x/stop").status_code == 204
        for name in ("f", "%C3%A4%20x"):
            assert ask.delete(f"/connectors/{name}").status_code == 204
            assert ask.delete(f"/connectors/{name}").status_code == 404


# Signed, to a leader in Java


@pytest.fixture(scope="module")
def leader(groups: dict[Kind, Group]) -> str:
    return groups[JAVA]["leader"].url


def _configured(east: SandboxCluster) -> ClusterConfigState:
    """What the group's config topic says by now."""
    log = ConfigTopicState()
    for each in kafka.read_partition(
        east.client_properties(), connect_workers.storage(GROUP)["config.storage.topic"]
    ):
        log.apply_record(each.key, each.value, offset=each.offset)
    return log.snapshot()


def test_a_java_leader_takes_task_configs_that_we_signed(east: SandboxCluster, leader: str) -> None:
    name, others = "ä 1", RestClient(timeout_s=60)
    made = {"name": name, "config": CONFIG, "initial_state": "paused"}
    assert httpx.post(f"{leader}/connectors", json=made, trust_env=False).status_code == 201
    key = _configured(east).session_key
    assert key is not None

    def send(signing: SessionKey | None) -> PeerResponse:
        configs = [CONFIG | {"task.class": "x", "note": "ä"}] * 2
        return others.send_and_wait(
            requests_to_other_workers.build_task_configs_request(
                leader, name, configs, key=signing, algorithm="HmacSHA256"
            )
        )

    assert send(key) == PeerResponse(status=204)
    view = _configured(east)
    assert view.task_count(name) == 2
    found = view.task_config(ConnectorTaskId(name, 1))
    assert found is not None
    assert found["note"] == "ä"
    with pytest.raises(PeerRefusedError) as refused:
        send(dataclasses.replace(key, key=b"x" * 32))
    assert refused.value.status == 403
    with pytest.raises(PeerRefusedError) as refused:
        send(None)
    assert refused.value.status == 400


@pytest.mark.parametrize(("genuine", "status"), [(True, 404), (False, 403)])
def test_a_java_leader_hears_a_signed_wish_to_fence(
    east: SandboxCluster, *, leader: str, genuine: bool, status: int
) -> None:
    key = _configured(east).session_key
    assert key is not None
    signing = key if genuine else dataclasses.replace(key, key=b"x" * 32)
    call = requests_to_other_workers.build_fence_request(
        leader, "none", key=signing, algorithm="HmacSHA256"
    )
    with pytest.raises(PeerRefusedError) as refused:
        RestClient(timeout_s=60).send_and_wait(call)
    assert refused.value.status == status
