"""The control channel over real sockets, plain and TLS: both ends in this process."""

from __future__ import annotations

import datetime
import errno
import hashlib
import os
import socket
import ssl
import stat
import struct
from concurrent import futures
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from connect_runtime.base.errors import FatalError
from connect_runtime.network.tcp_and_tls_transport import Poller
from connect_runtime.system import system_clock
from connect_runtime.system.system_clock import SystemClock
from mm2.copier import control_channel_server, control_channel_wire_format
from mm2.copier.control_channel_client import ControlClient, DriverConnectError
from mm2.copier.control_channel_server import ChannelClosedError, ChannelInbox, ControlServer
from mm2.copier.control_channel_wire_format import (
    ChannelFullError,
    ControlFrameDecoder,
    ControlMessage,
    CopyHello,
    TlsAddress,
    UnixAddress,
)

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate and key of a run: (context, fingerprint)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mm2")])
    day = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(day)
        .not_valid_after(day + datetime.timedelta(days=365 * 50))
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, hashlib.sha256(made.public_bytes(serialization.Encoding.DER)).digest()


@pytest.fixture(params=["unix", "tls"])
def server(request, certificate, tmp_path):
    if request.param == "unix":
        listening = control_channel_server.listen_unix(CLOCK, parent=tmp_path)
    else:
        context, fingerprint = certificate
        listening = control_channel_server.listen_tls(
            CLOCK,
            tls=context,
            fingerprint=fingerprint,
            bind=("127.0.0.1", 0),
            advertised_host="127.0.0.1",
        )
    yield listening
    listening.close()


class Copy:
    """What a copy process does with its client, on a thread that the test itself is."""

    def __init__(self, server: ControlServer, token: bytes) -> None:
        self.poller = Poller()
        self.received: list[ControlMessage] = []
        self.closed: list[str] = []
        self.client = ControlClient(
            str(server.address),
            token,
            self.poller,
            clock=CLOCK,
            on_message=self.received.append,
            on_closed=self.closed.append,
        )

    def connect(self) -> Copy:
        self.client.connect(5.0)
        return self

    def poll_until(self, condition) -> bool:
        return system_clock.wait_until(
            lambda: self.poller.poll(0.01) < 0 or condition(), timeout_s=5.0, interval_s=0.0
        )


@pytest.fixture
def copies():
    made: list[Copy] = []

    def make(server, token):
        made.append(Copy(server, token))
        return made[-1]

    yield make
    for copy in made:
        copy.client.close()
        copy.poller.close()


def numbers(messages):
    return [message["n"] for message in messages]


def test_messages_go_both_ways_in_order(server, copies):
    channel = server.open_channel("east->west task 3")
    channel.send({"type": "settings", "n": 0})
    assert not channel.is_connected
    copy = copies(server, channel.token).connect()
    for n in range(1, 500):
        channel.send({"type": "recovered_state", "n": n, "pad": "x" * (n % 7) * 1000})
        copy.client.send({"type": "anchor", "n": n, "pad": "y" * (n % 5) * 1000})
    assert copy.poll_until(
        lambda: len(copy.received) == 500 and not copy.client._has_unsent_messages()
    )
    assert numbers(copy.received) == list(range(500))
    taken = [channel.receive(5.0) for _ in range(499)]
    assert numbers(taken) == list(range(1, 500))
    assert channel.is_connected
    assert channel.peer.pid == os.getpid()


def test_many_copies_connect_at_once(server, copies):
    channels = [server.open_channel(f"task {n}") for n in range(64)]
    crowd = [copies(server, channel.token).connect() for channel in channels]
    for n, copy in enumerate(crowd):
        copy.client.send({"type": "gauge", "n": n})
        copy.poller.poll(0.1)
    assert [channel.receive(5.0)["n"] for channel in channels] == list(range(64))


def test_channels_may_share_an_inbox(server, copies):
    inbox = ChannelInbox()
    channels = [server.open_channel(name, inbox=inbox) for name in ("a", "b")]
    for channel in channels:
        copy = copies(server, channel.token).connect()
        copy.client.send({"type": "gauge", "n": channel.name})
        copy.client.flush_send_queue(1.0)
    taken = list(filter(None, [inbox.take_message(5.0) for _ in range(2)]))
    assert sorted((channel.name, message["n"]) for channel, message in taken) == [
        ("a", "a"),
        ("b", "b"),
    ]
    assert inbox.take_message(0.0) is None


def test_a_token_opens_once(server, copies):
    channel = server.open_channel("task 0")
    copies(server, channel.token).connect()
    with pytest.raises(DriverConnectError, match="unknown or was already used"):
        copies(server, channel.token).connect()
    with pytest.raises(DriverConnectError, match="unknown or was already used"):
        copies(server, b"\0" * 32).connect()
    assert channel.is_connected


def test_a_closed_channel_takes_its_token_with_it(server, copies):
    channel = server.open_channel("task 0")
    channel.close("not needed")
    assert channel.receive(5.0) == {"type": "closed", "reason": "not needed"}
    with pytest.raises(DriverConnectError, match="unknown or was already used"):
        copies(server, channel.token).connect()
    with pytest.raises(ChannelClosedError, match="not needed"):
        channel.send({"type": "stop"})


def test_the_worker_closes_and_the_copy_notices(server, copies):
    channel = server.open_channel("task 0")
    copy = copies(server, channel.token).connect()
    channel.close()
    assert copy.poll_until(lambda: copy.closed)
    assert copy.closed == ["the driver closed the connection"]
    copy.client.send({"type": "gauge"})
    assert channel.receive(5.0)["type"] == "closed"


def test_the_copy_leaves_and_its_last_words_arrive(server, copies):
    channel = server.open_channel("task 0")
    copy = copies(server, channel.token).connect()
    copy.client.send({"type": "error", "n": 1, "pad": "x" * 3_000_000})
    assert copy.client.flush_send_queue(5.0)
    copy.client.close()
    assert channel.receive(5.0)["n"] == 1
    assert channel.receive(5.0) == {
        "type": "closed",
        "reason": "the copy process closed the connection",
    }
    assert not channel.is_connected
    assert copy.closed == []


def test_closing_the_server_ends_every_copy(server, copies):
    channels = [server.open_channel(f"task {n}") for n in range(3)]
    crowd = [copies(server, channel.token).connect() for channel in channels[:2]]
    server.close()
    assert all(copy.poll_until(lambda copy=copy: copy.closed) for copy in crowd)
    assert [channel.receive(1.0)["type"] for channel in channels] == ["closed"] * 3
    with pytest.raises(FatalError, match="the control server was closed"):
        server.open_channel("task 9")


def test_a_copy_that_nobody_listens_to_is_held_back(server, copies):
    """Nothing grows without bound: the inbox fills, the socket fills, the copy sees its bytes."""
    channel = server.open_channel("task 0")
    copy = copies(server, channel.token).connect()
    sent = 0
    while sent < 60_000:
        for _ in range(500):
            copy.client.send({"type": "run", "n": sent, "pad": "x" * 200})
            sent += 1
        copy.poller.poll(0.001)
    copy.poller.poll(0.05)
    assert copy.client._outbox.pending_bytes > 1_000_000
    assert channel._undelivered < 6 * control_channel_server.MAX_UNDELIVERED_MESSAGES
    taken: list[object] = []
    while len(taken) < sent:
        copy.poller.poll(0.0)
        message = channel.receive(0.0 if copy.client._has_unsent_messages() else 1.0)
        if message is not None:
            taken.append(message["n"])
    assert taken == list(range(sent))
    assert channel._undelivered == 0


def test_large_messages_that_nobody_takes_are_held_back_by_their_size(server, copies):
    channel = server.open_channel("task 0")
    copy = copies(server, channel.token).connect()
    for _ in range(30):
        copy.client.send({"type": "run", "pad": "x" * 1_000_000})
        copy.poller.poll(0.001)
    assert system_clock.wait_until(lambda: channel.is_reading_paused, timeout_s=5.0)
    assert channel._undelivered_bytes < 2 * control_channel_server.MAX_UNDELIVERED_BYTES
    taken = 0
    while taken < 30:
        copy.poller.poll(0.0)
        taken += channel.receive(0.01) is not None
    assert (channel._undelivered, channel._undelivered_bytes) == (0, 0)


def test_one_stuck_channel_does_not_hold_up_another(server, copies):
    stuck, lively = server.open_channel("stuck"), server.open_channel("lively")
    flood = copies(server, stuck.token).connect()
    for n in range(control_channel_server.MAX_UNDELIVERED_MESSAGES * 3):
        flood.client.send({"type": "run", "n": n})
    flood.client.flush_send_queue(2.0)
    assert system_clock.wait_until(lambda: stuck.is_reading_paused, timeout_s=5.0)
    other = copies(server, lively.token).connect()
    other.client.send({"type": "gauge", "n": 1})
    other.client.flush_send_queue(1.0)
    assert lively.receive(5.0)["n"] == 1


def test_a_copy_that_does_not_read_is_refused_more(server, copies):
    channel = server.open_channel("task 0")
    copies(server, channel.token).connect()

    def flood():
        for _ in range(200):
            channel.send({"type": "recovered_state", "pad": "x" * 1_000_000})

    with pytest.raises(ChannelFullError, match="the maximum is"):
        flood()
    assert channel.send_queue.pending_bytes <= control_channel_server.DRIVER_SEND_QUEUE_BYTES


def test_senders_on_many_threads_lose_nothing(server, copies):
    channel = server.open_channel("task 0")
    copy = copies(server, channel.token).connect()

    def send(start):
        for n in range(start, start + 500):
            channel.send({"type": "recovered_state", "n": n})

    with futures.ThreadPoolExecutor(8) as senders:
        sent = senders.map(send, range(0, 4000, 500))
        assert copy.poll_until(lambda: len(copy.received) == 4000)
    assert list(sent) == [None] * 8
    assert sorted(numbers(copy.received)) == list(range(4000))


def path_of(server: ControlServer) -> Path:
    assert isinstance(server.address, UnixAddress)
    return Path(server.address.path)


def test_the_socket_is_for_its_user_alone(tmp_path):
    server = control_channel_server.listen_unix(CLOCK, parent=tmp_path)
    path = path_of(server)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    server.close()
    server.close()
    assert not path.parent.exists()


def test_a_long_temporary_path_is_no_obstacle(tmp_path):
    deep = tmp_path / ("d" * 90)
    deep.mkdir()
    server = control_channel_server.listen_unix(CLOCK, parent=deep)
    assert len(str(path_of(server))) < 100
    server.close()
    assert list(deep.iterdir()) == []


def raw_connection(server):
    stranger = socket.socket(socket.AF_UNIX)
    stranger.settimeout(5.0)
    stranger.connect(str(path_of(server)))
    return stranger


@pytest.fixture
def unix_server(tmp_path):
    server = control_channel_server.listen_unix(CLOCK, parent=tmp_path)
    yield server
    server.close()


@pytest.mark.parametrize(
    "greeting",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">I", control_channel_wire_format.MAX_GREETING_BYTES + 1),
        struct.pack(">I", 2) + b"[]" + struct.pack(">I", 3) + b"[1]",
    ],
)
def test_a_stranger_is_cut_off_and_others_live(unix_server, copies, greeting):
    channel = unix_server.open_channel("task 0")
    with raw_connection(unix_server) as stranger:
        stranger.sendall(greeting)
        assert stranger.recv(1) == b""
    copies(unix_server, channel.token).connect()


def test_another_release_is_told_so(unix_server):
    hello = control_channel_wire_format.encode_hello(CopyHello(token=b"t", pid=1, host="h"))
    body = control_channel_wire_format.encode_message(hello | {"version": 99})
    with raw_connection(unix_server) as stranger:
        stranger.sendall(struct.pack(">I", len(body) + 2) + b"[" + body + b"]")
        answer = ControlFrameDecoder().decode_messages(stranger.recv(4096))
        assert stranger.recv(1) == b""
    assert answer[0]["type"] == "refused"
    assert "same release" in str(answer[0]["reason"])


def test_strangers_cannot_fill_the_log(tmp_path, caplog):
    jumping = JumpingClock()
    server = control_channel_server.listen_unix(jumping, parent=tmp_path)
    body = control_channel_wire_format.encode_message({"type": "x" * 4000})
    hello = struct.pack(">I", len(body) + 2) + b"[" + body + b"]"
    try:
        for ahead_s in (0.0, 100.0):
            jumping.ahead_s = ahead_s
            for greeting in (hello, b"GET / HTTP/1.1\r\n\r\n", hello):
                with raw_connection(server) as stranger:
                    stranger.sendall(greeting)
                    while stranger.recv(4096):
                        pass
    finally:
        server.close()
    first, second = [each for each in caplog.messages if "before a valid hello" in each]
    assert "1 connection closed before a valid hello; the last one: refused" in first
    assert "3 connections closed before a valid hello; the last one: refused" in second
    assert len(first) < 250


def test_copy_processes_that_start_together_do_not_replace_each_other(
    unix_server, copies, monkeypatch
):
    monkeypatch.setattr(control_channel_server, "MAX_UNGREETED_CONNECTIONS", 2)
    channels = [unix_server.open_channel(f"task {n}") for n in range(8)]
    waiting = [raw_connection(unix_server) for _ in channels]
    assert system_clock.wait_until(lambda: len(unix_server._unauthenticated) == 8, timeout_s=5.0)
    assert not any(map(_is_closed, waiting))
    for each in waiting:
        each.close()


class JumpingClock(SystemClock):
    ahead_s = 0.0

    def now_s(self):
        return super().now_s() + self.ahead_s


def test_idle_connections_of_strangers_do_not_keep_a_copy_process_out(
    certificate, caplog, monkeypatch
):
    monkeypatch.setattr(control_channel_server, "MAX_UNGREETED_CONNECTIONS", 8)
    monkeypatch.setattr(control_channel_server, "ACCEPT_BATCH", 2)
    context, fingerprint = certificate
    bind = ("127.0.0.1", 0)
    listening = control_channel_server.listen_tls(
        CLOCK, tls=context, fingerprint=fingerprint, bind=bind, advertised_host="127.0.0.1"
    )
    address = ("127.0.0.1", cast(TlsAddress, listening.address).port)
    strangers = [socket.create_connection(address) for _ in range(40)]
    try:
        assert system_clock.wait_until(lambda: _is_closed(strangers[0]), timeout_s=5.0)
        channel = listening.open_channel("a")
        copy = Copy(listening, channel.token).connect()
        assert system_clock.wait_until(lambda: channel.is_connected, timeout_s=5.0)
        copy.client.close()
        copy.poller.close()
        assert not _is_closed(strangers[-1])
        lines = [each.getMessage() for each in caplog.records]
        assert len([each for each in lines if "closing the oldest" in each]) == 1
    finally:
        for each in strangers:
            each.close()
        listening.close()


def _is_closed(peer: socket.socket) -> bool:
    peer.setblocking(False)
    try:
        return peer.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_silent_stranger_is_turned_away(tmp_path):
    jumping = JumpingClock()
    server = control_channel_server.listen_unix(jumping, parent=tmp_path)
    with raw_connection(server) as stranger:
        assert system_clock.wait_until(lambda: bool(server._unauthenticated), timeout_s=5.0)
        jumping.ahead_s = control_channel_server.GREETING_TIMEOUT_S
        assert stranger.recv(1) == b""
    server.close()


class Listener:
    """A listening socket whose next calls of `accept` fail as `failures` say."""

    def __init__(self, path, *failures):
        self.path = path
        self.failures = [OSError(each, os.strerror(each)) for each in failures]
        self.calls = 0
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(path)
        self._socket.listen()
        self.fileno, self.close = self._socket.fileno, self._socket.close
        self.setblocking = self._socket.setblocking

    def accept(self):
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return self._socket.accept()


def test_a_listener_that_cannot_accept_rests_and_goes_on(tmp_path, copies, caplog):
    path = str(tmp_path / "listens")
    listener = Listener(path, errno.EMFILE, errno.ENOBUFS)
    address = UnixAddress(path=path)
    server = ControlServer(cast(Any, listener), address=address, clock=CLOCK)
    channel = server.open_channel("task 0")
    copies(server, channel.token).connect()
    assert channel.is_connected
    assert listener.calls <= 5
    told = [each for each in caplog.messages if "copy processes cannot connect" in each]
    assert len(told) == 1
    assert "Too many open files" in told[0]
    server.close()


def test_another_certificate_is_refused_before_the_token_is_sent(certificate, copies):
    context, fingerprint = certificate
    server = control_channel_server.listen_tls(
        CLOCK,
        tls=context,
        fingerprint=bytes(reversed(fingerprint)),
        bind=("127.0.0.1", 0),
        advertised_host="127.0.0.1",
    )
    channel = server.open_channel("task 0")
    with pytest.raises(DriverConnectError, match="does not match the driver's fingerprint"):
        copies(server, channel.token).connect()
    assert not channel.is_connected
    server.close()


def test_an_address_in_use_is_named(certificate):
    context, fingerprint = certificate
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(FatalError, match=f"127.0.0.1:{port}.* control.port"):
            control_channel_server.listen_tls(
                CLOCK,
                tls=context,
                fingerprint=fingerprint,
                bind=("127.0.0.1", port),
                advertised_host="h",
            )


def test_nobody_there(copies, unix_server):
    unix_server.close()
    told = r"control\.sock.*control\.host and control\.port of the spark section"
    with pytest.raises(DriverConnectError, match=told):
        copies(unix_server, b"t").connect()


def test_a_worker_that_never_answers_costs_the_timeout_only(tmp_path):
    with socket.socket(socket.AF_UNIX) as deaf:
        path = str(tmp_path / "deaf.sock")
        deaf.bind(path)
        deaf.listen()
        selector = Poller()
        client = ControlClient(
            str(UnixAddress(path=path)),
            b"t",
            selector,
            clock=CLOCK,
            on_message=lambda _message: None,
            on_closed=lambda _reason: None,
        )
        with pytest.raises(DriverConnectError, match="timed out"):
            client.connect(0.2)
        selector.close()


def test_a_fault_of_the_server_is_said_and_ends_the_copies(unix_server, copies, monkeypatch):
    channel = unix_server.open_channel("task 0")
    copy = copies(unix_server, channel.token).connect()
    monkeypatch.setattr(channel, "deliver_to_inbox", None)
    copy.client.send({"type": "gauge"})
    assert copy.poll_until(lambda: copy.closed)
    assert "control server has failed" in channel.receive(5.0)["reason"]
    with pytest.raises(FatalError, match="has failed"):
        unix_server.open_channel("task 1")


WALL_MS = 1_790_000_000_000


def test_each_run_has_a_certificate_of_its_own():
    first = control_channel_server.create_tls_context(host="127.0.0.1", wall_ms=WALL_MS)
    other = control_channel_server.create_tls_context(host="node-1", wall_ms=WALL_MS)
    assert len(first[1]) == 32
    assert first[1] != other[1]
    assert first[0].minimum_version is ssl.TLSVersion.TLSv1_2
