"""Serves Prometheus metrics and additional pages over HTTP, on its own threads.

One thread with an event loop reads and writes for all clients. Pages are rendered on thread pools,
a few at a time per pool. `REQUEST_TIMEOUT_S` limits a whole request, so that slow clients do not
block others. If there are too many connections, the one that has been idle longest is closed, but
never one whose response is being rendered. Failures here do not affect replication.
"""

from __future__ import annotations

import asyncio
import errno
import gzip
import http.client
import io
import logging
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from types import MappingProxyType
from typing import Protocol
from urllib import parse

from prometheus_client import exposition

from connect_runtime.base import host_and_origin_rules
from connect_runtime.base.connection_limits import ClientConnectionLimits, OpenConnections
from connect_runtime.base.errors import FatalError
from connect_runtime.base.host_and_origin_rules import AllowedHosts
from connect_runtime.base.metrics import MetricFamily
from connect_runtime.metrics_server import prometheus_text
from connect_runtime.rest import http_pages
from connect_runtime.rest.http_pages import (
    MountedPage,
    PageRenderer,
    PageRequest,
    PageResponse,
    PagesByPath,
    PageThreadPool,
    PageThreadPools,
)
from connect_runtime.system.server_event_loop import ServerLoop
from connect_runtime.system.supervised_threads import (
    ThreadGroup,
    ThreadPoolFull,
    UnexpectedThreadEnd,
)

HEAD_TIMEOUT_S = 5.0
"""Time limit for receiving a request head: request line and headers."""
REQUEST_TIMEOUT_S = 30.0
"""Time limit for a whole request, until the client has received the whole response."""
MAX_UNSENT_BYTES = 64 * 1024 * 1024
"""Maximum total size of responses that clients have not read yet. If the total size exceeds the
limit, the server cancels the oldest of these responses and closes their connections."""
CONNECTION_LIMITS = ClientConnectionLimits(total=256, per_address=64, loopback=64)
MAX_HEAD_BYTES = 16 * 1024
_WRITE_CHUNK_BYTES = 1024 * 1024
_STOP_POLL_INTERVAL_S = 0.1
_HEAD_END = b"\r\n\r\n"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsHttpRequest:
    """An HTTP request to the metrics server. `path` and `query` are percent-encoded, as sent.

    Header names in `headers` are in lower case. If a header is repeated, only its first value is
    kept.
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsHttpResponse:
    """An HTTP response of the metrics server. `body` is None for HEAD, although `headers` contain
    the length."""

    status: HTTPStatus
    headers: Mapping[str, str]
    body: bytes | None


Respond = Callable[[MetricsHttpRequest], Awaitable[MetricsHttpResponse]]
"""Function that builds the response to a request, on the event loop. It must neither raise nor
block."""


class BadRequestError(ValueError):
    """Raised if the client did not send a valid HTTP request."""


class MetricsHttpServer:
    """HTTP server with an event loop. `run_server_thread` is the body of the server's thread."""

    def __init__(
        self,
        opened: socket.socket,
        respond: Respond,
        *,
        limits: ClientConnectionLimits = CONNECTION_LIMITS,
    ) -> None:
        """Create the server.

        `opened` is the listening socket, already bound. The server does not close the socket; the
        caller must close it.
        """
        self._opened = opened
        self._respond = respond
        self._held = OpenConnections[asyncio.Task[None]](limits)
        self._unsent: dict[asyncio.Task[None], bytes] = {}
        """Response bodies that are being sent, in the order in which sending began."""

    def run_server_thread(self, stop: threading.Event) -> None:
        with asyncio.Runner(loop_factory=ServerLoop) as runner:
            runner.run(self._serve_until_stopped(stop))

    async def _serve_until_stopped(self, stop: threading.Event) -> None:
        served = await asyncio.start_server(
            self._on_client_connected, sock=self._opened, limit=MAX_HEAD_BYTES
        )
        while not stop.is_set():
            await asyncio.sleep(_STOP_POLL_INTERVAL_S)
        served.close()

    def _on_client_connected(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.get_running_loop().create_task(self._serve_connection(reader, writer))

        def remove_connection_task(_: asyncio.Task[None]) -> None:
            self._held.remove_connection(task)
            self._unsent.pop(task, None)
            writer.transport.abort()

        task.add_done_callback(remove_connection_task)
        peer = writer.get_extra_info("peername") or ("",)
        if (closed := self._held.admit_connection(task, str(peer[0]))) is not None:
            closed.cancel()

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                await self._handle_http_exchange(reader, writer)
        except (TimeoutError, EOFError, OSError, asyncio.LimitOverrunError, BadRequestError):
            _log.debug("a client disconnected, timed out or sent an invalid request", exc_info=True)

    async def _handle_http_exchange(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.transport.set_write_buffer_limits(0)  # `drain` returns once everything was sent
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            head = await reader.readuntil(_HEAD_END)
        task = asyncio.current_task()
        assert task is not None
        request = parse_request_head(head)
        self._held.mark_connection_busy(task)
        answer = await self._respond(request)
        self._held.mark_connection_idle(task)
        self._limit_unsent_bytes(task, answer.body or b"")
        for each in _split_response_body(answer):
            writer.write(each)
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    def _limit_unsent_bytes(self, task: asyncio.Task[None], body: bytes) -> None:
        """Register a response body that is being sent. While the total size of such bodies exceeds
        `MAX_UNSENT_BYTES`, cancel the response that started first, which closes its connection.

        A body that several responses share counts once.
        """
        self._unsent[task] = body
        while len(self._unsent) > 1:
            sizes = {id(each): len(each) for each in self._unsent.values()}
            if sum(sizes.values()) <= MAX_UNSENT_BYTES:
                break
            oldest = next(iter(self._unsent))
            del self._unsent[oldest]
            oldest.cancel()


def parse_request_head(head: bytes) -> MetricsHttpRequest:
    """Parse a complete HTTP request head. Raises `BadRequestError` if it is invalid."""
    line, _, rest = head.partition(b"\r\n")
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequestError(f"not an HTTP/1 request line: {line[:80]!r}")
    try:
        sent = http.client.parse_headers(io.BytesIO(rest))
        target = parse.urlsplit(words[1])
    except (http.client.HTTPException, ValueError) as error:
        raise BadRequestError(f"invalid request: {error}") from error
    headers = {name.lower(): value.strip() for name, value in reversed(sent.items())}
    return MetricsHttpRequest(
        method=words[0], path=target.path, query=target.query, headers=headers
    )


def _split_response_body(answer: MetricsHttpResponse) -> Iterator[bytes | memoryview]:
    """Split a response body into chunks, because asyncio copies the part that it cannot send
    immediately."""
    lines = [f"HTTP/1.1 {answer.status.value} {answer.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    lines += ["Connection: close", "", ""]
    yield "\r\n".join(lines).encode("latin-1")
    body = memoryview(answer.body or b"")
    for begin in range(0, len(body), _WRITE_CHUNK_BYTES):
        yield body[begin : begin + _WRITE_CHUNK_BYTES]


METRICS_PATH = "/metrics"
_CONTENT_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4
_NO_PAGES: PagesByPath = MappingProxyType({})
_OWN_ADDRESSES = AllowedHosts()
_STOP_TIMEOUT_S = 1.0


class MetricsSource(Protocol):
    """Source of the exported metrics. The exporter reads it for every scrape, on a thread of the
    exporter."""

    @property
    def all_families(self) -> tuple[MetricFamily, ...]: ...


class ExporterError(FatalError):
    """Raised if the metrics listener could not be opened."""


def build_metrics_page(source: MetricsSource) -> PageResponse:
    """Render the current metrics of the source in the Prometheus text format."""
    return PageResponse(
        body=prometheus_text.render_metric_families(source.all_families), content_type=_CONTENT_TYPE
    )


class MetricsExporter:
    """Serves metrics at `url`, and the pages in `pages` at their paths, from `start` until
    `stop`."""

    def __init__(
        self,
        source: MetricsSource,
        *,
        host: str,
        port: int,
        pages: PagesByPath = _NO_PAGES,
        hosts: AllowedHosts = _OWN_ADDRESSES,
    ) -> None:
        """Create an exporter without starting it.

        "" as `host` means all interfaces, and 0 as `port` any free port. `pages` is looked up for
        each request, so that pages can be added later. `hosts` are the host names under which
        pages for browsers are served. Metrics and health pages are served under any host name,
        because they are read-only and contain no secrets.
        """
        self._host = host
        self._port = port
        self._scrape = MountedPage(PageThreadPool.SCRAPES, lambda _: build_metrics_page(source))
        self._beside = pages
        self._hosts = hosts
        self._lanes = PageThreadPools("metrics")
        self._scrapes: dict[tuple[str, bool], asyncio.Task[MetricsHttpResponse]] = {}
        """Responses with metrics that are being rendered, by method and whether they are
        compressed. Used only on the event loop."""
        self._opened: socket.socket | None = None
        self._threads = ThreadGroup(on_unexpected_end=_log_thread_end)

    @property
    def url(self) -> str:
        """URL of the metrics page. Valid only after `start`."""
        assert self._opened is not None, "call start first"
        host = f"[{self._host}]" if ":" in self._host else self._host or "localhost"
        return f"http://{host}:{self._port}{METRICS_PATH}"

    def start(self) -> None:
        """Start listening. Raises `ExporterError` if listening fails, for example because the port
        is in use."""
        try:
            self._opened = _open_listener(self._host, self._port)
        except OSError as error:
            known = error.errno is not None and error.errno in errno.errorcode
            why = os.strerror(error.errno or 0) if known else str(error)
            raise ExporterError(
                f"cannot serve metrics at {self._host}, port {self._port}: {why}"
            ) from error
        self._port = int(self._opened.getsockname()[1])
        served = MetricsHttpServer(self._opened, self._respond_with_page)
        self._threads.start("metrics", served.run_server_thread)

    def stop(self) -> None:
        """Stop serving metrics. Idempotent, and allowed before `start`."""
        if self._opened is None:
            return
        self._threads.stop_all(_STOP_TIMEOUT_S)
        self._opened.close()
        self._lanes.stop(_STOP_TIMEOUT_S)

    async def _respond_with_page(self, request: MetricsHttpRequest) -> MetricsHttpResponse:
        """Return the HTTP response to a request for a page or for the metrics. The page is rendered
        and compressed on the page's thread pool."""
        make = self._scrape if request.path == METRICS_PATH else self._beside.get(request.path)
        if request.method not in ("GET", "HEAD"):
            told = "this server is read-only"
            return _to_http_response(
                _build_text_page(HTTPStatus.METHOD_NOT_ALLOWED, told, Allow="GET"), request
            )
        if make is None:
            return _to_http_response(
                _build_text_page(HTTPStatus.NOT_FOUND, f"metrics are at {METRICS_PATH}"), request
            )
        name = request.headers.get("host")
        if http_pages.get_thread_pool(
            make
        ) is PageThreadPool.PEOPLE and not self._hosts.allows_reading(name):
            refused = host_and_origin_rules.explain_refused_host(name or "")
            return _to_http_response(_build_text_page(HTTPStatus.FORBIDDEN, refused), request)
        try:
            if make is self._scrape:
                return await self._render_metrics(request)
            return await self._render_page(make, request)
        except (ThreadPoolFull, TimeoutError):
            busy = _build_text_page(
                HTTPStatus.SERVICE_UNAVAILABLE, "the page could not be rendered in time"
            )
            return _to_http_response(busy, request)
        except Exception as error:  # noqa: BLE001 - answered with an error and logged
            self._lanes.log_page_failure(request.path, error)
            told = "the page could not be rendered; see the log"
            return _to_http_response(
                _build_text_page(HTTPStatus.INTERNAL_SERVER_ERROR, told), request
            )

    async def _render_page(
        self, make: PageRenderer, request: MetricsHttpRequest
    ) -> MetricsHttpResponse:
        return await self._lanes.render_page(
            http_pages.get_thread_pool(make),
            lambda: _to_http_response(make(_to_page_request(request)), request),
        )

    async def _render_metrics(self, request: MetricsHttpRequest) -> MetricsHttpResponse:
        """Render the metrics once for all waiting clients, so that a client that scrapes
        continuously cannot delay the others."""
        encodings = request.headers.get("accept-encoding", "")
        same = (request.method, exposition.gzip_accepted(encodings))
        if same not in self._scrapes:
            task = asyncio.get_running_loop().create_task(self._render_page(self._scrape, request))
            self._scrapes[same] = task

            def remove_scrape_task(done: asyncio.Task[MetricsHttpResponse]) -> None:
                del self._scrapes[same]
                if not done.cancelled():
                    done.exception()  # retrieved, although all clients may have left

            task.add_done_callback(remove_scrape_task)
        return await asyncio.shield(self._scrapes[same])


def _open_listener(host: str, port: int) -> socket.socket:
    family, *_, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server((str(address[0]), port), family=family)


def _to_page_request(request: MetricsHttpRequest) -> PageRequest:
    query = parse.parse_qsl(request.query, keep_blank_values=True)
    foreign = host_and_origin_rules.is_cross_origin(
        host=request.headers.get("host"),
        origin=request.headers.get("origin"),
        fetch_site=request.headers.get("sec-fetch-site"),
    )
    return PageRequest(
        path=request.path,
        query=dict(reversed(query)),
        accept=request.headers.get("accept", ""),
        requested_with="" if foreign else request.headers.get("x-requested-with", ""),
    )


def _to_http_response(given: PageResponse, request: MetricsHttpRequest) -> MetricsHttpResponse:
    text, headers = given.body, {"Content-Type": given.content_type, **given.headers}
    if exposition.gzip_accepted(request.headers.get("accept-encoding", "")):
        text = gzip.compress(text, compresslevel=1)
        headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(text))
    return MetricsHttpResponse(
        status=HTTPStatus(given.status),
        headers=headers,
        body=None if request.method == "HEAD" else text,
    )


def _build_text_page(status: HTTPStatus, text: str, **headers: str) -> PageResponse:
    return PageResponse(
        status=status,
        body=f"{text}\n".encode(),
        content_type=http_pages.TEXT_CONTENT_TYPE,
        headers=headers,
    )


def _log_thread_end(end: UnexpectedThreadEnd) -> None:
    _log.error(
        "the metrics server failed; metrics are not served until the process is restarted: %r",
        end.error,
    )
