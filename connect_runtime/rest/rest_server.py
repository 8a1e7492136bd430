"""REST API server: the listening sockets, and one thread with an event loop that serves them.

The sockets are opened before the herder exists, because the herder needs the worker's advertised
URL. Until the applications are attached, every request is answered with 404.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import logging
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import uvicorn
from starlette import types

from connect_runtime.base.connection_limits import ClientConnectionLimits, OpenConnections
from connect_runtime.base.errors import FatalError
from connect_runtime.rest import http_connection, http_request, rest_errors
from connect_runtime.rest.http_connection import (
    ClientDeadlines,
    ClientErrorLog,
    HttpConnection,
    ServerConnections,
)
from connect_runtime.rest.http_request import RequestBodySlots
from connect_runtime.rest.rest_app import RestApplications
from connect_runtime.rest.rest_errors import RestError
from connect_runtime.rest.rest_settings import RestListener, RestSettings
from connect_runtime.rest.rest_tls import HttpsContexts
from connect_runtime.system import server_event_loop
from connect_runtime.system.server_event_loop import ServerLoop
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd

GRACEFUL_STOP_TIMEOUT_S = 60
"""Maximum time in seconds for running requests to finish during shutdown."""

_CLIENT_DEADLINES = ClientDeadlines()
_TICK_INTERVAL_S = 0.1
_JOIN_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class RestServerError(FatalError):
    """Raised if a listener of the REST API could not be opened."""


class _AttachableApplication:
    """ASGI application that passes requests to `app`, and responds with 404 until `app` is set."""

    def __init__(self, slots: RequestBodySlots) -> None:
        self.app: types.ASGIApp | None = None
        self._slots = slots

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        scope[http_request.BODY_SLOTS_SCOPE_KEY] = self._slots
        if self.app is not None:
            await self.app(scope, receive, send)
        else:
            answer = rest_errors.build_error_response(RestError(404, "HTTP 404 Not Found"))
            await answer(scope, receive, send)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BoundListener:
    """A REST API listener with its open socket. `port` is the port to which the socket is bound."""

    listener: RestListener
    socket: socket.socket
    served: _AttachableApplication
    tls: ssl.SSLContext | None

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])


class RestServer:
    """HTTP server of the REST API. Call `start`, `attach_applications` and `stop` on the same
    thread. Properties are valid after `start`."""

    def __init__(
        self,
        settings: RestSettings,
        *,
        main_https: HttpsContexts | None = None,
        admin_https: HttpsContexts | None = None,
        on_thread_death: Callable[[UnexpectedThreadEnd], None],
        deadlines: ClientDeadlines = _CLIENT_DEADLINES,
        limits: ClientConnectionLimits = http_connection.CONNECTION_LIMITS,
    ) -> None:
        """`main_https` and `admin_https` are the TLS contexts for https listeners and for https
        admin listeners. Each is required only if there is such a listener."""
        self._settings = settings
        self._main_https = main_https
        self._admin_https = admin_https
        slots = RequestBodySlots()
        self._main, self._admin = _AttachableApplication(slots), _AttachableApplication(slots)
        self._bound: list[_BoundListener] = []
        self._admin_bound: list[_BoundListener] = []
        self._graceful_s = GRACEFUL_STOP_TIMEOUT_S
        self._deadlines = deadlines
        self._limits = limits
        self._threads = ThreadGroup(on_unexpected_end=on_thread_death)

    def start(self) -> None:
        """Open all listeners and start serving. Raises `RestServerError` if a listener cannot be
        opened; all listeners are then closed."""
        try:
            for each in self._settings.listeners:
                self._bound.append(_bind_listener(each, self._main, self._main_https))
            for each in self._settings.admin_listeners or ():
                self._admin_bound.append(_bind_listener(each, self._admin, self._admin_https))
        except RestServerError:
            self._close_sockets()
            raise
        self._threads.start("rest", self._run_server_thread)
        _log.info("REST API listening on %s", self.advertised_url)
        if self.admin_url not in (None, self.advertised_url):
            _log.info("admin REST API listening on %s", self.admin_url)

    def attach_applications(self, apps: RestApplications) -> None:
        """Attach the REST API's applications, so that requests are served from now on."""
        self._admin.app = apps.admin
        self._main.app = apps.main

    @property
    def advertised_url(self) -> str:
        """URL that other workers use to reach this worker, with a trailing slash as in Java."""
        bound = self._advertised_listener
        told = self._settings.advertised
        host = told.host or _get_reachable_host(bound.listener.host)
        return _format_url(self._url_scheme, host, told.port or bound.port)

    @property
    def worker_id(self) -> str:
        """Host and port of `advertised_url`, which identify this worker in statuses."""
        return self.advertised_url.partition("://")[2].rstrip("/")

    @property
    def admin_url(self) -> str | None:
        """URL of the admin endpoints (logger levels); None if they are disabled."""
        if self._settings.admin_listeners is None:
            return self.advertised_url
        if not self._admin_bound:
            return None
        first = self._admin_bound[0]
        return _format_url(
            first.listener.scheme, _get_reachable_host(first.listener.host), first.port
        )

    @property
    def _url_scheme(self) -> str:
        if self._settings.advertised.scheme is not None:
            return self._settings.advertised.scheme.lower()
        schemes = {each.listener.scheme for each in self._bound}
        return "https" if schemes == {"https"} else "http"

    @property
    def _advertised_listener(self) -> _BoundListener:
        assert self._bound, "call start first"
        fitting = [each for each in self._bound if each.listener.scheme == self._url_scheme]
        return (fitting or self._bound)[0]

    def stop(self, graceful_s: int = GRACEFUL_STOP_TIMEOUT_S) -> bool:
        """Reject new requests, wait up to `graceful_s` for running requests, then close all
        connections.

        Idempotent, and allowed before `start`. Returns False if the server thread is still running;
        the thread is then abandoned.
        """
        self._graceful_s = graceful_s
        left = self._threads.stop_all(graceful_s + _JOIN_TIMEOUT_S)
        self._close_sockets()
        if left:
            _log.error("the REST API did not stop within %g s; its thread is abandoned", graceful_s)
        return not left

    def _close_sockets(self) -> None:
        for each in (*self._bound, *self._admin_bound):
            each.socket.close()

    def _run_server_thread(self, stop: threading.Event) -> None:
        with asyncio.Runner(loop_factory=ServerLoop) as runner:
            runner.run(self._serve_listeners(stop))

    async def _serve_listeners(self, stop: threading.Event) -> None:
        shared = ServerConnections(
            open_connections=OpenConnections(self._limits),
            deadlines=self._deadlines,
            client_errors=ClientErrorLog(asyncio.get_running_loop().time),
        )
        cast("ServerLoop", asyncio.get_running_loop()).admission = shared
        servers = [_create_server(each, shared) for each in (*self._bound, *self._admin_bound)]
        running = [
            asyncio.create_task(server.serve(sockets=[each.socket]))
            for server, each in zip(servers, (*self._bound, *self._admin_bound), strict=True)
        ]
        while not stop.is_set() and not any(each.done() for each in running):
            await asyncio.sleep(_TICK_INTERVAL_S)
        for server in servers:
            server.config.timeout_graceful_shutdown = self._graceful_s
            server.should_exit = True
        await asyncio.gather(*running)


def _create_server(bound: _BoundListener, shared: ServerConnections) -> uvicorn.Server:
    tls = bound.tls
    made = functools.partial(HttpConnection, shared=shared)
    return uvicorn.Server(
        uvicorn.Config(
            bound.served,
            http=cast("type[asyncio.Protocol]", made),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=cast("int", shared.deadlines.idle_s),
            ssl_context_factory=None if tls is None else lambda *_: tls,
        )
    )


def _bind_listener(
    listener: RestListener, served: _AttachableApplication, secured: HttpsContexts | None
) -> _BoundListener:
    tls = None
    if listener.scheme == "https":
        if secured is None:
            raise RestServerError(f"cannot listen on {listener}: https requires ssl.* settings")
        tls = secured.server
    try:
        opened = _open_socket(listener)
    except OSError as error:
        raise RestServerError(
            f"cannot listen on {listener}: {error.strerror or error}; check 'listeners' and "
            "'admin.listeners'"
        ) from error
    return _BoundListener(listener=listener, socket=opened, served=served, tls=tls)


def _open_socket(listener: RestListener) -> socket.socket:
    if listener.host:
        family, *_, address = socket.getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(
            address[:2], family=family, backlog=server_event_loop.LISTEN_BACKLOG
        )
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", listener.port),
                family=socket.AF_INET6,
                backlog=server_event_loop.LISTEN_BACKLOG,
                dualstack_ipv6=True,
            )
        except OSError as error:
            _log.debug("IPv6 is not available on %s: %s", listener, error)
    return socket.create_server(("", listener.port), backlog=server_event_loop.LISTEN_BACKLOG)


def _get_reachable_host(host: str) -> str:
    """Return a host name under which other machines can reach a listener: this machine's own
    address if the listener uses all interfaces."""
    try:
        if host and not ipaddress.ip_address(host).is_unspecified:
            return host
    except ValueError:
        return host
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _format_url(scheme: str, host: str, port: int) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return f"{scheme}://{bracketed}:{port}/"
