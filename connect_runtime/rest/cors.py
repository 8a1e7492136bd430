"""Cross-origin resource sharing: `access.control.allow.*`.

Follows the Jetty handler that Kafka Connect uses: the headers define which responses the browser
may pass to a page. Preflight requests from all origins are answered, but only allowed origins
receive CORS headers. Unlike Jetty's handler, this server also rejects changes that pages of other
origins request (`host_and_origin_middleware`). Credentials are never allowed. An origin is a
literal with `*` as wildcard, or a regular expression.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable

from starlette import datastructures, types

from connect_runtime.api.errors import ConfigError
from connect_runtime.base import bounded_regex
from connect_runtime.base.bounded_regex import BoundedPattern, MatchLimitError, PatternError
from connect_runtime.rest.rest_settings import CorsSettings

ALLOW_ORIGIN_CONFIG = "access.control.allow.origin"
_LOG = logging.getLogger(__name__)
_SIMPLE_METHODS = ("GET", "POST", "HEAD")
_ALLOWED_HEADERS = "Content-Type"
_MAX_AGE_S = 60
_REGULAR_EXPRESSION = re.compile(r"[\\\[(|^$+?]|\.\*")
"""Characters that a literal origin cannot contain. An entry with any of them is a regular
expression."""


def parse_allowed_origins(text: str) -> tuple[BoundedPattern, ...]:
    """Parse `access.control.allow.origin`. Raises `ConfigError` if an entry is invalid."""
    return tuple(_compile_origin(each) for each in _split_list(text))


def build_origin_check(access: CorsSettings) -> Callable[[str], bool]:
    """Return a predicate: True if `access.control.allow.origin` allows the given origin.

    An origin that cannot be matched within the time limit is rejected. Only the first such origin
    is logged.
    """
    everybody, patterns = "*" in _split_list(access.origins), parse_allowed_origins(access.origins)
    is_limit_logged = False

    def is_origin_allowed(origin: str) -> bool:
        nonlocal is_limit_logged
        if everybody:
            return True
        if len(origin) > bounded_regex.NAME_LENGTH_MAX:  # a host has 253 characters at most
            return False
        try:
            return any(each.fullmatch(origin, key=ALLOW_ORIGIN_CONFIG) for each in patterns)
        except MatchLimitError as error:
            if not is_limit_logged:
                is_limit_logged = True
                _LOG.warning("rejected a CORS origin because matching it failed: %s", error)
            return False

    return is_origin_allowed


def _compile_origin(origin: str) -> BoundedPattern:
    is_expression = _REGULAR_EXPRESSION.search(origin)
    text = origin if is_expression else ".*".join(re.escape(part) for part in origin.split("*"))
    try:
        return bounded_regex.compile_pattern(text)
    except PatternError as error:
        raise ConfigError(
            f"{ALLOW_ORIGIN_CONFIG}: '{origin}' is not a valid pattern: {error.reason}"
        ) from None


def _split_list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


class CorsMiddleware:
    """ASGI middleware that adds CORS headers to responses to requests from allowed origins."""

    def __init__(self, app: types.ASGIApp, *, access: CorsSettings) -> None:
        self._app = app
        self._everybody = "*" in _split_list(access.origins)
        self._allows = build_origin_check(access)
        self._methods = ",".join(_split_list(access.methods) or _SIMPLE_METHODS)

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_cors_headers(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                self._add_cors_headers(datastructures.MutableHeaders(scope=message), scope=scope)
            await send(message)

        await self._app(scope, receive, send_with_cors_headers)

    def _add_cors_headers(
        self, headers: datastructures.MutableHeaders, *, scope: types.Scope
    ) -> None:
        headers.add_vary_header("Origin")
        request = datastructures.Headers(scope=scope)
        origin = request.get("origin")
        if origin is None or not self._allows(origin):
            return
        headers["Access-Control-Allow-Origin"] = "*" if self._everybody else origin
        if scope["method"] == "OPTIONS" and "access-control-request-method" in request:
            headers["Access-Control-Allow-Methods"] = self._methods
            headers["Access-Control-Allow-Headers"] = _ALLOWED_HEADERS
            headers["Access-Control-Max-Age"] = str(_MAX_AGE_S)
