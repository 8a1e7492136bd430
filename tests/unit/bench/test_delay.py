"""The long line, in this process: bytes arrive whole, in order, and as late as they should."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest

from connect_runtime.system.system_clock import SystemClock
from tests.bench.delay import Line

CLOCK = SystemClock()
DELAY_S = 0.05


@pytest.fixture
def ends() -> Iterator[tuple[Line, socket.socket, socket.socket]]:
    """A line, and the sockets at its near and its far end."""
    server = socket.create_server(("127.0.0.1", 0))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    line = Line(delay_s=DELAY_S)
    line.listen(port, server.getsockname()[1])
    near = socket.create_connection(("127.0.0.1", port))
    line.run_once()
    far, _ = server.accept()
    server.close()
    for each in (near, far):
        each.setblocking(False)
    yield line, near, far
    near.close()
    far.close()
    line.close()


def received(line: Line, one: socket.socket, size: int) -> tuple[bytes, float]:
    """What arrives at one end, and how long that took."""
    began_s, data = CLOCK.now_s(), bytearray()
    until(line, lambda: take(one, data) or len(data) >= size)
    return bytes(data), CLOCK.now_s() - began_s


def take(one: socket.socket, data: bytearray) -> bool:
    """Whether the other side has closed."""
    try:
        chunk = one.recv(1 << 20)
    except BlockingIOError:
        return False
    data += chunk
    return not chunk


def until(line: Line, condition: Callable[[], object]) -> None:
    end_s = CLOCK.now_s() + 20.0
    while not condition():
        assert CLOCK.now_s() < end_s
        line.run_once(0.01)


def test_each_way_takes_half_a_round_trip(ends):
    line, near, far = ends
    near.send(b"question")
    assert received(line, far, 8)[0] == b"question"
    far.send(b"answer")
    data, took_s = received(line, near, 6)
    assert data == b"answer"
    assert took_s >= DELAY_S


def test_the_line_is_long_not_narrow(ends):
    """Much arrives in order, and not a delay per piece."""
    line, near, far = ends
    sent = bytes(range(256)) * 4_096 * 4
    rest = memoryview(sent)
    began_s, data = CLOCK.now_s(), bytearray()

    def moved() -> bool:
        nonlocal rest
        with contextlib.suppress(BlockingIOError):
            while rest:
                rest = rest[near.send(rest) :]
        take(far, data)
        return len(data) == len(sent)

    until(line, moved)
    assert data == sent
    assert CLOCK.now_s() - began_s < 5.0


def test_a_close_arrives_behind_the_last_bytes(ends):
    line, near, far = ends
    near.send(b"last words")
    near.shutdown(socket.SHUT_WR)
    assert received(line, far, 1_000)[0] == b"last words"
    far.send(b"heard")
    assert received(line, near, 5)[0] == b"heard"
