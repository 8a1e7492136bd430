"""Serves the REST API: the listening sockets, and one thread with an event loop for all of them.

The sockets are open before there is a herder, since the herder must know the worker's advertised
URL; until the API is attached every path is unknown.
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
from connect_runtime.rest.http_request import BodySlots
from connect_runtime.rest.rest_app import RestApplications
from connect_runtime.rest.rest_errors import RestError
from connect_runtime.rest.rest_settings import RestListener, RestSettings
from connect_runtime.rest.rest_tls import HttpsContexts
from connect_runtime.system import server_loop
from connect_runtime.system.server_loop import ServerLoop
from connect_runtime.system.threads import ThreadDied, ThreadGroup

GRACEFUL_STOP_TIMEOUT_S = 60
"""How long running requests may take to end, once the server is to stop."""

_CLIENT_DEADLINES = ClientDeadlines()
_TICK_INTERVAL_S = 0.1
_JOIN_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class RestServerError(FatalError):
    """The API cannot be served where it should be."""


class _LateApplication:
    """ASGI: whatever is put in `rest_app`; before that nothing is found."""

    def __init__(self, slots: BodySlots) -> None:
        self.app: types.ASGIApp | None = None
        self._slots = slots

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        scope[http_request.BODY_SLOTS_SCOPE_KEY] = self._slots
        if self.app is not None:
            await self.app(scope, receive, send)
        else:
            answer = rest_errors.respond_error(RestError(404, "HTTP 404 Not Found"))
            await answer(scope, receive, send)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BoundListener:
    """A listener with its open socket; `port` is the real one."""

    listener: RestListener
    socket: socket.socket
    served: _LateApplication
    tls: ssl.SSLContext | None

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])


class RestServer:
    """`start`, `attach`, `stop`, each from the same thread; the properties need `start`."""

    def __init__(
        self,
        configured: RestSettings,
        *,
        main_https: HttpsContexts | None = None,
        admin_https: HttpsContexts | None = None,
        on_unasked_end: Callable[[ThreadDied], None],
        deadlines: ClientDeadlines = _CLIENT_DEADLINES,
        limits: ClientConnectionLimits = http_connection.CONNECTION_LIMITS,
    ) -> None:
        """`main_https` is needed by listeners with https, and `admin_https` by admin listeners."""
        self._settings = configured
        self._main_https = main_https
        self._admin_https = admin_https
        slots = BodySlots()
        self._main, self._admin = _LateApplication(slots), _LateApplication(slots)
        self._bound: list[_BoundListener] = []
        self._admin_bound: list[_BoundListener] = []
        self._graceful_s = GRACEFUL_STOP_TIMEOUT_S
        self._deadlines = deadlines
        self._limits = limits
        self._threads = ThreadGroup(on_unasked_end=on_unasked_end)

    def start(self) -> None:
        """Listen. Raises `RestServerError`, and then nobody listens."""
        try:
            for each in self._settings.listeners:
                self._bound.append(_bind_listener(each, self._main, self._main_https))
            for each in self._settings.admin_listeners or ():
                self._admin_bound.append(_bind_listener(each, self._admin, self._admin_https))
        except RestServerError:
            self._close_sockets()
            raise
        self._threads.start("rest", self._run)
        _log.info("the REST API is at %s", self.advertised_url)
        if self.admin_url not in (None, self.advertised_url):
            _log.info("the REST API for administrators is at %s", self.admin_url)

    def attach(self, apps: RestApplications) -> None:
        """From now on requests are served."""
        self._admin.app = apps.admin
        self._main.app = apps.main

    @property
    def advertised_url(self) -> str:
        """Where other workers reach this one, as Java says it: with a slash at the end."""
        bound = self._advertised
        told = self._settings.advertised
        host = told.host or _get_reachable_host(bound.listener.host)
        return _format_url(self._scheme, host, told.port or bound.port)

    @property
    def worker_id(self) -> str:
        """Host and port of `advertised_url`: how this worker is called in statuses."""
        return self.advertised_url.partition("://")[2].rstrip("/")

    @property
    def admin_url(self) -> str | None:
        """Where logger levels are served; None: nowhere."""
        if self._settings.admin_listeners is None:
            return self.advertised_url
        if not self._admin_bound:
            return None
        first = self._admin_bound[0]
        return _format_url(
            first.listener.scheme, _get_reachable_host(first.listener.host), first.port
        )

    @property
    def _scheme(self) -> str:
        if self._settings.advertised.scheme is not None:
            return self._settings.advertised.scheme.lower()
        schemes = {each.listener.scheme for each in self._bound}
        return "https" if schemes == {"https"} else "http"

    @property
    def _advertised(self) -> _BoundListener:
        assert self._bound, "start comes first"
        fitting = [each for each in self._bound if each.listener.scheme == self._scheme]
        return (fitting or self._bound)[0]

    def stop(self, graceful_s: int = GRACEFUL_STOP_TIMEOUT_S) -> bool:
        """Take no more requests, let those that run end, for `graceful_s` at most; then cut off.

        Idempotent, and right when it never started. False: the thread still runs, and is left.
        """
        self._graceful_s = graceful_s
        left = self._threads.stop_all(graceful_s + _JOIN_TIMEOUT_S)
        self._close_sockets()
        if left:
            _log.error("the REST API did not end within %g s and is left behind", graceful_s)
        return not left

    def _close_sockets(self) -> None:
        for each in (*self._bound, *self._admin_bound):
            each.socket.close()

    def _run(self, stop: threading.Event) -> None:
        with asyncio.Runner(loop_factory=ServerLoop) as runner:
            runner.run(self._serve(stop))

    async def _serve(self, stop: threading.Event) -> None:
        shared = ServerConnections(
            held=OpenConnections(self._limits),
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
    listener: RestListener, served: _LateApplication, secured: HttpsContexts | None
) -> _BoundListener:
    tls = None
    if listener.scheme == "https":
        if secured is None:
            raise RestServerError(f"listening at {listener}: https needs ssl.* settings")
        tls = secured.server
    try:
        opened = _open_socket(listener)
    except OSError as error:
        raise RestServerError(
            f"listening at {listener}: {error.strerror or error}; see 'listeners' and"
            " 'admin.listeners'"
        ) from error
    return _BoundListener(listener=listener, socket=opened, served=served, tls=tls)


def _open_socket(listener: RestListener) -> socket.socket:
    if listener.host:
        family, *_, address = socket.getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=server_loop.LISTEN_BACKLOG)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", listener.port),
                family=socket.AF_INET6,
                backlog=server_loop.LISTEN_BACKLOG,
                dualstack_ipv6=True,
            )
        except OSError as error:
            _log.debug("no IPv6 at %s: %s", listener, error)
    return socket.create_server(("", listener.port), backlog=server_loop.LISTEN_BACKLOG)


def _get_reachable_host(host: str) -> str:
    """A name or address for others; a listener at every interface is reached at this machine's."""
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
