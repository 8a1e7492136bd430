"""Clients that other people wrote: one from PyPI, and curl as Kafka's documentation uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect_runtime.core.state import cluster_config
from tests.fakes import rest_herder
from tests.support import rest_server

CLIENT = "kafka-connect-py==1.0.0"
SESSION = Path(__file__).with_name("rest_session.py")
DEADLINE_S = 180
CONFIG = {
    "connector.class": "FileStreamSource",
    "topic": "t",
    "tasks.max": "2",
    "file": "/dev/null",
}


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


@pytest.mark.full
@pytest.mark.timeout(2 * DEADLINE_S)
@pytest.mark.parametrize("users", [None, {"alice": "secret"}])
def test_a_client_from_pypi(client: Path, users: dict[str, str] | None) -> None:
    login = [] if users is None else ["alice:secret"]
    with rest_server.serving(rest_herder.FakeHerder(), users=users) as running:
        said = json.loads(run(client, SESSION, running.advertised_url.rstrip("/"), *login))
    told = dict(enumerate(said.values()))
    assert told[0]["version"] == "4.3.1"
    assert told[1]["config"] == CONFIG | {"name": "c"}
    assert [told[2]["tasks"], len(told[3]["tasks"])] == [[], 2]
    assert told[4] == ["c", "d"]
    assert sorted(told[5]) == ["c", "d"]
    assert told[6]["d"]["info"]["config"]["tasks.max"] == "1"
    assert told[7]["type"] == "source"
    assert told[8] == told[7]["config"]
    assert [each["id"] for each in told[9]["tasks"]] == [0, 1]
    assert told[10][1]["id"] == {"connector": "c", "task": 1}
    assert told[11]["state"] == "RUNNING"
    assert [told[each] for each in (12, 13, 15, 16, 18, 19, 22, 25, 26)] == [None] * 9
    assert told[14]["connector"]["state"] == "RESTARTING"
    assert told[17]["connector"]["state"] == "PAUSED"
    assert (told[20]["connector"]["state"], told[20]["tasks"]) == ("STOPPED", [])
    assert told[21] == {"c": {"topics": []}}
    assert [each["type"] for each in told[23]] == ["sink", "source"]
    assert told[24]["error_count"] == 1
    assert told[27] == []


@pytest.fixture
def curl() -> Iterator[Any]:
    """`curl(path, *options)`: the status, and the answer's JSON if there is any."""
    herder = rest_herder.FakeHerder()
    herder.make("c", {"tasks.max": "2"})
    herder.make("s", state=cluster_config.TargetState.STOPPED)
    with rest_server.serving(herder) as running:

        def ask(path: str, *options: str) -> tuple[int, Any]:
            status = ["-w", "\n%{http_code}"]
            url = running.advertised_url.rstrip("/") + path
            said = run("curl", "-q", "-sS", "--noproxy", "*", *status, *options, url)
            body, _, code = said.rpartition("\n")
            return int(code), json.loads(body) if body else None

        yield ask


JSON = ["-H", "Content-Type: application/json"]


def test_curl_as_the_documentation_has_it(curl: Any) -> None:
    assert curl("/")[0] == 200
    assert curl("/connectors") == (200, ["c", "s"])
    assert sorted(curl("/connectors?expand=status&expand=info")[1]["c"]) == ["info", "status"]
    made = json.dumps({"name": "n", "config": CONFIG})
    assert curl("/connectors", "-X", "POST", *JSON, "-d", made)[0] == 201
    assert curl("/connectors", *JSON, "--data", made)[0] == 409
    assert curl("/connectors/n/config", "-X", "PUT", *JSON, "-d", json.dumps(CONFIG))[0] == 200
    patch = json.dumps({"file": None})
    assert curl("/connectors/n/config", "-X", "PATCH", *JSON, "-d", patch)[0] == 200
    assert curl("/connectors/n/restart", "-X", "POST") == (204, None)
    assert curl("/connectors/n/restart?includeTasks=true&onlyFailed=true", "-XPOST")[0] == 202
    assert curl("/connectors/n/tasks/0/restart", "-X", "POST", "-d", "", *JSON) == (204, None)
    assert curl("/connectors/n/pause", "-X", "PUT") == (202, None)
    assert curl("/connectors/n/resume", "-X", "PUT") == (202, None)
    assert curl("/connectors/n/stop", "-X", "PUT") == (204, None)
    offsets = {"offsets": [{"partition": {"filename": "f"}, "offset": {"position": 30}}]}
    given = json.dumps(offsets)
    assert curl("/connectors/s/offsets", "-X", "PATCH", *JSON, "-d", given)[0] == 200
    assert curl("/connectors/s/offsets") == (200, offsets)
    assert curl("/connectors/s/offsets", "-X", "DELETE")[0] == 200
    assert curl("/connectors/n/topics") == (200, {"n": {"topics": []}})
    assert curl("/connectors/n/topics/reset", "-X", "PUT") == (202, None)
    assert curl("/connectors/n", "-X", "DELETE") == (204, None)
    assert curl("/connectors/n") == (404, {"error_code": 404, "message": "Connector n not found"})
    assert len(curl("/connector-plugins?connectorsOnly=false")[1]) == 3
    validated = curl(
        "/connector-plugins/FileStreamSource/config/validate",
        "-X", "PUT", *JSON, "-d", json.dumps(CONFIG),
    )  # fmt: skip
    assert validated[1]["error_count"] == 0
    assert curl("/admin/loggers/org.apache", "-XPUT", *JSON, "-d", '{"level": "INFO"}')[0] == 200
    cluster = "/admin/loggers/org.apache?scope=cluster"
    assert curl(cluster, "-X", "PUT", *JSON, "-d", '{"level": "DEBUG"}') == (204, None)
    assert curl("/health")[1]["status"] == "healthy"
