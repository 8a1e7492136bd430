"""Asking the herder from the event loop: with a deadline, and forwarding what another must serve.

A request takes at most two hops. A user's carries no `forward`: it goes on with `forward=true`, to
the leader mostly, from there with `forward=false`, to the owner, who does not pass it on. Follows
Java's HerderRequestHandler.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from connect_runtime.core.herder import requests
from connect_runtime.ports import herder, peers
from connect_runtime.rest import errors, exchange

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long REST waits for the herder, and for a request's body."""

    request_s: float = 90.0
    health_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """How the request is said again to another worker; `body` is a JSON value."""

    method: str
    path: str
    body: Any = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)


class NotInTime(Exception):
    """The herder has not answered before the deadline; it may do what it was asked all the same."""


async def answer(future: futures.Future[T], *, timeout_s: float) -> T:
    """Its result, or what it failed with. Raises `NotInTime`; the future is never cancelled."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake(_: futures.Future[T]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(wake)
    try:
        async with asyncio.timeout(timeout_s):
            await done.wait()
    except TimeoutError:
        raise NotInTime from None
    return future.result(timeout=0)


class Asking:
    """Asks one herder, and other workers through `among`; None where there are none."""

    def __init__(
        self, of: herder.Herder, *, among: peers.Peers | None, deadlines: Deadlines
    ) -> None:
        self._herder = of
        self._peers = among
        self._deadlines = deadlines

    async def result(self, future: futures.Future[T]) -> T:
        """Raises `RestError` at the deadline, with what the herder was doing instead."""
        try:
            return await answer(future, timeout_s=self._deadlines.request_s)
        except NotInTime:
            stage = self._herder.stage()
            message = "Request timed out" if stage is None else f"Request timed out. {stage}"
            raise errors.RestError(HTTPStatus.INTERNAL_SERVER_ERROR, message) from None

    async def ask(self, request: requests.Request) -> herder.Reply:
        """The reply, where only this worker can give one. Raises `RestError`."""
        reply = await self.result(self._herder.submit(request))
        if isinstance(reply, requests.Forward):
            raise errors.RestError(HTTPStatus.CONFLICT, reply.why)
        return _accepted(reply)

    async def ask_or_forward(
        self, request: requests.Request, route: Route, *, asker: exchange.Exchange
    ) -> herder.Reply | peers.Said:
        """This worker's reply or, as `Said`, another's. Raises `RestError`."""
        reply = await self.result(self._herder.submit(request))
        if isinstance(reply, requests.Forward):
            return await self._forward(reply, route, asker)
        return _accepted(reply)

    async def _forward(
        self, forward: requests.Forward, route: Route, asker: exchange.Exchange
    ) -> peers.Said:
        if asker.forward is False:
            _log.warning(
                "%s %s went from worker to worker twice and found nobody to serve it",
                route.method,
                route.path,
            )
            raise errors.RestError(
                HTTPStatus.CONFLICT,
                "Cannot complete request because of a conflicting operation (e.g. worker"
                " rebalance)",
            )
        if forward.url is None or self._peers is None:
            raise errors.RestError(
                HTTPStatus.CONFLICT,
                "Cannot complete request momentarily due to no known leader URL, likely because a"
                " rebalance was underway.",
            )
        again = "true" if asker.forward is None else "false"
        call = peers.Call(
            url=forward.url,
            method=route.method,
            path=route.path,
            query={"forward": again} | dict(route.query),
            body=None if route.body is None else _encoded(route.body),
            authorization=asker.authorization,
        )
        return await self._peers.send(call)


def _accepted(reply: herder.Reply) -> herder.Reply:
    if isinstance(reply, requests.Refused):
        raise errors.RestError(reply.status, reply.message)
    return reply


def _encoded(body: Any) -> bytes:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
