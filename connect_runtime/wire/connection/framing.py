"""Whole frames out of a byte stream, and whole requests into one.

Receiving: four bytes of size, then one buffer of exactly that size, filled where it is; large ones
come from the pool. Sending: pieces of many requests in one system call, without joining them.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import errors
from connect_runtime.wire.connection import buffers, transport

_SIZE = struct.Struct(">i")
_POOLED_FROM = 128 * 1024
"""Smaller buffers are as cheap to make."""
_HEADER_MIN = 4


class Outcome(NamedTuple):
    """How a request ended: `body` after the response header, or `failure`.

    sent: some of it left, so the broker may have acted on it. elapsed_s: from then to the answer.
    """

    body: memoryview | None
    failure: errors.ConnectError | None
    sent: bool
    elapsed_s: float


@dataclass(slots=True, kw_only=True)
class Request:
    """One request on its way. Its pieces may not be touched until `done`, which is called once."""

    api_key: int
    version: int
    chunks: list[transport.Chunk]
    deadline_s: float
    done: Callable[[Outcome], None]
    queued_s: float
    correlation_id: int = 0
    left: int = 0
    sent_s: float | None = None


class BadSize(Exception):
    """The size field of a frame cannot be one; `raw` are its four bytes."""

    def __init__(self, raw: bytes, size: int) -> None:
        super().__init__(f"a frame of {size} bytes")
        self.raw = raw
        self.size = size


class FrameReader:
    """Assembles one frame at a time. `max_bytes` bounds what a size field may claim."""

    def __init__(self, pool: buffers.BufferPool | None, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._pool = pool
        self._raw_size = bytearray(_SIZE.size)
        self._target = memoryview(self._raw_size)
        self._filled = 0
        self._body: memoryview | None = None

    def midway(self) -> bool:
        """Whether part of a frame is here."""
        return self._filled > 0 or self._body is not None

    def next_frame(self, source: transport.Transport) -> memoryview | None:
        """The next whole frame without its size, None if there is none yet.

        Raises BadSize, and what the transport raises.
        """
        while True:
            received = source.receive_into(self._target[self._filled :])
            if received == 0:
                return None
            self._filled += received
            if self._filled < len(self._target):
                continue
            if self._body is None:
                self._begin_body()
                continue
            whole, self._body = self._body, None
            self._target, self._filled = memoryview(self._raw_size), 0
            return whole

    def _begin_body(self) -> None:
        (size,) = _SIZE.unpack(self._raw_size)
        if not _HEADER_MIN <= size <= self.max_bytes:
            raise BadSize(bytes(self._raw_size), size)
        if self._pool is not None and size >= _POOLED_FROM:
            self._body = self._pool.take(size)
        else:
            self._body = memoryview(bytearray(size))
        self._target, self._filled = self._body, 0


@dataclass(slots=True)
class SendQueue:
    """Requests whose bytes have not all left, in order."""

    _requests: deque[Request] = field(default_factory=deque)

    def push(self, request: Request) -> None:
        request.left = sum(map(len, request.chunks))
        self._requests.append(request)

    def __bool__(self) -> bool:
        return bool(self._requests)

    def flush(self, target: transport.Transport, now_s: float) -> bool:
        """Send what fits; True when everything left. Raises what the transport raises."""
        while self._requests:
            sent = target.send(self._pieces())
            if sent == 0:
                return False
            self._consume(sent, now_s)
        return True

    def _pieces(self) -> list[transport.Chunk]:
        pieces: list[transport.Chunk] = []
        for request in self._requests:
            pieces += request.chunks
            if len(pieces) >= transport.IOV_MAX:
                break
        return pieces

    def _consume(self, sent: int, now_s: float) -> None:
        while sent:
            request = self._requests[0]
            if request.sent_s is None:
                request.sent_s = now_s
            if sent < request.left:
                request.left -= sent
                _drop_front(request.chunks, sent)
                return
            sent -= request.left
            request.left = 0
            request.chunks = []
            self._requests.popleft()


def _drop_front(chunks: list[transport.Chunk], size: int) -> None:
    whole = 0
    while size >= len(chunks[whole]):
        size -= len(chunks[whole])
        whole += 1
    del chunks[:whole]
    if size:
        chunks[0] = memoryview(chunks[0])[size:]
