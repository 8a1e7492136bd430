from __future__ import annotations

import dataclasses
import logging
import re

import pytest

from connect_runtime.herder import session_keys
from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.rest import access_log, rest_app
from connect_runtime.rest.rest_settings import RestSettings
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest
from tests.support.rest import Rest

LINE = re.compile(
    r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] "GET (.*) HTTP/1.1" (\d+) (\d+)'
    r' "-" "(.*)" \d+'
)


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, ...]]:
    found = [LINE.fullmatch(each.getMessage()) for each in caplog.records]
    assert all(found), caplog.messages
    return [each.groups() for each in found if each]


def test_every_request_is_a_line(caplog: pytest.LogCaptureFixture) -> None:
    ask = Rest(FakeHerder())
    with caplog.at_level(logging.INFO, access_log.__name__):
        ask("GET", "/connectors?expand=info", headers={"User-Agent": "me"})
        ask("GET", "/a%2Fb/", headers={"User-Agent": "me"})
    assert lines(caplog) == [
        ("/connectors?expand=info", "200", "2", "me"),
        ("/a%2Fb/", "404", "49", "me"),
    ]


def test_nobody_writes_lines_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    ask = Rest(FakeHerder())
    with caplog.at_level(logging.INFO, access_log.__name__):
        ask("GET", "/", headers={"User-Agent": 'a" 200 1 "\x1b[31m'})
    (line,) = lines(caplog)
    assert line[3] == "a? 200 1 ??[31m"


def test_nothing_is_logged_above_info(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, access_log.__name__):
        Rest(FakeHerder())("GET", "/")
    assert caplog.records == []


def test_a_client_address_writes_no_lines_either(caplog: pytest.LogCaptureFixture) -> None:
    served = Rest(FakeHerder()).apps.main

    async def from_nowhere(scope, receive, send):
        await served({**scope, "client": ('9.9.9.9 - "\x1b[31m\n', 1)}, receive, send)

    with caplog.at_level(logging.INFO, access_log.__name__):
        rest.ask(from_nowhere, "GET", "/")
    assert caplog.messages[0].startswith("9.9.9.9 - ??[31m? - - [")


def test_no_client_makes_a_long_line(caplog: pytest.LogCaptureFixture) -> None:
    headers = {"User-Agent": "u" * 5_000, "Referer": "r" * 5_000}
    with caplog.at_level(logging.INFO, access_log.__name__):
        Rest(FakeHerder())("M" * 5_000, "/" + "p" * 5_000, headers=headers)
    (line,) = caplog.messages
    assert '"' + "M" * access_log.MAX_METHOD_LENGTH + "... /p" in line
    assert "u" * access_log.MAX_FIELD_LENGTH + "..." in line
    assert len(line) < 3 * access_log.MAX_FIELD_LENGTH + 200


class StandingClock:
    """Implements `Clock`, as far as the access log uses it."""

    seconds = 1_000.0

    def now_s(self) -> float:
        return self.seconds

    def wall_ms(self) -> int:
        return 0


class LimitedLog:
    """A listener with basic authentication, and a clock that a test sets."""

    def __init__(self, herder: FakeHerder) -> None:
        self.clock = StandingClock()
        parts = dataclasses.replace(rest.parts(herder, users={"me": "pw"}), clock=self.clock)
        self.main = rest_app.build_applications(parts, RestSettings()).main

    def ask(self, password: str, *, times: int = 1, path: str = "/") -> None:
        for _ in range(times):
            rest.ask(self.main, "GET", path, auth=("me", password))


def test_clients_that_are_not_logged_in_cannot_fill_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listener = LimitedLog(FakeHerder())
    with caplog.at_level(logging.INFO, access_log.__name__):
        listener.ask("wrong", times=access_log.MAX_CLIENT_ERRORS + 50)
        assert len(lines(caplog)) == access_log.MAX_CLIENT_ERRORS
        listener.ask("pw")
        assert [each[1] for each in lines(caplog)][-2:] == ["401", "200"]
        listener.clock.seconds += 60.0
        listener.ask("pw")
        assert caplog.messages[-2] == "REST: 50 more rejected requests were not logged"
        assert '" 200 ' in caplog.messages[-1]
        listener.ask("wrong")
    assert '" 401 ' in caplog.messages[-1]


def test_rejected_requests_do_not_hide_those_of_users(caplog: pytest.LogCaptureFixture) -> None:
    listener = LimitedLog(FakeHerder())
    with caplog.at_level(logging.INFO, access_log.__name__):
        listener.ask("wrong", times=access_log.MAX_CLIENT_ERRORS + 1)
        listener.ask("pw", times=access_log.MAX_CLIENT_ERRORS + 1, path="/nothing")
    statuses = [each[1] for each in lines(caplog)]
    assert statuses.count("404") == access_log.MAX_CLIENT_ERRORS + 1


def test_requests_without_a_valid_signature_cannot_fill_the_log_either(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither on a listener with passwords nor on the one for other workers."""
    herder = FakeHerder(signed=True)
    headers = {session_keys.SIGNATURE_HEADER: "?"}
    internal = rest_app.build_internal_application(
        rest.parts(herder), RestSettings(), SessionKeySettings(), receiver="", must_be_signed=True
    )
    for served, path in (
        (LimitedLog(herder).main, "/connectors/a/fence"),
        (internal, "/connectors/a/fence"),
        (internal, "/"),
    ):
        caplog.clear()
        with caplog.at_level(logging.INFO, access_log.__name__):
            for _ in range(access_log.MAX_CLIENT_ERRORS + 50):
                assert rest.ask(served, "PUT", path, headers=headers).status_code in (400, 404)
        assert len(caplog.messages) <= access_log.MAX_CLIENT_ERRORS
