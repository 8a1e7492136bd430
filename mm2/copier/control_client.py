"""The copy's end of the control channel: a socket in the copy loop's own selector, no thread.

It connects once. When the connection ends, the copy ends: a driver that starts it again opens a
new channel, so a copy never has to find out what the driver missed.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import ssl
from collections.abc import Callable, Mapping

from connect_runtime.base.errors import FatalError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.network import transport
from connect_runtime.network.transport import Poller
from mm2.copier import control_frames
from mm2.copier.control_frames import (
    ChannelStream,
    ControlFrameDecoder,
    ControlFrameError,
    ControlMessage,
    CopyHello,
    MessageSendQueue,
    MessageStream,
    TlsAddress,
    UnixAddress,
)

COPY_SEND_QUEUE_BYTES = 64 * 1024 * 1024


class DriverConnectError(FatalError):
    """The copy cannot reach its worker, or is not welcome: it ends, and the worker decides."""


class ControlClient:
    """`on_message` and `on_closed` run inside `poller.poll`, on the thread of the copy loop."""

    def __init__(
        self,
        address: str,
        token: bytes,
        selector: Poller,
        *,
        now: Clock,
        on_message: Callable[[ControlMessage], None],
        on_closed: Callable[[str], None],
    ) -> None:
        self._address = control_frames.parse_address(address)
        self._token = token
        self._selector = selector
        self._now = now
        self._on_message = on_message
        self._on_closed = on_closed
        self._messages: MessageStream | None = None
        self._outbox = MessageSendQueue(limit_bytes=COPY_SEND_QUEUE_BYTES)
        self._interest = 0
        self.closed_reason: str | None = None

    def connect(self, timeout_s: float) -> None:
        """Connect, check the certificate, say hello and wait for the answer: blocking, once.

        Messages that came along with the answer are handed out before it returns. Raises
        ConnectFailedError.
        """
        end = Deadline.after(timeout_s, now_s=self._now.now_s())
        try:
            connected = self._connect_socket(end)
        except OSError as error:
            raise self._failed(error) from error
        try:
            messages = self._greet(connected, end)
        except (OSError, ControlFrameError) as error:
            connected.close()
            raise self._failed(error) from error
        for message in messages:
            self._on_message(message)
        if self.closed_reason is None:
            self._interest = transport.READABLE
            self._selector.register(self._stream, transport.READABLE, handler=self._on_ready)
            self._flush()

    def send(self, message: Mapping[str, object]) -> None:
        """Queue one message; what is queued between two polls travels together.

        Raises FrameError for what JSON cannot carry and ChannelFullError at the bound. After the
        channel has closed it does nothing: `on_closed` has said so.
        """
        if self.closed_reason is not None:
            return
        self._outbox.put(control_frames.encode_message(message))
        self._wait_for(transport.READABLE | transport.WRITABLE)

    def drain(self, timeout_s: float) -> bool:
        """Send what is queued, waiting up to `timeout_s`; for the last words of a copy."""
        end = Deadline.after(timeout_s, now_s=self._now.now_s())
        waiting = Poller()
        self._flush()
        try:
            while self.closed_reason is None and self._unsent():
                left_s = end.left_s(self._now.now_s())
                if not left_s:
                    return False
                waiting.register(self._stream, transport.WRITABLE, handler=lambda _mask: None)
                waiting.poll(left_s)
                waiting.unregister(self._stream)
                self._flush()
        finally:
            waiting.close()
        return self.closed_reason is None

    def _unsent(self) -> bool:
        return self._messages is not None and self._messages.unsent

    def close(self) -> None:
        """Leave; what was not sent is dropped and `on_closed` is not called."""
        self._end("the copy closed it")

    @property
    def _stream(self) -> ChannelStream:
        assert self._messages is not None, "connect comes first"
        return self._messages.stream

    def _connect_socket(self, end: Deadline) -> socket.socket:
        match self._address:
            case UnixAddress(path=path):
                connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connected.settimeout(self._left_s(end))
                try:
                    connected.connect(path)
                except OSError:
                    connected.close()
                    raise
                return connected
            case TlsAddress(host=host, port=port, fingerprint=fingerprint):
                plain = socket.create_connection((host, port), timeout=self._left_s(end))
                try:
                    control_frames.enable_keepalive(plain)
                    plain.settimeout(self._left_s(end))
                    return _connect_tls(plain, fingerprint)
                except OSError:
                    plain.close()
                    raise

    def _greet(self, connected: socket.socket, end: Deadline) -> list[ControlMessage]:
        """Exchange hello and welcome; returns the messages that came with the welcome."""
        decoder = ControlFrameDecoder()
        greeting = CopyHello(token=self._token, pid=os.getpid(), host=socket.gethostname())
        outbox = MessageSendQueue(limit_bytes=control_frames.MAX_GREETING_BYTES)
        outbox.put(control_frames.encode_message(control_frames.encode_hello(greeting)))
        connected.settimeout(self._left_s(end))
        connected.sendall(outbox.take_frame() or b"")
        messages: list[ControlMessage] = []
        while not messages:
            connected.settimeout(self._left_s(end))
            data = connected.recv(control_frames.READ_BYTES)
            if not data:
                raise ControlFrameError("the worker closed the connection without a word")
            messages = decoder.feed(data)
        control_frames.check_greeting_reply(messages.pop(0))
        self._messages = MessageStream(
            ChannelStream(connected, handshaken=True),
            self._outbox,
            decoder=decoder,
        )
        return messages

    def _left_s(self, end: Deadline) -> float:
        left_s = end.left_s(self._now.now_s())
        if not left_s:
            raise TimeoutError("the time for it is used up")
        return left_s

    def _failed(self, error: Exception) -> DriverConnectError:
        self.closed_reason = str(error)
        return DriverConnectError(
            f"connecting to the worker at {self._address}: {error}; the Spark executors must "
            "reach that host and port (control.host and control.port of the spark section)"
        )

    def _wait_for(self, interest: int) -> None:
        if self._messages is not None and self._interest and interest != self._interest:
            self._selector.modify(self._stream, interest)
            self._interest = interest

    def _on_ready(self, _mask: int) -> None:
        messages = self._messages
        assert messages is not None
        try:
            received = messages.read()
        except (OSError, ControlFrameError) as error:
            self._closed(str(error))
            return
        for message in received:
            self._on_message(message)
            if self.closed_reason is not None:
                return
        if messages.ended:
            self._closed("the worker has closed the connection")
            return
        self._flush()

    def _flush(self) -> None:
        if self._messages is None or self.closed_reason is not None:
            return
        try:
            self._messages.write()
        except OSError as error:
            self._closed(f"the connection broke: {error}")
            return
        self._wait_for(self._stream.interest(reading=True, writing=self._messages.unsent))

    def _closed(self, reason: str) -> None:
        if self.closed_reason is None:
            self._end(reason)
            self._on_closed(reason)

    def _end(self, reason: str) -> None:
        if self.closed_reason is None:
            self.closed_reason = reason
            if self._messages is not None:
                if self._interest:
                    self._selector.unregister(self._stream)
                    self._interest = 0
                self._stream.close()


def _connect_tls(plain: socket.socket, fingerprint: bytes) -> ssl.SSLSocket:
    """TLS with the one peer whose certificate has that SHA-256; no authority is asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the fingerprint below is the check
    secured = context.wrap_socket(plain)
    certificate = secured.getpeercert(binary_form=True) or b""
    if not hmac.compare_digest(hashlib.sha256(certificate).digest(), fingerprint):
        secured.close()
        raise ssl.SSLError("another certificate than the worker's answers there")
    return secured
