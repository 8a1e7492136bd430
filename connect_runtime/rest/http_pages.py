"""Read-only pages that a process serves in addition to the REST API, and the thread pools that
render them.

Pages respond to GET and HEAD requests. Each page is rendered on a thread of its pool, so
rendering must be fast and must not block. A full or slow pool does not delay other pools.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from connect_runtime.system.supervised_threads import ThreadPool

_log = logging.getLogger(__name__)

PAGE_DEADLINE_S = 10.0
"""Time limit for rendering a page. If it is exceeded, the response is 503."""

JSON_CONTENT_TYPE = "application/json"
TEXT_CONTENT_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A GET or HEAD request for a mounted page."""

    path: str
    """Request path as received, percent-encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    """First value of each query parameter, percent-decoded."""
    accept: str = ""
    requested_with: str = ""
    """Value of the header X-Requested-With; "" if the header is absent or the browser reports a
    cross-site request. Only programs and scripts of this server's pages can set the header, because
    CORS prevents other pages from sending it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResponse:
    """A rendered page. `headers` contains additional response headers, such as `Location`."""

    body: bytes
    content_type: str = JSON_CONTENT_TYPE
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


PageRenderer = Callable[[PageRequest], PageResponse]
"""Renders a page on any thread, possibly concurrently. If it raises an exception, the exception is
logged (see `log_page_failure`) and the request is answered with 500."""


class PageThreadPool(enum.Enum):
    """Thread pool that renders a group of pages. A full or slow pool does not delay the other
    pools."""

    EVENT_LOOP = "at once"
    """Pages are rendered on the event loop itself; only for pages that never block, such as
    liveness probes."""
    PROBES = "probes"
    SCRAPES = "scrapes"
    PEOPLE = "people"


@dataclass(frozen=True, slots=True)
class MountedPage:
    """A page renderer and the thread pool on which it runs. A renderer that is mounted without this
    class runs on `PageThreadPool.PEOPLE`, the pool for browser pages."""

    pool: PageThreadPool
    render: PageRenderer

    def __call__(self, asked: PageRequest) -> PageResponse:
        return self.render(asked)


def get_thread_pool(renderer: PageRenderer) -> PageThreadPool:
    return renderer.pool if isinstance(renderer, MountedPage) else PageThreadPool.PEOPLE


PagesByPath = Mapping[str, PageRenderer]
"""Page renderers by request path, such as `/health/live`."""


T = TypeVar("T")

THREADS_PER_POOL = MappingProxyType(
    {PageThreadPool.PROBES: 2, PageThreadPool.SCRAPES: 2, PageThreadPool.PEOPLE: 4}
)
MAX_WAITING_PAGES = 32
"""Maximum number of pages that are rendered or waiting in one pool. Further requests are
rejected."""
FAILURE_LOG_INTERVAL_S = 60.0
"""Minimum time between two logged failures. Pages need no login, so anyone could fill the log by
repeating a request that fails."""


class PageThreadPools:
    """The thread pools that render pages. Call `render_page` on an event loop; `stop` may be called
    on any thread."""

    def __init__(self, name: str) -> None:
        self._pools = {
            lane: ThreadPool(
                f"{name} {lane.value}", threads_max=count, waiting_max=MAX_WAITING_PAGES
            )
            for lane, count in THREADS_PER_POOL.items()
        }
        self._next_failure_log_s = -math.inf

    async def render_page(self, pool: PageThreadPool, renderer: Callable[[], T]) -> T:
        """Render a page with `renderer` on the given pool and return the result.

        Raises `ThreadPoolFull`, `TimeoutError`, or the exception raised by `renderer`.
        """
        if pool is PageThreadPool.EVENT_LOOP:
            return renderer()
        making = self._pools[pool].submit(renderer)
        async with asyncio.timeout(PAGE_DEADLINE_S):
            return await asyncio.wrap_future(making)

    def log_page_failure(self, path: str, error: Exception) -> None:
        """Log the exception that rendering a page raised, with its traceback, at most once per
        `FAILURE_LOG_INTERVAL_S`. Must be called on the event loop."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_failure_log_s:
            self._next_failure_log_s = now_s + FAILURE_LOG_INTERVAL_S
            _log.error(
                "rendering %s failed: %r; further page failures are not logged for %g s",
                path,
                error,
                FAILURE_LOG_INTERVAL_S,
                exc_info=error,
            )

    def stop(self, timeout_s: float) -> None:
        """Stop rendering pages. Threads that hang are abandoned. Idempotent."""
        for each in self._pools.values():
            each.stop(timeout_s)
