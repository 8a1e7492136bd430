"""The REST API over a herder of one's own, asked without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette import types

from connect_runtime.herder.herder_interface import Herder
from connect_runtime.herder.requests_to_other_workers import PeerClient, PeerRequest, PeerResponse
from connect_runtime.rest import rest_app
from connect_runtime.rest.request_forwarding import RestDeadlines
from connect_runtime.rest.rest_app import RestDependencies
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.system.log_levels import LogLevels
from connect_runtime.system.system_clock import SystemClock

BASE = "http://worker:8083"


@dataclass(kw_only=True)
class FakePeers:
    """Implements `ports.peers.Peers`: says what it was told to, and keeps what it was asked."""

    says: PeerResponse | Exception = field(default_factory=lambda: PeerResponse(status=204))
    asked: list[PeerRequest] = field(default_factory=list)

    async def send(self, call: PeerRequest) -> PeerResponse:
        return self.send_and_wait(call)

    def send_and_wait(self, call: PeerRequest) -> PeerResponse:
        self.asked.append(call)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


def parts(
    of: Herder,
    *,
    among: PeerClient | None = None,
    users: Mapping[str, str] | None = None,
    deadlines: RestDeadlines | None = None,
) -> RestDependencies:
    return RestDependencies(
        herder=of,
        peers=among,
        clock=SystemClock(),
        levels=LogLevels(SystemClock()),
        users=users,
        deadlines=deadlines or RestDeadlines(request_s=5, health_s=5),
    )


class Rest:
    """`Rest(herder)("GET", "/connectors")`: one request, one answer."""

    def __init__(
        self,
        of: Herder,
        *,
        configured: RestSettings | None = None,
        **options: Any,
    ) -> None:
        self.apps = rest_app.build_applications(parts(of, **options), configured or RestSettings())

    def __call__(self, method: str, path: str, **request: Any) -> httpx.Response:
        return ask(self.apps.main, method, path, **request)


def ask(served: types.ASGIApp, method: str, path: str, **request: Any) -> httpx.Response:
    """`request` as httpx has it: `json`, `content`, `headers`."""

    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.request(method, path, **request)

    return asyncio.run(exchange())
