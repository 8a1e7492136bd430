"""Which requests go on to another worker, and with which `forward`.

ConnectorsResourceTest's `…NotLeader`, `…LeaderRedirect` and `…OwnerRedirect` in one table. A
request that comes from nobody's worker goes on with `forward=true`, from there with
`forward=false`, and no further.
"""

from __future__ import annotations

from typing import Any

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.herder.requests_to_other_workers import PeerResponse, PeerUnavailableError
from tests.fakes.rest_herder import FakeHerder
from tests.support.rest import FakePeers, Rest

CONFIG = {"connector.class": "FileStreamSource", "topic": "t"}
OFFSETS = {"offsets": [{"partition": {"p": 1}, "offset": {"o": 1}}]}
LEADERS: list[tuple[str, str, Any]] = [
    ("POST", "/connectors", {"name": "c", "config": CONFIG}),
    ("PUT", "/connectors/c/config", CONFIG),
    ("PATCH", "/connectors/c/config", {"a": "b"}),
    ("DELETE", "/connectors/c", None),
    ("PUT", "/connectors/c/stop", None),
    ("POST", "/connectors/c/restart", None),
    ("POST", "/connectors/c/restart?includeTasks=true", None),
    ("POST", "/connectors/c/tasks/0/restart", None),
    ("PATCH", "/connectors/c/offsets", OFFSETS),
    ("DELETE", "/connectors/c/offsets", None),
    ("POST", "/connectors/c/tasks", [{"a": "b"}]),
    ("PUT", "/connectors/c/fence", None),
]
OWNERS = [each for each in LEADERS if each[1].endswith("/restart")]
OWN: list[tuple[str, str]] = [
    ("GET", "/connectors"),
    ("GET", "/connectors/c"),
    ("GET", "/connectors/c/status"),
    ("GET", "/connectors/c/offsets"),
    ("GET", "/connectors/c/topics"),
    ("PUT", "/connectors/c/topics/reset"),
    ("PUT", "/connectors/c/pause"),
    ("PUT", "/connectors/c/resume"),
]


@pytest.fixture
def herder() -> FakeHerder:
    """What there is runs on another worker."""
    made = FakeHerder(elsewhere=dict.fromkeys(["c", ConnectorTaskId("c", 0)], "http://owner:8083/"))
    made.make("c")
    return made


def name(wanted: tuple[Any, ...]) -> str:
    return f"{wanted[0]} {wanted[1]}"


@pytest.mark.parametrize("wanted", LEADERS, ids=name)
@pytest.mark.parametrize(
    ("came", "goes"), [(None, "true"), ("true", "false"), ("false", None)], ids=str
)
def test_what_only_the_leader_does_goes_to_it(
    herder: FakeHerder,
    *,
    wanted: tuple[str, str, Any],
    came: str | None,
    goes: str | None,
) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083/"
    check(herder, wanted, came=came, goes=goes, to="http://leader:8083/")


@pytest.mark.parametrize("wanted", OWNERS, ids=name)
@pytest.mark.parametrize(
    ("came", "goes"), [(None, "true"), ("true", "false"), ("false", None)], ids=str
)
def test_what_only_its_worker_restarts_goes_there(
    herder: FakeHerder,
    *,
    wanted: tuple[str, str, Any],
    came: str | None,
    goes: str | None,
) -> None:
    check(herder, wanted, came=came, goes=goes, to="http://owner:8083/")


def check(
    herder: FakeHerder,
    wanted: tuple[str, str, Any],
    *,
    came: str | None,
    goes: str | None,
    to: str,
) -> None:
    method, path, body = wanted
    others = FakePeers(says=PeerResponse(status=200, value={"name": "c"}))
    asked = path
    if came is not None:
        asked += f"{'&' if '?' in path else '?'}forward={came}"
    answer = Rest(herder, among=others)(method, asked, json=body)
    if goes is None:
        assert (answer.status_code, others.asked) == (409, [])
        return
    assert answer.is_success
    (call,) = others.asked
    assert (call.url, call.method, call.path) == (to, method, path.partition("?")[0])
    assert call.query["forward"] == goes
    assert (call.body is None) == (body is None)


@pytest.mark.parametrize("wanted", OWN, ids=name)
def test_what_any_worker_does_stays_here(herder: FakeHerder, wanted: tuple[str, str]) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083/"
    others = FakePeers()
    answer = Rest(herder, among=others)(*wanted)
    assert (answer.is_success, others.asked) == (True, [])


@pytest.mark.parametrize("wanted", LEADERS, ids=name)
def test_who_cannot_be_reached_is_told(herder: FakeHerder, wanted: tuple[str, str, Any]) -> None:
    herder.leads, herder.leader_url = False, "http://leader:8083/"
    others = FakePeers(says=PeerUnavailableError("no route"))
    method, path, body = wanted
    answer = Rest(herder, among=others)(method, path, json=body)
    assert answer.status_code == 500
    assert answer.json()["message"] == "IO Error trying to forward REST request: no route"
