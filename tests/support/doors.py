"""Doors: TCP forwarders in front of brokers, which count what comes through and can be shut.

One thread serves all doors of a test; a door is shut for connections that are open too.
"""

from __future__ import annotations

import selectors
import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from connect_runtime.system.supervised_threads import StoppableThread
from mm2.sandbox import port_reservation

_CHUNK = 256 * 1024
_TURN_S = 0.05
_STUCK_S = 20.0


class Door:
    """Listens at `port` of its own and forwards to `target`, a port on this machine.

    `sent_bytes` came from the broker. While `shut`, whoever connects is turned away.
    """

    def __init__(self, target: int) -> None:
        self._reserved = port_reservation.reserve_port()
        self.port = self._reserved.port
        self.target = target
        self.shut = False
        self.sent_bytes = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def release(self) -> None:
        self._reserved.release()


class Doors:
    """All doors of one test, to be used in a `with`."""

    def __init__(self, *doors: Door) -> None:
        self._doors = doors
        self._selector = selectors.DefaultSelector()
        self._pairs: dict[socket.socket, tuple[Door, socket.socket, bool]] = {}
        self._thread: StoppableThread | None = None

    def __enter__(self) -> Self:
        for door in self._doors:
            server = socket.create_server(("127.0.0.1", door.port), backlog=256)
            server.setblocking(False)
            self._selector.register(server, selectors.EVENT_READ, door)
        self._thread = StoppableThread("doors", self._serve, on_unexpected_end=lambda end: None)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._thread is not None
        self._thread.stop.set()
        joined = self._thread.join(_STUCK_S + 5.0)
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()
        for door in self._doors:
            door.release()
        assert joined, "the doors' thread hangs"
        if error is None and self._thread.failure is not None:
            raise self._thread.failure

    def _serve(self, stop: threading.Event) -> None:
        while not stop.is_set():
            for key, _ in self._selector.select(_TURN_S):
                assert isinstance(key.fileobj, socket.socket)
                if key.data is not None:
                    self._accept(key.fileobj, key.data)
                elif key.fileobj in self._pairs:
                    self._forward(key.fileobj)
            for inner in [end for end, (door, _, _) in self._pairs.items() if door.shut]:
                self._drop(inner)

    def _accept(self, server: socket.socket, door: Door) -> None:
        with suppress(OSError):
            client, _ = server.accept()
            if door.shut:
                client.close()
                return
            try:
                broker = socket.create_connection(("127.0.0.1", door.target), timeout=_STUCK_S)
            except OSError:
                client.close()
                return
            client.settimeout(_STUCK_S)
            for end, other, counted in ((client, broker, False), (broker, client, True)):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pairs[end] = (door, other, counted)
                self._selector.register(end, selectors.EVENT_READ)

    def _forward(self, end: socket.socket) -> None:
        door, other, counted = self._pairs[end]
        try:
            data = end.recv(_CHUNK)
            other.sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(end)
        elif counted:
            door.sent_bytes += len(data)

    def _drop(self, end: socket.socket) -> None:
        if end in self._pairs:
            for each in (end, self._pairs[end][1]):
                self._selector.unregister(each)
                del self._pairs[each]
                each.close()
