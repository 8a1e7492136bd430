"""The driver's end of all control channels, with one listener, one thread and one selector.

On one host the server listens on a Unix socket in a directory that only its user may enter. Across
hosts it uses TCP with TLS and a certificate created for this run, whose fingerprint copy processes
verify. A copy process must send the token of the channel that was opened for it. Each token works
once, so a token read later from a Spark closure is useless, and a second attempt of a Spark task is
refused.

The server's thread transfers bytes, and any thread may send and receive messages through
`TaskChannel`. All queues are bounded: sending fails if the copy process reads too slowly, and a
socket is not read while its messages are not consumed.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.network import tcp_and_tls_transport
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from mm2.copier import control_channel_wire_format, process_private_directory
from mm2.copier.control_channel_wire_format import (
    ChannelAddress,
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
from mm2.copier.process_private_directory import RunDirectory


def create_tls_context(*, host: str, wall_ms: int) -> tuple[ssl.SSLContext, bytes]:
    """Create a certificate. Return a TLS context that uses it, and the SHA-256 fingerprint of the
    certificate in DER form.

    The private key is never written to disk. OpenSSL can load a private key only from a file, so
    the key is passed in an in-memory file.
    """
    authority = CertificateAuthority.create("mm2 run", wall_ms=wall_ms)
    issued = authority.issue_certificate("mm2 control channel", hosts=[host], wall_ms=wall_ms)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    descriptor = os.memfd_create("control-certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(issued.certificate_pem + issued.key_pem)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    der = ssl.PEM_cert_to_DER_cert(issued.certificate_pem.decode("ascii"))
    return context, hashlib.sha256(der).digest()


CLOSED_MESSAGE_TYPE = "closed"
"""Type of the last message of a channel, {type, reason}. The server creates this message; a copy
process never sends it."""
MAX_UNDELIVERED_MESSAGES = 2048
"""The socket of a channel is not read while this many of its messages are unconsumed. Messages that
were already read are still delivered."""
MAX_UNDELIVERED_BYTES = 4 * 1024 * 1024
"""The socket of a channel is not read while its unconsumed messages have this total size in
bytes."""
DRIVER_SEND_QUEUE_BYTES = 32 * 1024 * 1024


class ChannelClosedError(RetriableError):
    """The channel is closed because the copy process has disconnected or the driver closed it. A
    new copy process is given a new channel."""


class ChannelInbox:
    """Received messages of one or more channels, in order of arrival. Thread-safe."""

    def __init__(self) -> None:
        self._items: deque[tuple[TaskChannel, ControlMessage, int]] = deque()
        self._ready = threading.Condition()

    def put_messages(
        self, channel: TaskChannel, messages: list[ControlMessage], *, message_bytes: int = 0
    ) -> None:
        """Append messages received on `channel`, in order. `message_bytes` is the mean size of
        these messages."""
        with self._ready:
            self._items.extend((channel, message, message_bytes) for message in messages)
            self._ready.notify(len(messages))

    def take_message(self, timeout_s: float) -> tuple[TaskChannel, ControlMessage] | None:
        """Remove and return the oldest message with its channel, or return None after
        `timeout_s`."""
        with self._ready:
            if not self._ready.wait_for(lambda: self._items, timeout_s):
                return None
            channel, message, message_bytes = self._items.popleft()
        channel.record_message_consumed(message_bytes)
        return channel, message


class TaskChannel:
    """The driver's end of the control channel to one copy process.

    A channel is opened before its copy process starts, and is closed permanently when the
    connection of the copy process ends. Its last received message is {"type": "closed", "reason":
    …}.
    """

    def __init__(
        self, name: str, *, token: bytes, inbox: ChannelInbox, wake: Callable[[], None]
    ) -> None:
        self.name = name
        self.token = token
        self.inbox = inbox
        self.send_queue = MessageSendQueue(limit_bytes=DRIVER_SEND_QUEUE_BYTES)
        self.peer: CopyHello | None = None
        self.closed_reason: str | None = None
        self.requested_close_reason: str | None = None
        self._request_wakeup = wake
        self._undelivered = 0
        self._undelivered_bytes = 0
        self._paused = False
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"TaskChannel({self.name!r}, connected={self.is_connected})"

    @property
    def is_connected(self) -> bool:
        """True while the copy process is connected and authenticated."""
        return self.peer is not None and self.closed_reason is None

    def send(self, message: Mapping[str, object]) -> None:
        """Queue one message. Messages queued before the copy process connects are sent first.

        Raises `ChannelClosedError`, `ChannelFullError`, or `ControlFrameError` if JSON cannot
        represent the message.
        """
        if self.closed_reason is not None:
            raise ChannelClosedError(
                f"sending {message.get('type')!r} to {self.name}: the channel is closed: "
                f"{self.closed_reason}"
            )
        self.send_queue.put(control_channel_wire_format.encode_message(message))
        self._request_wakeup()

    def receive(self, timeout_s: float) -> ControlMessage | None:
        """Return the next message from the copy process, or None after `timeout_s`. Only for a
        channel that does not share its inbox."""
        taken = self.inbox.take_message(timeout_s)
        if taken is None:
            return None
        channel, message = taken
        assert channel is self, (
            f"{self.name} shares its inbox with {channel.name}: use ChannelInbox.take_message"
        )
        return message

    def close(self, reason: str = "closed by the driver") -> None:
        """Close the connection. Unsent messages are dropped and the token becomes invalid."""
        self.requested_close_reason = self.requested_close_reason or reason
        self._request_wakeup()

    def reassign_to_inbox(self, name: str, inbox: ChannelInbox) -> None:
        """Rename the channel and redirect its messages to another inbox.

        Only for a channel whose copy process has sent no message yet.
        """
        self.name, self.inbox = name, inbox

    # Called by the server's thread and the inbox only

    def mark_connected(self, peer: CopyHello) -> None:
        self.peer = peer

    def deliver_to_inbox(self, messages: list[ControlMessage], *, size: int) -> bool:
        """Put received messages with a total size of `size` bytes into the inbox. Return False if
        the inbox is full; the socket must then not be read until messages have been consumed."""
        if not messages:
            return True
        message_bytes = size // len(messages)
        with self._lock:
            self._undelivered += len(messages)
            self._undelivered_bytes += message_bytes * len(messages)
            self._paused = (
                self._undelivered >= MAX_UNDELIVERED_MESSAGES
                or self._undelivered_bytes >= MAX_UNDELIVERED_BYTES
            )
            readable = not self._paused
        self.inbox.put_messages(self, messages, message_bytes=message_bytes)
        return readable

    @property
    def is_reading_paused(self) -> bool:
        return self._paused

    def record_message_consumed(self, message_bytes: int) -> None:
        with self._lock:
            self._undelivered -= 1
            self._undelivered_bytes -= message_bytes
            resume = (
                self._paused
                and self._undelivered <= MAX_UNDELIVERED_MESSAGES // 2
                and self._undelivered_bytes <= MAX_UNDELIVERED_BYTES // 2
            )
            if resume:
                self._paused = False
        if resume:
            self._request_wakeup()

    def mark_closed(self, reason: str) -> None:
        """Record why the channel was closed. Only the first reason is kept."""
        with self._lock:
            if self.closed_reason is not None:
                return
            self.closed_reason = reason
            self._undelivered += 1
        self.inbox.put_messages(self, [{"type": CLOSED_MESSAGE_TYPE, "reason": reason}])


class ConnectionHandler(Protocol):
    """Callbacks of a `ControlConnection`, which authenticate its peer and remove the connection
    when it ends."""

    def authenticate_copy_process(
        self, connection: ControlConnection, greeting: CopyHello
    ) -> TaskChannel | None: ...

    def remove_connection(
        self,
        connection: ControlConnection | None,
        channel: TaskChannel | None,
        reason: str,
    ) -> None: ...


def wrap_accepted_socket(accepted: socket.socket, tls: ssl.SSLContext | None) -> ChannelStream:
    """Wrap an accepted socket in a `ChannelStream`. With TLS, the handshake is still pending."""
    if tls is None:
        return ChannelStream(accepted)
    control_channel_wire_format.enable_keepalive(accepted)
    accepted.setblocking(False)
    return ChannelStream(tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False))


class ControlConnection:
    """One accepted connection, with the states handshaking (TLS only) -> greeting -> serving a
    channel -> ended."""

    def __init__(
        self,
        stream: ChannelStream,
        *,
        handler: ConnectionHandler,
        poller: Poller,
        deadline_s: float,
    ) -> None:
        self.stream = stream
        self.deadline_s = deadline_s
        self._handler = handler
        self._selector = poller
        self._decoder = ControlFrameDecoder(
            max_frame_bytes=control_channel_wire_format.MAX_GREETING_BYTES,
            max_values=control_channel_wire_format.MAX_COPY_FRAME_VALUES,
        )
        self._messages = MessageStream(
            stream,
            MessageSendQueue(limit_bytes=control_channel_wire_format.MAX_GREETING_BYTES),
            decoder=self._decoder,
        )
        self._channel: TaskChannel | None = None
        self._ended = False
        self._interest = stream.compute_selector_events(reading=True, writing=False)
        poller.register(stream, self._interest, handler=self.on_ready)

    def on_ready(self, _mask: int) -> None:
        """Handle a readiness event of the connection's socket."""
        try:
            if self.stream.handshaking:
                self.stream.handshake()
            elif not self._is_paused():
                self._read_messages()
        except ControlFrameError as error:
            self._report_connection_end(str(error))
        except OSError as error:
            self._report_connection_end(f"the connection failed: {error}")
        self.send_pending_messages()

    def send_pending_messages(self) -> None:
        """Send the channel's queued messages, and update the events for which the selector
        waits."""
        if self._ended:
            return
        try:
            if not self.stream.handshaking:
                self._messages.write_queued_messages()
        except OSError as error:
            self._report_connection_end(f"the connection failed: {error}")
            return
        interest = self.stream.compute_selector_events(
            reading=not self._is_paused(), writing=self._messages.has_unsent_messages
        )
        if interest == self._interest:
            return
        if not interest:
            self._selector.unregister(self.stream)
        elif not self._interest:
            self._selector.register(self.stream, interest, handler=self.on_ready)
        else:
            self._selector.modify(self.stream, interest)
        self._interest = interest

    def close(self) -> None:
        """Close the socket. Called only by the connection handler."""
        if not self._ended:
            self._ended = True
            if self._interest:
                self._selector.unregister(self.stream)
            self.stream.close()

    def _is_paused(self) -> bool:
        return self._channel is not None and self._channel.is_reading_paused

    def _report_connection_end(self, reason: str) -> None:
        if not self._ended:
            self._handler.remove_connection(self, self._channel, reason)

    def _read_messages(self) -> None:
        decoded_before = self._decoder.decoded_bytes
        messages = self._messages.read_messages()
        if messages and self._channel is None:
            self._authenticate_peer(messages.pop(0))
        if messages and self._channel is not None:
            self._channel.deliver_to_inbox(
                messages, size=self._decoder.decoded_bytes - decoded_before
            )
        if self._messages.ended:
            self._report_connection_end("the copy process closed the connection")

    def _authenticate_peer(self, message: ControlMessage) -> None:
        try:
            channel = self._handler.authenticate_copy_process(
                self, control_channel_wire_format.decode_hello(message)
            )
            reason = "the token is unknown or was already used"
        except ControlFrameError as error:
            channel, reason = None, str(error)
        if channel is None:
            self._messages.send_queue.put(
                control_channel_wire_format.encode_message(
                    control_channel_wire_format.encode_refusal(reason)
                )
            )
            self._messages.write_queued_messages()
            self._report_connection_end(f"refused: {reason}")
            return
        self._messages.send_queue.put(
            control_channel_wire_format.encode_message(control_channel_wire_format.encode_welcome())
        )
        self._messages.write_queued_messages()
        self._decoder.set_max_frame_bytes(control_channel_wire_format.MAX_FRAME_BYTES)
        self._channel = channel
        self._messages.send_queue = channel.send_queue


LISTEN_BACKLOG = 512
GREETING_TIMEOUT_S = 10.0
"""Time in seconds after which a connection is closed if the peer has not sent a `hello` message."""
MAX_UNGREETED_CONNECTIONS = 128
"""Maximum number of connections without a hello, besides one for each open channel. A further
connection replaces the oldest. Copy processes send the hello within milliseconds, so idle
connections of others cannot block them."""
ACCEPT_BATCH = 32
"""Maximum number of connections that are accepted before data of accepted connections is read. It
is well below `MAX_UNGREETED_CONNECTIONS`, so that no connection is closed as the oldest before its
hello could be read."""
REJECTION_LOG_INTERVAL_S = 60.0
"""Minimum time in seconds between log lines about connections that ended before a valid hello."""
_GREETING_CHECK_INTERVAL_S = 1.0
_IDLE_POLL_S = 30.0
_ACCEPT_RETRY_DELAY_S = 0.5
"""Pause in seconds after a connection could not be accepted, for example because no file
descriptors are left."""
_MAX_UNIX_PATH_BYTES = 100
_RUN_DIRECTORY_PREFIX = "mm2-control-"
_SHORT_PARENT = Path("/tmp")  # noqa: S108 - the directory created in it has mode 0700

_log = logging.getLogger(__name__)


class ControlServer:
    """Accepts the connections of one driver's copy processes. `open_channel` and the returned
    channels are thread-safe."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        address: ChannelAddress,
        clock: Clock,
        tls: ssl.SSLContext | None = None,
        directory: RunDirectory | None = None,
    ) -> None:
        self.address = address
        self._listener = listener
        self._tls = tls
        self._directory = directory
        self._now = clock
        self._poller = Poller()
        self._connections: dict[bytes, ControlConnection] = {}
        self._unauthenticated: dict[ControlConnection, None] = {}  # oldest first
        self._unlogged_rejections = 0
        self._rejection_logged_s = float("-inf")
        self._channels: dict[bytes, TaskChannel] = {}
        self._pending_wakeups: set[bytes] = set()
        self._wakeup_lock = threading.Lock()
        self._wakeup_sender, self._wakeup_receiver = socket.socketpair()
        for end in (self._wakeup_sender, self._wakeup_receiver, listener):
            end.setblocking(False)
        self._accept_paused_until_s: float | None = None
        self._is_accepting = True
        self._failure: str | None = None
        self._released = False
        self._close_lock = threading.Lock()
        self._threads = ThreadGroup(on_unexpected_end=self._handle_thread_death)
        self._thread = self._threads.start("control-server", self._run_poll_loop)

    def open_channel(self, name: str, *, inbox: ChannelInbox | None = None) -> TaskChannel:
        """Open a channel for a copy process that will connect with `channel.token`.

        Messages from the copy process are delivered to `inbox`, which several channels may share,
        or to a new inbox if it is None. Raises `FatalError` if the server was closed or has failed.
        """
        if self.failure:
            raise FatalError(f"cannot open the control channel of {name}: {self.failure}")
        token = secrets.token_bytes(control_channel_wire_format.CHANNEL_TOKEN_BYTES)
        channel = TaskChannel(
            name,
            token=token,
            inbox=inbox or ChannelInbox(),
            wake=lambda: self._request_wakeup(token),
        )
        self._channels[token] = channel
        return channel

    @property
    def failure(self) -> str:
        """Reason why copy processes can no longer connect; "" while they can connect."""
        if self._failure is not None:
            return self._failure
        return "the control server was closed" if self._thread.stop.is_set() else ""

    def close(self, timeout_s: float = 2.0) -> None:
        """Close every channel, stop listening and remove the socket. Idempotent."""
        with self._close_lock:
            if self._thread.stop.is_set():
                return
            self._thread.stop.set()
        self._send_wakeup()
        self._threads.stop_all(timeout_s)
        self._close_all_channels("the driver has stopped")

    def _close_all_channels(self, reason: str) -> None:
        """Close all channels and sockets. Called once, after the server's thread has ended."""
        if self._released:
            return
        self._released = True
        for channel in tuple(self._channels.values()):
            channel.mark_closed(reason)
        self._channels.clear()
        for connection in (*self._connections.values(), *self._unauthenticated):
            connection.stream.close()
        for end in (self._listener, self._wakeup_sender, self._wakeup_receiver, self._poller):
            end.close()
        if self._directory is not None:
            self._directory.remove_directory()

    def _handle_thread_death(self, end: UnexpectedThreadEnd) -> None:
        self._failure = f"the control server has failed: {end.error!r}"
        self._close_all_channels(self._failure)

    def _request_wakeup(self, token: bytes) -> None:
        with self._wakeup_lock:
            silent = not self._pending_wakeups
            self._pending_wakeups.add(token)
        if silent:
            self._send_wakeup()

    def _send_wakeup(self) -> None:
        with contextlib.suppress(
            OSError
        ):  # full: a wake-up is pending; closed: the server has ended
            self._wakeup_sender.send(b"!")

    # Runs on the server's thread only

    def _run_poll_loop(self, stop: threading.Event) -> None:
        self._poller.register(
            self._listener, tcp_and_tls_transport.READABLE, handler=self._accept_connections
        )
        self._poller.register(
            self._wakeup_receiver, tcp_and_tls_transport.READABLE, handler=self._handle_wakeup
        )
        while not stop.is_set():
            self._poller.poll(self._compute_poll_timeout_s())
            self._close_unauthenticated_connections()
            self._resume_accepting()

    def _compute_poll_timeout_s(self) -> float:
        if self._accept_paused_until_s is not None:
            return max(
                0.0, min(_ACCEPT_RETRY_DELAY_S, self._accept_paused_until_s - self._now.now_s())
            )
        return _GREETING_CHECK_INTERVAL_S if self._unauthenticated else _IDLE_POLL_S

    def _handle_wakeup(self, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wakeup_receiver.recv(4096):
                pass
        with self._wakeup_lock:
            woken, self._pending_wakeups = self._pending_wakeups, set()
        for token in sorted(woken):
            self._serve_channel(token)

    def _serve_channel(self, token: bytes) -> None:
        channel = self._channels.get(token)
        if channel is None:
            return
        connection = self._connections.get(token)
        if channel.requested_close_reason is not None:
            self.remove_connection(connection, channel, channel.requested_close_reason)
        elif connection is not None:
            connection.send_pending_messages()

    def _accept_connections(self, _mask: int) -> None:
        for _ in range(ACCEPT_BATCH):
            try:
                accepted, _peer = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._pause_accepting(error)
                return
            self._is_accepting = True
            self._limit_unauthenticated_connections()
            try:
                stream = wrap_accepted_socket(accepted, self._tls)
            except OSError as error:
                accepted.close()
                self._record_rejection(str(error))
                continue
            deadline_s = self._now.now_s() + GREETING_TIMEOUT_S
            connection = ControlConnection(
                stream, handler=self, poller=self._poller, deadline_s=deadline_s
            )
            self._unauthenticated[connection] = None

    def _limit_unauthenticated_connections(self) -> None:
        """Close the oldest connection without a hello if the maximum number of such connections is
        reached."""
        limit = MAX_UNGREETED_CONNECTIONS + len(self._channels)
        if len(self._unauthenticated) < limit:
            return
        oldest = next(iter(self._unauthenticated))
        self.remove_connection(
            oldest, None, f"more than {limit} connections without a hello: closing the oldest"
        )

    def _record_rejection(self, reason: str) -> None:
        """Count a connection that ended before a valid hello. Rejections are logged at most once
        per `REJECTION_LOG_INTERVAL_S`, because anyone who can connect can cause them."""
        self._unlogged_rejections += 1
        now_s = self._now.now_s()
        if now_s - self._rejection_logged_s < REJECTION_LOG_INTERVAL_S:
            return
        _log.warning(
            "control channel: %s closed before a valid hello; the last one: %s",
            plurals.format_count(self._unlogged_rejections, "connection"),
            reason,
        )
        self._unlogged_rejections, self._rejection_logged_s = 0, now_s

    def _pause_accepting(self, error: OSError) -> None:
        """Stop accepting connections briefly after an error, because pending connections would keep
        the listening socket readable."""
        self._poller.unregister(self._listener)
        self._accept_paused_until_s = self._now.now_s() + _ACCEPT_RETRY_DELAY_S
        if self._is_accepting:
            self._is_accepting = False
            _log.warning("control channel: copy processes cannot connect (%s); retrying", error)

    def _resume_accepting(self) -> None:
        if (
            self._accept_paused_until_s is not None
            and self._now.now_s() >= self._accept_paused_until_s
        ):
            self._accept_paused_until_s = None
            self._poller.register(
                self._listener, tcp_and_tls_transport.READABLE, handler=self._accept_connections
            )

    def _close_unauthenticated_connections(self) -> None:
        now_s = self._now.now_s()
        for connection in [each for each in self._unauthenticated if each.deadline_s <= now_s]:
            self.remove_connection(
                connection, None, f"the peer sent no hello within {GREETING_TIMEOUT_S:.0f} s"
            )

    def authenticate_copy_process(
        self, connection: ControlConnection, greeting: CopyHello
    ) -> TaskChannel | None:
        """Return the channel that the greeting's token authenticates; None if the token is unknown
        or was already used."""
        channel = self._channels.get(greeting.token)
        if channel is None or greeting.token in self._connections:
            return None
        self._unauthenticated.pop(connection, None)
        self._connections[greeting.token] = connection
        channel.mark_connected(greeting)
        return channel

    def remove_connection(
        self,
        connection: ControlConnection | None,
        channel: TaskChannel | None,
        reason: str,
    ) -> None:
        """Close a connection and the channel that it serves, and record the reason. `connection` is
        None if the copy process has not connected; `channel` is None before a valid hello."""
        if connection is not None:
            if channel is None:
                self._record_rejection(reason)
            connection.close()
            self._unauthenticated.pop(connection, None)
        if channel is not None:
            self._connections.pop(channel.token, None)
            self._channels.pop(channel.token, None)
            channel.mark_closed(reason)


def listen_unix(clock: Clock, *, parent: Path | None = None) -> ControlServer:
    """Listen on a Unix socket in a new directory of mode 0700, under `parent` or the temporary
    directory.

    Raises `FatalError` if the socket cannot be created.
    """
    directory = process_private_directory.create_run_directory(_RUN_DIRECTORY_PREFIX, parent=parent)
    if len(os.fsencode(directory.path)) > _MAX_UNIX_PATH_BYTES - len("/control.sock"):
        directory.remove_directory()
        directory = process_private_directory.create_run_directory(
            _RUN_DIRECTORY_PREFIX, parent=_SHORT_PARENT
        )
    path = directory.path / "control.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        listener.listen(LISTEN_BACKLOG)
    except OSError as error:
        listener.close()
        directory.remove_directory()
        raise FatalError(f"listening for copy processes on {path}: {error}") from error
    address = UnixAddress(path=os.fspath(path))
    return ControlServer(listener, address=address, clock=clock, directory=directory)


def listen_tls(
    clock: Clock,
    *,
    tls: ssl.SSLContext,
    fingerprint: bytes,
    bind: tuple[str, int] = ("", 0),
    advertised_host: str,
) -> ControlServer:
    """Listen on a TCP port with TLS. `advertised_host` is the host name that copy processes connect
    to.

    `tls` is the server's TLS context, and `fingerprint` is the SHA-256 fingerprint of its
    certificate. Raises `FatalError` if the server cannot listen on the address `bind`.
    """
    host, port = bind
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=LISTEN_BACKLOG)
    except OSError as error:
        raise FatalError(
            f"listening for copy processes on {host or '*'}:{port}: {error}; choose another "
            "control.port in the spark section, or 0 for any free port"
        ) from error
    address = TlsAddress(
        host=advertised_host,
        port=listener.getsockname()[1],
        fingerprint=fingerprint,
    )
    return ControlServer(listener, address=address, clock=clock, tls=tls)
