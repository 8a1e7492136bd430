from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base import ids
from connect_runtime.core.herder import requests
from connect_runtime.core.state import cluster_config, config_records, status_records
from connect_runtime.ports import peers
from tests.fakes import rest_herder
from tests.support import rest


@pytest.fixture
def herder() -> rest_herder.FakeHerder:
    made = rest_herder.FakeHerder()
    made.make("c", {"tasks.max": "2"})
    return made


def states(told: Any) -> list[str]:
    return [told["connector"]["state"], *(each["state"] for each in told["tasks"])]


def test_a_plain_restart_is_the_connectors_alone(herder: rest_herder.FakeHerder) -> None:
    answer = rest.Rest(herder)("POST", "/connectors/c/restart?includeTasks=False&onlyFailed=no")
    assert (answer.status_code, answer.content) == (204, b"")
    assert herder.submitted == [requests.RestartConnector("c")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("includeTasks=True", ["RESTARTING", "RESTARTING", "RESTARTING"]),
        ("onlyFailed=true", ["RUNNING", "RUNNING", "FAILED"]),
        ("includeTasks=true&onlyFailed=TRUE", ["RUNNING", "RUNNING", "RESTARTING"]),
    ],
)
def test_a_wider_restart_shows_its_plan(
    herder: rest_herder.FakeHerder, query: str, expected: list[str]
) -> None:
    herder.say(ids.ConnectorTaskId("c", 1), status_records.State.FAILED, trace="broken")
    answer = rest.Rest(herder)("POST", f"/connectors/c/restart?{query}")
    assert answer.status_code == 202
    told = answer.json()
    assert list(told) == ["name", "connector", "tasks", "type"]
    assert states(told) == expected


def test_a_wider_restart_is_forwarded_with_its_flags(herder: rest_herder.FakeHerder) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083"
    others = rest.FakePeers(says=peers.Said(status=202, value={"name": "c"}))
    answer = rest.Rest(herder, among=others)(
        "POST", "/connectors/c/restart?onlyFailed=true&forward=true"
    )
    assert (answer.status_code, answer.json()) == (202, {"name": "c"})
    assert dict(others.asked[0].query) == {
        "forward": "false",
        "includeTasks": "false",
        "onlyFailed": "true",
    }
    wanted = config_records.RestartRequest(connector="c", only_failed=True)
    assert herder.submitted == [requests.RestartAll(wanted)]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/connectors/none/restart", "Unknown connector: none"),
        ("/connectors/none/restart?includeTasks=true", "Unknown connector: none"),
        ("/connectors/none/tasks/0/restart", "Unknown connector: none"),
        ("/connectors/c/tasks/9/restart", "Unknown task: c-9"),
        ("/connectors/c/tasks/x/restart", "HTTP 404 Not Found"),
    ],
)
def test_what_is_unknown_is_not_restarted(
    herder: rest_herder.FakeHerder, path: str, message: str
) -> None:
    answer = rest.Rest(herder)("POST", path)
    assert (answer.status_code, answer.json()["message"]) == (404, message)


def test_a_task_is_restarted(herder: rest_herder.FakeHerder) -> None:
    assert rest.Rest(herder)("POST", "/connectors/c/tasks/1/restart").status_code == 204
    assert herder.submitted == [requests.RestartTask(ids.ConnectorTaskId("c", 1))]


def test_a_task_is_restarted_by_its_owner(herder: rest_herder.FakeHerder) -> None:
    herder.elsewhere = {ids.ConnectorTaskId("c", 1): "http://owner:8083"}
    others = rest.FakePeers()
    answer = rest.Rest(herder, among=others)("POST", "/connectors/c/tasks/1/restart?forward=true")
    assert answer.status_code == 204
    (call,) = others.asked
    assert (call.url, call.path) == ("http://owner:8083", "/connectors/c/tasks/1/restart")
    assert dict(call.query) == {"forward": "false"}


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("pause", cluster_config.TargetState.PAUSED),
        ("resume", cluster_config.TargetState.STARTED),
    ],
)
def test_any_worker_pauses_and_resumes(
    herder: rest_herder.FakeHerder, verb: str, state: cluster_config.TargetState
) -> None:
    herder.leads = False
    answer = rest.Rest(herder)("PUT", f"/connectors/c/{verb}")
    assert (answer.status_code, answer.content) == (202, b"")
    assert herder.config().target_state("c") is state
    assert herder.submitted == []


@pytest.mark.parametrize("verb", ["pause", "resume", "stop"])
def test_what_is_unknown_stays_unknown(herder: rest_herder.FakeHerder, verb: str) -> None:
    answer = rest.Rest(herder)("PUT", f"/connectors/none/{verb}")
    assert (answer.status_code, answer.json()["message"]) == (404, "Unknown connector none")


def test_a_stopped_connector_has_no_tasks(herder: rest_herder.FakeHerder) -> None:
    ask = rest.Rest(herder)
    answer = ask("PUT", "/connectors/c/stop")
    assert (answer.status_code, answer.content) == (204, b"")
    assert ask("GET", "/connectors/c/status").json()["connector"]["state"] == "STOPPED"
    assert ask("GET", "/connectors/c/tasks").json() == []
