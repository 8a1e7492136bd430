"""An HTTP request in the form that handlers use: decoded names, flags parsed as in Java, and a
size-limited body.

`RequestBodySlots` limits the number of large bodies that a server reads concurrently, regardless of
the number of clients.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeVar
from urllib import parse

from starlette import requests

from connect_runtime.base import connection_limits
from connect_runtime.rest import request_bodies
from connect_runtime.rest.request_bodies import (
    BodyLimitError,
    CreateConnectorRequest,
    OffsetChange,
    UnreadableBody,
)
from connect_runtime.rest.rest_errors import RestError

IS_UNVERIFIED_SCOPE_KEY = "connect_runtime.is_unverified"
"""Key in the ASGI scope. Its value is True until the required signature of the request is verified.
Java's signature, which covers only the body, leaves the value True."""
BODY_SLOTS_SCOPE_KEY = "connect_runtime.body_slots"
"""Key in the ASGI scope for the server's `RequestBodySlots`, which limit the number of concurrently
read bodies."""
SMALL_BODY_BYTES = 64 * 1024
"""Maximum size of a body that needs no body slot. The server buffers this much of every request
regardless of slots."""


@dataclass(slots=True)
class RequestBodySlots:
    """Limits how many large request bodies are read concurrently on an event loop. A request keeps
    its slot until the response is sent."""

    total: int = 4
    per_address: int = 2
    wait_s: float = 10.0
    _acquired: Counter[str] = field(default_factory=Counter)
    _changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def acquire(self, host: str) -> str:
        """Acquire a body slot and return the token to pass to `release`. Raises `RestError` (503)
        on timeout."""
        client = connection_limits.get_client_network(host)
        try:
            async with asyncio.timeout(self.wait_s), self._changed:
                await self._changed.wait_for(lambda: self._is_slot_free(client))
        except TimeoutError:
            raise RestError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"Too many requests with bodies larger than {SMALL_BODY_BYTES} bytes are in "
                "progress; retry later",
            ) from None
        self._acquired[client] += 1
        return client

    async def release(self, slot: str) -> None:
        self._acquired[slot] -= 1
        if not self._acquired[slot]:
            del self._acquired[slot]
        async with self._changed:
            self._changed.notify_all()

    def _is_slot_free(self, client: str) -> bool:
        return self._acquired.total() < self.total and self._acquired[client] < self.per_address


T = TypeVar("T")

BODY_TIMEOUT_S = 30.0
"""Time limit for receiving a request body."""
UNVERIFIED_BODY_TIMEOUT_S = 5.0
"""Time limit for receiving a body without a password and with Java's signature. This signature can
be verified only after the whole body has been received. Workers send such bodies over fast
networks, and retry after a failure."""
_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")
_INT32_MAX = 2**31 - 1
MUST_BE_SIGNED_SCOPE_KEY = "connect_runtime.must_be_signed"
"""Key in the ASGI scope for `RestRequest.must_be_signed`."""
IS_SIGNED_SCOPE_KEY = "connect_runtime.is_signed"
"""Key in the ASGI scope for `RestRequest.is_signed`."""
UNSUPPORTED_MEDIA_TYPE = "HTTP 415 Unsupported Media Type"


class RestRequest:
    """A request to the REST API.

    Handlers return a response, raise `RestError`, or raise another exception, which
    `rest_errors.convert_to_rest_error` maps to a `RestError`.
    """

    def __init__(self, request: requests.Request, *, body_timeout_s: float) -> None:
        self._request = request
        self._body_timeout_s = min(body_timeout_s, BODY_TIMEOUT_S)
        self._slot: str | None = None

    def get_path_parameter(self, parameter: str) -> str:
        """Return a path parameter, percent-decoded. It may contain any character, even a slash."""
        return parse.unquote(self._request.path_params[parameter], errors="replace")

    @property
    def connector(self) -> str:
        return self.get_path_parameter("connector")

    @property
    def task(self) -> int:
        """Task number in the path. Raises `RestError` (404) if it is not a 32-bit integer."""
        text = self.get_path_parameter("task")
        if not _INTEGER.fullmatch(text) or abs(int(text)) > _INT32_MAX:
            raise RestError(HTTPStatus.NOT_FOUND, "HTTP 404 Not Found")
        return int(text)

    def get_query_flag(self, name: str, *, default: bool = False) -> bool:
        """Return a boolean query parameter: True for `true` in any case, False for any other value,
        `default` if it is missing."""
        given = self.get_query_value(name)
        return default if given is None else given.lower() == "true"

    def get_query_value(self, name: str) -> str | None:
        return next(iter(self.get_query_values(name)), None)

    def get_query_values(self, name: str) -> list[str]:
        """Return all values of a query parameter, in the order of the URL."""
        return self._request.query_params.getlist(name)

    @property
    def forward(self) -> bool | None:
        """Value of the query parameter `forward`, which workers set when they forward a request;
        None for a user's request. See `request_forwarding`."""
        return None if self.get_query_value("forward") is None else self.get_query_flag("forward")

    @property
    def must_be_signed(self) -> bool:
        """True if basic authentication accepted the request only on condition that its signature is
        valid."""
        return bool(self._request.scope.get(MUST_BE_SIGNED_SCOPE_KEY))

    @property
    def is_signed(self) -> bool:
        """True if `SignatureMiddleware` verified the signature of head and body, so the sender is a
        worker of the group."""
        return bool(self._request.scope.get(IS_SIGNED_SCOPE_KEY))

    @property
    def headers(self) -> Mapping[str, str]:
        return self._request.headers

    @property
    def authorization(self) -> str | None:
        return self._request.headers.get("authorization")

    def build_absolute_url(self, path: str) -> str:
        """Return the absolute URL of a path on this worker, with the host name that the client
        used."""
        return str(self._request.base_url).rstrip("/") + path

    async def parse_config(self) -> dict[str, str | None]:
        return parse_body(request_bodies.parse_config, await self.read_body())

    async def parse_task_configs(self) -> list[dict[str, str | None]]:
        return parse_body(request_bodies.parse_task_configs, await self.read_body())

    async def parse_create_request(self) -> CreateConnectorRequest:
        return parse_body(request_bodies.parse_create_request, await self.read_body())

    async def parse_offsets(self) -> list[OffsetChange]:
        return parse_body(request_bodies.parse_offset_changes, await self.read_body())

    async def read_body(self, *, bytes_max: int = request_bodies.MAX_BODY_BYTES) -> bytes:
        """Read the request body. Raises `RestError` if the content type is missing, or if the body
        is too long or too slow.

        A large body waits for a free body slot. `release_body_slot` releases the slot.
        """
        if "content-type" not in self._request.headers and self._has_body():
            raise RestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, UNSUPPORTED_MEDIA_TYPE)
        timeout_s = self._body_timeout_s
        if self.must_be_signed:
            timeout_s = min(timeout_s, UNVERIFIED_BODY_TIMEOUT_S)
        try:
            async with asyncio.timeout(timeout_s):
                data = await self._receive_body(bytes_max)
        except TimeoutError:
            raise RestError(
                HTTPStatus.REQUEST_TIMEOUT,
                f"The body was not received within {timeout_s:g} s",
            ) from None
        return data

    async def release_body_slot(self) -> None:
        """Release the request's body slot. Call it after the response was sent. Idempotent."""
        slots, slot = self._request.scope.get(BODY_SLOTS_SCOPE_KEY), self._slot
        self._slot = None
        if slots is not None and slot is not None:
            await slots.release(slot)

    def _has_body(self) -> bool:
        headers = self._request.headers
        return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers

    async def _receive_body(self, bytes_max: int) -> bytes:
        declared = self._request.headers.get("content-length", "0")
        _check_body_length(int(declared) if declared.isdecimal() else 0, bytes_max)
        data = bytearray()
        async for chunk in self._request.stream():
            _check_body_length(len(data) + len(chunk), bytes_max)
            data += chunk
            if len(data) > SMALL_BODY_BYTES:
                await self._acquire_body_slot()
        return bytes(data)

    async def _acquire_body_slot(self) -> None:
        slots = self._request.scope.get(BODY_SLOTS_SCOPE_KEY)
        if slots is not None and self._slot is None:
            client = self._request.client
            self._slot = await slots.acquire("" if client is None else client.host)


def _check_body_length(size: int, bytes_max: int) -> None:
    if size > bytes_max:
        raise RestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"The body is larger than the maximum of {bytes_max} bytes",
        )


def parse_body(read: Callable[[bytes], T], data: bytes) -> T:
    """Parse a request body with `read`, one of the parsers in `request_bodies`.

    Raises `RestError`: 400 if a limit is exceeded, 500 (as in Java) if the body does not have the
    required form.
    """
    try:
        return read(data)
    except BodyLimitError as error:
        raise RestError(HTTPStatus.BAD_REQUEST, str(error)) from None
    except UnreadableBody as error:
        raise RestError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from None
