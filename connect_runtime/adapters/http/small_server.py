"""HTTP, as much of it as is needed to answer who only reads: a head, an answer, and the end.

One thread with an event loop reads and writes for all; answers are made elsewhere. However slowly a
client asks or listens, it holds up nobody, and no longer than `REQUEST_S`: the deadline is of the
whole request. When too many are there, who has been waited for longest makes room for who comes;
nobody loses a connection whose answer is being made.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib import parse

from connect_runtime.base import connection_limits
from connect_runtime.system import server_loop

HEAD_S = 5.0
"""So long a client may take to say what it wants."""
REQUEST_S = 30.0
"""And until it has heard the answer."""
LIMITS = connection_limits.Limits(total=256, per_address=64, local=64)
HEAD_BYTES_MAX = 16 * 1024
_PIECE_BYTES = 1024 * 1024
_POLL_S = 0.1
_END = b"\r\n\r\n"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`path` and `query` are as they were sent, percent-encoded. Names in `headers` are in lower
    case; of several with one name the first counts."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`body` None: there is none to be sent, though `headers` may tell of one."""

    status: HTTPStatus
    headers: Mapping[str, str]
    body: bytes | None


Respond = Callable[[Request], Awaitable[Answer]]
"""Raises nothing. Runs in the loop: whatever takes time it has done elsewhere."""


class BadRequestError(ValueError):
    """What came is no HTTP."""


class SmallServer:
    """`run` is its thread's body."""

    def __init__(
        self,
        opened: socket.socket,
        respond: Respond,
        *,
        limits: connection_limits.Limits = LIMITS,
    ) -> None:
        """`opened` is bound; whoever opened it closes it."""
        self._opened = opened
        self._respond = respond
        self._held = connection_limits.Connections[asyncio.Task[None]](limits)

    def run(self, stop: threading.Event) -> None:
        with asyncio.Runner(loop_factory=server_loop.ServerLoop) as runner:
            runner.run(self._serve(stop))

    async def _serve(self, stop: threading.Event) -> None:
        served = await asyncio.start_server(self._come, sock=self._opened, limit=HEAD_BYTES_MAX)
        while not stop.is_set():
            await asyncio.sleep(_POLL_S)
        served.close()

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._one(reader, writer))

        def end(_: asyncio.Task[None]) -> None:
            self._held.leave(task)
            writer.transport.abort()

        task.add_done_callback(end)
        peer = writer.get_extra_info("peername") or ("",)
        if (closed := self._held.admit(task, str(peer[0]))) is not None:
            closed.cancel()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_S):
                await self._exchange(reader, writer)
        except (TimeoutError, EOFError, OSError, asyncio.LimitOverrunError, BadRequestError):
            _log.debug("a client was cut off, or went", exc_info=True)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.set_write_buffer_limits(0)  # so that `drain` ends when all is sent
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(_END)
        task = asyncio.current_task()
        assert task is not None
        request = read(head)
        self._held.answer(task)
        answer = await self._respond(request)
        self._held.wait(task)
        for each in _pieces(answer):
            writer.write(each)
            await writer.drain()
        writer.close()
        await writer.wait_closed()


def read(head: bytes) -> Request:
    """Of a whole head. Raises `BadRequestError`."""
    line, _, rest = head.partition(b"\r\n")
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequestError(f"no line of HTTP/1: {line[:80]!r}")
    try:
        sent = http.client.parse_headers(io.BytesIO(rest))
        target = parse.urlsplit(words[1])
    except (http.client.HTTPException, ValueError) as error:
        raise BadRequestError(f"a request that cannot be read: {error}") from error
    headers = {name.lower(): value.strip() for name, value in reversed(sent.items())}
    return Request(method=words[0], path=target.path, query=target.query, headers=headers)


def _pieces(answer: Answer) -> Iterator[bytes | memoryview]:
    """What waits to be sent is copied: it had better not be all of a large answer."""
    lines = [f"HTTP/1.1 {answer.status.value} {answer.status.phrase}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.items()]
    lines += ["Connection: close", "", ""]
    yield "\r\n".join(lines).encode("latin-1")
    body = memoryview(answer.body or b"")
    for begin in range(0, len(body), _PIECE_BYTES):
        yield body[begin : begin + _PIECE_BYTES]
