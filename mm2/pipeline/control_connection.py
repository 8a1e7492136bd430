"""One accepted connection of the control server, from its greeting to its end.

Everything here runs on the server's thread.
"""

from __future__ import annotations

import socket
import ssl
from typing import Protocol

from connect_runtime.wire.connection import poller
from mm2.formats import control_frame
from mm2.pipeline import channel_stream, control_channel, message_stream


class Desk(Protocol):
    """Where a connection asks who may enter, and says that it is over."""

    def admit(
        self, connection: Connection, greeting: control_frame.Hello
    ) -> control_channel.TaskChannel | None: ...

    def forget(
        self,
        connection: Connection | None,
        channel: control_channel.TaskChannel | None,
        reason: str,
    ) -> None: ...


def accept(accepted: socket.socket, tls: ssl.SSLContext | None) -> channel_stream.ChannelStream:
    """Make a stream of what the listener accepted; the TLS handshake is still to come."""
    if tls is None:
        return channel_stream.ChannelStream(accepted)
    channel_stream.keep_alive(accepted)
    accepted.setblocking(False)
    return channel_stream.ChannelStream(
        tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
    )


class Connection:
    """States: handshaking (TLS only) -> greeting -> serving a channel -> ended."""

    def __init__(
        self,
        stream: channel_stream.ChannelStream,
        *,
        desk: Desk,
        selector: poller.Poller,
        deadline_s: float,
    ) -> None:
        self.stream = stream
        self.deadline_s = deadline_s
        self._desk = desk
        self._selector = selector
        self._decoder = control_frame.FrameDecoder(max_frame_bytes=control_frame.GREETING_MAX_BYTES)
        self._messages = message_stream.MessageStream(
            stream,
            message_stream.Outbox(limit_bytes=control_frame.GREETING_MAX_BYTES),
            decoder=self._decoder,
        )
        self._channel: control_channel.TaskChannel | None = None
        self._ended = False
        self._interest = stream.interest(reading=True, writing=False)
        selector.register(stream, self._interest, handler=self.on_ready)

    def on_ready(self, _mask: int) -> None:
        """Called by the selector."""
        try:
            if self.stream.handshaking:
                self.stream.handshake()
            elif not self._paused():
                self._read()
        except control_frame.FrameError as error:
            self._over(str(error))
        except OSError as error:
            self._over(f"the connection broke: {error}")
        self.pump()

    def pump(self) -> None:
        """Send what is queued and wait for what is needed next."""
        if self._ended:
            return
        try:
            if not self.stream.handshaking:
                self._messages.write()
        except OSError as error:
            self._over(f"the connection broke: {error}")
            return
        interest = self.stream.interest(reading=not self._paused(), writing=self._messages.unsent)
        if interest == self._interest:
            return
        if not interest:
            self._selector.unregister(self.stream)
        elif not self._interest:
            self._selector.register(self.stream, interest, handler=self.on_ready)
        else:
            self._selector.modify(self.stream, interest)
        self._interest = interest

    def end(self) -> None:
        """Close the socket; the desk calls this, nobody else."""
        if not self._ended:
            self._ended = True
            if self._interest:
                self._selector.unregister(self.stream)
            self.stream.close()

    def _paused(self) -> bool:
        return self._channel is not None and self._channel.paused

    def _over(self, reason: str) -> None:
        if not self._ended:
            self._desk.forget(self, self._channel, reason)

    def _read(self) -> None:
        messages = self._messages.read()
        if messages and self._channel is None:
            self._greet(messages.pop(0))
        if messages and self._channel is not None:
            self._channel.deliver(messages)
        if self._messages.ended:
            self._over("the copy has closed the connection")

    def _greet(self, message: control_frame.Message) -> None:
        try:
            channel = self._desk.admit(self, control_frame.read_hello(message))
            reason = "its token is unknown or used up"
        except control_frame.FrameError as error:
            channel, reason = None, str(error)
        if channel is None:
            self._messages.outbox.put(control_frame.encode_message(control_frame.refused(reason)))
            self._messages.write()
            self._over(f"refused: {reason}")
            return
        self._messages.outbox.put(control_frame.encode_message(control_frame.welcome()))
        self._messages.write()
        self._decoder.allow(control_frame.MAX_FRAME_BYTES)
        self._channel = channel
        self._messages.outbox = channel.outbox
