"""Access log with one line per request, as in Kafka Connect (NCSA extended format plus the
duration)."""

from __future__ import annotations

import datetime
import logging
import math
import re

from starlette import datastructures, types

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.rest import http_request, path_prefix_router

MAX_FIELD_LENGTH = 1_000
"""Maximum length of a logged value from the client. Longer values are truncated and end with three
dots."""
MAX_METHOD_LENGTH = 20
"""Maximum length of a logged method."""
MAX_CLIENT_ERRORS = 100
"""Maximum number of rejected requests that are logged per minute, so that unauthenticated clients
cannot fill the log."""
_REJECTIONS = frozenset({401, 403})
_CLIENT_ERROR_INTERVAL_S = 60.0
_UNPRINTABLE = re.compile(r'[^\x20-\x7e]|["\\]')

_log = logging.getLogger(__name__)


class AccessLogMiddleware:
    """ASGI middleware that logs each request after its response, or after it failed without a
    response.

    At most `MAX_CLIENT_ERRORS` rejected requests per minute are logged. The number of the others is
    logged with a later request. A request is rejected if its status is 401 or 403, or if its
    required signature was not verified (`IS_UNVERIFIED_SCOPE_KEY`) and its status is not 2xx. All
    other requests are logged.
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
            self._log_suppressed_rejections_if_due()
            if not (
                _is_rejected_request(scope, status) and self._count_rejection_and_check_limit()
            ):
                self._format_log_line(scope, status=status, size=size, took_ms=took_ms)

    def _log_suppressed_rejections_if_due(self) -> None:
        """If the current minute has ended, log how many rejected requests exceeded its limit."""
        now_s = self._clock.now_s()
        if now_s - self._counted_since_s < _CLIENT_ERROR_INTERVAL_S:
            return
        left_out = self._client_errors - MAX_CLIENT_ERRORS
        if left_out > 0:
            _log.info("REST: %d more rejected requests were not logged", left_out)
        self._client_errors, self._counted_since_s = 0, now_s

    def _count_rejection_and_check_limit(self) -> bool:
        """Count a rejected request. Returns True if the current minute has more rejected requests
        than the limit."""
        self._client_errors += 1
        return self._client_errors > MAX_CLIENT_ERRORS

    def _format_log_line(self, scope: types.Scope, *, status: int, size: int, took_ms: int) -> None:
        headers = datastructures.Headers(scope=scope)
        client = scope.get("client")
        at_s = self._clock.wall_ms() // 1000
        at = datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S %z")
        query = scope.get("query_string", b"").decode("latin-1")
        target = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        target = scope.get(path_prefix_router.NAMESPACE_SCOPE_KEY, "") + target
        _log.info(
            '%s - - [%s] "%s %s HTTP/%s" %d %d "%s" "%s" %d',
            _sanitize_log_value(client[0]) if client else "-",
            at,
            _sanitize_log_value(scope["method"], MAX_METHOD_LENGTH),
            _sanitize_log_value(f"{target}?{query}" if query else target),
            scope.get("http_version", "1.1"),
            status,
            size,
            _sanitize_log_value(headers.get("referer", "-")),
            _sanitize_log_value(headers.get("user-agent", "-")),
            took_ms,
        )


def _is_rejected_request(scope: types.Scope, status: int) -> bool:
    is_unverified = scope.get(http_request.IS_UNVERIFIED_SCOPE_KEY, False)
    return status in _REJECTIONS or (is_unverified and not 200 <= status < 300)


def _sanitize_log_value(text: str, max_length: int = MAX_FIELD_LENGTH) -> str:
    """Limit the length of a logged value and escape unprintable characters, so that clients can
    neither fill the log nor inject line breaks."""
    end = "..." if len(text) > max_length else ""
    return _UNPRINTABLE.sub("?", text[:max_length]) + end
