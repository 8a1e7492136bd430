"""Answers that browsers let pages of other origins read: `access.control.allow.*`.

Follows the handler of Jetty that Kafka Connect uses: what changes is what a browser shows to the
page; preflights are served to all. Other than there, what a page of an origin that is not allowed
would have changed is refused (`host_check`). Credentials are never allowed. An origin is given as
it is, with stars that stand for anything, or as a regular expression.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from starlette import datastructures, types

from connect_runtime.api import errors
from connect_runtime.base import user_pattern
from connect_runtime.rest import settings

KEY = "access.control.allow.origin"
_LOG = logging.getLogger(__name__)
_METHODS = ("GET", "POST", "HEAD")
_HEADERS = "Content-Type"
_MAX_AGE_S = 60
_EXPRESSION = re.compile(r"[\\\[(|^$+?]|\.\*")
"""What is in no origin: one with any of this is a regular expression."""


def origins(text: str) -> tuple[user_pattern.Pattern, ...]:
    """The origins of `access.control.allow.origin`. Raises `ConfigError`."""
    return tuple(_pattern(each) for each in _listed(text))


def allows(access: settings.Access) -> Callable[[str], bool]:
    """Are pages of an origin served, as `access.control.allow.origin` says? One that cannot be
    matched within the limit is not; the first such is logged."""
    everybody, patterns = "*" in _listed(access.origins), origins(access.origins)
    is_limit_logged = False

    def allowed(origin: str) -> bool:
        nonlocal is_limit_logged
        if everybody:
            return True
        if len(origin) > user_pattern.NAME_LENGTH:  # a host has 253 characters at most
            return False
        try:
            return any(each.fullmatch(origin, key=KEY) for each in patterns)
        except user_pattern.MatchLimitError as error:
            if not is_limit_logged:
                is_limit_logged = True
                _LOG.warning("an origin is not allowed: %s", error)
            return False

    return allowed


def _pattern(origin: str) -> user_pattern.Pattern:
    is_expression = _EXPRESSION.search(origin)
    text = origin if is_expression else ".*".join(re.escape(part) for part in origin.split("*"))
    try:
        return user_pattern.compile_pattern(text)
    except user_pattern.PatternError as error:
        raise errors.ConfigError(f"{KEY}: '{origin}' cannot be used: {error.reason}") from None


def _listed(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


class Cors:
    """ASGI: adds the headers where the origin is allowed."""

    def __init__(self, app: types.ASGIApp, *, access: settings.Access) -> None:
        self._app = app
        self._everybody = "*" in _listed(access.origins)
        self._allows = allows(access)
        self._methods = ",".join(_listed(access.methods) or _METHODS)

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                self._add(datastructures.MutableHeaders(scope=message), asked=scope)
            await send(message)

        await self._app(scope, receive, send_with)

    def _add(self, headers: datastructures.MutableHeaders, *, asked: types.Scope) -> None:
        headers.add_vary_header("Origin")
        request = datastructures.Headers(scope=asked)
        origin = request.get("origin")
        if origin is None or not self._allows(origin):
            return
        headers["Access-Control-Allow-Origin"] = "*" if self._everybody else origin
        if asked["method"] == "OPTIONS" and "access-control-request-method" in request:
            headers["Access-Control-Allow-Methods"] = self._methods
            headers["Access-Control-Allow-Headers"] = _HEADERS
            headers["Access-Control-Max-Age"] = str(_MAX_AGE_S)
