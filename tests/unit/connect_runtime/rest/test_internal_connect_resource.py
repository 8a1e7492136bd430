from __future__ import annotations

import pytest

from connect_runtime.herder import session_keys
from connect_runtime.herder.herder_requests import FenceZombieTasks, PutTaskConfigs
from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.rest import rest_app
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.storage.cluster_config_state import SessionKey
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest
from tests.support.rest import FakePeers, Rest

KEY = SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=0)
BODY = b'[ {"a": "1"},\n{"b": null} ]'


@pytest.fixture
def herder() -> FakeHerder:
    made = FakeHerder(signed=True, key=KEY)
    made.make("c")
    return made


def signed(body: bytes) -> dict[str, str]:
    return session_keys.build_signature_headers(KEY, body, algorithm="HmacSHA256")


def test_task_configs_are_taken_when_their_very_bytes_are_signed(
    herder: FakeHerder,
) -> None:
    headers = signed(BODY) | {"Content-Type": "application/json"}
    answer = Rest(herder)("POST", "/connectors/c/tasks", content=BODY, headers=headers)
    assert (answer.status_code, answer.content) == (204, b"")
    assert herder.submitted == [PutTaskConfigs(connector="c", configs=[{"a": "1"}, {"b": None}])]


def test_a_wish_to_fence_has_no_body(herder: FakeHerder) -> None:
    answer = Rest(herder)("PUT", "/connectors/c/fence", headers=signed(b""))
    assert answer.status_code == 204
    assert herder.submitted == [FenceZombieTasks(connector="c", is_source=True)]


@pytest.mark.parametrize("body", [b"{}", b"x" * 100_000])
def test_a_request_to_fence_with_a_body_is_refused(herder: FakeHerder, body: bytes) -> None:
    """Java sends none, so a signed one is a recorded body of another request."""
    headers = signed(body) | {"Content-Type": "application/json"}
    answer = Rest(herder)("PUT", "/connectors/c/fence", content=body, headers=headers)
    assert (answer.status_code, answer.json()["message"]) == (
        413,
        "The body is larger than the maximum of 0 bytes",
    )
    assert herder.submitted == []


def test_sinks_have_nothing_to_fence(herder: FakeHerder) -> None:
    herder.make("c", {"connector.class": "FileStreamSink"})
    answer = Rest(herder)("PUT", "/connectors/c/fence", headers=signed(b""))
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
    herder: FakeHerder,
    *,
    headers: dict[str, str],
    status: int,
    method: str,
    path: str,
    body: bytes,
) -> None:
    given = headers | {"Content-Type": "application/json"}
    answer = Rest(herder)(method, path, content=body, headers=given)
    assert answer.status_code == status
    assert herder.submitted == []


def test_without_a_key_the_sender_waits(herder: FakeHerder) -> None:
    herder.key = None
    answer = Rest(herder)("PUT", "/connectors/c/fence", headers=signed(b""))
    assert answer.status_code == 503


def test_a_follower_passes_them_on_unsigned(herder: FakeHerder) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083"
    others = FakePeers()
    headers = signed(BODY) | {"Content-Type": "application/json"}
    Rest(herder, among=others)("POST", "/connectors/c/tasks", content=BODY, headers=headers)
    (call,) = others.asked
    assert (call.method, call.path, dict(call.signature)) == ("POST", "/connectors/c/tasks", {})
    assert call.body == b'[{"a":"1"},{"b":null}]'


@pytest.mark.parametrize("path", ["/connectors/c/tasks", "/connectors/c/fence"])
def test_where_only_nodes_ask_an_unsigned_one_is_refused_under_every_protocol(
    herder: FakeHerder, path: str
) -> None:
    herder.signed = False
    served = rest_app.build_internal_application(
        rest.parts(herder),
        RestSettings(),
        SessionKeySettings(),
        receiver=rest.BASE,
        must_be_signed=True,
    )
    method = "POST" if path.endswith("tasks") else "PUT"
    headers = {"Content-Type": "application/json"}
    body = b"[]" if method == "POST" else b""
    assert rest.ask(served, method, path, content=body, headers=headers).status_code == 400
    assert herder.submitted == []
    as_java_does = headers | signed(body)  # its nodes may be members of the group
    assert rest.ask(served, method, path, content=body, headers=as_java_does).status_code == 204
