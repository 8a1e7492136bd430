"""Serves several REST APIs on one server, each under its own namespace: a path prefix (KIP-710).

`/<source>/<target>/connectors/…` is routed to the API of `("source", "target")` as `/connectors/…`.
Names are decoded before they are compared, so clients may percent-encode any character.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from urllib import parse

from starlette import types

from connect_runtime.rest import rest_errors
from connect_runtime.rest.rest_errors import RestError

Namespace = tuple[str, ...]
NAMESPACE_SCOPE_KEY = "connect.namespace"
"""Key under which an ASGI scope contains the namespace (path prefix of one API). The namespace is
removed from the path and kept here for the access log."""


class NamespaceRouter:
    """ASGI application that routes requests by namespace, a path prefix. `mount_application` may be
    called on any thread."""

    def __init__(self, depth: int = 2) -> None:
        """Create a router without applications. `depth` is the number of path segments (names) in a
        namespace."""
        self._depth = depth
        self._lock = threading.Lock()
        self._apps: dict[Namespace, types.ASGIApp] = {}

    def mount_application(self, namespace: Namespace, app: types.ASGIApp) -> Callable[[], None]:
        """Serve `app` under `namespace`, replacing an earlier application.

        Returns a function that stops serving `app`, unless it has been replaced. The function is
        idempotent and may be called on any thread.
        """
        assert len(namespace) == self._depth, namespace
        with self._lock:
            self._apps[namespace] = app

        def unmount_application() -> None:
            with self._lock:
                if self._apps.get(namespace) is app:
                    del self._apps[namespace]

        return unmount_application

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            return
        sent = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        path, _, _ = sent.partition("?")
        names = path.split("/")[1 : self._depth + 1]
        app = self._apps.get(tuple(parse.unquote(each) for each in names))
        if app is None:
            answer = rest_errors.build_error_response(RestError(404, "HTTP 404 Not Found"))
            await answer(scope, receive, send)
            return
        prefix = "".join(f"/{each}" for each in names)
        rest = path.removeprefix(prefix) or "/"
        inner = {
            **scope,
            "path": rest,
            "raw_path": rest.encode("latin-1"),
            NAMESPACE_SCOPE_KEY: prefix,
        }
        await app(inner, receive, send)
