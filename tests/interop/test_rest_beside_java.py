"""Our REST API beside Java's: asked the same it answers the same, and Java serves what we forward.

Behind ours is a herder in name only, so what is asked is what REST itself decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from connect_runtime.adapters.http import peers
from connect_runtime.base import ids
from connect_runtime.core.state import cluster_config, config_log
from connect_runtime.ports import peers as peers_port
from connect_runtime.rest import settings
from tests.fakes import rest_herder
from tests.support import connect_workers, kafka, rest_server

if TYPE_CHECKING:
    from mm2.sandbox import cluster

pytestmark = [pytest.mark.full, pytest.mark.integration, pytest.mark.timeout(300)]

JAVA = connect_workers.Kind.JAVA
ACCESS = {
    "access.control.allow.origin": "http://a.example",
    "access.control.allow.methods": "PUT,GET",
    "response.http.headers.config": "add Cache-Control:no-cache, set X-A:b",
}
CONFIG = {"connector.class": "FileStreamSource", "topic": "t", "file": "/dev/null"}
JSON = "application/json"


@pytest.fixture(scope="module")
def java(east: cluster.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("java")
    settings_of = {
        "bootstrap.servers": east.bootstrap,
        "offset.storage.file.filename": str(folder / "offsets"),
        **ACCESS,
    }
    mode = connect_workers.Mode.STANDALONE
    with connect_workers.Worker(JAVA, settings_of, folder=folder, mode=mode) as running:
        yield running.url


def client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, trust_env=False, verify=False, timeout=100)


def test_the_same_questions_get_the_same_answers(java: str) -> None:
    configured = rest_server.at(**_like(settings.read(ACCESS)))
    herder = rest_herder.FakeHerder()
    with (
        rest_server.serving(herder, configured) as running,
        client(java) as asks_java,
        client(running.advertised_url) as asks_ours,
    ):
        differ = []
        for method, path, options in QUESTIONS:
            theirs = asks_java.request(method, path, **options)
            ours = asks_ours.request(method, path, **options)
            if _told(theirs) != _told(ours):
                differ.append((method, path, options, _told(theirs), _told(ours)))
        assert differ == []


def _like(read: settings.RestSettings) -> dict[str, Any]:
    return {"access": read.access, "response_headers": read.response_headers}


QUESTIONS: list[tuple[str, str, dict[str, Any]]] = [
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
    ("POST", "/connectors/c/tasks", {"content": b"x", "headers": {"Content-Type": JSON}}),
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


def _told(answer: httpx.Response) -> tuple[int, dict[str, str], Any]:
    """Status, headers, and the shape of the body: what members of which type, in which order."""
    headers = {name: value for name, value in answer.headers.items() if name not in _OWN}
    is_json = answer.headers.get("content-type") == JSON or answer.status_code >= 400
    body = answer.json() if is_json and answer.content else None
    return answer.status_code, headers, _shape(body)


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [(name, _shape(each)) for name, each in value.items()]
    if isinstance(value, list):
        return [_shape(each) for each in value]
    return type(value).__name__


def test_java_serves_what_is_forwarded(java: str) -> None:
    herder = rest_herder.FakeHerder()
    for name in ("f", "ä x"):
        herder.make(name)
    herder.leads, herder.leader_url = False, f"{java}/"
    others = peers.HttpPeers(timeout_s=60)
    with (
        rest_server.serving(herder, among=others) as running,
        client(running.advertised_url) as ask,
    ):
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
        assert httpx.get(f"{java}/connectors/f/offsets", trust_env=False).json() == {
            "offsets": [offset]
        }
        assert ask.delete("/connectors/f/offsets").status_code == 200
        answer = ask.post("/connectors/%C3%A4%20x/restart?includeTasks=true")
        assert (answer.status_code, answer.json()["name"]) == (202, "ä x")
        assert ask.put("/connectors/%C3%A4%20x/stop").status_code == 204
        for name in ("f", "%C3%A4%20x"):
            assert ask.delete(f"/connectors/{name}").status_code == 204
            assert ask.delete(f"/connectors/{name}").status_code == 404


# Signed, to a leader in Java


@pytest.fixture(scope="module")
def leader(east: cluster.Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("leader")
    with connect_workers.Group(east.client_properties(), GROUP, folder=folder) as group:
        yield group.start("leader", JAVA).url


GROUP = "beside-java"


def _configured(east: cluster.Cluster) -> cluster_config.ClusterConfig:
    """What the group's config topic says by now."""
    log = config_log.ConfigLog()
    for each in kafka.read_partition(
        east.client_properties(), connect_workers.storage(GROUP)["config.storage.topic"]
    ):
        log.apply(each.key, each.value, offset=each.offset)
    return log.snapshot()


def test_a_java_leader_takes_task_configs_that_we_signed(
    east: cluster.Cluster, leader: str
) -> None:
    name, others = "ä 1", peers.HttpPeers(timeout_s=60)
    made = {"name": name, "config": CONFIG, "initial_state": "paused"}
    assert httpx.post(f"{leader}/connectors", json=made, trust_env=False).status_code == 201
    key = _configured(east).session_key
    assert key is not None

    def send(signing: cluster_config.SessionKey | None) -> peers_port.Said:
        configs = [CONFIG | {"task.class": "x", "note": "ä"}] * 2
        return others.send_and_wait(
            peers_port.task_configs(leader, name, configs, key=signing, algorithm="HmacSHA256")
        )

    assert send(key) == peers_port.Said(status=204)
    view = _configured(east)
    assert view.task_count(name) == 2
    found = view.task_config(ids.ConnectorTaskId(name, 1))
    assert found is not None
    assert found["note"] == "ä"
    with pytest.raises(peers_port.PeerRefused) as refused:
        send(dataclasses.replace(key, key=b"x" * 32))
    assert refused.value.status == 403
    with pytest.raises(peers_port.PeerRefused) as refused:
        send(None)
    assert refused.value.status == 400


@pytest.mark.parametrize(("genuine", "status"), [(True, 404), (False, 403)])
def test_a_java_leader_hears_a_signed_wish_to_fence(
    east: cluster.Cluster, *, leader: str, genuine: bool, status: int
) -> None:
    key = _configured(east).session_key
    assert key is not None
    signing = key if genuine else dataclasses.replace(key, key=b"x" * 32)
    call = peers_port.fence(leader, "none", key=signing, algorithm="HmacSHA256")
    with pytest.raises(peers_port.PeerRefused) as refused:
        peers.HttpPeers(timeout_s=60).send_and_wait(call)
    assert refused.value.status == status
