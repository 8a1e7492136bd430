from __future__ import annotations

import pytest
from starlette import datastructures

from connect_runtime.api.errors import ConfigError
from connect_runtime.rest import response_headers
from connect_runtime.rest.response_headers import HeaderRule, ResponseHeadersMiddleware
from connect_runtime.rest.rest_settings import RestSettings
from tests.fakes.rest_herder import FakeHerder
from tests.support.rest import Rest

R = HeaderRule


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", ()),
        ("  ", ()),
        ("set X-A:b", (R(name="X-A", value="b", keeps_existing=False),)),
        (
            'add Cache-Control: no-cache, "SET X-A: b, c"',
            (
                R(name="Cache-Control", value="no-cache", keeps_existing=True),
                R(name="X-A", value="b, c", keeps_existing=False),
            ),
        ),
        (
            "setDate Expires:31540000000,adddate Last-Modified:0",
            (
                R(name="Expires", value="", keeps_existing=False, offset_ms=31_540_000_000),
                R(name="Last-Modified", value="", keeps_existing=True, offset_ms=0),
            ),
        ),
    ],
)
def test_rules_are_read(text: str, rules: tuple[HeaderRule, ...]) -> None:
    assert response_headers.parse_header_rules(text) == rules


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "add \t Cache-Control: no-cache",
            R(name="Cache-Control", value="no-cache", keeps_existing=True),
        ),
        ("add\tX-A:b", R(name="X-A", value="b", keeps_existing=True)),
        ("\n add X-A:b", R(name="X-A", value="b", keeps_existing=True)),
        ("AdD \t X-A : \n   b;  c", R(name="X-A", value="b;  c", keeps_existing=True)),
        ("add X-A: \r b", R(name="X-A", value="b", keeps_existing=True)),
        (
            "seT \t X-A: \t not cacheable\n ",
            R(name="X-A", value="not cacheable", keeps_existing=False),
        ),
        ("seTDate \t X-A: \r 31", R(name="X-A", value="", keeps_existing=False, offset_ms=31)),
        ("adDdate \n X-A: \t 0", R(name="X-A", value="", keeps_existing=True, offset_ms=0)),
        ('"add \t X-A: b,\r c"', R(name="X-A", value="b,  c", keeps_existing=True)),
    ],
)
def test_blanks_and_line_breaks_mean_nothing(text: str, expected: HeaderRule) -> None:
    """RestServerConfigTest.testValidHeaderConfigs."""
    assert response_headers.parse_header_rules(text) == (expected,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("set \t", "one header name, one colon"),
        ("set add X-A:1", "'add X-A' is not a valid header name"),
        ("addX-A", "starts with none of"),
        ("X-A:", "starts with none of"),
        ("add X-A:1 X-A:1 ", "one header name, one colon"),
        ("set X-A:b, add  :no-cache, no-store", "'' is not a valid header name"),
        ("set X-A:b,", "starts with none of"),
        ("drop X-A:b", "starts with none of set, add, setDate, addDate"),
        ("set", "one header name, one colon"),
        ("set X-A", "one header name, one colon"),
        ("set X-A:b:c", "one header name, one colon"),
        ("set X A:b", "'X A' is not a valid header name"),
        ("set :b", "'' is not a valid header name"),
        ("set X-A:b\x00", "control character"),
        ("setDate X-A:soon", "needs a value in milliseconds"),
    ],
)
def test_wrong_rules_are_refused(text: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        response_headers.parse_header_rules(text)


def test_rules_are_applied_to_every_answer() -> None:
    rules = "set Content-Type:application/x, add X-A:1, add X-A:2, setDate X-B:0"
    configured = RestSettings(response_headers=rules)
    ask = Rest(FakeHerder(), configured=configured)
    for path in ("/connectors", "/nope"):
        headers = ask("GET", path).headers
        assert headers["content-type"] == "application/x"
        assert headers.get_list("x-a") == ["1", "2"]
        assert headers["x-b"].endswith(" GMT")


def test_dates_count_from_now() -> None:
    async def nothing(*_: object) -> None:
        return None

    rules = response_headers.parse_header_rules("setDate Expires:86400000")
    served = ResponseHeadersMiddleware(nothing, rules=rules, wall_ms=lambda: 0)
    headers: list[tuple[bytes, bytes]] = []
    served._apply_header_rules(datastructures.MutableHeaders(raw=headers))
    assert headers == [(b"expires", b"Fri, 02 Jan 1970 00:00:00 GMT")]
