"""One byte stream over a non-blocking socket, plain or TLS, that says what it waits for.

TLS may have to write in order to read; both sides of the control channel would have to know this,
so it is dealt with here, once. No decrypted bytes stay behind where no selector sees them: one read
takes a whole TLS record (16 KB at most), and OpenSSL does not read ahead.
"""

from __future__ import annotations

import socket
import ssl

from connect_runtime.wire.connection import poller

READ_BYTES = 64 * 1024

_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


def keep_alive(connected: socket.socket) -> None:
    """Notice within half a minute that a TCP peer has vanished; send small frames at once."""
    for level, option, value in _KEEPALIVE:
        connected.setsockopt(level, option, value)


class ChannelStream:
    """Reads and writes what the socket takes now. OSError (ssl.SSLError is one) ends the stream.

    `handshaking` is True until a TLS handshake is through; call `handshake` on every readiness.
    """

    __slots__ = ("_socket", "_tls_wants_write", "handshaking")

    def __init__(self, connected: socket.socket, *, handshaken: bool = False) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._tls_wants_write = False
        self.handshaking = not handshaken and isinstance(connected, ssl.SSLSocket)

    def fileno(self) -> int:
        return self._socket.fileno()

    def handshake(self) -> None:
        """Go on with the TLS handshake; `handshaking` and `interest` say how it stands."""
        assert isinstance(self._socket, ssl.SSLSocket)
        self._tls_wants_write = False
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            self._tls_wants_write = True
            return
        self.handshaking = False

    def interest(self, *, reading: bool, writing: bool) -> int:
        """What to wait for: a mask of poller.READ and poller.WRITE, 0 for nothing."""
        if self.handshaking:
            return poller.WRITE if self._tls_wants_write else poller.READ
        mask = poller.READ if reading else 0
        if writing or (reading and self._tls_wants_write):
            mask |= poller.WRITE
        return mask

    def receive(self) -> bytes | None:
        """Up to READ_BYTES; None when nothing is there now, b"" at the end of the stream."""
        self._tls_wants_write = False
        try:
            return self._socket.recv(READ_BYTES)
        except (BlockingIOError, InterruptedError, ssl.SSLWantReadError):
            return None
        except ssl.SSLWantWriteError:
            self._tls_wants_write = True
            return None
        except ssl.SSLEOFError:
            return b""

    def send(self, data: memoryview) -> int:
        """How many bytes the socket took, 0 when it takes none now."""
        try:
            return self._socket.send(data)
        except (
            BlockingIOError,
            InterruptedError,
            ssl.SSLWantReadError,
            ssl.SSLWantWriteError,
        ):
            return 0

    def close(self) -> None:
        self._socket.close()
