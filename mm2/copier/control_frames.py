"""Bytes of the control channel between the driver and its copies: frames, greeting, stream,
address.

A frame is a big-endian uint32 (length of what follows, in bytes) and a JSON array of objects in
UTF-8, one object for each message. Several messages share a frame because a copy reports in
bursts and the cost is per frame. JSON and never pickle: whoever reaches the socket must not be
able to run code.

The first message of a connection is the copy's `hello`, answered by `welcome` or `refused`. Both
carry the protocol version; a side that does not know it refuses. Every message is an object with
a string under `type`; `control_messages` has the types after the greeting.

The driver's address is one line of text: `unix:/tmp/mm2-x1/control.sock` on one host (only its
user may open the 0700 directory), or `tls://host:9443#sha256=<64 hex digits>` across hosts. The
fingerprint is the SHA-256 of the DER certificate that the driver made for this run.

TLS may have to write in order to read. `ChannelStream` hides this, and leaves no decrypted bytes
where no selector sees them: one read takes a whole TLS record (16 KiB at most), and OpenSSL does
not read ahead.
"""

from __future__ import annotations

import base64
import binascii
import json
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.network import transport

PROTOCOL_VERSION = 1
CHANNEL_TOKEN_BYTES = 32
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""No frame is larger; a peer that announces more is not one of ours, or has a fault."""
MAX_GREETING_BYTES = 4096
"""The bound before the token was checked: a stranger may not make us hold more than this."""
FRAME_FILL_BYTES = 64 * 1024
"""Messages are joined into one frame up to about this size."""

ControlMessage = dict[str, object]

_LENGTH = struct.Struct(">I")
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


class ControlFrameError(FatalError):
    """The peer sent bytes that are no control frame; the connection is of no further use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyHello:
    """How a copy introduces itself. `token` names the task and proves the right to speak for it."""

    token: bytes = field(repr=False)
    pid: int
    host: str


def encode_message(message: Mapping[str, object]) -> bytes:
    """One message as JSON. Raises FrameError for what JSON cannot carry, or what is too large."""
    try:
        encoded = _ENCODER.encode(message).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        kind = message.get("type")
        raise ControlFrameError(f"encoding a control message of type {kind!r}: {error}") from error
    if len(encoded) + 2 > MAX_FRAME_BYTES:
        raise ControlFrameError(
            f"a control message of type {message.get('type')!r} takes {len(encoded)} bytes; "
            f"{MAX_FRAME_BYTES - 2} are allowed: send it in parts"
        )
    return encoded


def pop_frame(pending: deque[bytes]) -> bytes:
    """Move encoded messages from the left of `pending` into one frame of about FILL_BYTES.

    At least one message is taken, so `pending` must not be empty.
    """
    taken = [pending.popleft()]
    size = len(taken[0])
    while pending and size + len(pending[0]) < FRAME_FILL_BYTES:
        taken.append(pending.popleft())
        size += len(taken[-1])
    body = b"[" + b",".join(taken) + b"]"
    return _LENGTH.pack(len(body)) + body


def count_message_bytes(frame: bytes, messages: int) -> int:
    """The encoded messages' own bytes in a frame of that many: without length, brackets, commas."""
    return len(frame) - _LENGTH.size - 2 - (messages - 1)


class ControlFrameDecoder:
    """Cuts a byte stream into messages, however the stream was cut into pieces.

    Invariant: `_buffered` starts at a frame border and holds less than one whole frame.
    """

    __slots__ = ("_buffered", "_max_frame_bytes")

    def __init__(self, *, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self._buffered = bytearray()
        self._max_frame_bytes = max_frame_bytes

    def allow(self, max_frame_bytes: int) -> None:
        """Change the size bound, for frames whose length was not read yet."""
        self._max_frame_bytes = max_frame_bytes

    def feed(self, data: bytes | bytearray | memoryview) -> list[ControlMessage]:
        """Return the messages that `data` completes. Raises FrameError; then feed no more."""
        buffered = self._buffered
        buffered += data
        messages: list[ControlMessage] = []
        start = 0
        while len(buffered) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffered, start)
            if length > self._max_frame_bytes:
                raise ControlFrameError(
                    f"a control frame announces {length} bytes; {self._max_frame_bytes} "
                    "are allowed: the peer does not speak this protocol"
                )
            end = start + _LENGTH.size + length
            if len(buffered) < end:
                break
            messages += _decode_body(bytes(buffered[start + _LENGTH.size : end]))
            start = end
        if start:
            del buffered[:start]
        return messages


def _decode_body(body: bytes) -> list[ControlMessage]:
    try:
        decoded = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ControlFrameError(
            f"a control frame of {len(body)} bytes is not JSON: {error}"
        ) from error
    if not isinstance(decoded, list):
        raise ControlFrameError(
            f"a control frame holds a JSON {type(decoded).__name__}, not an array"
        )
    for message in decoded:
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise ControlFrameError("a control message is not an object with a string under 'type'")
    return decoded


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def encode_hello(greeting: CopyHello) -> ControlMessage:
    """The first message of a connection, from the copy."""
    return {
        "type": "hello",
        "version": PROTOCOL_VERSION,
        "token": base64.b64encode(greeting.token).decode("ascii"),
        "pid": greeting.pid,
        "host": greeting.host,
    }


def decode_hello(message: ControlMessage) -> CopyHello:
    """Raises FrameError for anything but a complete hello of a known version."""
    if message["type"] != "hello":
        raise ControlFrameError(f"the first control message is {message['type']!r}, not 'hello'")
    _check_version(message)
    token, pid, host = message.get("token"), message.get("pid"), message.get("host")
    if not (isinstance(token, str) and isinstance(pid, int) and isinstance(host, str)):
        raise ControlFrameError("a 'hello' needs the fields token, pid and host")
    try:
        decoded = base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ControlFrameError("the token of a 'hello' is not base64") from error
    return CopyHello(token=decoded, pid=pid, host=host)


def encode_welcome() -> ControlMessage:
    """The answer to a hello whose token is known."""
    return {"type": "welcome", "version": PROTOCOL_VERSION}


def encode_refusal(reason: str) -> ControlMessage:
    """The answer to any other hello; the connection closes after it."""
    return {"type": "refused", "version": PROTOCOL_VERSION, "reason": reason}


def check_greeting_reply(message: ControlMessage) -> None:
    """Raises FrameError unless the worker said welcome in a known version."""
    if message["type"] == "refused":
        raise ControlFrameError(f"the worker refused this copy: {message.get('reason')}")
    if message["type"] != "welcome":
        raise ControlFrameError(f"the worker answered 'hello' with {message['type']!r}")
    _check_version(message)


def _check_version(message: ControlMessage) -> None:
    version = message.get("version")
    if version != PROTOCOL_VERSION or isinstance(version, bool):
        raise ControlFrameError(
            f"the peer speaks control protocol version {version!r}, this side "
            f"{PROTOCOL_VERSION}: run the same release on the worker and on the Spark executors"
        )


_UNIX_PREFIX = "unix:"
_TLS_PREFIX = "tls://"
_FINGERPRINT_PREFIX = "#sha256="


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixAddress:
    """A stream socket in the file system of this host."""

    path: str

    def __str__(self) -> str:
        return f"{_UNIX_PREFIX}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsAddress:
    """A TCP port that answers TLS with the one certificate of that `fingerprint`."""

    host: str
    port: int
    fingerprint: bytes

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_TLS_PREFIX}{host}:{self.port}{_FINGERPRINT_PREFIX}{self.fingerprint.hex()}"


ChannelAddress = UnixAddress | TlsAddress


def parse_address(text: str) -> ChannelAddress:
    """The reverse of `str`. Raises FatalError with the text when it is neither form."""
    if text.startswith(_UNIX_PREFIX):
        return UnixAddress(path=text.removeprefix(_UNIX_PREFIX))
    authority, pin, fingerprint = text.removeprefix(_TLS_PREFIX).partition(_FINGERPRINT_PREFIX)
    host, colon, port = authority.rpartition(":")
    if text.startswith(_TLS_PREFIX) and pin and colon and host and port.isdecimal():
        try:
            digest = bytes.fromhex(fingerprint)
        except ValueError:
            digest = b""
        if len(digest) == 32:
            return TlsAddress(host=host.strip("[]"), port=int(port), fingerprint=digest)
    raise FatalError(
        f"{text!r} is no address of a control channel; allowed are "
        f"{_UNIX_PREFIX}PATH and {_TLS_PREFIX}HOST:PORT{_FINGERPRINT_PREFIX}64 hex digits"
    )


READ_BYTES = 64 * 1024

_KEEPALIVE_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


def enable_keepalive(connected: socket.socket) -> None:
    """Notice within half a minute that a TCP peer has vanished; send small frames at once."""
    for level, option, value in _KEEPALIVE_OPTIONS:
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
            return transport.WRITABLE if self._tls_wants_write else transport.READABLE
        mask = transport.READABLE if reading else 0
        if writing or (reading and self._tls_wants_write):
            mask |= transport.WRITABLE
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


MAX_READS_PER_READINESS = 16
"""Reads per readiness: one busy peer may not keep a selector's other sockets waiting."""


class ChannelFullError(RetriableError):
    """The peer takes messages more slowly than we send them and the bound is reached."""


class MessageSendQueue:
    """Encoded messages on their way out, bounded in bytes. Safe from any thread."""

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def pending_bytes(self) -> int:
        return self._bytes

    def put(self, encoded: bytes) -> None:
        """Raises ChannelFullError and queues nothing when the bound would be exceeded.

        An empty outbox takes a message of any size that a frame can hold.
        """
        with self._lock:
            if self._messages and self._bytes + len(encoded) > self._limit_bytes:
                raise ChannelFullError(
                    f"queueing a control message of {len(encoded)} bytes: {self._bytes} bytes "
                    f"wait for the peer already, {self._limit_bytes} are allowed"
                )
            self._messages.append(encoded)
            self._bytes += len(encoded)

    def take_frame(self) -> bytes | None:
        """The next frame, None when nothing is queued."""
        with self._lock:
            if not self._messages:
                return None
            before = len(self._messages)
            frame = pop_frame(self._messages)
            self._bytes -= count_message_bytes(frame, before - len(self._messages))
            return frame


class MessageStream:
    """One peer. A single thread reads and writes; only the outbox is shared."""

    def __init__(
        self,
        stream: ChannelStream,
        outbox: MessageSendQueue,
        *,
        decoder: ControlFrameDecoder,
    ) -> None:
        self.stream = stream
        self.outbox = outbox
        self._decoder = decoder
        self._frame = memoryview(b"")
        self.ended = False

    @property
    def unsent(self) -> bool:
        return bool(self._frame) or self.outbox.pending_bytes > 0

    def read(self) -> list[ControlMessage]:
        """What can be read now; `ended` is set at the end of the stream.

        Raises OSError when the connection broke and FrameError for what is no frame.
        """
        messages: list[ControlMessage] = []
        for _ in range(MAX_READS_PER_READINESS):
            data = self.stream.receive()
            if data is None:
                break
            if not data:
                self.ended = True
                break
            messages += self._decoder.feed(data)
        return messages

    def write(self) -> None:
        """Send what the socket takes now. Raises OSError when the connection broke."""
        while True:
            if not self._frame:
                frame = self.outbox.take_frame()
                if frame is None:
                    return
                self._frame = memoryview(frame)
            sent = self.stream.send(self._frame)
            if not sent:
                return
            self._frame = self._frame[sent:]
