"""Pages beside an API: `ports.pages`, asked before the API is, on threads of their own."""

from __future__ import annotations

import logging
from http import HTTPStatus

from starlette import datastructures, responses, types

from connect_runtime.base import request_origin
from connect_runtime.ports import page_lanes, pages
from connect_runtime.rest import errors
from connect_runtime.system import pool

_OWN_ADDRESSES = request_origin.AllowedHosts()
_STOP_S = 0.5

_log = logging.getLogger(__name__)


class Beside:
    """ASGI: what `served` has no page for goes to `app`; so does everything but GET and HEAD."""

    def __init__(
        self,
        app: types.ASGIApp,
        served: pages.Pages,
        *,
        hosts: request_origin.AllowedHosts = _OWN_ADDRESSES,
    ) -> None:
        """`hosts`: the host names under which pages for people are served. Metrics and health,
        which are read-only and hold no secrets, are served under any name."""
        self._app = app
        self._hosts = hosts
        self._served = served
        self._lanes = page_lanes.PageLanes("pages")

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        make = None
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            make = self._served.get(_path(scope))
        if make is None:
            await self._app(scope, receive, send)
        else:
            host = datastructures.Headers(scope=scope).get("host")
            if pages.lane(make) is pages.Lane.PEOPLE and not self._hosts.allows(host):
                told = request_origin.refused_name(host or "")
                answer = errors.respond(errors.RestError(HTTPStatus.FORBIDDEN, told))
                await answer(scope, receive, send)
                return
            page = await self._made(make, _asked(scope))
            await _response(page)(scope, receive, send)

    def stop(self) -> None:
        """Make no more pages. One that hangs is left behind."""
        self._lanes.stop(_STOP_S)

    async def _made(self, make: pages.Make, asked: pages.Asked) -> pages.Page:
        try:
            return await self._lanes.made(pages.lane(make), lambda: make(asked))
        except Exception as error:  # noqa: BLE001 - whoever asked is told, the log has the rest
            return _failed(error)


def _path(scope: types.Scope) -> str:
    sent = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    return str(sent.partition("?")[0])


def _asked(scope: types.Scope) -> pages.Asked:
    given = datastructures.QueryParams(scope.get("query_string", b"")).multi_items()
    headers = datastructures.Headers(scope=scope)
    foreign = request_origin.is_foreign(
        host=headers.get("host"),
        origin=headers.get("origin"),
        fetch_site=headers.get("sec-fetch-site"),
    )
    return pages.Asked(
        path=_path(scope),
        query=dict(reversed(given)),
        accept=headers.get("accept", ""),
        requested_with="" if foreign else headers.get("x-requested-with", ""),
    )


def _response(page: pages.Page) -> responses.Response:
    headers = {"Content-Type": page.content_type, **page.headers}
    return responses.Response(page.body, status_code=page.status, headers=headers)


def _failed(error: Exception) -> pages.Page:
    """Busy, or late: to be asked again. Anything else is an error of ours."""
    if isinstance(error, (pool.PoolFull, TimeoutError)):
        told = errors.RestError(HTTPStatus.SERVICE_UNAVAILABLE, "The page was not made in time")
    else:
        _log.error("making a page: %r", error, exc_info=error)
        told = errors.RestError(HTTPStatus.INTERNAL_SERVER_ERROR, "The page cannot be made")
    answer = errors.respond(told)
    return pages.Page(body=bytes(answer.body), status=answer.status_code)
