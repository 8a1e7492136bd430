"""Read-only pages that a process serves beside the REST API, and the thread pools that render them.

Pages answer GET and HEAD. Each is rendered on a thread of its pool, and must be fast: slow work
belongs elsewhere. A pool that is full or slow does not delay other pools.
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

from connect_runtime.system.threads import ThreadPool

_log = logging.getLogger(__name__)

PAGE_DEADLINE_S = 10.0
"""A page that takes longer is answered with 503."""

JSON_CONTENT_TYPE = "application/json"
TEXT_CONTENT_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request for a page."""

    path: str
    """As sent, percent-encoded."""
    query: Mapping[str, str] = field(default_factory=dict)
    """The first value of each parameter, decoded."""
    accept: str = ""
    requested_with: str = ""
    """The header X-Requested-With, "" if absent or if the browser reports a cross-site request.

    Only scripts of our own pages and programs can set it: CORS keeps other pages from sending it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResponse:
    """A rendered page; `headers` are additional ones, such as `Location`."""

    body: bytes
    content_type: str = JSON_CONTENT_TYPE
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


PageRenderer = Callable[[PageRequest], PageResponse]
"""Renders a page on any thread, concurrently; an exception is logged (see `log_failure`) and
answered with 500."""


class PageThreadPool(enum.Enum):
    """Groups of pages that share threads. A full or slow pool does not delay the others."""

    EVENT_LOOP = "at once"
    """Rendered on the event loop itself, for pages that never block, such as liveness probes."""
    PROBES = "probes"
    SCRAPES = "scrapes"
    PEOPLE = "people"


@dataclass(frozen=True, slots=True)
class MountedPage:
    """A page with its thread pool; a bare renderer belongs to the pool `PEOPLE`."""

    pool: PageThreadPool
    render: PageRenderer

    def __call__(self, asked: PageRequest) -> PageResponse:
        return self.render(asked)


def get_thread_pool(renderer: PageRenderer) -> PageThreadPool:
    return renderer.pool if isinstance(renderer, MountedPage) else PageThreadPool.PEOPLE


PagesByPath = Mapping[str, PageRenderer]
"""Renderers by path, such as `/health/live`."""


T = TypeVar("T")

THREADS_PER_POOL = MappingProxyType(
    {PageThreadPool.PROBES: 2, PageThreadPool.SCRAPES: 2, PageThreadPool.PEOPLE: 4}
)
MAX_WAITING_PAGES = 32
"""Limit for rendering and waiting pages of one pool; further requests are rejected."""
FAILURE_LOG_INTERVAL_S = 60.0
"""Minimum time between two logged failures: pages need no login, so anyone can repeat a request
that fails."""


class PageThreadPools:
    """The thread pools. Call `render` on an event loop; `stop` may be called from any thread."""

    def __init__(self, name: str) -> None:
        self._pools = {
            lane: ThreadPool(
                f"{name} {lane.value}", threads_max=count, waiting_max=MAX_WAITING_PAGES
            )
            for lane, count in THREADS_PER_POOL.items()
        }
        self._next_failure_log_s = -math.inf

    async def render(self, pool: PageThreadPool, renderer: Callable[[], T]) -> T:
        """Call `renderer` on the given pool and return its result.

        Raises `ThreadPoolFull`, `TimeoutError`, or the exception of `renderer`.
        """
        if pool is PageThreadPool.EVENT_LOOP:
            return renderer()
        making = self._pools[pool].submit(renderer)
        async with asyncio.timeout(PAGE_DEADLINE_S):
            return await asyncio.wrap_future(making)

    def log_failure(self, path: str, error: Exception) -> None:
        """Log the exception of a page with its traceback, once in `FAILURE_LOG_INTERVAL_S`. Call it
        on the event loop."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._next_failure_log_s:
            self._next_failure_log_s = now_s + FAILURE_LOG_INTERVAL_S
            _log.error(
                "rendering %s failed: %r; further failures of pages are not logged for %g s",
                path,
                error,
                FAILURE_LOG_INTERVAL_S,
                exc_info=error,
            )

    def stop(self, timeout_s: float) -> None:
        """Stop rendering pages; a thread that hangs is abandoned. Idempotent."""
        for each in self._pools.values():
            each.stop(timeout_s)
