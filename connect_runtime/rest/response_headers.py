"""Additional HTTP headers for every response: `response.http.headers.config` (KIP-577).

Rules are separated by commas, and quoted if they contain a comma: `[action] [header name]:[value]`.
Whitespace between rules is ignored. `set` replaces a header, `add` adds a header. The value of
`setDate` and `addDate` is a number of milliseconds from now, and the header contains the resulting
date.
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
    """One rule of `response.http.headers.config`: a response header to set or add."""

    name: str
    value: str
    """Header value; "" for dates."""
    keeps_existing: bool
    """True to keep an existing header of the same name (`add`), False to replace it (`set`)."""
    offset_ms: int | None = None
    """Offset of a date header from the current time in milliseconds; None for other headers."""


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """Parse the value of `response.http.headers.config`. Raises `ConfigError` if a rule is
    invalid."""
    if not text.strip():
        return ()
    line = re.sub(r"[\r\n]", " ", text)
    found = next(csv.reader([line], skipinitialspace=True))
    return tuple(_parse_header_rule(each.strip()) for each in found)


def _parse_header_rule(text: str) -> HeaderRule:
    action, header, *_ = (*text.split(maxsplit=1), "", "")
    actions = {each.lower(): each for each in _ACTIONS}
    if action.lower() not in actions:
        raise ConfigError(
            f"{_RESPONSE_HEADERS_CONFIG}: '{text}' starts with none of {', '.join(_ACTIONS)}; "
            "a rule has the form"
            " '[action] [header name]:[value]'"
        )
    name, colon, value = (part.strip() for part in header.partition(":"))
    if not colon or ":" in value or not value:
        raise ConfigError(
            f"{_RESPONSE_HEADERS_CONFIG}: '{text}' needs one header name, one colon and a value"
        )
    if not _HEADER_NAME.fullmatch(name):
        raise ConfigError(f"{_RESPONSE_HEADERS_CONFIG}: '{name}' is not a valid header name")
    if not value.isprintable():
        raise ConfigError(
            f"{_RESPONSE_HEADERS_CONFIG}: the value of '{name}' contains a control character"
        )
    is_date = action.lower().endswith("date")
    if is_date and not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        raise ConfigError(f"{_RESPONSE_HEADERS_CONFIG}: '{text}' needs a value in milliseconds")
    return HeaderRule(
        name=name,
        value="" if is_date else value,
        keeps_existing=action.lower().startswith("add"),
        offset_ms=int(value) if is_date else None,
    )


class ResponseHeadersMiddleware:
    """ASGI middleware that applies the header rules to every response."""

    def __init__(
        self, app: types.ASGIApp, *, rules: tuple[HeaderRule, ...], wall_ms: Callable[[], int]
    ) -> None:
        self._app = app
        self._rules = rules
        self._wall_ms = wall_ms

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        async def send_with_headers(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                self._apply_header_rules(datastructures.MutableHeaders(scope=message))
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _apply_header_rules(self, headers: datastructures.MutableHeaders) -> None:
        for rule in self._rules:
            value = rule.value
            if rule.offset_ms is not None:
                at_s = (self._wall_ms() + rule.offset_ms) / 1000
                value = utils.formatdate(at_s, usegmt=True)
            if rule.keeps_existing:
                headers.append(rule.name, value)
            else:
                headers[rule.name] = value
