"""The threads that a server has its pages made on: a small pool for each lane of `pages`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import MappingProxyType
from typing import TypeVar

from connect_runtime.ports import pages
from connect_runtime.system import pool

T = TypeVar("T")

THREADS = MappingProxyType({pages.Lane.PROBES: 2, pages.Lane.SCRAPES: 2, pages.Lane.PEOPLE: 4})
WAITING_MAX = 32
"""So many pages of a lane are made at once, and wait to be; whoever comes then is to come again."""


class PageLanes:
    """`made` is for an event loop, `stop` for any thread."""

    def __init__(self, name: str) -> None:
        self._pools = {
            lane: pool.Pool(f"{name} {lane.value}", threads_max=count, waiting_max=WAITING_MAX)
            for lane, count in THREADS.items()
        }

    async def made(self, lane: pages.Lane, make: Callable[[], T]) -> T:
        """Made in its lane. Raises `pool.PoolFull` where that is full, `TimeoutError` where it is
        not made in time, and what `make` raises."""
        if lane is pages.Lane.AT_ONCE:
            return make()
        making = self._pools[lane].submit(make)
        async with asyncio.timeout(pages.DEADLINE_S):
            return await asyncio.wrap_future(making)

    def stop(self, timeout_s: float) -> None:
        """Make no more pages. One that hangs is left behind. Again: nothing happens."""
        for each in self._pools.values():
            each.stop(timeout_s)
