"""Access log with one line per request, as in Kafka Connect (NCSA extended format plus the
duration)."""

from __future__ import annotations

import datetime
import logging
import math
import re

from starlette import datastructures, types

from connect_runtime.base.timing import Clock
from connect_runtime.rest import namespace_router

MAX_FIELD_LENGTH = 1_000
"""Maximum length of a logged value that the client has sent; the rest is replaced by dots."""
MAX_CLIENT_ERRORS = 100
"""Maximum number of lines per minute for client errors (4xx). Clients that are not logged in get
only such responses, so that they cannot fill the log."""
_CLIENT_ERROR_INTERVAL_S = 60.0
_UNPRINTABLE = re.compile(r'[^\x20-\x7e]|["\\]')

_log = logging.getLogger(__name__)


class AccessLogMiddleware:
    """ASGI middleware that logs each request after its response, or after it failed without a
    response.

    At most `MAX_CLIENT_ERRORS` client errors per minute are logged. Further ones are only counted,
    and the count is logged.
    """

    def __init__(self, app: types.ASGIApp, *, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._client_errors = 0
        self._counted_since_s = -math.inf

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http" or not _log.isEnabledFor(logging.INFO):
            await self._app(scope, receive, send)
            return
        began_s = self._clock.now_s()
        status, size = 0, 0

        async def send_and_count(message: types.Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                size += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_and_count)
        finally:
            took_ms = round((self._clock.now_s() - began_s) * 1000)
            if not self._is_client_error_above_limit(status):
                self._format_log_line(scope, status=status, size=size, took_ms=took_ms)

    def _is_client_error_above_limit(self, status: int) -> bool:
        if not 400 <= status < 500:
            return False
        now_s = self._clock.now_s()
        if now_s - self._counted_since_s >= _CLIENT_ERROR_INTERVAL_S:
            left_out = self._client_errors - MAX_CLIENT_ERRORS
            if left_out > 0:
                _log.info("REST: %d more requests were answered with client errors", left_out)
            self._client_errors, self._counted_since_s = 0, now_s
        self._client_errors += 1
        return self._client_errors > MAX_CLIENT_ERRORS

    def _format_log_line(self, scope: types.Scope, *, status: int, size: int, took_ms: int) -> None:
        headers = datastructures.Headers(scope=scope)
        client = scope.get("client")
        at_s = self._clock.wall_ms() // 1000
        at = datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S %z")
        query = scope.get("query_string", b"").decode("latin-1")
        target = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        target = scope.get(namespace_router.NAMESPACE_SCOPE_KEY, "") + target
        _log.info(
            '%s - - [%s] "%s %s HTTP/%s" %d %d "%s" "%s" %d',
            _shorten_and_escape(client[0]) if client else "-",
            at,
            _shorten_and_escape(scope["method"]),
            _shorten_and_escape(f"{target}?{query}" if query else target),
            scope.get("http_version", "1.1"),
            status,
            size,
            _shorten_and_escape(headers.get("referer", "-")),
            _shorten_and_escape(headers.get("user-agent", "-")),
            took_ms,
        )


def _shorten_and_escape(text: str) -> str:
    """Limit the length of a logged value and escape unprintable characters, so that clients can
    neither fill the log nor inject line breaks."""
    end = "..." if len(text) > MAX_FIELD_LENGTH else ""
    return _UNPRINTABLE.sub("?", text[:MAX_FIELD_LENGTH]) + end
