"""One non-blocking TCP connection, plain or TLS: connecting, sending pieces, receiving into place.

Nothing here waits or calls back; whoever owns it asks `interest` what to poll for and calls again.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Sequence
from typing import TypeAlias

from connect_runtime.wire.connection import poller

Chunk: TypeAlias = bytes | memoryview
Address: TypeAlias = tuple[socket.AddressFamily, tuple[object, ...]]

IOV_MAX = min(os.sysconf("SC_IOV_MAX"), 1024) if hasattr(os, "sysconf") else 16
_TLS_WRITE_MAX = 256 * 1024
"""Pieces are joined up to this size before TLS encrypts them: its records hold 16 KB."""
_UNDER_WAY = {errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY, errno.EINTR}


class Transport:
    """A socket to one address. Errors are OSError (ssl.SSLError is one); 0 bytes: not now."""

    def __init__(
        self,
        address: Address,
        *,
        host: str,
        context: ssl.SSLContext | None,
        buffer_bytes: int | None,
    ) -> None:
        family, sockaddr = address
        self.socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self.interest = poller.WRITE
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
            _raise_unless_under_way(self.socket.connect_ex(sockaddr))
        except BaseException:
            self.socket.close()
            raise

    def advance(self) -> bool:
        """Go on connecting after an event; True once bytes can flow."""
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
                self.interest = poller.READ
                return False
            except ssl.SSLWantWriteError:
                self.interest = poller.WRITE
                return False
        self.interest = poller.READ
        return True

    def send(self, chunks: Sequence[Chunk]) -> int:
        """Send as much of the pieces as fits; returns how many bytes, 0 if none fits now."""
        try:
            if self._tls is None:
                return self.socket.sendmsg(chunks[:IOV_MAX])
            return self._tls.send(_joined(chunks))
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0

    def receive_into(self, view: memoryview) -> int:
        """Fill the start of `view`; 0 if nothing is there now. Raises EOFError at the end."""
        try:
            received = self.socket.recv_into(view)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        if received == 0:
            raise EOFError
        return received

    def holds_bytes(self) -> bool:
        """Whether decrypted bytes wait that no poll would report."""
        return self._tls is not None and self._tls.pending() > 0

    def close(self) -> None:
        self.socket.close()


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    """The first piece if it is large, else as many whole pieces as make a good TLS write."""
    if len(chunks) == 1 or len(chunks[0]) >= _TLS_WRITE_MAX:
        return chunks[0][:_TLS_WRITE_MAX]
    taken: list[Chunk] = []
    room = _TLS_WRITE_MAX
    for chunk in chunks:
        taken.append(chunk[:room])
        room -= len(taken[-1])
        if room == 0:
            break
    return b"".join(taken)


def _raise_unless_under_way(code: int) -> None:
    if code and code not in _UNDER_WAY:
        raise OSError(code, os.strerror(code))


def canonical_name(address: Address) -> str:
    """What the address is called by its own entry, else its number; blocks as `resolve` does."""
    try:
        return socket.getnameinfo(address[1], 0)[0]  # type: ignore[arg-type]  # as resolved
    except OSError:
        return str(address[1][0])


def resolve(host: str, port: int, *, flags: int = 0) -> list[Address]:
    """All addresses of a host name, in the system's order; blocks as long as the resolver does.

    flags: AI_… of getaddrinfo. Raises OSError, ValueError (no name could be like that).
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]
