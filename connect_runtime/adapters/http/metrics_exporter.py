"""Serves metrics to Prometheus over HTTP, and pages beside them, on threads of its own.

A side service: nothing that goes wrong here reaches the copying. A few requests at a time; a client
that is slow is cut off.
"""

from __future__ import annotations

import gzip
import logging
import socket
import socketserver
import threading
from collections.abc import Iterable
from http import HTTPStatus
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol
from urllib import parse
from wsgiref import simple_server

from prometheus_client import exposition

from connect_runtime.adapters.http import metrics_text
from connect_runtime.base import errors, metrics
from connect_runtime.ports import pages
from connect_runtime.system import pool, threads

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/metrics"
CLIENT_TIMEOUT_S = 5.0
_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4
_NO_PAGES: pages.Pages = MappingProxyType({})
_POLL_S = 0.1
_JOIN_S = 1.0

_log = logging.getLogger(__name__)


class Source(Protocol):
    """What is served; asked for every scrape, on the exporter's thread."""

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
        self, source: Source, *, host: str, port: int, beside: pages.Pages = _NO_PAGES
    ) -> None:
        """`host` "" is every interface; `port` 0 takes any free one. What is `beside` is looked up
        when it is asked for, so more may come."""
        self._host = host
        self._port = port
        self._app = _application(source, beside)
        self._server: _Server | None = None
        self._threads = threads.Threads(on_unasked_end=_log_end)

    @property
    def url(self) -> str:
        """Where the values are; known once started."""
        assert self._server is not None, "start comes first"
        host = f"[{self._host}]" if ":" in self._host else self._host or "localhost"
        return f"http://{host}:{self._server.server_port}{PATH}"

    def start(self) -> None:
        """Raises ExporterError when nobody can listen there: the port is in use, mostly."""
        try:
            self._server = _listen(self._host, self._port, app=self._app)
        except OSError as error:
            raise ExporterError(
                f"serving metrics at {self._host}, port {self._port}: {error.strerror or error}"
            ) from error
        self._threads.start("metrics", self._serve)

    def stop(self) -> None:
        """Idempotent; also right when it never started."""
        if self._server is None:
            return
        self._threads.stop_all(_JOIN_S)
        self._server.server_close()
        self._server.answering.stop(_JOIN_S)

    def _serve(self, stop: threading.Event) -> None:
        assert self._server is not None
        self._server.timeout = _POLL_S
        while not stop.is_set():
            self._server.handle_request()


class _Server(simple_server.WSGIServer):
    """Quiet: what a client does wrong is no news for the one who mirrors."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.answering = pool.Pool(
            "metrics", threads_max=pages.THREADS, waiting_max=pages.WAITING_MAX
        )
        super().__init__(address, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Of the library's; whoever comes when all are busy and many wait is sent away."""
        try:
            self.answering.submit(lambda: self._process(request, client_address))
        except pool.PoolFull:
            self.shutdown_request(request)

    def _process(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - one answer that failed, most often a client that went
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)

    def server_bind(self) -> None:
        # The library's own would look our address up in the DNS, which may take seconds.
        socketserver.TCPServer.server_bind(self)
        host, port = self.socket.getsockname()[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def handle_error(self, request: object, client_address: object) -> None:
        _log.debug("a scrape from %s failed", client_address, exc_info=True)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(simple_server.WSGIRequestHandler):
    timeout = CLIENT_TIMEOUT_S

    def log_message(self, format: str, *args: object) -> None:
        _log.debug(format, *args)


def _listen(host: str, port: int, *, app: WSGIApplication) -> _Server:
    family, *_, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    kind = _Server6 if family == socket.AF_INET6 else _Server
    server = kind((str(address[0]), port))
    server.set_app(app)
    return server


def _application(source: Source, beside: pages.Pages) -> WSGIApplication:
    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        given = _made(source, beside, environ)
        status = HTTPStatus(given.status)
        text, headers = given.body, [("Content-Type", given.content_type), *given.headers.items()]
        if exposition.gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")):
            text = gzip.compress(text, compresslevel=1)
            headers.append(("Content-Encoding", "gzip"))
        headers.append(("Content-Length", str(len(text))))
        start_response(f"{status.value} {status.phrase}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [text]

    return application


def _made(source: Source, beside: pages.Pages, environ: WSGIEnvironment) -> pages.Page:
    if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
        return _said(HTTPStatus.METHOD_NOT_ALLOWED, "nothing can be changed here", Allow="GET")
    path = parse.quote(environ.get("PATH_INFO", "").encode("latin-1"), safe="/~*'()!$&+,;=:@")
    make = pages.find(beside, path) if path != PATH else lambda _: page(source)
    if make is None:
        return _said(HTTPStatus.NOT_FOUND, f"metrics are at {PATH}")
    query = parse.parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    asked = pages.Asked(
        path=path, query=dict(reversed(query)), accept=environ.get("HTTP_ACCEPT", "")
    )
    try:
        return make(asked)
    except Exception as error:  # noqa: BLE001 - whoever asked is told, the log has the rest
        _log.error("making %s: %r", path, error, exc_info=error)
        return _said(HTTPStatus.INTERNAL_SERVER_ERROR, "it cannot be made; the log says why")


def _said(status: HTTPStatus, text: str, **headers: str) -> pages.Page:
    return pages.Page(
        status=status, body=f"{text}\n".encode(), content_type=pages.TEXT, headers=headers
    )


def _log_end(end: threads.UnaskedEnd) -> None:
    _log.error("the metrics are no longer served: %r", end.error)
