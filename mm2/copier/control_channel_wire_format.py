"""Wire format of the control channel between the driver and its copy processes: frames, greeting,
stream, address.

A frame is a big-endian uint32 (length of the body, in bytes) and a JSON array of objects in UTF-8,
one object per message. Several messages share a frame, because a copy process reports in bursts and
the cost is per frame. The format is JSON, never pickle, because a peer that reaches the socket must
not be able to run code.

The first message of a connection is the copy process's `hello`, answered by `welcome` or `refused`.
Hello and welcome contain the protocol version, and a side that does not support it refuses the
connection. Every message is an object with a string under `type`. `control_channel_messages`
defines the types after the greeting.

The driver's address is one line of text: `unix:/tmp/mm2-x1/control.sock` on one host (its directory
has mode 0700, so only its user may open it), or `tls://host:9443#sha256=<64 hex digits>` across
hosts. The fingerprint is the SHA-256 of the DER certificate that the driver created for this run.

TLS may have to write in order to read. `ChannelStream` handles this internally. It leaves no
decrypted bytes unread, because a selector would not report them: one read returns a whole TLS
record (16 KiB at most), and OpenSSL does not read ahead.
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

from connect_runtime.base import json_limits
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.network import tcp_and_tls_transport

PROTOCOL_VERSION = 1
CHANNEL_TOKEN_BYTES = 32
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Maximum size of a control frame in bytes. A larger size in a frame's length field is a protocol
error."""
MAX_GREETING_BYTES = 4096
"""Maximum frame size in bytes before the token is checked. It is small, so that unauthenticated
peers cannot use much memory."""
MAX_COPY_FRAME_VALUES = 500_000
"""Maximum number of JSON values in a frame from a copy process, because parsed values need many
times the memory of their text."""
FRAME_FILL_BYTES = 64 * 1024
"""Approximate size in bytes up to which messages are combined into one control frame."""

_MAX_QUOTE_CHARS = 80

ControlMessage = dict[str, object]

_LENGTH = struct.Struct(">I")
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


class ControlFrameError(FatalError):
    """The peer sent bytes that are not a control frame. The connection must be closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyHello:
    """The first message that a copy process sends on a connection. `token` authenticates the copy
    process and identifies its control channel."""

    token: bytes = field(repr=False)
    pid: int
    host: str


def encode_message(message: Mapping[str, object]) -> bytes:
    """Encode one message as JSON.

    Raises `ControlFrameError` if JSON cannot represent the message, or if it is too large for a
    frame.
    """
    try:
        encoded = _ENCODER.encode(message).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        kind = message.get("type")
        raise ControlFrameError(f"encoding a control message of type {kind!r}: {error}") from error
    if len(encoded) + 2 > MAX_FRAME_BYTES:
        raise ControlFrameError(
            f"a control message of type {message.get('type')!r} has {len(encoded)} bytes; the "
            f"maximum is {MAX_FRAME_BYTES - 2}: split it"
        )
    return encoded


def take_frame(pending: deque[bytes]) -> bytes:
    """Remove encoded messages from the front of `pending` and return them as one frame of up to
    about `FRAME_FILL_BYTES`. At least one message is removed, so `pending` must not be empty."""
    taken = [pending.popleft()]
    size = len(taken[0])
    while pending and size + len(pending[0]) < FRAME_FILL_BYTES:
        taken.append(pending.popleft())
        size += len(taken[-1])
    body = b"[" + b",".join(taken) + b"]"
    return _LENGTH.pack(len(body)) + body


def count_message_bytes(frame: bytes, messages: int) -> int:
    """Return the total size of the encoded messages in a frame, which excludes the frame's length
    field, brackets and commas. `messages` is the number of messages in the frame."""
    return len(frame) - _LENGTH.size - 2 - (messages - 1)


class ControlFrameDecoder:
    """Decodes a byte stream into messages, regardless of how the stream is split into chunks.

    Invariant: `_buffered` starts at a frame boundary and contains less than one whole frame.
    """

    __slots__ = ("_buffered", "_max_frame_bytes", "_max_values", "decoded_bytes")

    def __init__(
        self, *, max_frame_bytes: int = MAX_FRAME_BYTES, max_values: int | None = None
    ) -> None:
        """Create a decoder. `max_values` is the maximum number of JSON values in a frame; None for
        no limit."""
        self._buffered = bytearray()
        self._max_frame_bytes = max_frame_bytes
        self._max_values = max_values
        self.decoded_bytes = 0
        """Total size in bytes of all frames decoded so far."""

    def set_max_frame_bytes(self, max_frame_bytes: int) -> None:
        """Change the maximum size of the frames decoded from now on."""
        self._max_frame_bytes = max_frame_bytes

    def decode_messages(self, data: bytes | bytearray | memoryview) -> list[ControlMessage]:
        """Add received bytes, and return the messages that are now complete. Do not call again
        after a `ControlFrameError`."""
        buffered = self._buffered
        buffered += data
        messages: list[ControlMessage] = []
        start = 0
        while len(buffered) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffered, start)
            if length > self._max_frame_bytes:
                raise ControlFrameError(
                    f"a control frame announces {length} bytes; the maximum is "
                    f"{self._max_frame_bytes}: the peer does not use this protocol"
                )
            end = start + _LENGTH.size + length
            if len(buffered) < end:
                break
            messages += self._decode_body(bytes(buffered[start + _LENGTH.size : end]))
            start = end
        self.decoded_bytes += start
        if start:
            del buffered[:start]
        return messages

    def _decode_body(self, body: bytes) -> list[ControlMessage]:
        if self._max_values is not None and json_limits.exceeds_json_value_limit(
            body, self._max_values
        ):
            raise ControlFrameError(
                f"a control frame has more than {self._max_values:,} JSON values: the peer does "
                "not use this protocol"
            )
        return _decode_json(body)


def _decode_json(body: bytes) -> list[ControlMessage]:
    try:
        decoded = json.loads(body, parse_constant=_reject_json_constant)
    except (ValueError, RecursionError) as error:
        raise ControlFrameError(
            f"a control frame of {len(body)} bytes is not JSON: {error}"
        ) from error
    if not isinstance(decoded, list):
        raise ControlFrameError(
            f"a control frame contains a JSON {type(decoded).__name__}, not an array"
        )
    for message in decoded:
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise ControlFrameError("a control message is not an object with a string under 'type'")
    return decoded


def _reject_json_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def encode_hello(greeting: CopyHello) -> ControlMessage:
    """Encode a copy process's hello, the first message of a connection."""
    return {
        "type": "hello",
        "version": PROTOCOL_VERSION,
        "token": base64.b64encode(greeting.token).decode("ascii"),
        "pid": greeting.pid,
        "host": greeting.host,
    }


def decode_hello(message: ControlMessage) -> CopyHello:
    """Decode a `hello` message. Raises `ControlFrameError` if a field is missing or invalid, or if
    the protocol version is not supported."""
    if message["type"] != "hello":
        raise ControlFrameError(
            f"the first control message is {_quote_peer_value(message['type'])}, not 'hello'"
        )
    _check_version(message)
    token, pid, host = message.get("token"), message.get("pid"), message.get("host")
    if not (isinstance(token, str) and isinstance(pid, int) and isinstance(host, str)):
        raise ControlFrameError("a 'hello' requires the fields token, pid and host")
    try:
        decoded = base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ControlFrameError("the token of a 'hello' is not base64") from error
    return CopyHello(token=decoded, pid=pid, host=host)


def encode_welcome() -> ControlMessage:
    """Encode the reply to a hello with a valid token."""
    return {"type": "welcome", "version": PROTOCOL_VERSION}


def encode_refusal(reason: str) -> ControlMessage:
    """Encode the reply to a rejected hello. The connection is closed after this reply."""
    return {"type": "refused", "version": PROTOCOL_VERSION, "reason": reason}


def check_greeting_reply(message: ControlMessage) -> None:
    """Check the driver's reply to a hello. Raises `ControlFrameError` if the driver refused the
    connection."""
    if message["type"] == "refused":
        raise ControlFrameError(f"the driver refused this copy process: {message.get('reason')}")
    if message["type"] != "welcome":
        raise ControlFrameError(f"the driver replied to 'hello' with {message['type']!r}")
    _check_version(message)


def _quote_peer_value(value: object) -> str:
    """Quote a value from an unauthenticated peer for an error message."""
    return repr(value)[:_MAX_QUOTE_CHARS]


def _check_version(message: ControlMessage) -> None:
    version = message.get("version")
    if version != PROTOCOL_VERSION or isinstance(version, bool):
        raise ControlFrameError(
            f"the peer uses control protocol version {_quote_peer_value(version)}, but this "
            f"process uses {PROTOCOL_VERSION}: run the same release on the driver and on the Spark "
            "executors"
        )


_UNIX_PREFIX = "unix:"
_TLS_PREFIX = "tls://"
_FINGERPRINT_PREFIX = "#sha256="


@dataclass(frozen=True, slots=True, kw_only=True)
class UnixAddress:
    """Path of a Unix stream socket on this host."""

    path: str

    def __str__(self) -> str:
        return f"{_UNIX_PREFIX}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsAddress:
    """A TCP port with TLS. `fingerprint` is the SHA-256 of the only accepted certificate."""

    host: str
    port: int
    fingerprint: bytes

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{_TLS_PREFIX}{host}:{self.port}{_FINGERPRINT_PREFIX}{self.fingerprint.hex()}"


ChannelAddress = UnixAddress | TlsAddress


def parse_address(text: str) -> ChannelAddress:
    """Parse the string form of a channel address. Raises `FatalError` if the address is neither
    Unix nor TLS."""
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
        f"{text!r} is not a control channel address; allowed are "
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
    """Configure a TCP socket to detect a lost peer within 30 seconds and to send small frames
    without delay."""
    for level, option, value in _KEEPALIVE_OPTIONS:
        connected.setsockopt(level, option, value)


class ChannelStream:
    """Non-blocking reads and writes of a socket, with or without TLS.

    After an `OSError` (or its subclass `ssl.SSLError`), the stream is unusable and must be closed.
    While `handshaking` is True, call `handshake` whenever the socket is ready.
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
        """Continue the TLS handshake. `handshaking` is False once the handshake is complete."""
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

    def compute_selector_events(self, *, reading: bool, writing: bool) -> int:
        """Return the selector events to wait for, as a mask of READABLE and WRITABLE; 0 for
        none."""
        if self.handshaking:
            return (
                tcp_and_tls_transport.WRITABLE
                if self._tls_wants_write
                else tcp_and_tls_transport.READABLE
            )
        mask = tcp_and_tls_transport.READABLE if reading else 0
        if writing or (reading and self._tls_wants_write):
            mask |= tcp_and_tls_transport.WRITABLE
        return mask

    def receive(self) -> bytes | None:
        """Read up to READ_BYTES from the socket. Return None if no data is available, and b"" at
        the end of the stream."""
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
        """Write to the socket. Return the number of bytes written, or 0 if the socket's buffer is
        full."""
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
"""Maximum number of reads per readiness event, so that one busy peer does not block the selector's
other sockets."""


class ChannelFullError(RetriableError):
    """The send queue is full because the peer reads more slowly than this process sends."""


class MessageSendQueue:
    """Queue of encoded messages that are waiting to be sent, with a limit in bytes. Thread-safe."""

    def __init__(self, *, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._messages: deque[bytes] = deque()
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def pending_bytes(self) -> int:
        return self._bytes

    def put(self, encoded: bytes) -> None:
        """Queue one encoded message. Raises `ChannelFullError` if the limit would be exceeded.

        An empty queue accepts a message of any size that fits into a frame.
        """
        with self._lock:
            if self._messages and self._bytes + len(encoded) > self._limit_bytes:
                raise ChannelFullError(
                    f"cannot queue a control message of {len(encoded)} bytes: {self._bytes} bytes "
                    f"are already queued, and the maximum is {self._limit_bytes}"
                )
            self._messages.append(encoded)
            self._bytes += len(encoded)

    def take_frame(self) -> bytes | None:
        """Remove and return the next frame, or None if the queue is empty."""
        with self._lock:
            if not self._messages:
                return None
            before = len(self._messages)
            frame = take_frame(self._messages)
            self._bytes -= count_message_bytes(frame, before - len(self._messages))
            return frame


class MessageStream:
    """Reads and writes the messages exchanged with one peer, on one thread. Other threads may add
    messages to the send queue."""

    def __init__(
        self,
        stream: ChannelStream,
        outbox: MessageSendQueue,
        *,
        decoder: ControlFrameDecoder,
    ) -> None:
        self.stream = stream
        self.send_queue = outbox
        self._decoder = decoder
        self._frame = memoryview(b"")
        self.ended = False

    @property
    def has_unsent_messages(self) -> bool:
        return bool(self._frame) or self.send_queue.pending_bytes > 0

    def read_messages(self) -> list[ControlMessage]:
        """Return the messages that can be read from the socket without blocking. `ended` becomes
        True at the end of the stream.

        Raises `OSError` if the connection failed and `ControlFrameError` for invalid frames.
        """
        messages: list[ControlMessage] = []
        for _ in range(MAX_READS_PER_READINESS):
            data = self.stream.receive()
            if data is None:
                break
            if not data:
                self.ended = True
                break
            messages += self._decoder.decode_messages(data)
        return messages

    def write_queued_messages(self) -> None:
        """Send queued messages until the socket accepts no more bytes. Raises `OSError` if the
        connection failed."""
        while True:
            if not self._frame:
                frame = self.send_queue.take_frame()
                if frame is None:
                    return
                self._frame = memoryview(frame)
            sent = self.stream.send(self._frame)
            if not sent:
                return
            self._frame = self._frame[sent:]
