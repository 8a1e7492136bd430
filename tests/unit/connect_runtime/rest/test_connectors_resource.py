"""Making, configuring, showing and deleting connectors, in Apache's shapes and with its codes."""

from __future__ import annotations

import logging
from typing import Any
from urllib import parse

import pytest

from connect_runtime.api.errors import FatalError
from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder.herder_interface import ConnectorType
from connect_runtime.herder.herder_requests import HerderQueueFullError, PutConnector
from connect_runtime.herder.requests_to_other_workers import (
    PeerRefusedError,
    PeerResponse,
    PeerUnavailableError,
)
from connect_runtime.rest import connectors_resource
from connect_runtime.rest.request_forwarding import RestDeadlines
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.storage import status_records
from connect_runtime.storage.cluster_config_state import RawConfig, TargetState
from connect_runtime.storage.status_records import RunState, RunStatus, TopicStatus
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest
from tests.support.rest import FakePeers, Rest

CONFIG = {"connector.class": "FileStreamSource", "topic": "t", "tasks.max": "1"}
STATE = {"state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "4.3.1"}


@pytest.fixture
def herder() -> FakeHerder:
    return FakeHerder()


def error(answer: Any) -> tuple[int, int, str]:
    told = answer.json()
    assert sorted(told) == ["error_code", "message"]
    return answer.status_code, told["error_code"], told["message"]


def test_names_are_listed(herder: FakeHerder) -> None:
    herder.make("b")
    herder.make("a")
    answer = Rest(herder)("GET", "/connectors")
    assert (answer.status_code, answer.json()) == (200, ["a", "b"])
    assert answer.headers["content-type"] == "application/json"


def test_connectors_are_listed_with_what_is_known(herder: FakeHerder) -> None:
    herder.make("c")
    told = Rest(herder)("GET", "/connectors?expand=status&expand=info&expand=odd").json()
    assert told == {
        "c": {
            "status": {
                "name": "c",
                "connector": STATE,
                "tasks": [{"id": 0} | STATE],
                "type": "source",
            },
            "info": {
                "name": "c",
                "config": {"connector.class": "FileStreamSource", "topic": "t", "name": "c"},
                "tasks": [{"connector": "c", "task": 0}],
                "type": "source",
            },
        }
    }


def test_an_unknown_expansion_tells_nothing(herder: FakeHerder) -> None:
    herder.make("c")
    assert Rest(herder)("GET", "/connectors?expand=odd").json() == {"c": {}}


def test_expansions_that_are_repeated_cost_nothing(
    herder: FakeHerder,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request's head has room for 1,700 of them, and a worker may run many connectors."""
    for name in "abc":
        herder.make(name)
    encoded = list[str]()
    original = herder.connector_type

    def counted(config: RawConfig | None) -> ConnectorType:
        encoded.append("")
        return original(config)

    monkeypatch.setattr(herder, "connector_type", counted)
    with caplog.at_level(logging.DEBUG):
        query = "&".join(["expand=info", "expand=odd", "expand=odder"] * 500)
        found = Rest(herder)("GET", f"/connectors?{query}").json()
    assert [list(each) for each in found.values()] == [["info"]] * 3
    assert len(encoded) == 3
    assert not [each for each in caplog.records if each.name == connectors_resource.__name__]


def test_a_connector_without_a_status_is_left_out(herder: FakeHerder) -> None:
    herder.make("c")
    herder.write_status(
        status_records.encode_status(
            "c",
            RunStatus(state=RunState.DESTROYED, worker_id="", generation=1),
        )
    )
    assert Rest(herder)("GET", "/connectors?expand=status").json() == {}
    assert list(Rest(herder)("GET", "/connectors?expand=info").json()) == ["c"]


def test_a_connector_is_created(herder: FakeHerder) -> None:
    body = {"name": " c ", "config": CONFIG | {"tasks.max": 2, "flag": True}}
    answer = Rest(herder)("POST", "/connectors", json=body)
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{rest.BASE}/connectors/c"
    assert answer.json() == {
        "name": "c",
        "config": CONFIG | {"tasks.max": "2", "flag": "true", "name": "c"},
        "tasks": [],
        "type": "source",
    }
    assert herder.get_config_state().task_count("c") == 2


def test_a_connector_is_created_stopped(herder: FakeHerder) -> None:
    body = {"name": "c", "config": CONFIG, "initial_state": "stopped"}
    assert Rest(herder)("POST", "/connectors", json=body).status_code == 201
    assert herder.get_config_state().target_state("c") is TargetState.STOPPED
    assert Rest(herder)("GET", "/connectors/c/tasks").json() == []


@pytest.mark.parametrize(
    "name",
    [
        "ä/b c",
        "ta/b&c=d//\\rx=1þ.1>< `'\" x%y+z!ሴ#$&'(æ)*+,:;=?ñ@[]ÿ",
        "ta/b&c=drx=1\n.1>< `'\" x%y+z!#$&'()*+,:;=?@[]",
    ],
)
def test_a_name_may_hold_anything(herder: FakeHerder, name: str) -> None:
    """ConnectorsResourceTest.test*WithSpecialCharsInName, …ControlSequenceInName."""
    ask = Rest(herder)
    location = ask("POST", "/connectors", json={"name": name, "config": CONFIG}).headers["location"]
    assert location == f"{rest.BASE}/connectors/{parse.quote(name, safe='')}"
    path = location.removeprefix(rest.BASE)
    assert ask("GET", path).json()["name"] == name
    assert ask("PUT", f"{path}/config", json=CONFIG | {"name": name}).status_code == 200
    assert ask("GET", f"{path}/tasks/0/status").status_code == 200
    assert ask("DELETE", path).status_code == 204


@pytest.mark.parametrize("named", [{}, {"name": "  \t "}])
def test_a_creation_without_a_name_has_an_empty_one(
    herder: FakeHerder, named: dict[str, str]
) -> None:
    """What is wrong with it is for the validation to say."""
    herder.silent = True
    ask = Rest(herder, deadlines=RestDeadlines(request_s=0.01))
    ask("POST", "/connectors", json=named | {"config": CONFIG})
    (asked,) = herder.submitted
    assert isinstance(asked, PutConnector)
    assert (asked.connector, asked.config["name"], asked.replace) == ("", "", False)


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"name": "old", "config": CONFIG}, 409, "Connector old already exists"),
        (
            {"name": "c", "config": CONFIG | {"name": "d"}},
            400,
            "Connector name configuration (d) doesn't match connector name in the URL (c)",
        ),
        ({"name": "c", "config": {}}, 400, "Connector config contains no connector type"),
        (
            {"name": "c", "config": {"connector.class": "FileStreamSource"}},
            400,
            "Connector configuration is invalid and contains the following 1 error(s):\n"
            'Missing required configuration "topic" which has no default value.\n'
            "You can also find the above list of errors at the endpoint"
            " `/connector-plugins/{connectorType}/config/validate`",
        ),
        (
            {"name": "c", "config": CONFIG, "initial_state": "odd"},
            500,
            "'initial_state' must be one of RUNNING, PAUSED, STOPPED",
        ),
        (
            {"name": "c"},
            500,
            "expected a JSON object of strings as 'config', not null",
        ),
    ],
    ids=["exists", "two names", "no class", "invalid", "initial state", "no config"],
)
def test_a_creation_is_refused(herder: FakeHerder, body: Any, status: int, message: str) -> None:
    herder.make("old")
    answer = Rest(herder)("POST", "/connectors", json=body)
    assert error(answer) == (status, status, message)
    assert herder.get_config_state().connectors() == ["old"]


def test_a_connector_is_shown(herder: FakeHerder) -> None:
    herder.make("c", {"tasks.max": "2"})
    ask = Rest(herder)
    info = ask("GET", "/connectors/c").json()
    assert list(info) == ["name", "config", "tasks", "type"]
    assert info["tasks"] == [{"connector": "c", "task": 0}, {"connector": "c", "task": 1}]
    assert ask("GET", "/connectors/c/config").json() == info["config"]
    tasks = ask("GET", "/connectors/c/tasks").json()
    assert tasks[1] == {
        "id": {"connector": "c", "task": 1},
        "config": info["config"] | {"task": "x"},
    }


@pytest.mark.parametrize("what", ["", "/config", "/tasks"])
def test_an_unknown_connector_is_not_found(herder: FakeHerder, what: str) -> None:
    answer = Rest(herder)("GET", f"/connectors/none{what}")
    assert error(answer) == (404, 404, "Connector none not found")


def test_a_pending_rebalance_is_a_conflict(herder: FakeHerder) -> None:
    herder.make("c")
    herder.rebalance_pending = True
    status, _, message = error(Rest(herder)("GET", "/connectors/c"))
    assert (status, message.split(" (")[0]) == (
        409,
        "Cannot complete request momentarily due to stale configuration",
    )


def test_a_connector_of_no_known_class_is_of_unknown_type(herder: FakeHerder) -> None:
    herder.make("c", {"connector.class": "Gone"})
    assert Rest(herder)("GET", "/connectors/c").json()["type"] == "unknown"


def test_a_connector_is_configured(herder: FakeHerder) -> None:
    ask = Rest(herder)
    made = ask("PUT", "/connectors/c/config", json=CONFIG)
    assert (made.status_code, made.headers["location"]) == (201, f"{rest.BASE}/connectors/c")
    again = ask("PUT", "/connectors/c/config", json=CONFIG | {"more": "1"})
    assert again.status_code == 200
    assert "location" not in again.headers
    assert again.json() == {
        "name": "c",
        "config": CONFIG | {"more": "1", "name": "c"},
        "tasks": [{"connector": "c", "task": 0}],
        "type": "source",
    }


def test_a_configuration_of_another_name_is_refused(herder: FakeHerder) -> None:
    answer = Rest(herder)("PUT", "/connectors/c/config", json=CONFIG | {"name": "d"})
    assert answer.status_code == 400


def test_a_configuration_is_patched(herder: FakeHerder) -> None:
    herder.make("c", {"old": "1", "kept": "2"})
    answer = Rest(herder)("PATCH", "/connectors/c/config", json={"old": None, "new": 3})
    assert answer.status_code == 200
    assert answer.json()["config"] == {
        "connector.class": "FileStreamSource",
        "topic": "t",
        "name": "c",
        "kept": "2",
        "new": "3",
    }


def test_an_unknown_connector_is_not_patched(herder: FakeHerder) -> None:
    answer = Rest(herder)("PATCH", "/connectors/none/config", json={})
    assert error(answer) == (404, 404, "Connector none not found")


def test_a_connector_is_deleted(herder: FakeHerder) -> None:
    herder.make("c")
    ask = Rest(herder)
    answer = ask("DELETE", "/connectors/c")
    assert (answer.status_code, answer.content) == (204, b"")
    assert error(ask("DELETE", "/connectors/c")) == (404, 404, "Connector c not found")


def test_a_status_has_traces_where_there_are_any(herder: FakeHerder) -> None:
    herder.make("c", {"tasks.max": "11"})
    herder.say(
        ConnectorTaskId("c", 1),
        RunState.FAILED,
        trace="Traceback: broken",
        version=None,
    )
    ask = Rest(herder)
    told = ask("GET", "/connectors/c/status").json()
    assert list(told) == ["name", "connector", "tasks", "type"]
    assert told["connector"] == STATE
    assert [each["id"] for each in told["tasks"]] == list(range(11))
    failed = {
        "id": 1,
        "state": "FAILED",
        "worker_id": "127.0.0.1:8083",
        "version": None,
        "trace": "Traceback: broken",
    }
    assert told["tasks"][1] == failed
    assert ask("GET", "/connectors/c/tasks/1/status").json() == failed


def test_a_plugin_that_does_not_tell_its_version_is_shown_without(
    herder: FakeHerder,
) -> None:
    herder.make("c")
    herder.say("c", RunState.RUNNING, version="undefined")
    told = Rest(herder)("GET", "/connectors/c/status").json()
    assert told["connector"] == {"state": "RUNNING", "worker_id": "127.0.0.1:8083"}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/connectors/none/status", "No status found for connector none"),
        ("/connectors/c/tasks/9/status", "No status found for task c-9"),
        ("/connectors/c/tasks/x/status", "HTTP 404 Not Found"),
        ("/connectors/c/tasks/99999999999/status", "HTTP 404 Not Found"),
    ],
)
def test_no_status_is_not_found(herder: FakeHerder, path: str, message: str) -> None:
    herder.make("c")
    assert error(Rest(herder)("GET", path)) == (404, 404, message)


def _use(herder: FakeHerder, topic: str) -> None:
    used = TopicStatus(topic=topic, connector="c", task=0, discovered_ms=1)
    herder.write_status(status_records.encode_topic_status(used))


def test_topics_are_listed_and_reset(herder: FakeHerder) -> None:
    _use(herder, "t2")
    _use(herder, "t1")
    ask = Rest(herder)
    assert ask("GET", "/connectors/c/topics").json() == {"c": {"topics": ["t1", "t2"]}}
    answer = ask("PUT", "/connectors/c/topics/reset")
    assert (answer.status_code, answer.content) == (202, b"")
    assert ask("GET", "/connectors/c/topics").json() == {"c": {"topics": []}}


def test_topics_that_are_not_tracked_are_forbidden(herder: FakeHerder) -> None:
    ask = Rest(herder, configured=RestSettings(topic_tracking=False))
    expected = (403, 403, "Topic tracking is disabled.")
    assert error(ask("GET", "/connectors/c/topics")) == expected
    assert error(ask("PUT", "/connectors/c/topics/reset")) == expected


def test_topics_may_be_kept_from_being_reset(herder: FakeHerder) -> None:
    ask = Rest(herder, configured=RestSettings(topic_reset=False))
    assert ask("GET", "/connectors/c/topics").status_code == 200
    answer = ask("PUT", "/connectors/c/topics/reset")
    assert error(answer) == (403, 403, "Topic tracking reset is disabled.")


# Forwarded


def test_a_creation_is_forwarded_as_it_was_asked(herder: FakeHerder) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083/"
    told: Any = {"name": "ä", "config": {}, "tasks": [], "type": "source"}
    others = FakePeers(says=PeerResponse(status=201, value=told))
    ask = Rest(herder, among=others)
    body = {"name": "ä", "config": {"topic": "t", **CONFIG}, "initial_state": "Paused"}
    answer = ask("POST", "/connectors", json=body, headers={"Authorization": "Basic eA=="})
    assert (answer.status_code, answer.json()) == (201, told)
    assert answer.headers["location"] == f"{rest.BASE}/connectors/%C3%A4"
    (call,) = others.asked
    assert (call.url, call.method, call.path) == ("http://leader:8083/", "POST", "/connectors")
    assert dict(call.query) == {"forward": "true"}
    assert call.authorization == "Basic eA=="
    assert call.body is not None
    assert call.body.decode() == (
        '{"name":"ä","config":{"topic":"t","connector.class":"FileStreamSource",'
        '"tasks.max":"1","name":"ä"},"initial_state":"PAUSED"}'
    )


@pytest.mark.parametrize(("said", "answered"), [(200, 200), (201, 201)])
def test_the_leader_says_whether_it_created(herder: FakeHerder, said: int, answered: int) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083"
    others = FakePeers(says=PeerResponse(status=said, value={"name": "c"}))
    answer = Rest(herder, among=others)("PUT", "/connectors/a%2Fb/config", json=CONFIG)
    assert answer.status_code == answered
    assert ("location" in answer.headers) == (answered == 201)
    assert others.asked[0].path == "/connectors/a%2Fb/config"


def test_what_is_invalid_is_not_forwarded(herder: FakeHerder) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083"
    others = FakePeers()
    answer = Rest(herder, among=others)("PUT", "/connectors/c/config", json={})
    assert (answer.status_code, others.asked) == (400, [])


def test_a_refusal_of_the_leader_is_passed_on(herder: FakeHerder) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083"
    refusal = PeerRefusedError("Connector c not found", status=404, error_code=40401)
    answer = Rest(herder, among=FakePeers(says=refusal))("DELETE", "/connectors/c")
    assert error(answer) == (404, 40401, "Connector c not found")


def test_a_silent_leader_is_an_error(herder: FakeHerder) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083"
    failure = PeerUnavailableError("nobody answers")
    answer = Rest(herder, among=FakePeers(says=failure))("DELETE", "/connectors/c")
    message = "IO Error trying to forward REST request: nobody answers"
    assert error(answer) == (500, 500, message)


def test_what_the_herder_fails_with_is_told(herder: FakeHerder) -> None:
    herder.fails = FatalError("writing the configuration: the broker is away")
    answer = Rest(herder)("POST", "/connectors", json={"name": "c", "config": CONFIG})
    assert error(answer) == (500, 500, "writing the configuration: the broker is away")


def test_a_full_queue_is_busy(herder: FakeHerder) -> None:
    herder.fails = HerderQueueFullError("10000 requests wait")
    answer = Rest(herder)("GET", "/connectors/c")
    assert error(answer) == (503, 503, "This worker is overloaded: 10000 requests wait")
