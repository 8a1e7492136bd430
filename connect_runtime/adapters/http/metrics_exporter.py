"""Serves metrics to Prometheus over HTTP, on a thread of its own.

A side service: nothing that goes wrong here reaches the copying. One request at a time; a client
that is slow is cut off.
"""

from __future__ import annotations

import gzip
import logging
import socket
import socketserver
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol
from wsgiref import simple_server

from prometheus_client import exposition

from connect_runtime.adapters.http import metrics_text
from connect_runtime.base import errors, metrics
from connect_runtime.system import threads

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

PATH = "/metrics"
CLIENT_TIMEOUT_S = 5.0
_TYPE = exposition.CONTENT_TYPE_PLAIN_0_0_4
_POLL_S = 0.1
_JOIN_S = 1.0

_log = logging.getLogger(__name__)


class Source(Protocol):
    """What is served; asked for every scrape, on the exporter's thread."""

    @property
    def published(self) -> tuple[metrics.Family, ...]: ...


class ExporterError(errors.FatalError):
    """The metrics cannot be served where they should be."""


class MetricsExporter:
    """From `start` to `stop` the published values are at `url`."""

    def __init__(self, source: Source, *, host: str, port: int) -> None:
        """`host` "" is every interface; `port` 0 takes any free one."""
        self._host = host
        self._port = port
        self._app = _application(source)
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

    def _serve(self, stop: threading.Event) -> None:
        assert self._server is not None
        self._server.timeout = _POLL_S
        while not stop.is_set():
            self._server.handle_request()


class _Server(simple_server.WSGIServer):
    """Quiet: what a client does wrong is no news for the one who mirrors."""

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
    server = kind((str(address[0]), port), _Handler)
    server.set_app(app)
    return server


def _application(source: Source) -> WSGIApplication:
    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != PATH:
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [f"metrics are at {PATH}\n".encode()]
        text, headers = metrics_text.render(source.published), [("Content-Type", _TYPE)]
        if exposition.gzip_accepted(environ.get("HTTP_ACCEPT_ENCODING", "")):
            text = gzip.compress(text, compresslevel=1)
            headers.append(("Content-Encoding", "gzip"))
        start_response("200 OK", headers)
        return [text]

    return application


def _log_end(end: threads.UnaskedEnd) -> None:
    _log.error("the metrics are no longer served: %r", end.error)
