"""A line of some length: forwards TCP, and every byte arrives half a round trip later.

The line is long, not narrow: bytes queue up to `_LINE_BYTES` in each direction, then reading
stops. One process of its own for all connections of a cluster.

    python -m tests.bench.delay line ROUND_TRIP_MS LISTEN:FORWARD…    "ready", then it forwards
"""

from __future__ import annotations

import selectors
import socket
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from connect_runtime.system.system_clock import SystemClock

_HOST = "127.0.0.1"
_LINE_BYTES = 256 << 20
_READ_BYTES = 1 << 20
_CLOCK = SystemClock()


@dataclass(slots=True, eq=False)
class Direction:
    """From one socket to the other. `queue` has (when it is due, bytes), the oldest first."""

    source: socket.socket
    sink: socket.socket
    queue: deque[tuple[float, memoryview]] = field(default_factory=deque)
    waiting_bytes: int = 0
    ended: bool = False
    """The source has closed: so does the sink when the queue is empty, and then it is `done`."""
    done: bool = False

    @property
    def reads(self) -> bool:
        return not self.ended and self.waiting_bytes < _LINE_BYTES

    def take(self, now_s: float, delay_s: float) -> None:
        """Read what is there; raises `OSError` when the source has broken."""
        data = self.source.recv(_READ_BYTES)
        self.ended = not data
        if data:
            self.queue.append((now_s + delay_s, memoryview(data)))
            self.waiting_bytes += len(data)

    def give(self, now_s: float) -> None:
        """Write what is due; raises `OSError` when the sink has broken."""
        while self.queue and self.queue[0][0] <= now_s:
            due_s, data = self.queue.popleft()
            try:
                sent = self.sink.send(data)
            except BlockingIOError:
                sent = 0
            self.waiting_bytes -= sent
            if sent < len(data):
                self.queue.appendleft((due_s, data[sent:]))
                return
        if self.ended and not self.queue and not self.done:
            self.done = True
            self.sink.shutdown(socket.SHUT_WR)

    def wants_to_write(self, now_s: float) -> bool:
        return bool(self.queue) and self.queue[0][0] <= now_s


@dataclass(slots=True, eq=False)
class Line:
    """Forwards from its listeners for ever."""

    delay_s: float
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _pairs: dict[socket.socket, tuple[Direction, Direction]] = field(default_factory=dict)

    def listen(self, port: int, forward: int) -> None:
        """Connections to `port` end at `forward`, both on this machine."""
        listener = socket.create_server((_HOST, port), backlog=256)
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, forward)

    def close(self) -> None:
        """End all connections and listeners."""
        for key in list(self._selector.get_map().values()):
            if key.data is not None:
                self._selector.unregister(key.fileobj)
                key.fileobj.close()
        while self._pairs:
            self._drop(next(iter(self._pairs)))
        self._selector.close()

    def run_once(self, wait_s: float = 1.0) -> None:
        """One round: forward what is due, and take what comes within `wait_s`."""
        now_s = _CLOCK.now_s()
        due_s = self._look(now_s, now_s + wait_s)
        for key, events in self._selector.select(max(0.0, due_s - now_s)):
            one = key.fileobj
            assert isinstance(one, socket.socket)
            if key.data is not None:
                self._accept(one, key.data)
            elif one in self._pairs:
                self._move(one, events)

    def _look(self, now_s: float, next_s: float) -> float:
        """Give what is due, say what is waited for, and return when something is due next."""
        for one, (outgoing, incoming) in list(self._pairs.items()):
            if one not in self._pairs or not self._tried(one, incoming.give, now_s):
                continue
            if outgoing.done and incoming.done:
                self._drop(one)
                continue
            events = selectors.EVENT_READ if outgoing.reads else 0
            if incoming.wants_to_write(now_s):
                events |= selectors.EVENT_WRITE
            elif incoming.queue:
                next_s = min(next_s, incoming.queue[0][0])
            self._watch(one, events)
        return next_s

    def _watch(self, one: socket.socket, events: int) -> None:
        watched = one in self._selector.get_map()
        if events and watched:
            self._selector.modify(one, events)
        elif events:
            self._selector.register(one, events)
        elif watched:
            self._selector.unregister(one)

    def _accept(self, listener: socket.socket, forward: int) -> None:
        near, _ = listener.accept()
        try:
            far = socket.create_connection((_HOST, forward), timeout=5.0)
        except OSError:
            near.close()
            return
        for each in (near, far):
            each.setblocking(False)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        there, back = Direction(near, far), Direction(far, near)
        self._pairs[near] = (there, back)
        self._pairs[far] = (back, there)

    def _move(self, one: socket.socket, events: int) -> None:
        outgoing, incoming = self._pairs[one]
        now_s = _CLOCK.now_s()
        if events & selectors.EVENT_WRITE and not self._tried(one, incoming.give, now_s):
            return
        if events & selectors.EVENT_READ:
            self._tried(one, outgoing.take, now_s, self.delay_s)

    def _tried(self, one: socket.socket, step: Callable[..., None], *arguments: float) -> bool:
        """A connection that breaks takes its other end along."""
        try:
            step(*arguments)
        except OSError:
            self._drop(one)
            return False
        return True

    def _drop(self, one: socket.socket) -> None:
        for each in (one, self._pairs[one][0].sink):
            self._watch(each, 0)
            del self._pairs[each]
            each.close()


def main(arguments: list[str]) -> None:
    _, round_trip_ms, *ways = arguments
    line = Line(delay_s=float(round_trip_ms) / 2_000)
    for way in ways:
        port, _, forward = way.partition(":")
        line.listen(int(port), int(forward))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        line.run_once()


if __name__ == "__main__":
    main(sys.argv[1:])
