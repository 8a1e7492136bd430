"""One request as handlers see it: names decoded, flags read as Java reads them, a bounded body."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeVar
from urllib import parse

from starlette import requests

from connect_runtime.rest import bodies, body_slots, errors

T = TypeVar("T")

BODY_BYTES_MAX = 8 * 1024 * 1024
BODY_S = 30.0
"""So long a body may take at most."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_INT32_MAX = 2**31 - 1
MUST_BE_SIGNED = "connect_runtime.must_be_signed"
"""In an ASGI scope: see `Exchange.must_be_signed`."""
IS_SIGNED = "connect_runtime.is_signed"
"""In an ASGI scope: see `Exchange.is_signed`."""
UNSUPPORTED = "HTTP 415 Unsupported Media Type"


class Exchange:
    """Handlers get one and return a response, or raise `RestError`, or what `errors.of` knows."""

    def __init__(self, request: requests.Request, *, body_timeout_s: float) -> None:
        self._request = request
        self._body_timeout_s = min(body_timeout_s, BODY_S)
        self._slot: str | None = None

    def name(self, parameter: str) -> str:
        """A part of the path, decoded: names have whatever characters they like."""
        return parse.unquote(self._request.path_params[parameter], errors="replace")

    @property
    def connector(self) -> str:
        return self.name("connector")

    @property
    def task(self) -> int:
        """A number, or there is no such path."""
        text = self.name("task")
        if not _INTEGER.fullmatch(text) or abs(int(text)) > _INT32_MAX:
            raise errors.RestError(HTTPStatus.NOT_FOUND, "HTTP 404 Not Found")
        return int(text)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """`true` in any case; everything else that is given is false."""
        given = self.query(name)
        return default if given is None else given.lower() == "true"

    def query(self, name: str) -> str | None:
        return next(iter(self.queries(name)), None)

    def queries(self, name: str) -> list[str]:
        """All values of a parameter, in their order."""
        return self._request.query_params.getlist(name)

    @property
    def forward(self) -> bool | None:
        """`forward`, which one worker says to another: None from a user, see `asking`."""
        return None if self.query("forward") is None else self.flag("forward")

    @property
    def must_be_signed(self) -> bool:
        """Did basic authentication let this request in without a password, for its signature?"""
        return bool(self._request.scope.get(MUST_BE_SIGNED))

    @property
    def is_signed(self) -> bool:
        """Whether head and body were verified before (`signed.Signed`): the sender is a worker of
        the group."""
        return bool(self._request.scope.get(IS_SIGNED))

    @property
    def headers(self) -> Mapping[str, str]:
        return self._request.headers

    @property
    def authorization(self) -> str | None:
        return self._request.headers.get("authorization")

    def absolute(self, path: str) -> str:
        """The URL of another path of this worker, as the client calls it."""
        return str(self._request.base_url).rstrip("/") + path

    async def config(self) -> dict[str, str | None]:
        return readable(bodies.config, await self.body())

    async def configs(self) -> list[dict[str, str | None]]:
        return readable(bodies.configs, await self.body())

    async def creation(self) -> bodies.Creation:
        return readable(bodies.creation, await self.body())

    async def offsets(self) -> list[bodies.Offset]:
        return readable(bodies.offsets, await self.body())

    async def body(self, *, bytes_max: int = BODY_BYTES_MAX) -> bytes:
        """As received. One that is not declared, too long or too slow is refused. A large one is
        read when one of the server's slots for these is free; `end` gives that back."""
        if "content-type" not in self._request.headers and self._announces_body():
            raise errors.RestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, UNSUPPORTED)
        try:
            async with asyncio.timeout(self._body_timeout_s):
                data = await self._read(bytes_max)
        except TimeoutError:
            raise errors.RestError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"The body did not arrive within {self._body_timeout_s:g} s",
            ) from None
        return data

    async def end(self) -> None:
        """The request is over. Idempotent."""
        slots, slot = self._request.scope.get(body_slots.SCOPE), self._slot
        self._slot = None
        if slots is not None and slot is not None:
            await slots.give_back(slot)

    def _announces_body(self) -> bool:
        headers = self._request.headers
        return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers

    async def _read(self, bytes_max: int) -> bytes:
        declared = self._request.headers.get("content-length", "0")
        _check_length(int(declared) if declared.isdecimal() else 0, bytes_max)
        data = bytearray()
        async for chunk in self._request.stream():
            _check_length(len(data) + len(chunk), bytes_max)
            data += chunk
            if len(data) > body_slots.SMALL_BYTES:
                await self._take_slot()
        return bytes(data)

    async def _take_slot(self) -> None:
        slots = self._request.scope.get(body_slots.SCOPE)
        if slots is not None and self._slot is None:
            client = self._request.client
            self._slot = await slots.take("" if client is None else client.host)


def _check_length(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise errors.RestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The body is longer than {bytes_max} bytes, the most that is taken here",
        )


def readable(read: Callable[[bytes], T], data: bytes) -> T:
    """What one of `bodies` reads. Raises `RestError`: 500, as Java has it of all such mistakes."""
    try:
        return read(data)
    except bodies.Unreadable as error:
        raise errors.RestError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from None
