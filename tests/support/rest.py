"""The REST API over a herder of one's own, asked without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette import types

from connect_runtime.ports import herder, peers
from connect_runtime.rest import app, asking, settings
from connect_runtime.system import clock, log_levels

BASE = "http://worker:8083"


@dataclass(kw_only=True)
class FakePeers:
    """Implements `ports.peers.Peers`: says what it was told to, and keeps what it was asked."""

    says: peers.Said | Exception = field(default_factory=lambda: peers.Said(status=204))
    asked: list[peers.Call] = field(default_factory=list)

    async def send(self, call: peers.Call) -> peers.Said:
        return self.send_and_wait(call)

    def send_and_wait(self, call: peers.Call) -> peers.Said:
        self.asked.append(call)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says


def parts(
    of: herder.Herder,
    *,
    among: peers.Peers | None = None,
    users: Mapping[str, str] | None = None,
    deadlines: asking.Deadlines | None = None,
) -> app.Parts:
    return app.Parts(
        herder=of,
        peers=among,
        clock=clock.SystemClock(),
        levels=log_levels.LogLevels(clock.SystemClock()),
        users=users,
        deadlines=deadlines or asking.Deadlines(request_s=5, health_s=5),
    )


class Rest:
    """`Rest(herder)("GET", "/connectors")`: one request, one answer."""

    def __init__(
        self,
        of: herder.Herder,
        *,
        configured: settings.RestSettings | None = None,
        **options: Any,
    ) -> None:
        self.apps = app.build(parts(of, **options), configured or settings.RestSettings())

    def __call__(self, method: str, path: str, **request: Any) -> httpx.Response:
        return ask(self.apps.main, method, path, **request)


def ask(served: types.ASGIApp, method: str, path: str, **request: Any) -> httpx.Response:
    """`request` as httpx has it: `json`, `content`, `headers`."""

    async def exchange() -> httpx.Response:
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
            return await client.request(method, path, **request)

    return asyncio.run(exchange())
