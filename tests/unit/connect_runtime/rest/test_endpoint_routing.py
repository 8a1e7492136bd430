"""What all endpoints have in common, asked through the whole API."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from connect_runtime.api.errors import ConnectError
from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.rest import request_bodies, rest_app
from connect_runtime.rest.path_prefix_router import NamespaceRouter
from connect_runtime.rest.request_forwarding import RestDeadlines
from connect_runtime.rest.rest_settings import RestSettings
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest
from tests.support.rest import Rest

REST, KEYS = RestSettings(), SessionKeySettings()


@pytest.fixture
def herder() -> FakeHerder:
    made = FakeHerder()
    made.make("c")
    return made


def error(answer: httpx.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json()


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/nope", 404, "HTTP 404 Not Found"),
        ("GET", "/connectors/c/nope", 404, "HTTP 404 Not Found"),
        ("GET", "/connectors/c/tasks-config", 404, "HTTP 404 Not Found"),
        ("DELETE", "/", 405, "HTTP 405 Method Not Allowed"),
        ("POST", "/connectors/c", 405, "HTTP 405 Method Not Allowed"),
        ("PATCH", "/connectors/c/tasks/0/restart", 405, "HTTP 405 Method Not Allowed"),
    ],
)
def test_unknown_paths_and_methods(
    herder: FakeHerder, *, method: str, path: str, status: int, message: str
) -> None:
    answer = Rest(herder)(method, path)
    assert error(answer) == (status, {"error_code": status, "message": message})
    assert ("allow" in answer.headers) == (status == 405)


@pytest.mark.parametrize("path", ["/connectors/", "/connectors/c/", "/connectors/c/status/"])
def test_a_slash_at_the_end_means_nothing(herder: FakeHerder, path: str) -> None:
    assert Rest(herder)("GET", path).status_code == 200


def test_options_name_the_methods(herder: FakeHerder) -> None:
    answer = Rest(herder)("OPTIONS", "/connectors")
    assert answer.status_code == 200
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS, POST"


def test_head_goes_with_get(herder: FakeHerder) -> None:
    assert Rest(herder)("HEAD", "/connectors").status_code == 200
    assert Rest(herder)("HEAD", "/connectors/c/pause").status_code == 405


@pytest.mark.parametrize(
    "accept", ["application/json", "text/html, */*;q=0.1", "application/*", ""]
)
def test_json_is_accepted(herder: FakeHerder, accept: str) -> None:
    answer = Rest(herder)("GET", "/connectors", headers={"Accept": accept})
    assert answer.status_code == 200


@pytest.mark.parametrize("accept", ["text/plain", "application/json;q=0", "application/xml"])
def test_nothing_but_json_is_given(herder: FakeHerder, accept: str) -> None:
    answer = Rest(herder)("GET", "/connectors", headers={"Accept": accept})
    told = {"error_code": 406, "message": "HTTP 406 Not Acceptable"}
    assert error(answer) == (406, told)


@pytest.mark.parametrize("declared", [{}, {"Content-Type": "text/plain"}])
def test_nothing_but_json_is_taken(herder: FakeHerder, declared: dict[str, str]) -> None:
    answer = Rest(herder)("PUT", "/connectors/c/config", content=b"{}", headers=declared)
    told = {"error_code": 415, "message": "HTTP 415 Unsupported Media Type"}
    assert error(answer) == (415, told)


def test_json_has_a_charset(herder: FakeHerder) -> None:
    answer = Rest(herder)(
        "PUT",
        "/connectors/c/config",
        content=b'{"connector.class":"FileStreamSource","topic":"t"}',
        headers={"Content-Type": "Application/JSON; charset=utf-8"},
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/connectors", "/connectors/c", "/connectors/c/pause"])
def test_a_content_type_without_content_is_looked_at_too(herder: FakeHerder, path: str) -> None:
    method = "PUT" if path.endswith("pause") else "GET"
    ask = Rest(herder)
    assert ask(method, path, headers={"Content-Type": "text/plain"}).status_code == 415
    assert ask(method, path, headers={"Content-Type": "application/json"}).status_code < 300


def test_a_long_body_is_refused(herder: FakeHerder) -> None:
    answer = Rest(herder)(
        "PUT",
        "/connectors/c/config",
        content=b" " * (request_bodies.MAX_BODY_BYTES + 1),
        headers={"Content-Type": "application/json"},
    )
    assert answer.status_code == 413
    assert "8388608 bytes" in answer.json()["message"]


def test_a_body_that_does_not_come_is_not_waited_for(herder: FakeHerder) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async def ask() -> httpx.Response:
        parts = rest.parts(herder, deadlines=RestDeadlines(request_s=0.05))
        served = rest_app.build_applications(parts, RestSettings()).main
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url=rest.BASE) as client:
            headers = {"Content-Type": "application/json"}
            return await client.put("/connectors/c/config", content=slowly(), headers=headers)

    assert asyncio.run(ask()).status_code == 408


def test_what_nobody_foresaw_is_logged_under_an_id_and_not_repeated(
    herder: FakeHerder, caplog: pytest.LogCaptureFixture
) -> None:
    """Its text may be any library's, with paths and values in it."""
    herder.fails = ZeroDivisionError("a plugin divided /etc/secret by zero")
    answer = Rest(herder)("GET", "/connectors/c")
    status, told = error(answer)
    assert (status, told["error_code"]) == (500, 500)
    found = re.fullmatch(
        r"Internal Server Error: search the worker's log for error id ([0-9a-f]{8})",
        told["message"],
    )
    assert found is not None, told
    (record,) = [each for each in caplog.records if each.exc_info]
    assert found[1] in record.getMessage()
    assert "a plugin divided" in caplog.text


def test_errors_of_ours_say_what_they_are(herder: FakeHerder) -> None:
    herder.fails = ConnectError("writing to the config topic: no broker answers")
    told = {"error_code": 500, "message": "writing to the config topic: no broker answers"}
    assert error(Rest(herder)("GET", "/connectors/c")) == (500, told)


def test_half_a_character_is_a_question_mark(herder: FakeHerder) -> None:
    herder.make("c", {"odd": "\ud800"})
    assert Rest(herder)("GET", "/connectors/c/config").json()["odd"] == "?"


def test_only_what_workers_ask_each_other_for_several_herders() -> None:
    herders = {("a", "b/c"): FakeHerder(), ("b/c", "a"): FakeHerder()}
    for each in herders.values():
        each.make("c")
    served = NamespaceRouter()
    for name, each in herders.items():
        made = rest_app.build_internal_application(
            rest.parts(each), REST, KEYS, receiver=rest.BASE, must_be_signed=False
        )
        served.mount_application(name, made)
    one = "/b%2Fc/a/connectors/c"
    assert rest.ask(served, "POST", f"{one}/tasks", json=[]).status_code == 204
    assert [len(each.submitted) for each in herders.values()] == [0, 1]
    assert rest.ask(served, "PUT", "/a/b%2Fc/connectors/c/fence").status_code == 204
    for path in (one, "/connectors", "/x/y/connectors/c/tasks", "/connectors/c/tasks", "/a", "/"):
        assert rest.ask(served, "GET", path).status_code in {404, 405}
