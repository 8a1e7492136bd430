"""Clients that take their time, send nonsense or are too many: at the real server, of the API that
users ask and of the one that workers ask each other."""

from __future__ import annotations

import base64
import contextlib
import logging
import re
import select
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette import types

from connect_runtime.base.connection_limits import ClientConnectionLimits
from connect_runtime.herder.session_keys import SessionKeySettings
from connect_runtime.rest import http_connection, http_request, rest_app
from connect_runtime.rest.http_connection import ClientDeadlines
from connect_runtime.rest.http_request import RequestBodySlots, RestRequest
from connect_runtime.rest.request_forwarding import RestDeadlines
from connect_runtime.rest.rest_app import RestApplications, RestDependencies
from connect_runtime.rest.rest_server import RestServer
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.storage.cluster_config_state import SessionKey
from tests.fakes.rest_herder import FakeHerder
from tests.support import eventually, rest, rest_server

SOON_S = 20.0
SHORT_S = 0.4
KEY = SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=1)
SHORT = ClientDeadlines(head_s=SHORT_S, idle_s=SHORT_S, unread_body_s=SHORT_S, response_s=SHORT_S)
GET = b"GET /connectors HTTP/1.1\r\nHost: a\r\n\r\n"
Running = Callable[..., contextlib.AbstractContextManager[RestServer]]


def users_api(herder: FakeHerder) -> types.ASGIApp:
    return rest_app.build_applications(_parts(herder), RestSettings()).main


def workers_api(herder: FakeHerder) -> types.ASGIApp:
    keys = SessionKeySettings()
    return rest_app.build_internal_application(
        _parts(herder), RestSettings(), keys, receiver="", must_be_signed=True
    )


def _parts(herder: FakeHerder) -> RestDependencies:
    return rest.parts(herder, deadlines=RestDeadlines(request_s=SHORT_S, health_s=5))


@pytest.fixture(params=[users_api, workers_api], ids=["users", "workers"])
def running(request) -> Running:
    @contextlib.contextmanager
    def start(**options: Any) -> Iterator[RestServer]:
        herder = FakeHerder(signed=True, key=KEY)
        with rest_server.started(**options) as made:
            made.attach_applications(RestApplications(main=request.param(herder), admin=None))
            yield made

    return start


def connect(to: RestServer) -> socket.socket:
    host, _, port = to.worker_id.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=SOON_S)


def is_cut_off(client: socket.socket, *, while_sending: bytes = b"") -> bool:
    """Within a moment; what was answered before does not matter."""
    try:
        if while_sending:
            client.sendall(while_sending)
        if not select.select([client], [], [], 0.05)[0]:
            return False
        return client.recv(1024 * 1024) == b""
    except OSError:
        return True


def some(client: socket.socket) -> bytes:
    found = client.recv(65536)
    assert found, "it was cut off"
    return found


def status(client: socket.socket) -> int:
    """Of an answer, all of which is read."""
    found = b""
    while b"\r\n\r\n" not in found:
        found += some(client)
    head, _, body = found.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: ([0-9]+)", head)
    while length is not None and len(body) < int(length[1]):
        body += some(client)
    return int(head.split(b" ", 2)[1])


@pytest.mark.parametrize("asked_before", [0, 1, 2])
def test_a_slow_head_is_cut_off_also_on_a_connection_that_has_asked(running, asked_before):
    """Bytes that come do not renew the deadline."""
    deadlines = ClientDeadlines(head_s=SHORT_S)
    with running(deadlines=deadlines) as made, connect(made) as client:
        for _ in range(asked_before):
            client.sendall(GET)
            assert status(client) in (200, 404)
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n")
        eventually.eventually(lambda: is_cut_off(client, while_sending=b"X: y\r\n"), SOON_S)


@pytest.mark.parametrize("asked_before", [0, 1])
def test_a_connection_on_which_nothing_is_asked_is_closed(running, asked_before):
    with running(deadlines=SHORT) as made, connect(made) as client:
        for _ in range(asked_before):
            client.sendall(GET)
            assert status(client) in (200, 404)
        eventually.eventually(lambda: is_cut_off(client), SOON_S)


def body_of(path: bytes, method: bytes = b"POST", more: bytes = b"") -> bytes:
    return (
        method + b" " + path + b" HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"X-Connect-Authorization: AAAA\r\n"
        b"X-Connect-Request-Signature-Algorithm: HmacSHA256\r\n" + more + b"\r\n"
    )


def test_a_slow_body_is_refused_in_time_and_cut_off(running):
    with running(deadlines=SHORT) as made, connect(made) as client:
        client.sendall(body_of(b"/connectors/c/tasks", more=b"Content-Length: 1000\r\n"))
        eventually.eventually(lambda: is_cut_off(client, while_sending=b" "), SOON_S)


@pytest.mark.parametrize("method", [b"GET", b"DELETE"])
def test_a_body_that_nobody_wants_keeps_no_connection(running, method):
    with running(deadlines=SHORT) as made, connect(made) as client:
        client.sendall(body_of(b"/connectors/c", method, b"Content-Length: 100000000\r\n"))
        eventually.eventually(lambda: is_cut_off(client, while_sending=b" "), SOON_S)


OF_USERS = pytest.mark.parametrize("running", [users_api], indirect=True, ids=["users"])
"""Of the API that workers ask, no body is read unless its head is signed."""
LARGE_ANSWER = 40_000_000


def test_who_takes_no_answer_is_cut_off(caplog: pytest.LogCaptureFixture) -> None:
    async def large(_: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x" * LARGE_ANSWER})

    with rest_server.started(deadlines=SHORT) as made:
        made.attach_applications(RestApplications(main=large, admin=None))
        with connect(made) as client:
            client.sendall(GET)
            eventually.eventually(lambda: log_says("did not receive its response", caplog), SOON_S)
            size = 0
            with contextlib.suppress(OSError):
                while got := client.recv(1024 * 1024):
                    size += len(got)
            assert size < LARGE_ANSWER


def log_says(text: str, caplog: pytest.LogCaptureFixture) -> bool:
    return any(text in each.getMessage() for each in caplog.records)


LIMITS = ClientConnectionLimits(total=4, per_address=2, loopback=8)


def test_an_address_has_so_many_connections_and_no_more(running):
    with running(limits=LIMITS) as made, contextlib.ExitStack() as many:
        first, *others = [many.enter_context(connect(made)) for _ in range(LIMITS.loopback)]
        last = many.enter_context(connect(made))
        eventually.eventually(lambda: is_cut_off(first), SOON_S, "who was waited for longest")
        for each in (*others, last):
            each.sendall(GET)
            assert status(each) in (200, 404)


def test_a_flood_of_silent_connections_keeps_nobody_from_an_answer(running):
    with running(limits=LIMITS) as made, contextlib.ExitStack() as many:
        for _ in range(10 * LIMITS.loopback):
            many.enter_context(connect(made))
            with connect(made) as client:
                client.sendall(GET)
                assert status(client) in (200, 404)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"POST /connectors HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /connectors HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        b"Content-Length: 5\r\n\r\n{",
        b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n",
        body_of(b"/connectors/c/config", b"PUT", b"Transfer-Encoding: chunked\r\n") + b"4\r\n{",
    ],
    ids=["no request", "no chunk", "half a body", "upgrade", "half a chunk"],
)
def test_what_clients_do_wrong_is_one_line_however_often(running, caplog, sent):
    caplog.set_level(logging.WARNING)
    with running() as made:
        for _ in range(20):
            with connect(made) as client:
                client.sendall(sent)
                client.shutdown(socket.SHUT_WR)
                with contextlib.suppress(OSError):
                    while client.recv(65536):
                        pass
        with connect(made) as client:
            client.sendall(GET)
            assert status(client) in (200, 404)
    lines = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(lines) <= 2, [each.getMessage() for each in lines]
    assert all(each.exc_info is None and "\n" not in each.getMessage() for each in lines)


# Large bodies


@OF_USERS
def test_of_large_bodies_few_are_held_at_a_time(running, monkeypatch):
    """The others wait for a slot, and while they do no more of them is read than of any request."""
    monkeypatch.setattr(http_request, "BODY_TIMEOUT_S", 60.0)
    monkeypatch.setattr(RestRequest, "__init__", _patient)
    found: list[int] = []
    read = RestRequest._acquire_body_slot

    async def counted(self: RestRequest) -> None:
        await read(self)
        slots = self._request.scope[http_request.BODY_SLOTS_SCOPE_KEY]
        found.append(slots._acquired.total())

    monkeypatch.setattr(RestRequest, "_acquire_body_slot", counted)
    path = b"/connectors/c/tasks"
    with running() as made, contextlib.ExitStack() as many:
        clients = [many.enter_context(connect(made)) for _ in range(6)]
        for each in clients:
            each.sendall(body_of(path, more=b"Content-Length: 4000000\r\n"))
            each.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                each.send(b" " * 200_000)
        eventually.eventually(lambda: len(set(found)) >= 2, SOON_S, "two have a slot")
        assert max(found) == 2, "one address has two"


def _patient(self: RestRequest, request: Any, *, body_timeout_s: float) -> None:
    self._request, self._body_timeout_s, self._slot = request, 60.0, None


@OF_USERS
def test_who_gets_no_slot_in_time_is_told_to_come_again(running, monkeypatch):
    monkeypatch.setattr(RequestBodySlots, "_is_slot_free", lambda self, client: False)
    monkeypatch.setattr(RestRequest, "__init__", _patient)
    with running() as made, connect(made) as client:
        made._main._slots.wait_s = SHORT_S
        path = b"/connectors/c/tasks"
        client.sendall(body_of(path, more=b"Content-Length: 200000\r\n") + b" " * 200_000)
        assert status(client) == 503


@OF_USERS
def test_a_body_that_is_declared_too_long_is_not_read_at_all(running):
    with running() as made, connect(made) as client:
        client.sendall(body_of(b"/connectors/c/tasks", more=b"Content-Length: 9000000\r\n"))
        assert status(client) == 413


def test_of_a_request_whose_head_shows_no_signature_no_body_is_read(running):
    with running() as made, connect(made) as client:
        head = (
            b"POST /connectors/c/tasks HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Content-Length: 1000000\r\n\r\n"
        )
        client.sendall(head)
        assert status(client) == 400


# Heads and chunks


@pytest.mark.parametrize("in_parts", [False, True], ids=["at once", "in parts"])
@pytest.mark.parametrize("size", [10_000, 17_000, 40_000])
def test_the_longest_head_does_not_depend_on_how_it_arrives(running, size, in_parts):
    start = GET[:-2] + b"X: "
    head = start + b"x" * (size - len(start) - 4) + b"\r\n\r\n"
    with running() as made, connect(made) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        step = 5_000 if in_parts else size
        with contextlib.suppress(ConnectionError):
            for at in range(0, size, step):
                client.sendall(head[at : at + step])
        if size > http_connection.MAX_HEAD_BYTES:
            with contextlib.suppress(ConnectionError):  # what is sent too late resets it
                assert status(client) == 400
        else:
            assert status(client) in (200, 404)


def test_a_body_with_two_lengths_is_refused_and_ends_the_connection(running):
    """A proxy in front may read another end of it, and take the rest for the next request."""
    head = body_of(b"/connectors", more=b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n")
    with running() as made, connect(made) as client:
        client.sendall(head + b"0\r\n\r\n" + GET)
        assert status(client) == 400
        eventually.eventually(lambda: is_cut_off(client), SOON_S)


@OF_USERS
@pytest.mark.parametrize(("chunk", "is_taken"), [(b"1\r\n \r\n", False), (b"40\r\n", True)])
def test_a_body_of_very_many_small_chunks_is_refused(running, chunk, is_taken):
    if is_taken:
        chunk += b" " * 64 + b"\r\n"
    head = body_of(b"/connectors", more=b"Transfer-Encoding: chunked\r\n")
    with running() as made, connect(made) as client:
        with contextlib.suppress(ConnectionError):
            client.sendall(head + chunk * (200_000 // len(chunk)) + b"0\r\n\r\n")
        if is_taken:
            assert status(client) == 500, "it is no JSON"
        else:
            eventually.eventually(lambda: is_cut_off(client), SOON_S)


def test_bodies_without_a_password_take_no_slot_of_users(monkeypatch):
    """Their head alone cannot be verified, so anyone can send them."""
    monkeypatch.setattr(http_request, "UNVERIFIED_BODY_TIMEOUT_S", 1.0)
    herder = FakeHerder(signed=True, key=KEY)
    herder.make("c")
    users = {"admin": "secret"}
    with rest_server.started() as made, contextlib.ExitStack() as many:
        app = rest_app.build_applications(rest.parts(herder, users=users), RestSettings())
        made.attach_applications(app)
        made._main._slots.wait_s = SHORT_S
        strangers = [many.enter_context(connect(made)) for _ in range(4)]
        for each in strangers:
            each.sendall(body_of(b"/connectors/c/tasks", more=b"Content-Length: 4000000\r\n"))
            each.sendall(b" " * (http_request.SMALL_BODY_BYTES + 1_000))
        user = many.enter_context(connect(made))
        body = b'{"connector.class":"FileStreamSource","name":"c","topic":"t"}'.ljust(100_000)
        head = (
            b"PUT /connectors/c/config HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            b"Authorization: Basic %s\r\nContent-Length: 100000\r\n\r\n"
        )
        user.sendall(head % base64.b64encode(b"admin:secret") + body)
        assert status(user) == 200
        assert [status(each) for each in strangers] == [408] * len(strangers)
