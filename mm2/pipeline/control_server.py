"""The worker's side of all control channels: one listener, one thread, one selector.

On one host it listens on a Unix socket in a directory that only its user may enter; across hosts
on TCP with TLS and a certificate of this run, which copies know by its fingerprint. Either way a
copy must bring the token of a channel that was opened for it, and each token works once: who reads
it from a Spark closure afterwards cannot use it, and a second attempt of a task is turned away.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import socket
import ssl
import threading
from pathlib import Path

from connect_runtime.base import clock, errors
from connect_runtime.system import threads
from connect_runtime.wire.connection import poller
from mm2.formats import control_frame
from mm2.pipeline import (
    channel_address,
    control_channel,
    control_connection,
    run_directory,
)

BACKLOG = 512
GREETING_S = 10.0
"""How long a connection may take to say hello."""
STRANGERS_MAX = 128
"""Connections that have not said hello yet; more are turned away at once."""
_SWEEP_S = 1.0
_IDLE_S = 30.0
_REST_S = 0.5
"""How long nobody is accepted after that has failed: for want of file descriptors, say."""
_UNIX_PATH_MAX = 100
_KIND = "mm2-control-"
_SHORT = Path("/tmp")  # noqa: S108 - the directory made in it has mode 0700

_log = logging.getLogger(__name__)


class ControlServer:
    """Accepts the copies of one worker. `open` and the channels are safe from any thread."""

    def __init__(
        self,
        listener: socket.socket,
        *,
        address: channel_address.ChannelAddress,
        now: clock.Clock,
        tls: ssl.SSLContext | None = None,
        directory: run_directory.RunDirectory | None = None,
    ) -> None:
        self.address = address
        self._listener = listener
        self._tls = tls
        self._directory = directory
        self._now = now
        self._poller = poller.Poller()
        self._connections: dict[bytes, control_connection.Connection] = {}
        self._strangers: set[control_connection.Connection] = set()
        self._channels: dict[bytes, control_channel.TaskChannel] = {}
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
        self._threads = threads.Threads(on_unasked_end=self._note_unasked_end)
        self._thread = self._threads.start("control-server", self._run)

    def open(
        self, name: str, *, inbox: control_channel.Inbox | None = None
    ) -> control_channel.TaskChannel:
        """A channel for one copy that will come with `channel.token`.

        Its messages go to `inbox`, which channels may share, or to one of its own. Raises
        FatalError when the server has ended.
        """
        if self.failure:
            raise errors.FatalError(f"opening the control channel of {name}: {self.failure}")
        token = secrets.token_bytes(control_frame.TOKEN_BYTES)
        channel = control_channel.TaskChannel(
            name,
            token=token,
            inbox=inbox or control_channel.Inbox(),
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

    def _note_unasked_end(self, end: threads.UnaskedEnd) -> None:
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
        self._poller.register(self._listener, poller.READ, handler=self._accept)
        self._poller.register(self._bell_end, poller.READ, handler=self._answer_bell)
        while not stop.is_set():
            self._poller.poll(self._patience_s())
            self._turn_away_the_silent()
            self._listen_again()

    def _patience_s(self) -> float:
        if self._rests_until_s is not None:
            return max(0.0, min(_REST_S, self._rests_until_s - self._now.now_s()))
        return _SWEEP_S if self._strangers else _IDLE_S

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
        for _ in range(BACKLOG):
            try:
                accepted, _peer = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._accepts = True
            if len(self._strangers) >= STRANGERS_MAX:
                accepted.close()
                continue
            try:
                stream = control_connection.accept(accepted, self._tls)
            except OSError as error:
                accepted.close()
                _log.warning("control channel: a connection broke at once: %s", error)
                continue
            deadline_s = self._now.now_s() + GREETING_S
            connection = control_connection.Connection(
                stream, desk=self, selector=self._poller, deadline_s=deadline_s
            )
            self._strangers.add(connection)

    def _rest(self, error: OSError) -> None:
        """Whoever knocks keeps the listener readable: do not look at it for a moment."""
        self._poller.unregister(self._listener)
        self._rests_until_s = self._now.now_s() + _REST_S
        if self._accepts:
            self._accepts = False
            _log.warning(
                "control channel: no copy can connect: %s; it is tried until one can", error
            )

    def _listen_again(self) -> None:
        if self._rests_until_s is not None and self._now.now_s() >= self._rests_until_s:
            self._rests_until_s = None
            self._poller.register(self._listener, poller.READ, handler=self._accept)

    def _turn_away_the_silent(self) -> None:
        now_s = self._now.now_s()
        for connection in [each for each in self._strangers if each.deadline_s <= now_s]:
            self.forget(connection, None, f"no hello within {GREETING_S:.0f} s")

    def admit(
        self, connection: control_connection.Connection, greeting: control_frame.Hello
    ) -> control_channel.TaskChannel | None:
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
        connection: control_connection.Connection | None,
        channel: control_channel.TaskChannel | None,
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


def listen_unix(now: clock.Clock, *, parent: Path | None = None) -> ControlServer:
    """Listen on a socket in a new directory of mode 0700, under `parent` or the temporary one.

    Raises FatalError when no directory has a path short enough for a socket (Linux: 107 bytes).
    """
    directory = run_directory.make(_KIND, parent=parent)
    if len(os.fsencode(directory.path)) > _UNIX_PATH_MAX - len("/control.sock"):
        directory.remove()
        directory = run_directory.make(_KIND, parent=_SHORT)
    path = directory.path / "control.sock"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(os.fspath(path))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        directory.remove()
        raise errors.FatalError(f"listening for copies on {path}: {error}") from error
    address = channel_address.UnixAddress(path=os.fspath(path))
    return ControlServer(listener, address=address, now=now, directory=directory)


def listen_tls(
    now: clock.Clock,
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
        listener = socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise errors.FatalError(
            f"listening for copies on {host or '*'}:{port}: {error}; choose another "
            "control.port of the spark section, or 0 for any"
        ) from error
    address = channel_address.TlsAddress(
        host=advertised_host,
        port=listener.getsockname()[1],
        fingerprint=fingerprint,
    )
    return ControlServer(listener, address=address, now=now, tls=tls)
