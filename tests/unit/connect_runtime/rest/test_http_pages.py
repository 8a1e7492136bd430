"""Lanes of pages: what holds one of them up is no matter of another's."""

from __future__ import annotations

import asyncio
import threading

import pytest

from connect_runtime.rest import http_pages
from connect_runtime.rest.http_pages import (
    MountedPage,
    PageRequest,
    PageResponse,
    PageThreadPool,
    PageThreadPools,
)
from connect_runtime.system.supervised_threads import ThreadPoolFull
from tests.support import eventually

SOON_S = 20.0
POOLED = [each for each in PageThreadPool if each is not PageThreadPool.EVENT_LOOP]


@pytest.fixture
def lanes():
    made = PageThreadPools("tested")
    yield made
    made.stop(1.0)


def name() -> str:
    return threading.current_thread().name


@pytest.mark.parametrize("lane", POOLED)
def test_a_lane_has_threads_of_its_own(lanes, lane):
    assert asyncio.run(lanes.render_page(lane, name)).startswith(f"tested {lane.value}-")


def test_what_is_made_at_once_is_made_where_it_is_asked(lanes):
    assert asyncio.run(lanes.render_page(PageThreadPool.EVENT_LOOP, name)) == name()


@pytest.mark.parametrize("lane", POOLED)
def test_a_full_lane_turns_away_and_the_others_go_on(lanes, lane):
    ending, begun = threading.Event(), []

    def hang() -> str:
        begun.append(1)
        ending.wait(SOON_S)
        return "late"

    async def fill() -> None:
        full = http_pages.THREADS_PER_POOL[lane] + http_pages.MAX_WAITING_PAGES
        held = []
        for _ in range(full):
            held.append(asyncio.create_task(lanes.render_page(lane, hang)))
            await asyncio.sleep(0)
            if (
                len(held) <= http_pages.THREADS_PER_POOL[lane]
            ):  # none waits for a thread that just begins
                await asyncio.to_thread(
                    eventually.eventually, lambda: len(begun) == len(held), SOON_S
                )
        with pytest.raises(ThreadPoolFull):
            await lanes.render_page(lane, name)
        for other in set(PageThreadPool) - {lane}:
            assert await lanes.render_page(other, name)
        ending.set()
        assert await asyncio.gather(*held) == ["late"] * full

    asyncio.run(fill())


def test_what_is_not_made_in_time_is_given_up(lanes, monkeypatch):
    monkeypatch.setattr(http_pages, "PAGE_DEADLINE_S", 0.05)
    ending = threading.Event()
    with pytest.raises(TimeoutError):
        asyncio.run(lanes.render_page(PageThreadPool.PEOPLE, lambda: ending.wait(SOON_S)))
    ending.set()


def test_what_goes_wrong_is_told(lanes):
    def broken() -> str:
        raise ValueError("why")

    with pytest.raises(ValueError, match="why"):
        asyncio.run(lanes.render_page(PageThreadPool.PEOPLE, broken))


def test_of_pages_that_fail_again_and_again_one_is_logged(lanes, caplog, monkeypatch):
    async def fail() -> None:
        for _ in range(100):
            lanes.log_page_failure("/ui/api/overview", ValueError("why"))

    asyncio.run(fail())
    (record,) = caplog.records
    assert "rendering /ui/api/overview failed: ValueError('why')" in record.getMessage()
    assert record.exc_info is not None
    monkeypatch.setattr(http_pages, "FAILURE_LOG_INTERVAL_S", -1.0)
    lanes._next_failure_log_s = 0.0
    asyncio.run(fail())
    assert len(caplog.records) == 101


def test_once_stopped_no_page_is_made(lanes):
    lanes.stop(1.0)
    with pytest.raises(ThreadPoolFull, match="is stopping"):
        asyncio.run(lanes.render_page(PageThreadPool.PEOPLE, name))


def echo(asked: PageRequest) -> PageResponse:
    return PageResponse(body=asked.path.encode())


def test_a_page_is_for_people_unless_it_says_for_whom():
    assert http_pages.get_thread_pool(echo) is PageThreadPool.PEOPLE


@pytest.mark.parametrize("lane", list(PageThreadPool))
def test_a_page_in_a_lane_is_still_that_page(lane):
    made = MountedPage(lane, echo)
    assert http_pages.get_thread_pool(made) is lane
    assert made(PageRequest(path="/some")).body == b"/some"
