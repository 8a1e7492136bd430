"""The copy process's end of the control channel to the driver: a socket in the selector of the copy
loop, without a separate thread.

The client connects once, and the copy process ends when the connection ends. The driver then starts
a new process with a new channel, so messages never have to be resent.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import ssl
from collections.abc import Callable, Mapping

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import FatalError
from connect_runtime.network import tcp_and_tls_transport
from connect_runtime.network.tcp_and_tls_transport import Poller
from mm2.copier import control_channel_wire_format
from mm2.copier.control_channel_wire_format import (
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
    """The copy process cannot connect to its driver, or the driver refused the connection. The copy
    process then ends, and the driver decides whether to start a new one."""


class ControlClient:
    """Control channel from a copy process to the driver.

    `on_message` and `on_closed` are called inside `poller.poll`, on the thread of the copy loop.
    """

    def __init__(
        self,
        address: str,
        token: bytes,
        poller: Poller,
        *,
        clock: Clock,
        on_message: Callable[[ControlMessage], None],
        on_closed: Callable[[str], None],
    ) -> None:
        self._address = control_channel_wire_format.parse_address(address)
        self._token = token
        self._selector = poller
        self._now = clock
        self._on_message = on_message
        self._on_closed = on_closed
        self._messages: MessageStream | None = None
        self._outbox = MessageSendQueue(limit_bytes=COPY_SEND_QUEUE_BYTES)
        self._interest = 0
        self.closed_reason: str | None = None

    def connect(self, timeout_s: float) -> None:
        """Connect to the driver, verify its certificate (TLS only), send the `hello` message and
        wait for the reply. Blocks; call once.

        Messages that arrive with the reply are passed to `on_message` before this method returns.
        Raises `DriverConnectError` if the connection fails, is refused, or takes longer than
        `timeout_s`.
        """
        end = Deadline.after(timeout_s, now_s=self._now.now_s())
        try:
            connected = self._connect_socket(end)
        except OSError as error:
            raise self._build_driver_connect_error(error) from error
        try:
            messages = self._exchange_greeting(connected, end)
        except (OSError, ControlFrameError) as error:
            connected.close()
            raise self._build_driver_connect_error(error) from error
        for message in messages:
            self._on_message(message)
        if self.closed_reason is None:
            self._interest = tcp_and_tls_transport.READABLE
            self._selector.register(
                self._open_stream, tcp_and_tls_transport.READABLE, handler=self._on_socket_ready
            )
            self._send_queued_messages()

    def send(self, message: Mapping[str, object]) -> None:
        """Queue one message for the driver. Messages queued between two polls are sent in one
        frame.

        Raises `ControlFrameError` if the message cannot be represented in JSON, and
        `ChannelFullError` if the queue is full. Does nothing once the channel is closed.
        """
        if self.closed_reason is not None:
            return
        self._outbox.put(control_channel_wire_format.encode_message(message))
        self._update_selector_events(
            tcp_and_tls_transport.READABLE | tcp_and_tls_transport.WRITABLE
        )

    def flush_send_queue(self, timeout_s: float) -> bool:
        """Send all queued messages, for example the final report before the process ends. Return
        False if some could not be sent within `timeout_s`."""
        end = Deadline.after(timeout_s, now_s=self._now.now_s())
        waiting = Poller()
        self._send_queued_messages()
        try:
            while self.closed_reason is None and self._has_unsent_messages():
                left_s = end.remaining_s(self._now.now_s())
                if not left_s:
                    return False
                waiting.register(
                    self._open_stream, tcp_and_tls_transport.WRITABLE, handler=lambda _mask: None
                )
                waiting.poll(left_s)
                waiting.unregister(self._open_stream)
                self._send_queued_messages()
        finally:
            waiting.close()
        return self.closed_reason is None

    def _has_unsent_messages(self) -> bool:
        return self._messages is not None and self._messages.has_unsent_messages

    def close(self) -> None:
        """Close the channel. Unsent messages are dropped and `on_closed` is not called."""
        self._close_socket("closed by the copy process")

    @property
    def _open_stream(self) -> ChannelStream:
        assert self._messages is not None, "call connect first"
        return self._messages.stream

    def _connect_socket(self, end: Deadline) -> socket.socket:
        match self._address:
            case UnixAddress(path=path):
                connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                connected.settimeout(self._compute_remaining_s(end))
                try:
                    connected.connect(path)
                except OSError:
                    connected.close()
                    raise
                return connected
            case TlsAddress(host=host, port=port, fingerprint=fingerprint):
                plain = socket.create_connection(
                    (host, port), timeout=self._compute_remaining_s(end)
                )
                try:
                    control_channel_wire_format.enable_keepalive(plain)
                    plain.settimeout(self._compute_remaining_s(end))
                    return _connect_tls(plain, fingerprint)
                except OSError:
                    plain.close()
                    raise

    def _exchange_greeting(self, connected: socket.socket, end: Deadline) -> list[ControlMessage]:
        """Send the `hello` message and wait for the driver's `welcome`. Return the messages that
        arrived together with the `welcome`."""
        decoder = ControlFrameDecoder()
        greeting = CopyHello(token=self._token, pid=os.getpid(), host=socket.gethostname())
        outbox = MessageSendQueue(limit_bytes=control_channel_wire_format.MAX_GREETING_BYTES)
        outbox.put(
            control_channel_wire_format.encode_message(
                control_channel_wire_format.encode_hello(greeting)
            )
        )
        connected.settimeout(self._compute_remaining_s(end))
        connected.sendall(outbox.take_frame() or b"")
        messages: list[ControlMessage] = []
        while not messages:
            connected.settimeout(self._compute_remaining_s(end))
            data = connected.recv(control_channel_wire_format.READ_BYTES)
            if not data:
                raise ControlFrameError("the driver closed the connection without a reply")
            messages = decoder.decode_messages(data)
        control_channel_wire_format.check_greeting_reply(messages.pop(0))
        self._messages = MessageStream(
            ChannelStream(connected, handshaken=True),
            self._outbox,
            decoder=decoder,
        )
        return messages

    def _compute_remaining_s(self, end: Deadline) -> float:
        left_s = end.remaining_s(self._now.now_s())
        if not left_s:
            raise TimeoutError("timed out")
        return left_s

    def _build_driver_connect_error(self, error: Exception) -> DriverConnectError:
        self.closed_reason = str(error)
        return DriverConnectError(
            f"connecting to the driver at {self._address}: {error}; the Spark executors must be "
            "able to reach this host and port (control.host and control.port of the spark section)"
        )

    def _update_selector_events(self, interest: int) -> None:
        if self._messages is not None and self._interest and interest != self._interest:
            self._selector.modify(self._open_stream, interest)
            self._interest = interest

    def _on_socket_ready(self, _mask: int) -> None:
        messages = self._messages
        assert messages is not None
        try:
            received = messages.read_messages()
        except (OSError, ControlFrameError) as error:
            self._handle_connection_closed(str(error))
            return
        for message in received:
            self._on_message(message)
            if self.closed_reason is not None:
                return
        if messages.ended:
            self._handle_connection_closed("the driver closed the connection")
            return
        self._send_queued_messages()

    def _send_queued_messages(self) -> None:
        if self._messages is None or self.closed_reason is not None:
            return
        try:
            self._messages.write_queued_messages()
        except OSError as error:
            self._handle_connection_closed(f"the connection failed: {error}")
            return
        self._update_selector_events(
            self._open_stream.compute_selector_events(
                reading=True, writing=self._messages.has_unsent_messages
            )
        )

    def _handle_connection_closed(self, reason: str) -> None:
        if self.closed_reason is None:
            self._close_socket(reason)
            self._on_closed(reason)

    def _close_socket(self, reason: str) -> None:
        if self.closed_reason is None:
            self.closed_reason = reason
            if self._messages is not None:
                if self._interest:
                    self._selector.unregister(self._open_stream)
                    self._interest = 0
                self._open_stream.close()


def _connect_tls(plain: socket.socket, fingerprint: bytes) -> ssl.SSLSocket:
    """Open a TLS connection and verify that the SHA-256 fingerprint of the peer's certificate is
    `fingerprint`. No certificate authority is involved."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # replaced by the fingerprint check below
    secured = context.wrap_socket(plain)
    certificate = secured.getpeercert(binary_form=True) or b""
    if not hmac.compare_digest(hashlib.sha256(certificate).digest(), fingerprint):
        secured.close()
        raise ssl.SSLError("the peer's certificate does not match the driver's fingerprint")
    return secured
