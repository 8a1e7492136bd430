"""The driver's end of all control channels: one listener, one thread, one selector.

On one host it listens on a Unix socket in a directory that only its user may enter; across hosts
on TCP with TLS and a certificate of this run, which copies know by its fingerprint. Either way a
copy must send the token of a channel that was opened for it, and each token works once: reading
it from a Spark closure later is useless, and a second attempt of a Spark task is refused.

The server's thread moves bytes; any thread sends and receives messages through `TaskChannel`.
All queues are bounded: sending fails if the copy does not keep up, and the socket of a copy whose
messages nobody takes is not read.
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

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.base.timing import Clock
from connect_runtime.network import transport
from connect_runtime.network.transport import Poller
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.threads import ThreadDied, ThreadGroup
from mm2.copier import control_frames, run_directory
from mm2.copier.control_frames import (
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
from mm2.copier.run_directory import RunDirectory


def create_tls_context(*, host: str, wall_ms: int) -> tuple[ssl.SSLContext, bytes]:
    """A TLS context with a certificate made now, and the SHA-256 of that certificate (DER).

    The key exists in this process only: OpenSSL reads it from a file, so it is given one in memory.
    """
    authority = CertificateAuthority.create("mm2 run", wall_ms=wall_ms)
    issued = authority.issue("mm2 control channel", hosts=[host], wall_ms=wall_ms)
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
"""The type of the last message of a channel; made here, never sent by a copy: {type, reason}."""
MAX_UNDELIVERED_MESSAGES = 2048
"""Messages of one channel that may wait for a taker before its socket is left alone (a read that
is under way is still delivered)."""
DRIVER_SEND_QUEUE_BYTES = 32 * 1024 * 1024


class ChannelClosedError(RetriableError):
    """The copy at the other end has gone; a new copy brings a new channel."""


class ChannelInbox:
    """Messages of one or of several channels, in the order of arrival. Safe from any thread."""

    def __init__(self) -> None:
        self._items: deque[tuple[TaskChannel, ControlMessage]] = deque()
        self._ready = threading.Condition()

    def put(self, channel: TaskChannel, messages: list[ControlMessage]) -> None:
        """These came over `channel`, in this order."""
        with self._ready:
            self._items.extend((channel, message) for message in messages)
            self._ready.notify(len(messages))

    def take(self, timeout_s: float) -> tuple[TaskChannel, ControlMessage] | None:
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

    def __init__(
        self, name: str, *, token: bytes, inbox: ChannelInbox, wake: Callable[[], None]
    ) -> None:
        self.name = name
        self.token = token
        self.inbox = inbox
        self.outbox = MessageSendQueue(limit_bytes=DRIVER_SEND_QUEUE_BYTES)
        self.peer: CopyHello | None = None
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
        self.outbox.put(control_frames.encode_message(message))
        self._wake()

    def receive(self, timeout_s: float) -> ControlMessage | None:
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

    def hand_over(self, name: str, inbox: ChannelInbox) -> None:
        """Of a copy that has said nothing yet: what it says from now on goes to another."""
        self.name, self.inbox = name, inbox

    # From here on: for the server's thread and the inbox.

    def note_connected(self, peer: CopyHello) -> None:
        self.peer = peer

    def deliver(self, messages: list[ControlMessage]) -> bool:
        """Hand messages to the inbox; False when the socket should be left alone for now."""
        if not messages:
            return True
        with self._lock:
            self._undelivered += len(messages)
            self._paused = self._undelivered >= MAX_UNDELIVERED_MESSAGES
            readable = not self._paused
        self.inbox.put(self, messages)
        return readable

    @property
    def paused(self) -> bool:
        return self._paused

    def note_taken(self) -> None:
        with self._lock:
            self._undelivered -= 1
            resume = self._paused and self._undelivered <= MAX_UNDELIVERED_MESSAGES // 2
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
        self.inbox.put(self, [{"type": CLOSED_MESSAGE_TYPE, "reason": reason}])


class ConnectionHandler(Protocol):
    """Where a connection asks who may enter, and says that it is over."""

    def admit(self, connection: ControlConnection, greeting: CopyHello) -> TaskChannel | None: ...

    def forget(
        self,
        connection: ControlConnection | None,
        channel: TaskChannel | None,
        reason: str,
    ) -> None: ...


def wrap_accepted_socket(accepted: socket.socket, tls: ssl.SSLContext | None) -> ChannelStream:
    """Make a stream of what the listener accepted; the TLS handshake is still to come."""
    if tls is None:
        return ChannelStream(accepted)
    control_frames.enable_keepalive(accepted)
    accepted.setblocking(False)
    return ChannelStream(tls.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False))


class ControlConnection:
    """States: handshaking (TLS only) -> greeting -> serving a channel -> ended."""

    def __init__(
        self,
        stream: ChannelStream,
        *,
        desk: ConnectionHandler,
        selector: Poller,
        deadline_s: float,
    ) -> None:
        self.stream = stream
        self.deadline_s = deadline_s
        self._desk = desk
        self._selector = selector
        self._decoder = ControlFrameDecoder(max_frame_bytes=control_frames.MAX_GREETING_BYTES)
        self._messages = MessageStream(
            stream,
            MessageSendQueue(limit_bytes=control_frames.MAX_GREETING_BYTES),
            decoder=self._decoder,
        )
        self._channel: TaskChannel | None = None
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
        except ControlFrameError as error:
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

    def _greet(self, message: ControlMessage) -> None:
        try:
            channel = self._desk.admit(self, control_frames.decode_hello(message))
            reason = "its token is unknown or used up"
        except ControlFrameError as error:
            channel, reason = None, str(error)
        if channel is None:
            self._messages.outbox.put(
                control_frames.encode_message(control_frames.encode_refusal(reason))
            )
            self._messages.write()
            self._over(f"refused: {reason}")
            return
        self._messages.outbox.put(control_frames.encode_message(control_frames.encode_welcome()))
        self._messages.write()
        self._decoder.allow(control_frames.MAX_FRAME_BYTES)
        self._channel = channel
        self._messages.outbox = channel.outbox


LISTEN_BACKLOG = 512
GREETING_TIMEOUT_S = 10.0
"""How long a connection may take to say hello."""
MAX_UNGREETED_CONNECTIONS = 128
"""Connections that have not said hello yet; more are turned away at once."""
_GREETING_CHECK_INTERVAL_S = 1.0
_IDLE_POLL_S = 30.0
_ACCEPT_RETRY_DELAY_S = 0.5
"""How long nobody is accepted after that has failed: for want of file descriptors, say."""
_MAX_UNIX_PATH_BYTES = 100
_RUN_DIRECTORY_PREFIX = "mm2-control-"
_SHORT_PARENT = Path("/tmp")  # noqa: S108 - the directory made in it has mode 0700

_log = logging.getLogger(__name__)


class ControlServer:
    """Accepts the copies of one worker. `open` and the channels are safe from any thread."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        address: ChannelAddress,
        now: Clock,
        tls: ssl.SSLContext | None = None,
        directory: RunDirectory | None = None,
    ) -> None:
        self.address = address
        self._listener = listener
        self._tls = tls
        self._directory = directory
        self._now = now
        self._poller = Poller()
        self._connections: dict[bytes, ControlConnection] = {}
        self._strangers: set[ControlConnection] = set()
        self._channels: dict[bytes, TaskChannel] = {}
        self._woken: set[bytes] = set()
        self._waking = threading.Lock()
        self._bell, self._bell_end = socket.socketpair()
        for end in (self._bell, self._bell_end, listener):
            end.setblocking(False)
        self._rests_until_s: float | None = None
        self._accepts = True
        self._failure: str | None = None
        self._released = False
        self._closing = threading.Lock()
        self._threads = ThreadGroup(on_unasked_end=self._note_unasked_end)
        self._thread = self._threads.start("control-server", self._run)

    def open(self, name: str, *, inbox: ChannelInbox | None = None) -> TaskChannel:
        """A channel for one copy that will come with `channel.token`.

        Its messages go to `inbox`, which channels may share, or to one of its own. Raises
        FatalError when the server has ended.
        """
        if self.failure:
            raise FatalError(f"opening the control channel of {name}: {self.failure}")
        token = secrets.token_bytes(control_frames.CHANNEL_TOKEN_BYTES)
        channel = TaskChannel(
            name,
            token=token,
            inbox=inbox or ChannelInbox(),
            wake=lambda: self._wake(token),
        )
        self._channels[token] = channel
        return channel

    @property
    def failure(self) -> str:
        """Why no copy can come any more, "" while they can."""
        if self._failure is not None:
            return self._failure
        return "the control server was closed" if self._thread.stop.is_set() else ""

    def close(self, timeout_s: float = 2.0) -> None:
        """Close every channel, stop listening and remove the socket. May be called twice."""
        with self._closing:
            if self._thread.stop.is_set():
                return
            self._thread.stop.set()
        self._ring()
        self._threads.stop_all(timeout_s)
        self._release("the worker has stopped")

    def _release(self, reason: str) -> None:
        """Let everything go, once; nothing runs on the server's thread any more."""
        if self._released:
            return
        self._released = True
        for channel in tuple(self._channels.values()):
            channel.note_closed(reason)
        self._channels.clear()
        for connection in (*self._connections.values(), *self._strangers):
            connection.stream.close()
        for end in (self._listener, self._bell, self._bell_end, self._poller):
            end.close()
        if self._directory is not None:
            self._directory.remove()

    def _note_unasked_end(self, end: ThreadDied) -> None:
        self._failure = f"the control server has failed: {end.error!r}"
        self._release(self._failure)

    def _wake(self, token: bytes) -> None:
        with self._waking:
            silent = not self._woken
            self._woken.add(token)
        if silent:
            self._ring()

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # full: it rings already; closed: nobody listens
            self._bell.send(b"!")

    # What follows runs on the server's thread only.

    def _run(self, stop: threading.Event) -> None:
        self._poller.register(self._listener, transport.READABLE, handler=self._accept)
        self._poller.register(self._bell_end, transport.READABLE, handler=self._answer_bell)
        while not stop.is_set():
            self._poller.poll(self._patience_s())
            self._turn_away_the_silent()
            self._listen_again()

    def _patience_s(self) -> float:
        if self._rests_until_s is not None:
            return max(0.0, min(_ACCEPT_RETRY_DELAY_S, self._rests_until_s - self._now.now_s()))
        return _GREETING_CHECK_INTERVAL_S if self._strangers else _IDLE_POLL_S

    def _answer_bell(self, _mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._bell_end.recv(4096):
                pass
        with self._waking:
            woken, self._woken = self._woken, set()
        for token in sorted(woken):
            self._serve(token)

    def _serve(self, token: bytes) -> None:
        channel = self._channels.get(token)
        if channel is None:
            return
        connection = self._connections.get(token)
        if channel.close_asked is not None:
            self.forget(connection, channel, channel.close_asked)
        elif connection is not None:
            connection.pump()

    def _accept(self, _mask: int) -> None:
        for _ in range(LISTEN_BACKLOG):
            try:
                accepted, _peer = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._accepts = True
            if len(self._strangers) >= MAX_UNGREETED_CONNECTIONS:
                accepted.close()
                continue
            try:
                stream = wrap_accepted_socket(accepted, self._tls)
            except OSError as error:
                accepted.close()
                _log.warning("control channel: a connection broke at once: %s", error)
                continue
            deadline_s = self._now.now_s() + GREETING_TIMEOUT_S
            connection = ControlConnection(
                stream, desk=self, selector=self._poller, deadline_s=deadline_s
            )
            self._strangers.add(connection)

    def _rest(self, error: OSError) -> None:
        """Whoever knocks keeps the listener readable: do not look at it for a moment."""
        self._poller.unregister(self._listener)
        self._rests_until_s = self._now.now_s() + _ACCEPT_RETRY_DELAY_S
        if self._accepts:
            self._accepts = False
            _log.warning(
                "control channel: no copy can connect: %s; it is tried until one can", error
            )

    def _listen_again(self) -> None:
        if self._rests_until_s is not None and self._now.now_s() >= self._rests_until_s:
            self._rests_until_s = None
            self._poller.register(self._listener, transport.READABLE, handler=self._accept)

    def _turn_away_the_silent(self) -> None:
        now_s = self._now.now_s()
        for connection in [each for each in self._strangers if each.deadline_s <= now_s]:
            self.forget(connection, None, f"no hello within {GREETING_TIMEOUT_S:.0f} s")

    def admit(self, connection: ControlConnection, greeting: CopyHello) -> TaskChannel | None:
        """The channel that this token opens, once; None for any other token."""
        channel = self._channels.get(greeting.token)
        if channel is None or greeting.token in self._connections:
            return None
        self._strangers.discard(connection)
        self._connections[greeting.token] = connection
        channel.note_connected(greeting)
        return channel

    def forget(
        self,
        connection: ControlConnection | None,
        channel: TaskChannel | None,
        reason: str,
    ) -> None:
        """End a connection, its channel, or both."""
        if connection is not None:
            connection.end()
            self._strangers.discard(connection)
            if channel is None:
                _log.warning("control channel: a connection was closed: %s", reason)
        if channel is not None:
            self._connections.pop(channel.token, None)
            self._channels.pop(channel.token, None)
            channel.note_closed(reason)


def listen_unix(now: Clock, *, parent: Path | None = None) -> ControlServer:
    """Listen on a socket in a new directory of mode 0700, under `parent` or the temporary one.

    Raises FatalError when no directory has a path short enough for a socket (Linux: 107 bytes).
    """
    directory = run_directory.create(_RUN_DIRECTORY_PREFIX, parent=parent)
    if len(os.fsencode(directory.path)) > _MAX_UNIX_PATH_BYTES - len("/control.sock"):
        directory.remove()
        directory = run_directory.create(_RUN_DIRECTORY_PREFIX, parent=_SHORT_PARENT)
    path = directory.path / "control.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        listener.listen(LISTEN_BACKLOG)
    except OSError as error:
        listener.close()
        directory.remove()
        raise FatalError(f"listening for copies on {path}: {error}") from error
    address = UnixAddress(path=os.fspath(path))
    return ControlServer(listener, address=address, now=now, directory=directory)


def listen_tls(
    now: Clock,
    *,
    tls: ssl.SSLContext,
    fingerprint: bytes,
    bind: tuple[str, int] = ("", 0),
    advertised_host: str,
) -> ControlServer:
    """Listen on TCP; copies are told `advertised_host`.

    `tls` presents the certificate whose SHA-256 is `fingerprint`. Raises FatalError with the
    address when it cannot be bound.
    """
    host, port = bind
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=LISTEN_BACKLOG)
    except OSError as error:
        raise FatalError(
            f"listening for copies on {host or '*'}:{port}: {error}; choose another "
            "control.port of the spark section, or 0 for any"
        ) from error
    address = TlsAddress(
        host=advertised_host,
        port=listener.getsockname()[1],
        fingerprint=fingerprint,
    )
    return ControlServer(listener, address=address, now=now, tls=tls)
