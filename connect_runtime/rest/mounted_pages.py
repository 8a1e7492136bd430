"""Read-only pages that a process serves besides the REST API, and the thread pools that render
them.

Pages answer GET and HEAD. Each is rendered on a thread of its pool, so it may take a moment; slow
work must be done elsewhere. A pool that is full, or whose pages are slow, delays no other pool.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from connect_runtime.system.threads import ThreadPool

PAGE_DEADLINE_S = 10.0
"""Who has not answered by then has not answered."""

JSON_CONTENT_TYPE = "application/json"
TEXT_CONTENT_TYPE = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """`path` is as it was sent, percent-encoded; `query` has a name's first value, decoded; of the
    headers there are `accept` and `requested_with` (X-Requested-With), "" where they were not sent.

    Who sends `requested_with` is a script of our own pages, or a program: pages from elsewhere
    cannot have a browser send it here, as no answer of ours allows that (CORS); and where a browser
    says that such a page asks, it is ""."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    accept: str = ""
    requested_with: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResponse:
    """`headers` are sent beside the content's type and length, such as `Location`."""

    body: bytes
    content_type: str = JSON_CONTENT_TYPE
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


PageRenderer = Callable[[PageRequest], PageResponse]
"""Any thread may ask, several at once. What it raises is logged, and answered with 500."""


class PageThreadPool(enum.Enum):
    """Who shares threads. A lane that is full, or whose pages take long, holds up no other one."""

    AT_ONCE = "at once"
    """It waits for nothing and takes no time: made where the request is read, on no other thread.
    Whoever ends processes that do not answer asks this."""
    PROBES = "probes"
    SCRAPES = "scrapes"
    PEOPLE = "people"


@dataclass(frozen=True, slots=True)
class MountedPage:
    """A page in another lane than `PEOPLE`, where all are that say nothing."""

    lane: PageThreadPool
    make: PageRenderer

    def __call__(self, asked: PageRequest) -> PageResponse:
        return self.make(asked)


def get_thread_pool(make: PageRenderer) -> PageThreadPool:
    return make.lane if isinstance(make, MountedPage) else PageThreadPool.PEOPLE


PagesByPath = Mapping[str, PageRenderer]
"""By path, `/health/live`."""


T = TypeVar("T")

THREADS_PER_POOL = MappingProxyType(
    {PageThreadPool.PROBES: 2, PageThreadPool.SCRAPES: 2, PageThreadPool.PEOPLE: 4}
)
MAX_WAITING_PAGES = 32
"""So many pages of a lane are made at once, and wait to be; whoever comes then is to come again."""


class PageThreadPools:
    """`made` is for an event loop, `stop` for any thread."""

    def __init__(self, name: str) -> None:
        self._pools = {
            lane: ThreadPool(
                f"{name} {lane.value}", threads_max=count, waiting_max=MAX_WAITING_PAGES
            )
            for lane, count in THREADS_PER_POOL.items()
        }

    async def made(self, lane: PageThreadPool, make: Callable[[], T]) -> T:
        """Made in its lane. Raises `ThreadPoolFull` where that is full, `TimeoutError` where it is
        not made in time, and what `make` raises."""
        if lane is PageThreadPool.AT_ONCE:
            return make()
        making = self._pools[lane].submit(make)
        async with asyncio.timeout(PAGE_DEADLINE_S):
            return await asyncio.wrap_future(making)

    def stop(self, timeout_s: float) -> None:
        """Make no more pages. One that hangs is left behind. Again: nothing happens."""
        for each in self._pools.values():
            each.stop(timeout_s)
