"""Refuses what browsers send for pages from elsewhere: `base.request_origin` says what that is."""

from __future__ import annotations

import socket
from collections.abc import Callable
from http import HTTPStatus

from starlette import datastructures, types

from connect_runtime.base import request_origin
from connect_runtime.rest import errors, settings

HEALTH = "/health"
"""Probes ask for it under any name. It holds no secret and changes nothing."""
_SAFE = ("GET", "HEAD", "OPTIONS")


def hosts(configured: settings.RestSettings) -> request_origin.AllowedHosts:
    """The names of this machine, of the listeners, the advertised one, and what is configured."""
    own = socket.gethostname()
    names = [own, *configured.allowed_hosts, *(each.host for each in configured.listeners)]
    names += [each.host for each in configured.admin_listeners or ()]
    if configured.advertised.host is not None:
        names.append(configured.advertised.host)
    try:
        found = socket.getaddrinfo(own, None, flags=socket.AI_CANONNAME)
    except OSError:
        found = []  # it has no other name
    names += [canonical for *_, canonical, _ in found if canonical]
    return request_origin.allowed(names)


class HostCheck:
    """ASGI: 403 for requests under another host name, and for what pages of other origins would
    have changed."""

    def __init__(
        self,
        app: types.ASGIApp,
        *,
        hosts: request_origin.AllowedHosts,
        allows_origin: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`allows_origin`: origins whose pages may ask for changes."""
        self._app = app
        self._hosts = hosts
        self._allows_origin = allows_origin

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        why = self._refusal(scope) if scope["type"] == "http" else ""
        if not why:
            await self._app(scope, receive, send)
            return
        answer = errors.respond(errors.RestError(HTTPStatus.FORBIDDEN, why))
        await answer(scope, receive, send)

    def _refusal(self, scope: types.Scope) -> str:
        if scope["path"] == HEALTH and scope["method"] in _SAFE:
            return ""
        headers = datastructures.Headers(scope=scope)
        host, origin = headers.get("host"), headers.get("origin")
        if not self._hosts.allows(host):
            return request_origin.refused_name(host or "")
        if scope["method"] in _SAFE or (origin is not None and self._allows_origin(origin)):
            return ""
        foreign = request_origin.is_foreign(
            host=host, origin=origin, fetch_site=headers.get("sec-fetch-site")
        )
        return request_origin.refused_origin(origin) if foreign else ""
