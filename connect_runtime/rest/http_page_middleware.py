"""ASGI middleware that serves mounted pages before the REST API."""

from __future__ import annotations

from http import HTTPStatus

from starlette import datastructures, responses, types

from connect_runtime.base import host_and_origin_rules
from connect_runtime.base.host_and_origin_rules import AllowedHosts
from connect_runtime.rest import http_pages, rest_errors
from connect_runtime.rest.http_pages import (
    PageRenderer,
    PageRequest,
    PageResponse,
    PagesByPath,
    PageThreadPool,
    PageThreadPools,
)
from connect_runtime.rest.rest_errors import RestError
from connect_runtime.system.supervised_threads import ThreadPoolFull

_OWN_ADDRESSES = AllowedHosts()
_STOP_TIMEOUT_S = 0.5
_LATE_ERRORS = (ThreadPoolFull, TimeoutError)


class PageMiddleware:
    """ASGI middleware that serves GET and HEAD requests for mounted pages, and passes all other
    requests to `app`."""

    def __init__(
        self,
        app: types.ASGIApp,
        served: PagesByPath,
        *,
        hosts: AllowedHosts = _OWN_ADDRESSES,
    ) -> None:
        """Create the middleware.

        `hosts` contains the host names under which pages for browsers are served. Metrics and
        health pages are read-only and contain no secrets, so they are served under any host name.
        """
        self._app = app
        self._hosts = hosts
        self._served = served
        self._lanes = PageThreadPools("pages")

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        make = None
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            make = self._served.get(_get_raw_path(scope))
        if make is None:
            await self._app(scope, receive, send)
        else:
            host = datastructures.Headers(scope=scope).get("host")
            if http_pages.get_thread_pool(
                make
            ) is PageThreadPool.PEOPLE and not self._hosts.allows_reading(host):
                told = host_and_origin_rules.explain_refused_host(host or "")
                answer = rest_errors.build_error_response(RestError(HTTPStatus.FORBIDDEN, told))
                await answer(scope, receive, send)
                return
            page = await self._render_page(make, _build_page_request(scope))
            await _build_page_response(page)(scope, receive, send)

    def stop(self) -> None:
        """Stop rendering pages. Threads that hang are abandoned."""
        self._lanes.stop(_STOP_TIMEOUT_S)

    async def _render_page(self, make: PageRenderer, asked: PageRequest) -> PageResponse:
        try:
            return await self._lanes.render_page(
                http_pages.get_thread_pool(make), lambda: make(asked)
            )
        except Exception as error:  # noqa: BLE001 - answered with an error page
            if not isinstance(error, _LATE_ERRORS):
                self._lanes.log_page_failure(asked.path, error)
            return _build_error_page(error)


def _get_raw_path(scope: types.Scope) -> str:
    sent = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
    return str(sent.partition("?")[0])


def _build_page_request(scope: types.Scope) -> PageRequest:
    given = datastructures.QueryParams(scope.get("query_string", b"")).multi_items()
    headers = datastructures.Headers(scope=scope)
    foreign = host_and_origin_rules.is_cross_origin(
        host=headers.get("host"),
        origin=headers.get("origin"),
        fetch_site=headers.get("sec-fetch-site"),
    )
    return PageRequest(
        path=_get_raw_path(scope),
        query=dict(reversed(given)),
        accept=headers.get("accept", ""),
        requested_with="" if foreign else headers.get("x-requested-with", ""),
    )


def _build_page_response(page: PageResponse) -> responses.Response:
    headers = {"Content-Type": page.content_type, **page.headers}
    return responses.Response(page.body, status_code=page.status, headers=headers)


def _build_error_page(error: Exception) -> PageResponse:
    """Build the response for a page that was not rendered: 503 if the pool is full or rendering
    timed out, so that clients retry; otherwise 500."""
    if isinstance(error, _LATE_ERRORS):
        told = RestError(HTTPStatus.SERVICE_UNAVAILABLE, "The page could not be rendered in time")
    else:
        told = RestError(HTTPStatus.INTERNAL_SERVER_ERROR, "The page could not be rendered")
    answer = rest_errors.build_error_response(told)
    return PageResponse(body=bytes(answer.body), status=answer.status_code)
