"""A flood of connections that ask nothing, before anything is made of them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from connect_runtime.system import server_event_loop
from connect_runtime.system.server_event_loop import AcceptedConnection
from tests.support import eventually


class Now:
    now_s = 7.5


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def listening(monkeypatch, now) -> Iterator[server_event_loop._ListeningSocket]:
    monkeypatch.setattr(server_event_loop, "SILENT_CONNECTIONS_PER_S", 2)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as opened:
        fileno = opened.dup().detach()
        made = server_event_loop._ListeningSocket(fileno=fileno, now_s=lambda: now.now_s)
        made.settimeout(10)
        yield made
        made.close()


def accepted(listening: server_event_loop._ListeningSocket) -> list[socket.socket]:
    found = []
    listening.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            found.append(listening.accept()[0])
    return found


def test_who_has_asked_something_is_accepted_behind_any_number_of_silent_ones(listening):
    with contextlib.ExitStack() as many:
        silent = [
            many.enter_context(socket.create_connection(listening.getsockname(), timeout=10))
            for _ in range(20)
        ]
        asking = many.enter_context(socket.create_connection(listening.getsockname(), timeout=10))
        asking.sendall(b"GET")
        found: list[socket.socket] = []

        def is_there() -> bool:
            found.extend(many.enter_context(each) for each in accepted(listening))
            return any(server_event_loop._has_received_data(each) for each in found)

        eventually.eventually(is_there, 20.0)
        assert len(found) == 3, "two that say nothing, and the one that asks"
        with pytest.raises(ConnectionResetError):
            silent[-1].recv(1)


def test_a_second_later_silent_ones_may_come_again(listening, now):
    with contextlib.ExitStack() as many:
        for second in (7.5, 8.5):
            now.now_s = second
            for _ in range(4):
                many.enter_context(socket.create_connection(listening.getsockname(), timeout=10))
            found = [many.enter_context(each) for each in accepted(listening)]
            assert len(found) == 2


@pytest.mark.parametrize(
    ("sent", "is_hello"),
    [
        (b"", False),
        (b"\x16", False),
        (b"\x16\x03\x01\x00\x00", False),
        (b"\x16\x03\x01\x00\x04abc", False),
        (b"GET / HTTP/1.1\r\n\r\n", False),
        (b"\x16\x03\x01\x00\x04abcd", True),
    ],
)
def test_of_tls_a_whole_first_record_counts_as_having_sent_something(sent, is_hello):
    client, served = socket.socketpair()
    with client, served:
        client.sendall(sent)
        assert server_event_loop._has_received_client_hello(served) is is_hello
        assert server_event_loop._peek_received_bytes(served, 100) == sent, "it is there to be read"


class Admits:
    def __init__(self, *, most: int) -> None:
        self.most = most
        self.held: list[AcceptedConnection] = []
        self.left: list[AcceptedConnection] = []

    def admit_connection(self, come: AcceptedConnection) -> bool:
        self.held.append(come)
        return len(self.held) <= self.most

    def on_connection_closed(self, come: AcceptedConnection) -> None:
        self.left.append(come)


def test_connections_are_counted_when_accepted_and_released_once_when_closed():
    admission = Admits(most=1)
    with socket.create_server(("127.0.0.1", 0)) as opened, contextlib.ExitStack() as many:
        listening = many.enter_context(
            server_event_loop._ListeningSocket(fileno=opened.dup().detach(), admission=admission)
        )
        listening.settimeout(10)
        first, second = (
            many.enter_context(socket.create_connection(listening.getsockname(), timeout=10))
            for _ in range(2)
        )
        come, _ = listening.accept()
        assert (admission.held, admission.left) == ([come], [])
        assert accepted(listening) == []
        with pytest.raises(ConnectionResetError):
            second.recv(1)
        admission.held[0].force_close()
        assert first.recv(1) == b""
        come.close()
        come.close()
        assert admission.left == [admission.held[1], come]
