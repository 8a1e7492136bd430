"""Rejects requests for unknown host names (DNS rebinding), and changes requested by pages of other
origins.

The rules are defined in `base.request_origin`.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from http import HTTPStatus

from starlette import datastructures, types

from connect_runtime.base import host_and_origin_rules
from connect_runtime.base.host_and_origin_rules import AllowedHosts
from connect_runtime.rest import rest_errors
from connect_runtime.rest.rest_errors import RestError
from connect_runtime.rest.rest_settings import RestSettings

HEALTH_PATH = "/health"
"""Path of the health probes, which is served under any host name. Its responses contain no secrets,
and requests to it change nothing."""
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def collect_allowed_hosts(configured: RestSettings) -> AllowedHosts:
    """Collect the host names under which this worker may be addressed: this machine's names, and
    the listener, advertised and configured host names."""
    own = socket.gethostname()
    names = [own, *configured.allowed_hosts, *(each.host for each in configured.listeners)]
    names += [each.host for each in configured.admin_listeners or ()]
    if configured.advertised.host is not None:
        names.append(configured.advertised.host)
    try:
        found = socket.getaddrinfo(own, None, flags=socket.AI_CANONNAME)
    except OSError:
        found = []  # the machine has no other name
    names += [canonical for *_, canonical, _ in found if canonical]
    return host_and_origin_rules.parse_allowed_hosts(names)


class HostCheckMiddleware:
    """ASGI middleware that responds with 403 to requests for unknown host names and to changes
    requested by pages of other origins."""

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        hosts: AllowedHosts,
        allows_origin: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`allows_origin` returns True if pages of the given origin may request changes."""
        self._app = app
        self._hosts = hosts
        self._allows_origin = allows_origin

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        why = self._explain_rejected_request(scope) if scope["type"] == "http" else ""
        if not why:
            await self._app(scope, receive, send)
            return
        answer = rest_errors.build_error_response(RestError(HTTPStatus.FORBIDDEN, why))
        await answer(scope, receive, send)

    def _explain_rejected_request(self, scope: types.Scope) -> str:
        if scope["path"] == HEALTH_PATH and scope["method"] in _SAFE_METHODS:
            return ""
        headers = datastructures.Headers(scope=scope)
        host, origin = headers.get("host"), headers.get("origin")
        if not self._hosts.allows_reading(host):
            return host_and_origin_rules.explain_refused_host(host or "")
        if scope["method"] in _SAFE_METHODS or (origin is not None and self._allows_origin(origin)):
            return ""
        site = headers.get("sec-fetch-site")
        if host_and_origin_rules.is_cross_origin(host=host, origin=origin, fetch_site=site):
            return host_and_origin_rules.explain_refused_origin(origin)
        from_browser = origin is not None or site is not None
        if from_browser and not self._hosts.allows_changes(host):
            return host_and_origin_rules.explain_refused_host(host or "")
        return ""
