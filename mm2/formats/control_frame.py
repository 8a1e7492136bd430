"""Frames of the control channel between a worker and its copies.

A frame is a big-endian uint32 (length of what follows, in bytes) and a JSON array of objects in
UTF-8, one object per message. Several messages share a frame because a copy reports in bursts and
the cost is per frame. JSON and never pickle: whoever reaches the socket must not run code.

The first message of a connection is the copy's `hello`, answered by `welcome` or `refused`; both
carry the protocol version, and a side that does not know it refuses. Every message is an object
with a string under `type`; the types after the greeting belong to the copy loop and the worker.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import errors

PROTOCOL_VERSION = 1
TOKEN_BYTES = 32
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""No frame is larger; a peer that announces more is not one of ours, or has a fault."""
GREETING_MAX_BYTES = 4096
"""The bound before the token was checked: a stranger may not make us hold more than this."""
FILL_BYTES = 64 * 1024
"""Messages are joined into one frame up to about this size."""

Message = dict[str, object]

_LENGTH = struct.Struct(">I")
_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False)


class FrameError(errors.FatalError):
    """The peer sent bytes that are no control frame; the connection is of no further use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
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
        raise FrameError(f"encoding a control message of type {kind!r}: {error}") from error
    if len(encoded) + 2 > MAX_FRAME_BYTES:
        raise FrameError(
            f"a control message of type {message.get('type')!r} takes {len(encoded)} bytes; "
            f"{MAX_FRAME_BYTES - 2} are allowed: send it in parts"
        )
    return encoded


def take_frame(pending: deque[bytes]) -> bytes:
    """Move encoded messages from the left of `pending` into one frame of about FILL_BYTES.

    At least one message is taken, so `pending` must not be empty.
    """
    taken = [pending.popleft()]
    size = len(taken[0])
    while pending and size + len(pending[0]) < FILL_BYTES:
        taken.append(pending.popleft())
        size += len(taken[-1])
    body = b"[" + b",".join(taken) + b"]"
    return _LENGTH.pack(len(body)) + body


def message_bytes(frame: bytes, messages: int) -> int:
    """The encoded messages' own bytes in a frame of that many: without length, brackets, commas."""
    return len(frame) - _LENGTH.size - 2 - (messages - 1)


class FrameDecoder:
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

    def feed(self, data: bytes | bytearray | memoryview) -> list[Message]:
        """Return the messages that `data` completes. Raises FrameError; then feed no more."""
        buffered = self._buffered
        buffered += data
        messages: list[Message] = []
        start = 0
        while len(buffered) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(buffered, start)
            if length > self._max_frame_bytes:
                raise FrameError(
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


def _decode_body(body: bytes) -> list[Message]:
    try:
        decoded = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a control frame of {len(body)} bytes is not JSON: {error}") from error
    if not isinstance(decoded, list):
        raise FrameError(f"a control frame holds a JSON {type(decoded).__name__}, not an array")
    for message in decoded:
        if not isinstance(message, dict) or not isinstance(message.get("type"), str):
            raise FrameError("a control message is not an object with a string under 'type'")
    return decoded


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def hello(greeting: Hello) -> Message:
    """The first message of a connection, from the copy."""
    return {
        "type": "hello",
        "version": PROTOCOL_VERSION,
        "token": base64.b64encode(greeting.token).decode("ascii"),
        "pid": greeting.pid,
        "host": greeting.host,
    }


def read_hello(message: Message) -> Hello:
    """Raises FrameError for anything but a complete hello of a known version."""
    if message["type"] != "hello":
        raise FrameError(f"the first control message is {message['type']!r}, not 'hello'")
    _check_version(message)
    token, pid, host = message.get("token"), message.get("pid"), message.get("host")
    if not (isinstance(token, str) and isinstance(pid, int) and isinstance(host, str)):
        raise FrameError("a 'hello' needs the fields token, pid and host")
    try:
        decoded = base64.b64decode(token, validate=True)
    except (binascii.Error, ValueError) as error:
        raise FrameError("the token of a 'hello' is not base64") from error
    return Hello(token=decoded, pid=pid, host=host)


def welcome() -> Message:
    """The answer to a hello whose token is known."""
    return {"type": "welcome", "version": PROTOCOL_VERSION}


def refused(reason: str) -> Message:
    """The answer to any other hello; the connection closes after it."""
    return {"type": "refused", "version": PROTOCOL_VERSION, "reason": reason}


def read_answer(message: Message) -> None:
    """Raises FrameError unless the worker said welcome in a known version."""
    if message["type"] == "refused":
        raise FrameError(f"the worker refused this copy: {message.get('reason')}")
    if message["type"] != "welcome":
        raise FrameError(f"the worker answered 'hello' with {message['type']!r}")
    _check_version(message)


def _check_version(message: Message) -> None:
    version = message.get("version")
    if version != PROTOCOL_VERSION or isinstance(version, bool):
        raise FrameError(
            f"the peer speaks control protocol version {version!r}, this side "
            f"{PROTOCOL_VERSION}: run the same release on the worker and on the Spark executors"
        )
