from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder.herder_requests import (
    RestartConnector,
    RestartConnectorAndTasks,
    RestartTask,
)
from connect_runtime.herder.requests_to_other_workers import PeerResponse
from connect_runtime.storage.cluster_config_state import TargetState
from connect_runtime.storage.config_records import RestartRequest
from connect_runtime.storage.status_records import RunState
from tests.fakes.rest_herder import FakeHerder
from tests.support.rest import FakePeers, Rest


@pytest.fixture
def herder() -> FakeHerder:
    made = FakeHerder()
    made.make("c", {"tasks.max": "2"})
    return made


def states(told: Any) -> list[str]:
    return [told["connector"]["state"], *(each["state"] for each in told["tasks"])]


def test_a_plain_restart_is_the_connectors_alone(herder: FakeHerder) -> None:
    answer = Rest(herder)("POST", "/connectors/c/restart?includeTasks=False&onlyFailed=no")
    assert (answer.status_code, answer.content) == (204, b"")
    assert herder.submitted == [RestartConnector("c")]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("includeTasks=True", ["RESTARTING", "RESTARTING", "RESTARTING"]),
        ("onlyFailed=true", ["RUNNING", "RUNNING", "FAILED"]),
        ("includeTasks=true&onlyFailed=TRUE", ["RUNNING", "RUNNING", "RESTARTING"]),
    ],
)
def test_a_wider_restart_shows_its_plan(
    herder: FakeHerder, query: str, expected: list[str]
) -> None:
    herder.say(ConnectorTaskId("c", 1), RunState.FAILED, trace="broken")
    answer = Rest(herder)("POST", f"/connectors/c/restart?{query}")
    assert answer.status_code == 202
    told = answer.json()
    assert list(told) == ["name", "connector", "tasks", "type"]
    assert states(told) == expected


def test_a_wider_restart_is_forwarded_with_its_flags(herder: FakeHerder) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083"
    others = FakePeers(says=PeerResponse(status=202, value={"name": "c"}))
    answer = Rest(herder, among=others)(
        "POST", "/connectors/c/restart?onlyFailed=true&forward=true"
    )
    assert (answer.status_code, answer.json()) == (202, {"name": "c"})
    assert dict(others.asked[0].query) == {
        "forward": "false",
        "includeTasks": "false",
        "onlyFailed": "true",
    }
    wanted = RestartRequest(connector="c", only_failed=True)
    assert herder.submitted == [RestartConnectorAndTasks(wanted)]


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
def test_what_is_unknown_is_not_restarted(herder: FakeHerder, path: str, message: str) -> None:
    answer = Rest(herder)("POST", path)
    assert (answer.status_code, answer.json()["message"]) == (404, message)


def test_a_task_is_restarted(herder: FakeHerder) -> None:
    assert Rest(herder)("POST", "/connectors/c/tasks/1/restart").status_code == 204
    assert herder.submitted == [RestartTask(ConnectorTaskId("c", 1))]


def test_a_task_is_restarted_by_its_owner(herder: FakeHerder) -> None:
    herder.elsewhere = {ConnectorTaskId("c", 1): "http://owner:8083"}
    others = FakePeers()
    answer = Rest(herder, among=others)("POST", "/connectors/c/tasks/1/restart?forward=true")
    assert answer.status_code == 204
    (call,) = others.asked
    assert (call.url, call.path) == ("http://owner:8083", "/connectors/c/tasks/1/restart")
    assert dict(call.query) == {"forward": "false"}


@pytest.mark.parametrize(
    ("verb", "state"),
    [
        ("pause", TargetState.PAUSED),
        ("resume", TargetState.STARTED),
    ],
)
def test_any_worker_pauses_and_resumes(herder: FakeHerder, verb: str, state: TargetState) -> None:
    herder.leads = False
    answer = Rest(herder)("PUT", f"/connectors/c/{verb}")
    assert (answer.status_code, answer.content) == (202, b"")
    assert herder.get_config_state().target_state("c") is state
    assert herder.submitted == []


@pytest.mark.parametrize("verb", ["pause", "resume", "stop"])
def test_what_is_unknown_stays_unknown(herder: FakeHerder, verb: str) -> None:
    answer = Rest(herder)("PUT", f"/connectors/none/{verb}")
    assert (answer.status_code, answer.json()["message"]) == (404, "Unknown connector none")


def test_a_stopped_connector_has_no_tasks(herder: FakeHerder) -> None:
    ask = Rest(herder)
    answer = ask("PUT", "/connectors/c/stop")
    assert (answer.status_code, answer.content) == (204, b"")
    assert ask("GET", "/connectors/c/status").json()["connector"]["state"] == "STOPPED"
    assert ask("GET", "/connectors/c/tasks").json() == []
