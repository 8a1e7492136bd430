from __future__ import annotations

import pytest

from connect_runtime.core.herder import requests, session_keys
from connect_runtime.core.state import cluster_config
from connect_runtime.rest import app, settings
from tests.fakes import rest_herder
from tests.support import rest

KEY = cluster_config.SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=0)
BODY = b'[ {"a": "1"},\n{"b": null} ]'


@pytest.fixture
def herder() -> rest_herder.FakeHerder:
    made = rest_herder.FakeHerder(signed=True, key=KEY)
    made.make("c")
    return made


def signed(body: bytes) -> dict[str, str]:
    return session_keys.headers(KEY, body, algorithm="HmacSHA256")


def test_task_configs_are_taken_when_their_very_bytes_are_signed(
    herder: rest_herder.FakeHerder,
) -> None:
    headers = signed(BODY) | {"Content-Type": "application/json"}
    answer = rest.Rest(herder)("POST", "/connectors/c/tasks", content=BODY, headers=headers)
    assert (answer.status_code, answer.content) == (204, b"")
    assert herder.submitted == [
        requests.PutTaskConfigs(connector="c", configs=[{"a": "1"}, {"b": None}])
    ]


def test_a_wish_to_fence_has_no_body(herder: rest_herder.FakeHerder) -> None:
    answer = rest.Rest(herder)("PUT", "/connectors/c/fence", headers=signed(b""))
    assert answer.status_code == 204
    assert herder.submitted == [requests.FenceTasks(connector="c", is_source=True)]


def test_sinks_have_nothing_to_fence(herder: rest_herder.FakeHerder) -> None:
    herder.make("c", {"connector.class": "FileStreamSink"})
    answer = rest.Rest(herder)("PUT", "/connectors/c/fence", headers=signed(b""))
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "Connector c is not a source connector",
    )


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 400), (signed(b"other"), 403)],
    ids=["no signature", "another body's"],
)
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/connectors/c/tasks", BODY), ("PUT", "/connectors/c/fence", b"")],
)
def test_nobody_else_is_heard(
    herder: rest_herder.FakeHerder,
    *,
    headers: dict[str, str],
    status: int,
    method: str,
    path: str,
    body: bytes,
) -> None:
    given = headers | {"Content-Type": "application/json"}
    answer = rest.Rest(herder)(method, path, content=body, headers=given)
    assert answer.status_code == status
    assert herder.submitted == []


def test_without_a_key_the_sender_waits(herder: rest_herder.FakeHerder) -> None:
    herder.key = None
    answer = rest.Rest(herder)("PUT", "/connectors/c/fence", headers=signed(b""))
    assert answer.status_code == 503


def test_a_follower_passes_them_on_unsigned(herder: rest_herder.FakeHerder) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083"
    others = rest.FakePeers()
    headers = signed(BODY) | {"Content-Type": "application/json"}
    rest.Rest(herder, among=others)("POST", "/connectors/c/tasks", content=BODY, headers=headers)
    (call,) = others.asked
    assert (call.method, call.path, dict(call.signature)) == ("POST", "/connectors/c/tasks", {})
    assert call.body == b'[{"a":"1"},{"b":null}]'


@pytest.mark.parametrize("path", ["/connectors/c/tasks", "/connectors/c/fence"])
def test_where_only_nodes_ask_an_unsigned_one_is_refused_under_every_protocol(
    herder: rest_herder.FakeHerder, path: str
) -> None:
    herder.signed = False
    served = app.build_internal(
        rest.parts(herder),
        settings.RestSettings(),
        session_keys.KeySettings(),
        receiver=rest.BASE,
        must_be_signed=True,
    )
    method = "POST" if path.endswith("tasks") else "PUT"
    headers = {"Content-Type": "application/json"}
    assert rest.ask(served, method, path, content=b"[]", headers=headers).status_code == 400
    assert herder.submitted == []
    as_java_does = headers | signed(b"[]")  # its nodes may be members of the group
    assert rest.ask(served, method, path, content=b"[]", headers=as_java_does).status_code == 204
