"""Serves metrics to Prometheus over HTTP, and pages beside them, on threads of its own.

A side service: nothing that goes wrong here reaches the copying. A few pages of each lane are made
at a time; a client that is slow is cut off.
"""

from __future__ import annotations

import errno
import gzip
import logging
import os
import socket
from http import HTTPStatus
from types import MappingProxyType
from typing import Protocol
from urllib import parse

from prometheus_client import exposition

from connect_runtime.adapters.http import metrics_text, small_server
from connect_runtime.base import errors, metrics, request_origin
from connect_runtime.ports import page_lanes, pages
from connect_runtime.system import pool, threads

PATH = "/metrics"
_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4
_NO_PAGES: pages.Pages = MappingProxyType({})
_OWN_ADDRESSES = request_origin.AllowedHosts()
_JOIN_S = 1.0

_log = logging.getLogger(__name__)


class Source(Protocol):
    """What is served; asked for every scrape, on a thread of the exporter's."""

    @property
    def published(self) -> tuple[metrics.Family, ...]: ...


class ExporterError(errors.FatalError):
    """The metrics cannot be served where they should be."""


def page(source: Source) -> pages.Page:
    """What is published now, as Prometheus reads it."""
    return pages.Page(body=metrics_text.render(source.published), content_type=_TYPE)


class MetricsExporter:
    """From `start` to `stop` the published values are at `url`, and `beside` at their paths."""

    def __init__(
        self,
        source: Source,
        *,
        host: str,
        port: int,
        beside: pages.Pages = _NO_PAGES,
        hosts: request_origin.AllowedHosts = _OWN_ADDRESSES,
    ) -> None:
        """`host` "" is every interface; `port` 0 takes any free one. `beside` holds
        further pages, looked up at each request: more may be added later. `hosts`: the host names
        under which pages for people are served. Metrics and health, which are read-only and hold
        no secrets, are served under any name."""
        self._host = host
        self._port = port
        self._scrape = pages.In(pages.Lane.SCRAPES, lambda _: page(source))
        self._beside = beside
        self._hosts = hosts
        self._lanes = page_lanes.PageLanes("metrics")
        self._opened: socket.socket | None = None
        self._threads = threads.Threads(on_unasked_end=_log_end)

    @property
    def url(self) -> str:
        """Where the values are; known once started."""
        assert self._opened is not None, "start comes first"
        host = f"[{self._host}]" if ":" in self._host else self._host or "localhost"
        return f"http://{host}:{self._port}{PATH}"

    def start(self) -> None:
        """Raises ExporterError when nobody can listen there: the port is in use, mostly."""
        try:
            self._opened = _open(self._host, self._port)
        except OSError as error:
            known = error.errno is not None and error.errno in errno.errorcode
            why = os.strerror(error.errno or 0) if known else str(error)
            raise ExporterError(
                f"serving metrics at {self._host}, port {self._port}: {why}"
            ) from error
        self._port = int(self._opened.getsockname()[1])
        served = small_server.SmallServer(self._opened, self._respond)
        self._threads.start("metrics", served.run)

    def stop(self) -> None:
        """Idempotent; also right when it never started."""
        if self._opened is None:
            return
        self._threads.stop_all(_JOIN_S)
        self._opened.close()
        self._lanes.stop(_JOIN_S)

    async def _respond(self, request: small_server.Request) -> small_server.Answer:
        """Made and compressed in the page's lane."""
        make = self._scrape if request.path == PATH else self._beside.get(request.path)
        if request.method not in ("GET", "HEAD"):
            told = "nothing can be changed here"
            return _answer(_said(HTTPStatus.METHOD_NOT_ALLOWED, told, Allow="GET"), request)
        if make is None:
            return _answer(_said(HTTPStatus.NOT_FOUND, f"metrics are at {PATH}"), request)
        name = request.headers.get("host")
        if pages.lane(make) is pages.Lane.PEOPLE and not self._hosts.allows(name):
            refused = request_origin.refused_name(name or "")
            return _answer(_said(HTTPStatus.FORBIDDEN, refused), request)
        try:
            return await self._lanes.made(
                pages.lane(make), lambda: _answer(make(_asked(request)), request)
            )
        except (pool.PoolFull, TimeoutError):
            busy = _said(HTTPStatus.SERVICE_UNAVAILABLE, "it was not made in time")
            return _answer(busy, request)
        except Exception as error:  # noqa: BLE001 - whoever asked is told, the log has the rest
            _log.error("making %s: %r", request.path, error, exc_info=error)
            told = "it cannot be made; the log says why"
            return _answer(_said(HTTPStatus.INTERNAL_SERVER_ERROR, told), request)


def _open(host: str, port: int) -> socket.socket:
    family, *_, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server((str(address[0]), port), family=family)


def _asked(request: small_server.Request) -> pages.Asked:
    query = parse.parse_qsl(request.query, keep_blank_values=True)
    foreign = request_origin.is_foreign(
        host=request.headers.get("host"),
        origin=request.headers.get("origin"),
        fetch_site=request.headers.get("sec-fetch-site"),
    )
    return pages.Asked(
        path=request.path,
        query=dict(reversed(query)),
        accept=request.headers.get("accept", ""),
        requested_with="" if foreign else request.headers.get("x-requested-with", ""),
    )


def _answer(given: pages.Page, request: small_server.Request) -> small_server.Answer:
    text, headers = given.body, {"Content-Type": given.content_type, **given.headers}
    if exposition.gzip_accepted(request.headers.get("accept-encoding", "")):
        text = gzip.compress(text, compresslevel=1)
        headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(text))
    return small_server.Answer(
        status=HTTPStatus(given.status),
        headers=headers,
        body=None if request.method == "HEAD" else text,
    )


def _said(status: HTTPStatus, text: str, **headers: str) -> pages.Page:
    return pages.Page(
        status=status, body=f"{text}\n".encode(), content_type=pages.TEXT, headers=headers
    )


def _log_end(end: threads.UnaskedEnd) -> None:
    _log.error("the metrics are no longer served: %r", end.error)
