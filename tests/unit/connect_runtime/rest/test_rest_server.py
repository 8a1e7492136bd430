"""The server thread, at real sockets of this machine."""

from __future__ import annotations

import concurrent.futures
import contextlib
import socket
import ssl
from pathlib import Path

import httpx
import pytest

from connect_runtime.base.connection_limits import ClientConnectionLimits
from connect_runtime.network import keystore_files
from connect_runtime.rest import rest_app, rest_tls
from connect_runtime.rest.http_connection import ClientDeadlines
from connect_runtime.rest.rest_app import RestApplications
from connect_runtime.rest.rest_server import RestServer, RestServerError
from connect_runtime.rest.rest_settings import AdvertisedAddress, RestListener, RestSettings
from connect_runtime.rest.rest_tls import HttpsContexts
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from tests.fakes import rest_herder
from tests.fakes.rest_herder import FakeHerder
from tests.support import eventually, rest, rest_server


@pytest.fixture
def herder() -> FakeHerder:
    return FakeHerder()


@pytest.fixture(scope="module")
def authority() -> CertificateAuthority:
    return CertificateAuthority.create("test", wall_ms=SystemClock().wall_ms())


def get(url: str, *, verify: ssl.SSLContext | bool = False) -> httpx.Response:
    """Without `verify` no certificate is looked at, nor are any read, which takes its time."""
    with httpx.Client(trust_env=False, timeout=10, verify=verify) as client:
        return client.get(url)


def address(running: RestServer) -> tuple[str, int]:
    host, _, port = running.worker_id.rpartition(":")
    return host, int(port)


def now_s() -> float:
    return SystemClock().now_s()


def test_nothing_is_found_until_the_api_is_attached(herder: FakeHerder) -> None:
    with rest_server.started() as running:
        answer = get(f"{running.advertised_url}connectors")
        assert (answer.status_code, answer.json()["error_code"]) == (404, 404)
        running.attach_applications(rest_app.build_applications(rest.parts(herder), RestSettings()))
        assert get(f"{running.advertised_url}connectors").json() == []


def test_every_interface_is_listened_at(herder: FakeHerder) -> None:
    everywhere = RestListener(scheme="http", host="", port=0)
    with rest_server.serving(herder, rest_server.at(everywhere)) as running:
        assert get(f"http://127.0.0.1:{address(running)[1]}/").json()["version"] == "4.3.1"


def test_a_used_port_is_an_error_and_nothing_stays_open(herder: FakeHerder) -> None:
    with rest_server.started() as running:
        taken = RestListener(scheme="http", host="127.0.0.1", port=address(running)[1])
        second = RestServer(
            rest_server.at(rest_server.LOCAL, taken), on_thread_death=lambda _: None
        )
        with pytest.raises(RestServerError, match=r"cannot listen on http://127.0.0.1:.*in use"):
            second.start()
        assert second.stop()


def test_https_needs_settings() -> None:
    listener = RestListener(scheme="https", host="127.0.0.1", port=0)
    broken = RestServer(rest_server.at(listener), on_thread_death=lambda _: None)
    with pytest.raises(RestServerError, match="https requires ssl"):
        broken.start()


def test_it_stops_in_time_although_a_request_hangs(herder: FakeHerder) -> None:
    herder.silent = True
    with (
        concurrent.futures.ThreadPoolExecutor(1) as pool,
        rest_server.serving(herder) as running,
    ):
        hanging = pool.submit(get, f"{running.advertised_url}connectors/c")
        eventually.eventually(lambda: bool(herder.submitted), 5, "the request arrives")
        began_s = now_s()
        assert running.stop(graceful_s=1)
        assert now_s() - began_s < 5
        with pytest.raises(httpx.HTTPError):
            hanging.result(timeout=5).raise_for_status()


def test_a_running_request_is_answered_before_the_end(herder: FakeHerder) -> None:
    herder.silent = True
    with (
        concurrent.futures.ThreadPoolExecutor(2) as pool,
        rest_server.serving(herder) as running,
    ):
        asked = pool.submit(get, f"{running.advertised_url}health")
        eventually.eventually(lambda: bool(herder.submitted), 5, "the request arrives")
        stopped = pool.submit(running.stop, 10)
        herder.pending[0].set_result(rest_herder.ACCEPTED)
        assert asked.result(timeout=5).json()["status"] == "healthy"
        assert stopped.result(timeout=5)


def test_it_stops_twice_and_before_it_started() -> None:
    never = RestServer(rest_server.at(), on_thread_death=lambda _: None)
    assert never.stop()
    assert never.stop()


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: "], ids=["nothing", "half"])
def test_who_asks_nothing_is_let_go(sent: bytes) -> None:
    with (
        rest_server.started(deadlines=ClientDeadlines(head_s=1)) as running,
        socket.create_connection(address(running), timeout=10) as client,
    ):
        client.sendall(sent)
        assert client.recv(1) == b""


def test_a_connection_serves_many_requests(herder: FakeHerder) -> None:
    with (
        rest_server.serving(herder) as running,
        httpx.Client(trust_env=False, verify=False, base_url=running.advertised_url) as client,
    ):
        ports = {
            client.get("connectors").extensions["network_stream"].get_extra_info("client_addr")
            for _ in range(3)
        }
    assert len(ports) == 1


# What is advertised


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (AdvertisedAddress(), "http://127.0.0.1:{http}/"),
        (AdvertisedAddress(scheme="HTTPS"), "https://127.0.0.1:{https}/"),
        (AdvertisedAddress(host="worker-1", port=1234), "http://worker-1:1234/"),
        (AdvertisedAddress(host="fd00::1"), "http://[fd00::1]:{http}/"),
    ],
)
def test_what_is_advertised(told: AdvertisedAddress, expected: str, secured: HttpsContexts) -> None:
    configured = rest_server.at(
        RestListener(scheme="https", host="127.0.0.1", port=0),
        rest_server.LOCAL,
        advertised=told,
    )
    with rest_server.started(configured, main_https=secured) as running:
        ports = {each.listener.scheme: each.port for each in running._bound}
        url = expected.format(**ports)
        assert running.advertised_url == url
        assert running.worker_id == url.split("//")[1].rstrip("/")
        assert running.admin_url == url


def test_another_machine_reaches_a_listener_at_every_interface() -> None:
    everywhere = RestListener(scheme="http", host="0.0.0.0", port=0)
    with rest_server.started(rest_server.at(everywhere)) as running:
        assert not running.advertised_url.startswith("http://0.0.0.0")


# Administrators


def test_loggers_are_served_apart(herder: FakeHerder) -> None:
    configured = rest_server.at(admin_listeners=(rest_server.LOCAL,))
    with rest_server.serving(herder, configured) as running:
        assert running.admin_url is not None
        assert running.admin_url != running.advertised_url
        assert get(f"{running.admin_url}admin/loggers").status_code == 200
        assert get(f"{running.advertised_url}admin/loggers").status_code == 404
        assert get(f"{running.admin_url}connectors").status_code == 404


def test_loggers_are_served_nowhere(herder: FakeHerder) -> None:
    with rest_server.serving(herder, rest_server.at(admin_listeners=())) as running:
        assert running.admin_url is None
        assert get(f"{running.advertised_url}admin/loggers").status_code == 404


# https


@pytest.fixture(scope="module")
def secured(
    authority: CertificateAuthority, tmp_path_factory: pytest.TempPathFactory
) -> HttpsContexts:
    return _https(authority, tmp_path_factory.mktemp("https"))


def _https(authority: CertificateAuthority, folder: Path, **more: str) -> HttpsContexts:
    issued = authority.issue_certificate(
        "worker", hosts=["127.0.0.1"], wall_ms=SystemClock().wall_ms()
    )
    (folder / "key.pem").write_bytes(issued.certificate_pem + issued.key_pem)
    properties = {
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": "key.pem",
        "listeners.https.ssl.truststore.type": "PEM",
        "listeners.https.ssl.truststore.certificates": authority.certificate_pem.decode(),
        "ssl.keystore.location": "not looked at",
    }
    return rest_tls.read_https_contexts(
        properties | more, files=keystore_files.create_store_files(folder)
    )


HTTPS = RestListener(scheme="https", host="127.0.0.1", port=0)


@pytest.fixture
def trusting(authority: CertificateAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.certificate_pem.decode())


def test_https_is_served(secured: HttpsContexts, trusting: ssl.SSLContext) -> None:
    with rest_server.started(rest_server.at(HTTPS), main_https=secured) as running:
        assert running.advertised_url.startswith("https://")
        assert get(running.advertised_url, verify=trusting).status_code == 404
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            get(running.advertised_url, verify=True)


def test_clients_must_show_a_certificate(
    authority: CertificateAuthority, tmp_path: Path, trusting: ssl.SSLContext
) -> None:
    required = {"listeners.https.ssl.client.auth": "required"}
    secured = _https(authority, tmp_path, **required)
    with rest_server.started(rest_server.at(HTTPS), main_https=secured) as running:
        with pytest.raises(httpx.HTTPError):
            get(running.advertised_url, verify=trusting)
        assert get(running.advertised_url, verify=secured.client).status_code == 404


def test_headers_of_proxies_do_not_change_whose_request_it_is() -> None:
    seen = []

    async def served(scope, receive, send):
        seen.append((scope["client"][0], scope["scheme"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    forged = {"X-Forwarded-For": "9.9.9.9", "X-Forwarded-Proto": "https"}
    with rest_server.started() as running:
        running.attach_applications(RestApplications(main=served, admin=None))
        with httpx.Client(trust_env=False, timeout=10) as client:
            assert client.get(running.advertised_url, headers=forged).status_code == 200
    assert seen == [("127.0.0.1", "http")]


def test_connections_that_agree_on_no_tls_are_limited_as_all_others(
    herder: FakeHerder, secured: HttpsContexts, trusting: ssl.SSLContext
) -> None:
    limits = ClientConnectionLimits(total=4, per_address=4, loopback=4)
    with (
        rest_server.started(rest_server.at(HTTPS), main_https=secured, limits=limits) as running,
        contextlib.ExitStack() as many,
    ):
        running.attach_applications(rest_app.build_applications(rest.parts(herder), RestSettings()))
        flood = [
            many.enter_context(socket.create_connection(address(running), timeout=10))
            for _ in range(6 * limits.loopback)
        ]
        for each in flood:
            each.sendall(b"\x16")
            each.setblocking(False)
        eventually.eventually(lambda: sum(map(_is_open, flood)) == limits.loopback, 20.0)
        for _ in range(2 * limits.loopback):
            assert get(running.advertised_url, verify=trusting).status_code == 200
        eventually.eventually(lambda: sum(map(_is_open, flood)) < limits.loopback, 20.0)


def _is_open(client: socket.socket) -> bool:
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
