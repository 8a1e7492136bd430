"""A flood of connections that ask nothing, before anything is made of them."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from connect_runtime.system import server_loop
from tests.support import eventually


class Now:
    now_s = 7.5


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def listening(monkeypatch, now) -> Iterator[server_loop._Listening]:
    monkeypatch.setattr(server_loop, "SILENT_PER_S", 2)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as opened:
        fileno = opened.dup().detach()
        made = server_loop._Listening(fileno=fileno, now_s=lambda: now.now_s)
        made.settimeout(10)
        yield made
        made.close()


def accepted(listening: server_loop._Listening) -> list[socket.socket]:
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
            return any(server_loop._has_sent(each) for each in found)

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
