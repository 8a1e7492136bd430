from __future__ import annotations

import httpx
import pytest

from connect_runtime.api.errors import ConfigError
from connect_runtime.rest import cors
from connect_runtime.rest.rest_settings import CorsSettings, RestSettings
from tests.fakes.rest_herder import FakeHerder
from tests.support.rest import Rest

PREFIX = "access-control-"


def ask(
    origins: str, origin: str | None, *, methods: str = "", preflight: bool = False
) -> tuple[httpx.Response, dict[str, str]]:
    """The answer, and what it says of access, without the prefix."""
    access = CorsSettings(origins=origins, methods=methods)
    served = Rest(FakeHerder(), configured=RestSettings(access=access))
    headers = {} if origin is None else {"Origin": origin}
    if preflight:
        headers |= {"Access-Control-Request-Method": "PUT"}
    answer = served("OPTIONS" if preflight else "GET", "/connectors", headers=headers)
    told = {
        name.removeprefix(PREFIX): value
        for name, value in answer.headers.items()
        if name.startswith(PREFIX)
    }
    return answer, told


@pytest.mark.parametrize(
    ("origins", "origin", "allowed"),
    [
        ("http://a.example", "http://a.example", "http://a.example"),
        ("http://b.example, http://a.example", "http://a.example", "http://a.example"),
        ("http://a.example", "http://a-example", None),
        ("http://a.example", "http://a.example.evil", None),
        ("https://*.example", "https://a.b.example", "https://a.b.example"),
        ("https://*.example", "https://a.example.evil", None),
        (r"https?://a\.example", "https://a.example", "https://a.example"),
        ("https://.*.example", "https://a.example", "https://a.example"),
        ("*", "http://anywhere", "*"),
        ("http://a.example", None, None),
        ("", "http://a.example", None),
    ],
)
def test_an_allowed_origin_is_told(origins: str, origin: str | None, allowed: str | None) -> None:
    answer, told = ask(origins, origin)
    assert answer.status_code == 200
    assert told == ({} if allowed is None else {"allow-origin": allowed})
    assert answer.headers.get("vary") == ("Origin" if origins else None)


def test_a_preflight_is_answered_and_delivered() -> None:
    answer, told = ask("http://a", "http://a", methods="GET, PUT", preflight=True)
    assert answer.status_code == 200
    assert "GET" in answer.headers["allow"]
    assert told == {
        "allow-origin": "http://a",
        "allow-methods": "GET,PUT",
        "allow-headers": "Content-Type",
        "max-age": "60",
    }


def test_methods_have_a_default() -> None:
    assert ask("*", "http://a", preflight=True)[1]["allow-methods"] == "GET,POST,HEAD"


def test_errors_are_readable_too() -> None:
    access = CorsSettings(origins="*")
    served = Rest(FakeHerder(), configured=RestSettings(access=access))
    answer = served("GET", "/nope", headers={"Origin": "http://a"})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (404, "*")


def test_a_broken_expression_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"allow.origin: '\(' is not a valid pattern"):
        cors.parse_allowed_origins("http://a,(")


def test_an_expression_that_takes_too_long_allows_nothing() -> None:
    slow = "http://(?:(?>.*a.*b)|x)*(?:a+)+"
    assert ask(slow, f"http://{'x' * 200}a")[1] == {}
    assert ask(".*", f"http://{'a' * 300}")[1] == {}
