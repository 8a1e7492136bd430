"""Serves the REST API: sockets, and one thread with an event loop for all of them.

The sockets are open before there is a herder, since the herder must know where this worker is
reached; until the API is attached every path is unknown.
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

from connect_runtime.base import connection_limits
from connect_runtime.base import errors as base_errors
from connect_runtime.rest import app, body_slots, connection, errors, https, settings
from connect_runtime.system import server_loop, threads

GRACEFUL_S = 60
"""How long running requests may take to end, once the server is to stop."""

_DEADLINES = connection.Deadlines()
_TICK_S = 0.1
_JOIN_S = 5.0

_log = logging.getLogger(__name__)


class RestServerError(base_errors.FatalError):
    """The API cannot be served where it should be."""


class _Late:
    """ASGI: whatever is put in `app`; before that nothing is found."""

    def __init__(self, slots: body_slots.BodySlots) -> None:
        self.app: types.ASGIApp | None = None
        self._slots = slots

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        scope[body_slots.SCOPE] = self._slots
        if self.app is not None:
            await self.app(scope, receive, send)
        else:
            answer = errors.respond(errors.RestError(404, "HTTP 404 Not Found"))
            await answer(scope, receive, send)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """A listener with its open socket; `port` is the real one."""

    listener: settings.Listener
    socket: socket.socket
    served: _Late
    tls: ssl.SSLContext | None

    @property
    def port(self) -> int:
        return int(self.socket.getsockname()[1])


class RestServer:
    """`start`, `attach`, `stop`, each from the same thread; the properties need `start`."""

    def __init__(
        self,
        configured: settings.RestSettings,
        *,
        main_https: https.Https | None = None,
        admin_https: https.Https | None = None,
        on_unasked_end: Callable[[threads.UnaskedEnd], None],
        deadlines: connection.Deadlines = _DEADLINES,
        limits: connection_limits.Limits = connection.LIMITS,
    ) -> None:
        """`main_https` is needed by listeners with https, and `admin_https` by admin listeners."""
        self._settings = configured
        self._main_https = main_https
        self._admin_https = admin_https
        slots = body_slots.BodySlots()
        self._main, self._admin = _Late(slots), _Late(slots)
        self._bound: list[_Bound] = []
        self._admin_bound: list[_Bound] = []
        self._graceful_s = GRACEFUL_S
        self._deadlines = deadlines
        self._limits = limits
        self._threads = threads.Threads(on_unasked_end=on_unasked_end)

    def start(self) -> None:
        """Listen. Raises `RestServerError`, and then nobody listens."""
        try:
            for each in self._settings.listeners:
                self._bound.append(_bind(each, self._main, self._main_https))
            for each in self._settings.admin_listeners or ():
                self._admin_bound.append(_bind(each, self._admin, self._admin_https))
        except RestServerError:
            self._close_sockets()
            raise
        self._threads.start("rest", self._run)
        _log.info("the REST API is at %s", self.advertised_url)
        if self.admin_url not in (None, self.advertised_url):
            _log.info("the REST API for administrators is at %s", self.admin_url)

    def attach(self, apps: app.Apps) -> None:
        """From now on requests are served."""
        self._admin.app = apps.admin
        self._main.app = apps.main

    @property
    def advertised_url(self) -> str:
        """Where other workers reach this one, as Java says it: with a slash at the end."""
        bound = self._advertised
        told = self._settings.advertised
        host = told.host or _reachable(bound.listener.host)
        return _url(self._scheme, host, told.port or bound.port)

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
        return _url(first.listener.scheme, _reachable(first.listener.host), first.port)

    @property
    def _scheme(self) -> str:
        if self._settings.advertised.scheme is not None:
            return self._settings.advertised.scheme.lower()
        schemes = {each.listener.scheme for each in self._bound}
        return "https" if schemes == {"https"} else "http"

    @property
    def _advertised(self) -> _Bound:
        assert self._bound, "start comes first"
        fitting = [each for each in self._bound if each.listener.scheme == self._scheme]
        return (fitting or self._bound)[0]

    def stop(self, graceful_s: int = GRACEFUL_S) -> bool:
        """Take no more requests, let those that run end, for `graceful_s` at most; then cut off.

        Idempotent, and right when it never started. False: the thread still runs, and is left.
        """
        self._graceful_s = graceful_s
        left = self._threads.stop_all(graceful_s + _JOIN_S)
        self._close_sockets()
        if left:
            _log.error("the REST API did not end within %g s and is left behind", graceful_s)
        return not left

    def _close_sockets(self) -> None:
        for each in (*self._bound, *self._admin_bound):
            each.socket.close()

    def _run(self, stop: threading.Event) -> None:
        with asyncio.Runner(loop_factory=server_loop.ServerLoop) as runner:
            runner.run(self._serve(stop))

    async def _serve(self, stop: threading.Event) -> None:
        shared = connection.Shared(
            held=connection_limits.Connections(self._limits),
            deadlines=self._deadlines,
            client_errors=connection.ClientErrorLog(asyncio.get_running_loop().time),
        )
        cast("server_loop.ServerLoop", asyncio.get_running_loop()).admission = shared
        servers = [_server(each, shared) for each in (*self._bound, *self._admin_bound)]
        running = [
            asyncio.create_task(server.serve(sockets=[each.socket]))
            for server, each in zip(servers, (*self._bound, *self._admin_bound), strict=True)
        ]
        while not stop.is_set() and not any(each.done() for each in running):
            await asyncio.sleep(_TICK_S)
        for server in servers:
            server.config.timeout_graceful_shutdown = self._graceful_s
            server.should_exit = True
        await asyncio.gather(*running)


def _server(bound: _Bound, shared: connection.Shared) -> uvicorn.Server:
    tls = bound.tls
    made = functools.partial(connection.Connection, shared=shared)
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


def _bind(listener: settings.Listener, served: _Late, secured: https.Https | None) -> _Bound:
    tls = None
    if listener.scheme == "https":
        if secured is None:
            raise RestServerError(f"listening at {listener}: https needs ssl.* settings")
        tls = secured.server
    try:
        opened = _open(listener)
    except OSError as error:
        raise RestServerError(
            f"listening at {listener}: {error.strerror or error}; see 'listeners' and"
            " 'admin.listeners'"
        ) from error
    return _Bound(listener=listener, socket=opened, served=served, tls=tls)


def _open(listener: settings.Listener) -> socket.socket:
    if listener.host:
        family, *_, address = socket.getaddrinfo(
            listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        return socket.create_server(address[:2], family=family, backlog=server_loop.BACKLOG)
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(
                ("", listener.port),
                family=socket.AF_INET6,
                backlog=server_loop.BACKLOG,
                dualstack_ipv6=True,
            )
        except OSError as error:
            _log.debug("no IPv6 at %s: %s", listener, error)
    return socket.create_server(("", listener.port), backlog=server_loop.BACKLOG)


def _reachable(host: str) -> str:
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


def _url(scheme: str, host: str, port: int) -> str:
    bracketed = f"[{host}]" if ":" in host else host
    return f"{scheme}://{bracketed}:{port}/"
