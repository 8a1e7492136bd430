"""A server that no client holds up: not by asking slowly, not by listening slowly, not by being
many."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from connect_runtime.metrics_server import exporter
from connect_runtime.metrics_server.exporter import (
    MetricsHttpRequest,
    MetricsHttpResponse,
    MetricsHttpServer,
)
from connect_runtime.system.supervised_threads import ThreadGroup, UnexpectedThreadEnd
from tests.support import eventually

SOON_S = 20.0
LARGE = b"x" * 40_000_000
"""More than any two buffers hold."""


class Running:
    """A server that tells what it was asked."""

    def __init__(self) -> None:
        self.asked: list[MetricsHttpRequest] = []
        self._opened = socket.create_server(("127.0.0.1", 0))
        self._threads = ThreadGroup(on_unexpected_end=lambda end: self.ends.append(end))
        self.ends: list[UnexpectedThreadEnd] = []
        served = MetricsHttpServer(self._opened, self._respond)
        self._threads.start("served", served.run_server_thread)

    async def _respond(self, request: MetricsHttpRequest) -> MetricsHttpResponse:
        self.asked.append(request)
        body = LARGE if request.path == "/large" else b"yes"
        return MetricsHttpResponse(
            status=HTTPStatus.OK,
            headers={"Content-Length": str(len(body))},
            body=None if request.method == "HEAD" else body,
        )

    def connect(self) -> socket.socket:
        return socket.create_connection(self._opened.getsockname(), timeout=SOON_S)

    def stop(self) -> None:
        assert self._threads.stop_all(SOON_S) == []
        self._opened.close()
        assert self.ends == []


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    yield made
    made.stop()


def heard(client: socket.socket) -> bytes:
    """All until the end; what a cut off connection had brought is no answer."""
    found = bytearray()
    try:
        while got := client.recv(1024 * 1024):
            found += got
    except ConnectionResetError:
        return b""
    return bytes(found)


def test_an_answer_ends_with_its_connection(running):
    with running.connect() as client:
        client.sendall(b"GET /a%20b?x=1&y HTTP/1.1\r\nHost: a\r\nX-Odd:  z \r\n\r\n")
        assert heard(client) == (
            b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nyes"
        )
    (asked,) = running.asked
    assert (asked.method, asked.path, asked.query) == ("GET", "/a%20b", "x=1&y")
    assert asked.headers == {"host": "a", "x-odd": "z"}


def test_head_has_no_body(running):
    with running.connect() as client:
        client.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
        assert heard(client).endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    "sent",
    [
        b"hello\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"GET http://[ HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"\x16\x03\x01\x02\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"x" * 2 * exporter.MAX_HEAD_BYTES,
    ],
    ids=["no words", "version", "address", "many headers", "tls", "long"],
)
def test_what_is_no_request_is_hung_up_on(running, sent):
    with running.connect() as client:
        client.sendall(sent)
        assert heard(client) == b""
    assert running.asked == []


def test_of_headers_with_one_name_the_first_counts():
    found = exporter.parse_request_head(b"GET / HTTP/1.1\r\nA: 1\r\na: 2\r\n\r\n")
    assert found.headers == {"a": "1"}


def test_who_asks_byte_by_byte_is_cut_off_in_time(running, monkeypatch):
    """The deadline is of the whole head: bytes that come do not renew it."""
    monkeypatch.setattr(exporter, "HEAD_TIMEOUT_S", 0.3)
    with running.connect() as client:
        client.settimeout(0.02)
        client.sendall(b"GET / HTTP/1.1\r\nX: ")

        eventually.eventually(lambda: is_cut_off(client), SOON_S)


def is_cut_off(client: socket.socket) -> bool:
    """Another byte is no longer taken."""
    try:
        client.sendall(b"a")
        return client.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_who_does_not_listen_is_cut_off_in_time(running, monkeypatch):
    monkeypatch.setattr(exporter, "REQUEST_TIMEOUT_S", 0.3)
    with running.connect() as client:
        client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        left = threading.Event()
        assert not left.wait(1.0)
        assert len(heard(client)) < len(LARGE)


def test_who_listens_has_all_of_a_large_answer(running):
    with running.connect() as client:
        client.sendall(b"GET /large HTTP/1.1\r\n\r\n")
        assert heard(client).partition(b"\r\n\r\n")[2] == LARGE


def test_who_goes_early_is_no_matter(running):
    for sent in (b"", b"GET", b"GET /large HTTP/1.1\r\n\r\n"):
        with running.connect() as client:
            client.sendall(sent)
    with running.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert heard(client)


def test_the_end_waits_for_no_client(running, caplog):
    client = running.connect()
    client.sendall(b"GET")
    running.stop()
    assert caplog.records == [], "nor does it complain"
    assert heard(client) == b""
    client.close()
