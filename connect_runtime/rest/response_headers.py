"""HTTP headers that are added to every response: `response.http.headers.config` (KIP-577).

Rules are separated by commas, quoted where they contain one: `[action] [header name]:[value]`.
Blanks and line breaks between them are ignored. `set` replaces a header, `add` does not; with
`setDate` and `addDate` the value is in milliseconds from now, and the header a date.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from email import utils

from starlette import datastructures, types

from connect_runtime.api.errors import ConfigError

_ACTIONS = ("set", "add", "setDate", "addDate")
_RESPONSE_HEADERS_CONFIG = "response.http.headers.config"
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderRule:
    """`offset_ms` is given for dates, and `value` is "" then."""

    name: str
    value: str
    adds: bool
    offset_ms: int | None = None


def parse_rules(text: str) -> tuple[HeaderRule, ...]:
    """Raises `ConfigError`."""
    if not text.strip():
        return ()
    line = re.sub(r"[\r\n]", " ", text)
    found = next(csv.reader([line], skipinitialspace=True))
    return tuple(_parse_rule(each.strip()) for each in found)


def _parse_rule(text: str) -> HeaderRule:
    action, header, *_ = (*text.split(maxsplit=1), "", "")
    actions = {each.lower(): each for each in _ACTIONS}
    if action.lower() not in actions:
        raise ConfigError(
            f"{_RESPONSE_HEADERS_CONFIG}: '{text}' begins with none of {', '.join(_ACTIONS)}; "
            "the form of a rule is"
            " '[action] [header name]:[value]'"
        )
    name, colon, value = (part.strip() for part in header.partition(":"))
    if not colon or ":" in value or not value:
        raise ConfigError(
            f"{_RESPONSE_HEADERS_CONFIG}: '{text}' needs one header name, one colon and a value"
        )
    if not _HEADER_NAME.fullmatch(name):
        raise ConfigError(f"{_RESPONSE_HEADERS_CONFIG}: '{name}' is no name of a header")
    if not value.isprintable():
        raise ConfigError(
            f"{_RESPONSE_HEADERS_CONFIG}: the value of '{name}' holds a control character"
        )
    is_date = action.lower().endswith("date")
    if is_date and not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        raise ConfigError(f"{_RESPONSE_HEADERS_CONFIG}: '{text}' needs milliseconds as its value")
    return HeaderRule(
        name=name,
        value="" if is_date else value,
        adds=action.lower().startswith("add"),
        offset_ms=int(value) if is_date else None,
    )


class ResponseHeadersMiddleware:
    """ASGI: applies the rules to every response of the application."""

    def __init__(
        self, app: types.ASGIApp, *, rules: tuple[HeaderRule, ...], wall_ms: Callable[[], int]
    ) -> None:
        self._app = app
        self._rules = rules
        self._wall_ms = wall_ms

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        async def send_with(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                self._apply(datastructures.MutableHeaders(scope=message))
            await send(message)

        await self._app(scope, receive, send_with)

    def _apply(self, headers: datastructures.MutableHeaders) -> None:
        for rule in self._rules:
            value = rule.value
            if rule.offset_ms is not None:
                at_s = (self._wall_ms() + rule.offset_ms) / 1000
                value = utils.formatdate(at_s, usegmt=True)
            if rule.adds:
                headers.append(rule.name, value)
            else:
                headers[rule.name] = value
