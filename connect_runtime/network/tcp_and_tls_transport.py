"""Non-blocking TCP and TLS transports with a shared poller, and Kafka frames over them.

This module never blocks, and does not interpret the transferred data. A `Transport` reports which
events it waits for; its owner polls for them and calls the transport after an event. A received
frame consists of a four-byte size and a body, which is read into one buffer of exactly that size.
Large buffers come from a pool. The system allocates the memory of a large buffer only where it is
filled, so a peer cannot occupy memory by claiming a large frame without sending it. The chunks of
many requests are sent in one system call, without joining them.

A pooled buffer returns to its pool when its last view is garbage-collected, so no view can see
reused memory. A ctypes array between the views and the buffer is kept alive by the views, and a
weak reference reports its deletion.
"""

from __future__ import annotations

import bisect
import ctypes
import errno
import functools
import mmap
import os
import selectors
import socket
import ssl
import struct
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from connect_runtime.base.errors import ConnectError

READABLE = selectors.EVENT_READ
WRITABLE = selectors.EVENT_WRITE

PollHandler = Callable[[int], None]


class PollableFile(Protocol):
    """A file or socket object with a file descriptor to poll."""

    def fileno(self) -> int: ...


class Poller:
    """Polls many file objects, and calls each one's handler with its ready mask (READ | WRITE).

    Owned by one thread. A handler may register, modify and unregister any file object, including
    its own.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, source: PollableFile, interest: int, *, handler: PollHandler) -> None:
        """Start polling the file object `source` for the events in `interest`."""
        self._selector.register(source, interest, handler)

    def modify(self, source: PollableFile, interest: int) -> None:
        """Change the events for which the file object `source` is polled."""
        key = self._selector.get_key(source)
        if key.events != interest:
            self._selector.modify(source, interest, key.data)

    def unregister(self, source: PollableFile) -> None:
        """Stop polling the file object `source`."""
        self._selector.unregister(source)

    def poll(self, timeout_s: float, *, woken: Callable[[], None] | None = None) -> int:
        """Wait for events for at most `timeout_s`, run the handlers of ready file objects, and
        return their number.

        `woken` is called when the wait ends, before the handlers.
        """
        ran = 0
        ready = self._selector.select(max(0.0, timeout_s))
        if woken is not None:
            woken()
        for key, mask in ready:
            if self._selector.get_map().get(key.fd) is not key:
                continue  # an earlier handler of this iteration unregistered or replaced it
            key.data(mask)
            ran += 1
        return ran

    def close(self) -> None:
        self._selector.close()


SendChunk: TypeAlias = bytes | memoryview
SocketAddress: TypeAlias = tuple[socket.AddressFamily, tuple[object, ...]]

MAX_IOVECS = min(os.sysconf("SC_IOV_MAX"), 1024) if hasattr(os, "sysconf") else 16
_MAX_TLS_WRITE_BYTES = 256 * 1024
"""Maximum size up to which chunks are joined before TLS encrypts them. A TLS record has up to 16
KB."""
_IN_PROGRESS_ERRNOS = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY, errno.EINTR}


class Transport:
    """A TCP or TLS socket connected to one address.

    Methods raise OSError, including ssl.SSLError. Reads and writes return 0 if the socket would
    block.
    """

    def __init__(
        self,
        address: SocketAddress,
        *,
        host: str,
        context: ssl.SSLContext | None,
        buffer_bytes: int | None,
    ) -> None:
        family, sockaddr = address
        self.socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.interest = WRITABLE
        self._host = host
        self._context = context
        self._tls: ssl.SSLSocket | None = None
        self.connected = False
        try:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if buffer_bytes is not None:
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
                self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
            _raise_if_connect_failed(self.socket.connect_ex(sockaddr))
        except BaseException:
            self.socket.close()
            raise

    def continue_connecting(self) -> bool:
        """Continue connecting after a poll event. Return True once data can be transferred."""
        if not self.connected:
            code = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, os.strerror(code))
            self.socket.getpeername()  # raises ENOTCONN on a spurious event
            self.connected = True
            if self._context is not None:
                self._tls = self._context.wrap_socket(
                    self.socket, server_hostname=self._host, do_handshake_on_connect=False
                )
                self.socket = self._tls
        if self._tls is not None:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self.interest = READABLE
                return False
            except ssl.SSLWantWriteError:
                self.interest = WRITABLE
                return False
        self.interest = READABLE
        return True

    def send(self, chunks: Sequence[SendChunk]) -> int:
        """Send as many bytes as the socket accepts. Return the number of bytes sent; 0 if the
        socket would block."""
        try:
            if self._tls is None:
                return self.socket.sendmsg(chunks[:MAX_IOVECS])
            return self._tls.send(_join_chunks(chunks))
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0

    def receive_into(self, view: memoryview) -> int:
        """Receive bytes into `view`. Return their number; 0 if the socket would block. Raises
        EOFError at the end of the stream."""
        try:
            received = self.socket.recv_into(view)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        if received == 0:
            raise EOFError
        return received

    def has_buffered_bytes(self) -> bool:
        """Return whether TLS has buffered decrypted bytes. The poller does not report such bytes as
        readable."""
        return self._tls is not None and self._tls.pending() > 0

    def close(self) -> None:
        self.socket.close()


def _join_chunks(chunks: Sequence[SendChunk]) -> SendChunk:
    """Return the first chunk if it is large; otherwise join several chunks for one TLS write."""
    if len(chunks) == 1 or len(chunks[0]) >= _MAX_TLS_WRITE_BYTES:
        return chunks[0][:_MAX_TLS_WRITE_BYTES]
    taken: list[SendChunk] = []
    room = _MAX_TLS_WRITE_BYTES
    for chunk in chunks:
        taken.append(chunk[:room])
        room -= len(taken[-1])
        if room == 0:
            break
    return b"".join(taken)


def _raise_if_connect_failed(code: int) -> None:
    if code and code not in _IN_PROGRESS_ERRNOS:
        raise OSError(code, os.strerror(code))


def look_up_canonical_name(address: SocketAddress) -> str:
    """Return the host name of an address by reverse lookup, or the numeric address if it has no
    name. Blocks."""
    try:
        return socket.getnameinfo(address[1], 0)[0]  # type: ignore[arg-type]  # as resolved
    except OSError:
        return str(address[1][0])


def resolve_addresses(host: str, port: int, *, flags: int = 0) -> list[SocketAddress]:
    """Return all addresses of a host name in the order of the system's resolver. Blocks during the
    lookup.

    `flags` are AI_… flags of getaddrinfo. Raises OSError, or ValueError for a malformed name.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


def _allocate_buffer_memory(size: int) -> mmap.mmap:
    """Allocate a zeroed buffer whose pages occupy memory only after they have been written to.
    Raises OSError."""
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


_BUFFER_ROUNDING_BYTES = 64 * 1024
_MAX_BUFFER_WASTE = 2
"""A free buffer is reused only if its size is at most this multiple of the requested size."""


class BufferPool:
    """A pool of reusable buffers for responses. Not thread-safe.

    Keeps at most `max_free_bytes` of free buffers. `lent_bytes` is the total size of the buffers in
    use. A buffer counts completely even if only a small view of it is still referenced.
    """

    def __init__(self, max_free_bytes: int) -> None:
        self.free_bytes = 0
        self.lent_bytes = 0
        self._max_free_bytes = max_free_bytes
        self._free: list[mmap.mmap] = []
        self._lent: dict[int, tuple[weakref.ref[Any], mmap.mmap]] = {}

    def acquire(self, size: int) -> memoryview:
        """Return a writable view of exactly `size` bytes with arbitrary content, from a pooled or
        new buffer. Raises OSError."""
        index = bisect.bisect_left(self._free, size, key=len)
        if (
            index < len(self._free)
            and len(self._free[index]) <= max(size, _BUFFER_ROUNDING_BYTES) * _MAX_BUFFER_WASTE
        ):
            buffer = self._free.pop(index)
            self.free_bytes -= len(buffer)
        else:
            rounded = -(-size // _BUFFER_ROUNDING_BYTES) * _BUFFER_ROUNDING_BYTES
            buffer = _allocate_buffer_memory(rounded)
        between = _make_array_type(len(buffer)).from_buffer(buffer)
        reference = weakref.ref(between, self._return_buffer)
        self._lent[id(reference)] = (reference, buffer)
        self.lent_bytes += len(buffer)
        return memoryview(between).cast("B")[:size]

    def _return_buffer(self, reference: weakref.ref[Any]) -> None:
        _, buffer = self._lent.pop(id(reference))
        self.lent_bytes -= len(buffer)
        bisect.insort(self._free, buffer, key=len)
        self.free_bytes += len(buffer)
        while self.free_bytes > self._max_free_bytes:
            self.free_bytes -= len(self._free.pop(0))  # drop small ones: large ones cost most


@functools.lru_cache(maxsize=256)
def _make_array_type(size: int) -> type[ctypes.Array[ctypes.c_ubyte]]:
    return ctypes.c_ubyte * size


_SIZE_FIELD = struct.Struct(">i")
_MIN_POOLED_BYTES = 128 * 1024
"""Minimum size of pooled buffers. Smaller buffers are cheap to allocate."""
_MIN_FRAME_BYTES = 4


class RequestOutcome(NamedTuple):
    """Result of a request: the response in `body`, without its header, or a `failure`."""

    body: memoryview | None
    failure: ConnectError | None
    sent: bool
    """True if any byte was sent, so that the broker may have executed the request."""
    elapsed_s: float
    """Time in seconds from sending the first byte to receiving the response."""


@dataclass(slots=True, kw_only=True)
class OutgoingRequest:
    """A request that is queued or in flight. `done` is called exactly once. The chunks must not
    change before."""

    api_key: int
    version: int
    chunks: list[SendChunk]
    deadline_s: float
    done: Callable[[RequestOutcome], None]
    queued_s: float
    correlation_id: int = 0
    unsent_bytes: int = 0
    sent_s: float | None = None


class InvalidFrameSize(Exception):
    """Raised if the size of a received frame is out of bounds. `raw` contains the four bytes of the
    size field."""

    def __init__(self, raw: bytes, size: int) -> None:
        super().__init__(f"invalid frame size {size}")
        self.raw = raw
        self.size = size


class FrameReader:
    """Reads the frames of a connection one by one. `max_bytes` is the maximum frame size."""

    def __init__(self, pool: BufferPool | None, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._pool = pool
        self._raw_size = bytearray(_SIZE_FIELD.size)
        self._target = memoryview(self._raw_size)
        self._filled = 0
        self._body: memoryview | None = None

    def has_partial_frame(self) -> bool:
        """Return whether part of a frame has been received."""
        return self._filled > 0 or self._body is not None

    def close(self) -> None:
        """Release the buffer of a partial frame. The reader must not be used afterwards."""
        self._body = None
        self._target, self._filled = memoryview(self._raw_size), 0

    def read_next_frame(self, source: Transport) -> memoryview | None:
        """Return the next frame without its size field, or None if it is incomplete. Raises
        InvalidFrameSize and the transport's errors."""
        while True:
            received = source.receive_into(self._target[self._filled :])
            if received == 0:
                return None
            self._filled += received
            if self._filled < len(self._target):
                continue
            if self._body is None:
                self._allocate_frame_body()
                continue
            whole, self._body = self._body, None
            self._target, self._filled = memoryview(self._raw_size), 0
            return whole

    def _allocate_frame_body(self) -> None:
        (size,) = _SIZE_FIELD.unpack(self._raw_size)
        if not _MIN_FRAME_BYTES <= size <= self.max_bytes:
            raise InvalidFrameSize(bytes(self._raw_size), size)
        if size < _MIN_POOLED_BYTES:
            self._body = memoryview(bytearray(size))
        elif self._pool is None:
            self._body = memoryview(_allocate_buffer_memory(size))
        else:
            self._body = self._pool.acquire(size)
        self._target, self._filled = self._body, 0


@dataclass(slots=True)
class RequestSendQueue:
    """Queue of requests that have not been sent completely, in the order of sending."""

    _requests: deque[OutgoingRequest] = field(default_factory=deque)

    def push(self, request: OutgoingRequest) -> None:
        """Append a request to the send queue."""
        request.unsent_bytes = sum(map(len, request.chunks))
        self._requests.append(request)

    def __bool__(self) -> bool:
        return bool(self._requests)

    def flush(self, target: Transport, now_s: float) -> bool:
        """Send as many queued bytes as the socket accepts. Return True if the queue is empty.
        Raises the transport's errors."""
        while self._requests:
            sent = target.send(self._list_chunks())
            if sent == 0:
                return False
            self._remove_sent_bytes(sent, now_s)
        return True

    def _list_chunks(self) -> list[SendChunk]:
        pieces: list[SendChunk] = []
        for request in self._requests:
            pieces += request.chunks
            if len(pieces) >= MAX_IOVECS:
                break
        return pieces

    def _remove_sent_bytes(self, sent: int, now_s: float) -> None:
        while sent:
            request = self._requests[0]
            if request.sent_s is None:
                request.sent_s = now_s
            if sent < request.unsent_bytes:
                request.unsent_bytes -= sent
                _drop_sent_bytes(request.chunks, sent)
                return
            sent -= request.unsent_bytes
            request.unsent_bytes = 0
            request.chunks = []
            self._requests.popleft()


def _drop_sent_bytes(chunks: list[SendChunk], size: int) -> None:
    whole = 0
    while size >= len(chunks[whole]):
        size -= len(chunks[whole])
        whole += 1
    del chunks[:whole]
    if size:
        chunks[0] = memoryview(chunks[0])[size:]
