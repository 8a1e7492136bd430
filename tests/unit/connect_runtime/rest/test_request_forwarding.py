from __future__ import annotations

import asyncio
from concurrent import futures

import httpx
import pytest

from connect_runtime.herder.herder_interface import HerderStage
from connect_runtime.herder.herder_requests import ConnectorDescription, DescribeConnector
from connect_runtime.rest import request_forwarding
from connect_runtime.rest.request_forwarding import RestDeadlines
from tests.fakes import rest_herder
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest
from tests.support.rest import FakePeers, Rest

SOON = RestDeadlines(request_s=0.05, health_s=0.05)


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (None, "Request timed out"),
        (
            HerderStage(description="joining", started_ms=0),
            "Request timed out. The worker is currently joining, which began at"
            " 1970-01-01T00:00:00Z.",
        ),
    ],
)
def test_a_herder_that_is_busy_too_long_is_told_about(
    stage: HerderStage | None, message: str
) -> None:
    herder = FakeHerder(silent=True, doing=stage)
    answer = Rest(herder, deadlines=SOON)("GET", "/connectors/c")
    assert answer.status_code == 500
    assert answer.json() == {"error_code": 500, "message": message}


def test_a_late_answer_is_dropped() -> None:
    herder = FakeHerder(silent=True)
    Rest(herder, deadlines=SOON)("GET", "/connectors/c")
    (future,) = herder.pending
    assert not future.cancelled()
    future.set_result(rest_herder.ACCEPTED)  # the loop that waited for it is gone


def test_an_answer_from_another_thread_is_seen_at_once() -> None:
    async def wait() -> str:
        with futures.ThreadPoolExecutor(1) as pool:
            return await request_forwarding.wait_for_result(pool.submit(str, 7), timeout_s=5)

    assert asyncio.run(wait()) == "7"


def test_what_an_answer_fails_with_is_raised() -> None:
    failed: futures.Future[None] = futures.Future()
    failed.set_exception(KeyError("x"))
    with pytest.raises(KeyError):
        asyncio.run(request_forwarding.wait_for_result(failed, timeout_s=5))


def test_many_wait_at_once_and_each_gets_its_own_answer() -> None:
    herder = FakeHerder(silent=True)
    served = Rest(herder).apps.main

    async def ask(client: httpx.AsyncClient, number: int) -> str:
        return str((await client.get(f"/connectors/c{number}/config")).json()["name"])

    async def answer_backwards() -> str:
        while len(herder.pending) < 100:
            await asyncio.sleep(0)
        for future, request in reversed(list(zip(herder.pending, herder.submitted, strict=True))):
            assert isinstance(request, DescribeConnector)
            config = {"name": request.connector}
            future.set_result(
                ConnectorDescription(connector=request.connector, config=config, task_configs=())
            )
        return "answered"

    async def all_at_once() -> list[str]:
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url=rest.BASE) as client:
            asked = [ask(client, number) for number in range(100)]
            return (await asyncio.gather(answer_backwards(), *asked))[1:]

    assert asyncio.run(all_at_once()) == [f"c{number}" for number in range(100)]


@pytest.mark.parametrize(
    ("forward", "url", "message"),
    [
        ("", None, "Cannot complete request momentarily due to no known leader URL"),
        ("?forward=true", None, "Cannot complete request momentarily due to no known leader URL"),
        ("?forward=false", "http://leader", "Cannot complete request because of a conflicting"),
        ("?forward=odd", "http://leader", "Cannot complete request because of a conflicting"),
    ],
)
def test_nobody_to_forward_to_is_a_conflict(forward: str, url: str | None, message: str) -> None:
    herder = FakeHerder()
    herder.make("c")
    herder.leads, herder.leader_url = False, url
    others = FakePeers()
    answer = Rest(herder, among=others)("DELETE", f"/connectors/c{forward}")
    assert answer.status_code == 409
    assert answer.json()["message"].startswith(message)
    assert others.asked == []
