"""The worker's end of the control channel: one `TaskChannel` per copy, and where its messages go.

The server's thread (`control_server.py`) moves bytes; any thread sends and receives messages here.
Nothing is unbounded: a sender is refused when the copy does not keep up, and a copy whose messages
nobody takes is not read from until somebody does.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping

from connect_runtime.base import errors
from mm2.formats import control_frame
from mm2.pipeline import message_stream

CLOSED = "closed"
"""The type of the last message of a channel; made here, never sent by a copy: {type, reason}."""
UNDELIVERED_LIMIT = 2048
"""Messages of one channel that may wait for a taker before its socket is left alone (a read that
is under way is still delivered)."""
OUTBOX_LIMIT_BYTES = 32 * 1024 * 1024


class ChannelClosedError(errors.RetriableError):
    """The copy at the other end has gone; a new copy brings a new channel."""


class Inbox:
    """Messages of one or of several channels, in the order of arrival. Safe from any thread."""

    def __init__(self) -> None:
        self._items: deque[tuple[TaskChannel, control_frame.Message]] = deque()
        self._ready = threading.Condition()

    def put(self, channel: TaskChannel, messages: list[control_frame.Message]) -> None:
        """These came over `channel`, in this order."""
        with self._ready:
            self._items.extend((channel, message) for message in messages)
            self._ready.notify(len(messages))

    def take(self, timeout_s: float) -> tuple[TaskChannel, control_frame.Message] | None:
        """The oldest message and its channel; None when none came in `timeout_s`."""
        with self._ready:
            if not self._ready.wait_for(lambda: self._items, timeout_s):
                return None
            channel, message = self._items.popleft()
        channel.note_taken()
        return channel, message


class TaskChannel:
    """The worker's end of one copy's connection.

    A channel is opened before its copy starts, carries one connection and is closed for ever when
    that ends; its last message then is {"type": "closed", "reason": …}.
    """

    def __init__(self, name: str, *, token: bytes, inbox: Inbox, wake: Callable[[], None]) -> None:
        self.name = name
        self.token = token
        self.inbox = inbox
        self.outbox = message_stream.Outbox(limit_bytes=OUTBOX_LIMIT_BYTES)
        self.peer: control_frame.Hello | None = None
        self.closed_reason: str | None = None
        self.close_asked: str | None = None
        self._wake = wake
        self._undelivered = 0
        self._paused = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"TaskChannel({self.name!r}, connected={self.connected})"

    @property
    def connected(self) -> bool:
        """Whether the copy has said hello and its connection is up."""
        return self.peer is not None and self.closed_reason is None

    def send(self, message: Mapping[str, object]) -> None:
        """Queue one message; before the copy connects too: it gets it first of all.

        Raises ChannelClosedError, ChannelFullError, or FrameError for what JSON cannot carry.
        """
        if self.closed_reason is not None:
            raise ChannelClosedError(
                f"sending {message.get('type')!r} to {self.name}: the channel is closed: "
                f"{self.closed_reason}"
            )
        self.outbox.put(control_frame.encode_message(message))
        self._wake()

    def receive(self, timeout_s: float) -> control_frame.Message | None:
        """The next message, None when none came in time. Only for a channel with its own inbox."""
        taken = self.inbox.take(timeout_s)
        if taken is None:
            return None
        channel, message = taken
        assert channel is self, f"{self.name} shares its inbox with {channel.name}: use Inbox.take"
        return message

    def close(self, reason: str = "the worker closed it") -> None:
        """End the connection; what was not sent yet is dropped. The token is worth nothing now."""
        self.close_asked = self.close_asked or reason
        self._wake()

    def hand_over(self, name: str, inbox: Inbox) -> None:
        """Of a copy that has said nothing yet: what it says from now on goes to another."""
        self.name, self.inbox = name, inbox

    # From here on: for the server's thread and the inbox.

    def note_connected(self, peer: control_frame.Hello) -> None:
        self.peer = peer

    def deliver(self, messages: list[control_frame.Message]) -> bool:
        """Hand messages to the inbox; False when the socket should be left alone for now."""
        if not messages:
            return True
        with self._lock:
            self._undelivered += len(messages)
            self._paused = self._undelivered >= UNDELIVERED_LIMIT
            readable = not self._paused
        self.inbox.put(self, messages)
        return readable

    @property
    def paused(self) -> bool:
        return self._paused

    def note_taken(self) -> None:
        with self._lock:
            self._undelivered -= 1
            resume = self._paused and self._undelivered <= UNDELIVERED_LIMIT // 2
            if resume:
                self._paused = False
        if resume:
            self._wake()

    def note_closed(self, reason: str) -> None:
        """Once; later reasons are consequences of the first."""
        with self._lock:
            if self.closed_reason is not None:
                return
            self.closed_reason = reason
            self._undelivered += 1
        self.inbox.put(self, [{"type": CLOSED, "reason": reason}])
