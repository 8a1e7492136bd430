"""Routes requests to endpoint handlers by method and path, with the checks common to all endpoints.

Paths are matched in percent-encoded form, as sent by the client, because a connector name may
contain a slash. One trailing slash is ignored. As in Java's Jersey, OPTIONS lists the methods of a
path.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from starlette import requests, responses, routing, types

from connect_runtime.rest import http_request, rest_errors
from connect_runtime.rest.http_request import RestRequest
from connect_runtime.rest.rest_errors import RestError

EndpointHandler = Callable[[RestRequest], Awaitable[responses.Response]]

_JSON_RANGES = ("application/json", "application/*", "*/*")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A REST API endpoint and its handler. `path` contains parameters in braces, as in
    `/connectors/{connector}/tasks/{task}/status`."""

    method: str
    path: str
    handle: EndpointHandler


def build_routes(endpoints: Iterable[Endpoint], *, body_timeout_s: float) -> list[routing.Route]:
    """Build one route per path of these endpoints. A GET handler also serves HEAD."""
    by_path: dict[str, dict[str, EndpointHandler]] = {}
    for each in endpoints:
        handlers = by_path.setdefault(each.path, {})
        assert each.method not in handlers, each
        handlers[each.method] = each.handle
    return [
        _build_route(path, handlers, body_timeout_s=body_timeout_s)
        for path, handlers in by_path.items()
    ]


def _build_route(
    path: str, handlers: Mapping[str, EndpointHandler], *, body_timeout_s: float
) -> routing.Route:
    served = [*handlers, "OPTIONS"] + (["HEAD"] if "GET" in handlers else [])
    allowed = ", ".join(sorted(served))

    async def handle_request(request: requests.Request) -> responses.Response:
        if request.method == "OPTIONS":
            return responses.Response(headers={"Allow": allowed})
        handle = handlers["GET" if request.method == "HEAD" else request.method]
        rest_request = RestRequest(request, body_timeout_s=body_timeout_s)
        try:
            _check_content_type(request.headers.get("content-type"))
            _check_accept_headers(request.headers.getlist("accept"))
            return await handle(rest_request)
        except Exception as error:  # noqa: BLE001 - plugins may raise anything; answer with 500
            return rest_errors.build_error_response(rest_errors.convert_to_rest_error(error))
        finally:
            await rest_request.release_body_slot()

    return routing.Route(path, handle_request, methods=served)


def _check_content_type(content_type: str | None) -> None:
    """Raise `RestError` (415) for content types other than JSON. As in Java, this also applies to
    requests without a body."""
    if content_type is None:
        return
    if content_type.partition(";")[0].strip().lower() != "application/json":
        raise RestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, http_request.UNSUPPORTED_MEDIA_TYPE)


def _check_accept_headers(headers: list[str]) -> None:
    """Raise `RestError` (406) if the client does not accept JSON."""
    ranges = [part.strip() for header in headers for part in header.split(",") if part.strip()]
    if ranges and not any(_is_json_media_range(each) for each in ranges):
        raise RestError(HTTPStatus.NOT_ACCEPTABLE, "HTTP 406 Not Acceptable")


def _is_json_media_range(media_range: str) -> bool:
    kind, *parameters = (part.strip().lower() for part in media_range.split(";"))
    quality = next((each[2:] for each in parameters if each.startswith("q=")), "1")
    return kind in _JSON_RANGES and quality.rstrip("0") not in {"", "."}


class RawPathMiddleware:
    """ASGI middleware that routes by the percent-encoded path as sent by the client, without a
    trailing slash."""

    def __init__(self, app: types.ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] == "http":
            sent = scope.get("raw_path") or scope["path"].encode()
            path = sent.decode("latin-1").partition("?")[0].rstrip("/") or "/"
            scope = {**scope, "path": path}
        await self._app(scope, receive, send)
