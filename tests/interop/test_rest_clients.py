"""Clients that other people wrote, at workers of both kinds: one from PyPI, and curl as Kafka's
documentation uses it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import eventually
from tests.support.connect_workers import Group, Kind, Worker

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster


pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

JAVA, OURS = Kind.JAVA, Kind.OURS
CLIENT = "kafka-connect-py==1.0.0"
SESSION = Path(__file__).with_name("rest_session.py")
DEADLINE_S = 180
SETTLE_S = 30.0
CONFIG = {
    "connector.class": "FileStreamSource",
    "topic": "t",
    "tasks.max": "2",
    "file": "/dev/null",
}
LOGIN = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"


def run(*argv: str | Path) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert done.returncode == 0, (argv, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has the client, and nothing of ours."""
    folder = tmp_path_factory.mktemp("client")
    run(sys.executable, "-m", "venv", folder)
    run(folder / "bin/pip", "install", "--quiet", "--disable-pip-version-check", CLIENT)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def workers(
    east: SandboxCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Kind], Worker]]:
    """One of each kind, in a group of its own, started for who asks first."""
    client, folder = east.client_properties(), tmp_path_factory.mktemp("workers")
    with (
        Group(client, "clients-of-java", folder=folder) as java,
        Group(client, "clients-of-ours", folder=folder) as ours,
    ):
        groups = {JAVA: java, OURS: ours}

        def worker(kind: Kind) -> Worker:
            group = groups[kind]
            return group[kind.value] if group.workers else group.start(kind.value, kind)

        yield worker


def session(client: Path, worker: Worker, *login: str) -> list[Any]:
    """What the client's library returned, call by call; the worker's address is HERE."""
    said = run(client, SESSION, worker.url, *login).replace(worker.address, "HERE")
    return list(json.loads(said).values())


def check(told: list[Any]) -> None:
    assert told[0]["version"] == "4.3.1"
    assert told[1]["config"] == CONFIG | {"name": "c"}
    assert [told[2]["tasks"], len(told[3]["tasks"])] == [[], 1]
    assert sorted(told[4]) == ["c", "d"]
    assert sorted(told[5]) == ["c", "d"]
    assert told[6]["d"]["info"]["config"]["tasks.max"] == "1"
    assert told[7]["type"] == "source"
    assert told[8] == told[7]["config"]
    assert [each["id"] for each in told[9]["tasks"]] == [0]
    assert told[10][0]["id"] == {"connector": "c", "task": 0}
    assert told[11]["state"] == "RUNNING"
    assert [told[each] for each in (12, 13, 15, 16, 18, 19, 22, 25, 26)] == [None] * 9
    assert told[14]["connector"]["state"] == "RESTARTING"
    assert told[17]["connector"]["state"] == "PAUSED"
    assert (told[20]["connector"]["state"], told[20]["tasks"]) == ("STOPPED", [])
    assert told[21] == {"c": {"topics": []}}
    assert {each["type"] for each in told[23]} == {"sink", "source"}
    assert told[24]["error_count"] == 2  # no name, no topic
    assert told[27] == []


@pytest.mark.full
def test_a_client_from_pypi_sees_no_difference(client, workers):
    ours, java = (session(client, workers(kind)) for kind in (OURS, JAVA))
    check(ours)
    check(java)
    for told in (ours, java):
        told[0]["commit"] = "of its own"
        told[4].sort()
        told[23] = [each for each in told[23] if "FileStream" in each["class"]]
        configs = told[24]["configs"]  # what they say of each, test_java_validation compares
        told[24] = told[24]["error_count"], sorted(each["value"]["name"] for each in configs)
    for number, (found, expected) in enumerate(zip(ours, java, strict=True)):
        assert found == expected, number


@pytest.mark.full
def test_a_client_from_pypi_logs_in(client, connect_group, tmp_path, monkeypatch):
    jaas, users = tmp_path / "jaas.conf", tmp_path / "users"
    users.write_text("alice=secret\n")
    jaas.write_text(f'KafkaConnect {{ {MODULE} required file="{users}"; }};\n')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas}")
    group = connect_group(settings={"rest.extension.classes": LOGIN})
    worker = group.add("one", OURS).launch()
    eventually.eventually(
        lambda: worker.runs_process and "Kafka Connect started" in worker.log_text(), SETTLE_S
    )
    assert worker.ask("GET", "/connectors").status_code == 401
    check(session(client, worker, "alice:secret"))


KINDS = pytest.mark.parametrize(
    "kind", [OURS, pytest.param(JAVA, marks=pytest.mark.full)], ids=lambda each: each.value
)
JSON = ["-H", "Content-Type: application/json"]
PASSING = ("rebalance", "stale configuration")  # what Java says of a request for a later time


class Curl:
    """`curl(path, *options)`: the status, and the answer's JSON if there is any.

    While the group rebalances, or is about to, it is asked again, as the documentation says.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def __call__(self, path: str, *options: str) -> tuple[int, Any]:
        found: list[tuple[int, Any]] = []

        def answered() -> bool:
            found[:] = [self._once(path, *options)]
            code, said = found[0]
            return code != 409 or not any(each in said["message"] for each in PASSING)

        eventually.eventually(answered, SETTLE_S, interval_s=0.2)
        return found[0]

    def _once(self, path: str, *options: str) -> tuple[int, Any]:
        status = ["-w", "\n%{http_code}"]
        said = run("curl", "-q", "-sS", "--noproxy", "*", *status, *options, self.worker.url + path)
        body, _, code = said.rpartition("\n")
        return int(code), json.loads(body) if body else None

    def until(self, expected: object, path: str, *options: str) -> None:
        """Until it is answered so: what was asked before has been done then."""
        eventually.eventually(
            lambda: self(path, *options) == expected,
            SETTLE_S,
            lambda: f"{path}: {self(path, *options)}, not {expected}",
            interval_s=0.2,
        )


@KINDS
def test_curl_does_with_connectors_what_the_documentation_says(workers, kind):
    curl = Curl(workers(kind))
    assert curl("/connectors") == (200, [])
    made = json.dumps({"name": "s", "config": CONFIG, "initial_state": "STOPPED"})
    assert curl("/connectors", "-X", "POST", *JSON, "-d", made)[0] == 201
    made = json.dumps({"name": "n", "config": CONFIG})
    assert curl("/connectors", "-X", "POST", *JSON, "-d", made)[0] == 201
    assert curl("/connectors", *JSON, "--data", made)[0] == 409
    expanded = curl("/connectors?expand=status&expand=info")[1]
    assert {name: sorted(each) for name, each in expanded.items()}["n"] == ["info", "status"]
    assert curl("/connectors/n/config", "-X", "PUT", *JSON, "-d", json.dumps(CONFIG))[0] == 200
    patch = json.dumps({"tasks.max": None, "batch.size": "10"})
    code, patched = curl("/connectors/n/config", "-X", "PATCH", *JSON, "-d", patch)
    assert (code, sorted(patched["config"])) == (
        200,
        ["batch.size", "connector.class", "file", "name", "topic"],
    )
    eventually.eventually(lambda: curl.worker.runs("n"), SETTLE_S)
    assert curl("/connectors/n/restart", "-X", "POST") == (204, None)
    assert curl("/connectors/n/restart?includeTasks=true&onlyFailed=true", "-XPOST")[0] == 202
    assert curl("/connectors/n/tasks/0/restart", "-X", "POST", "-d", "", *JSON) == (204, None)
    for state, word in (("PAUSED", "pause"), ("RUNNING", "resume")):
        assert curl(f"/connectors/n/{word}", "-X", "PUT") == (202, None)
        running = {"id": 0, "state": state, "worker_id": curl.worker.address, "version": "4.3.1"}
        curl.until((200, running), "/connectors/n/tasks/0/status")
    assert curl("/connectors/n/stop", "-X", "PUT") == (204, None)
    curl.until((200, []), "/connectors/n/tasks")
    offsets = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 30}}]}
    given = json.dumps(offsets)
    assert curl("/connectors/s/offsets", "-X", "PATCH", *JSON, "-d", given)[0] == 200
    assert curl("/connectors/s/offsets") == (200, offsets)
    assert curl("/connectors/s/offsets", "-X", "DELETE")[0] == 200
    assert curl("/connectors/s/offsets") == (200, {"offsets": []})
    assert curl("/connectors/n/topics") == (200, {"n": {"topics": []}})
    assert curl("/connectors/n/topics/reset", "-X", "PUT") == (202, None)
    for name in ("n", "s"):
        assert curl(f"/connectors/{name}", "-X", "DELETE") == (204, None)
    assert curl("/connectors/n") == (404, {"error_code": 404, "message": "Connector n not found"})


@KINDS
def test_curl_asks_what_a_worker_has(workers, kind):
    curl = Curl(workers(kind))
    assert curl("/")[1]["version"] == "4.3.1"
    assert len(curl("/connector-plugins?connectorsOnly=false")[1]) > 5
    validated = curl(
        "/connector-plugins/FileStreamSource/config/validate",
        "-X", "PUT", *JSON, "-d", json.dumps(CONFIG | {"name": "n"}),
    )  # fmt: skip
    assert validated[1]["error_count"] == 0
    assert curl("/admin/loggers/org.apache", "-XPUT", *JSON, "-d", '{"level": "INFO"}')[0] == 200
    cluster = "/admin/loggers/org.apache?scope=cluster"
    assert curl(cluster, "-X", "PUT", *JSON, "-d", '{"level": "DEBUG"}') == (204, None)
    assert curl("/health")[1]["status"] == "healthy"
