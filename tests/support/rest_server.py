"""REST servers at ports of their own, for tests that need sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from connect_runtime.ports import herder
from connect_runtime.rest import app, server, settings
from connect_runtime.system import threads
from tests.support import rest

LOCAL = settings.Listener(scheme="http", host="127.0.0.1", port=0)


def at(*listeners: settings.Listener, **more: Any) -> settings.RestSettings:
    return settings.RestSettings(listeners=listeners or (LOCAL,), **more)


@contextlib.contextmanager
def started(
    configured: settings.RestSettings | None = None, **secured: Any
) -> Iterator[server.RestServer]:
    """A server without an API. Its thread must not end before it is asked to."""
    ended: list[threads.UnaskedEnd] = []
    running = server.RestServer(configured or at(), on_unasked_end=ended.append, **secured)
    running.start()
    try:
        yield running
    finally:
        assert running.stop(graceful_s=1)
    assert ended == []


@contextlib.contextmanager
def serving(
    of: herder.Herder, configured: settings.RestSettings | None = None, **options: Any
) -> Iterator[server.RestServer]:
    """A server with the whole API. `options` are those of `rest.parts`."""
    chosen = configured or at()
    with started(chosen) as running:
        running.attach(app.build(rest.parts(of, **options), chosen))
        yield running
