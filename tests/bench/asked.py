"""A broker asked in its own protocol over one connection: ordinary clients remember too much."""

from __future__ import annotations

import socket
import struct

_LENGTH = struct.Struct(">i")
_ANSWER_S = 30.0


class Connection:
    """To `host:port`. Everything raises `OSError` when nobody answers within 30 s."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=_ANSWER_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, question: bytes) -> None:
        """Header and body of a request."""
        self._socket.sendall(_LENGTH.pack(len(question)) + question)

    def answer(self) -> bytes:
        """Header and body of the next answer."""
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        return self._receive(length)

    def close(self) -> None:
        self._socket.close()

    def _receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            chunk = self._socket.recv(size - len(received))
            if not chunk:
                raise ConnectionError("the broker has hung up")
            received += chunk
        return bytes(received)
