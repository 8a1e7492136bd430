"""Messages over a channel stream: what is queued goes out in frames, what comes in is decoded."""

from __future__ import annotations

import threading
from collections import deque

from connect_runtime.base import errors
from mm2.formats import control_frame
from mm2.pipeline import channel_stream

READ_ROUNDS = 16
"""Reads per readiness: one busy peer may not keep a selector's other sockets waiting."""


class ChannelFullError(errors.RetriableError):
    """The peer takes messages more slowly than we send them and the bound is reached."""


class Outbox:
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
            frame = control_frame.take_frame(self._messages)
            self._bytes -= control_frame.message_bytes(frame, before - len(self._messages))
            return frame


class MessageStream:
    """One peer. A single thread reads and writes; only the outbox is shared."""

    def __init__(
        self,
        stream: channel_stream.ChannelStream,
        outbox: Outbox,
        *,
        decoder: control_frame.FrameDecoder,
    ) -> None:
        self.stream = stream
        self.outbox = outbox
        self._decoder = decoder
        self._frame = memoryview(b"")
        self.ended = False

    @property
    def unsent(self) -> bool:
        return bool(self._frame) or self.outbox.pending_bytes > 0

    def read(self) -> list[control_frame.Message]:
        """What can be read now; `ended` is set at the end of the stream.

        Raises OSError when the connection broke and FrameError for what is no frame.
        """
        messages: list[control_frame.Message] = []
        for _ in range(READ_ROUNDS):
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
