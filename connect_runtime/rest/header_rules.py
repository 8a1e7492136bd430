"""Headers that every response is to have: `response.http.headers.config` (KIP-577).

Rules are separated by commas, quoted where they hold one: `[action] [header name]:[value]`, with
any blanks and line breaks between. `set` replaces what is there, `add` does not; with `setDate` and
`addDate` the value is milliseconds from now on, and the header a date.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from email import utils

from starlette import datastructures, types

from connect_runtime.api import errors

_ACTIONS = ("set", "add", "setDate", "addDate")
_KEY = "response.http.headers.config"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`offset_ms` is given for dates, and `value` is "" then."""

    name: str
    value: str
    adds: bool
    offset_ms: int | None = None


def parse(text: str) -> tuple[Rule, ...]:
    """Raises `ConfigError`."""
    if not text.strip():
        return ()
    line = re.sub(r"[\r\n]", " ", text)
    found = next(csv.reader([line], skipinitialspace=True))
    return tuple(_rule(each.strip()) for each in found)


def _rule(text: str) -> Rule:
    action, header, *_ = (*text.split(maxsplit=1), "", "")
    actions = {each.lower(): each for each in _ACTIONS}
    if action.lower() not in actions:
        raise errors.ConfigError(
            f"{_KEY}: '{text}' begins with none of {', '.join(_ACTIONS)}; the form of a rule is"
            " '[action] [header name]:[value]'"
        )
    name, colon, value = (part.strip() for part in header.partition(":"))
    if not colon or ":" in value or not value:
        raise errors.ConfigError(f"{_KEY}: '{text}' needs one header name, one colon and a value")
    if not _NAME.fullmatch(name):
        raise errors.ConfigError(f"{_KEY}: '{name}' is no name of a header")
    if not value.isprintable():
        raise errors.ConfigError(f"{_KEY}: the value of '{name}' holds a control character")
    is_date = action.lower().endswith("date")
    if is_date and not re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        raise errors.ConfigError(f"{_KEY}: '{text}' needs milliseconds as its value")
    return Rule(
        name=name,
        value="" if is_date else value,
        adds=action.lower().startswith("add"),
        offset_ms=int(value) if is_date else None,
    )


class HeaderRules:
    """ASGI: applies the rules to every response of the application."""

    def __init__(
        self, app: types.ASGIApp, *, rules: tuple[Rule, ...], wall_ms: Callable[[], int]
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
