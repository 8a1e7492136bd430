"""REST servers at ports of their own, for tests that need sockets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from connect_runtime.herder.herder_interface import Herder
from connect_runtime.rest import rest_app
from connect_runtime.rest.rest_server import RestServer
from connect_runtime.rest.rest_settings import RestListener, RestSettings
from connect_runtime.system.supervised_threads import UnexpectedThreadEnd
from tests.support import rest

LOCAL = RestListener(scheme="http", host="127.0.0.1", port=0)


def at(*listeners: RestListener, **more: Any) -> RestSettings:
    return RestSettings(listeners=listeners or (LOCAL,), **more)


@contextlib.contextmanager
def started(configured: RestSettings | None = None, **secured: Any) -> Iterator[RestServer]:
    """A server without an API. Its thread must not end before it is asked to."""
    ended: list[UnexpectedThreadEnd] = []
    running = RestServer(configured or at(), on_thread_death=ended.append, **secured)
    running.start()
    try:
        yield running
    finally:
        assert running.stop(graceful_s=1)
    assert ended == []


@contextlib.contextmanager
def serving(
    of: Herder, configured: RestSettings | None = None, **options: Any
) -> Iterator[RestServer]:
    """A server with the whole API. `options` are those of `rest.parts`."""
    chosen = configured or at()
    with started(chosen) as running:
        running.attach_applications(rest_app.build_applications(rest.parts(of, **options), chosen))
        yield running
