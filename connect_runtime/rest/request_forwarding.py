"""Submits requests to the herder with a deadline, and forwards requests that this worker cannot
serve to another worker.

A request is forwarded at most twice. A user's request has no `forward` parameter. The first worker
forwards it with `forward=true`, usually to the leader; that worker forwards it with `forward=false`
to the owner, which does not forward it again. Follows Java's HerderRequestHandler.
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

from connect_runtime.herder.herder_interface import Herder, WorkerReply
from connect_runtime.herder.herder_requests import ForwardRequest, HerderRequest, RequestRefused
from connect_runtime.herder.requests_to_other_workers import PeerClient, PeerRequest, PeerResponse
from connect_runtime.rest.http_request import RestRequest
from connect_runtime.rest.rest_errors import RestError

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestDeadlines:
    """Time limits in seconds for receiving request bodies and for the herder's replies."""

    request_s: float = 90.0
    health_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardedRequest:
    """Method, path, query and body (a JSON value) of a request to forward to another worker."""

    method: str
    path: str
    body: Any = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict)


class RequestTimeout(Exception):
    """Raised if the herder has not replied by the deadline. The herder may still execute the
    request."""


async def wait_for_result(future: futures.Future[T], *, timeout_s: float) -> T:
    """Wait for a future and return its result or raise its exception. Raises `RequestTimeout` after
    `timeout_s`.

    The future is never cancelled.
    """
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def wake_waiting_coroutine(_: futures.Future[T]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no one waits any more
            loop.call_soon_threadsafe(done.set)

    future.add_done_callback(wake_waiting_coroutine)
    try:
        async with asyncio.timeout(timeout_s):
            await done.wait()
    except TimeoutError:
        raise RequestTimeout from None
    return future.result(timeout=0)


class HerderClient:
    """Submits requests to this worker's herder, and forwards them to other workers through `peers`
    if necessary.

    `peers` is None for a standalone worker.
    """

    def __init__(
        self, herder: Herder, *, peers: PeerClient | None, deadlines: RestDeadlines
    ) -> None:
        self._herder = herder
        self._peers = peers
        self._deadlines = deadlines

    async def wait_for_reply(self, future: futures.Future[T]) -> T:
        """Wait for the result of a future that the herder completes. Raises `RestError` after the
        deadline; the message names the herder's current stage."""
        try:
            return await wait_for_result(future, timeout_s=self._deadlines.request_s)
        except RequestTimeout:
            stage = self._herder.get_current_stage()
            message = "Request timed out" if stage is None else f"Request timed out. {stage}"
            raise RestError(HTTPStatus.INTERNAL_SERVER_ERROR, message) from None

    async def submit_request(self, request: HerderRequest) -> WorkerReply:
        """Submit a request to the herder and return its reply. Raises `RestError` if this worker
        cannot serve the request."""
        reply = await self.wait_for_reply(self._herder.submit_request(request))
        if isinstance(reply, ForwardRequest):
            raise RestError(HTTPStatus.CONFLICT, reply.reason)
        return _raise_if_refused(reply)

    async def submit_or_forward(
        self, request: HerderRequest, route: ForwardedRequest, *, rest_request: RestRequest
    ) -> WorkerReply | PeerResponse:
        """Submit a request to the herder, or forward it. Returns the herder's reply or another
        worker's `PeerResponse`. Raises `RestError`."""
        reply = await self.wait_for_reply(self._herder.submit_request(request))
        if isinstance(reply, ForwardRequest):
            return await self._forward_request(reply, route, rest_request)
        return _raise_if_refused(reply)

    async def _forward_request(
        self, forward: ForwardRequest, route: ForwardedRequest, asker: RestRequest
    ) -> PeerResponse:
        if asker.forward is False:
            _log.warning(
                "%s %s was forwarded twice, but no worker could serve it",
                route.method,
                route.path,
            )
            raise RestError(
                HTTPStatus.CONFLICT,
                "Cannot complete request because of a conflicting operation (e.g. worker"
                " rebalance)",
            )
        if forward.url is None or self._peers is None:
            raise RestError(
                HTTPStatus.CONFLICT,
                "Cannot complete request momentarily due to no known leader URL, likely because a"
                " rebalance was underway.",
            )
        again = "true" if asker.forward is None else "false"
        call = PeerRequest(
            url=forward.url,
            method=route.method,
            path=route.path,
            query={"forward": again} | dict(route.query),
            body=None if route.body is None else _encode_json(route.body),
            authorization=asker.authorization,
        )
        return await self._peers.send(call)


def _raise_if_refused(reply: WorkerReply) -> WorkerReply:
    if isinstance(reply, RequestRefused):
        raise RestError(reply.status, reply.message)
    return reply


def _encode_json(body: Any) -> bytes:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")
