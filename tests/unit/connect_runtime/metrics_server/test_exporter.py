from __future__ import annotations

import contextlib
import functools
import gzip
import logging
import socket
import threading
import urllib.error
import urllib.request
from concurrent import futures
from contextlib import ExitStack, closing

import pytest
from prometheus_client import parser

from connect_runtime.base import host_and_origin_rules
from connect_runtime.base.metrics import Metric, MetricFamily, MetricKind, MetricRegistry
from connect_runtime.metrics_server import exporter as metrics_server_exporter
from connect_runtime.metrics_server.exporter import ExporterError, MetricsExporter
from connect_runtime.rest.http_pages import (
    MountedPage,
    PageRenderer,
    PageRequest,
    PageResponse,
    PageThreadPool,
)
from connect_runtime.system.supervised_threads import ThreadPool
from tests.support import eventually

RECORDS = Metric(
    name="copied_records_total",
    kind=MetricKind.COUNTER,
    help="Records copied.",
    unit="records",
    labels=("flow", "topic"),
)
LAG = Metric(
    name="lag_seconds", kind=MetricKind.GAUGE, help="Lag now.", unit="seconds", labels=("flow",)
)


@pytest.fixture
def registry():
    made = MetricRegistry()
    made.declare_metric(RECORDS)
    made.declare_metric(LAG)
    made.increase_counter(RECORDS, 5, labels=("a->b", 'odd"\\\ntopic'))
    made.set_gauge_series(LAG, {("a->b",): 0.25})
    made.publish_metric_families()
    return made


@pytest.fixture
def exporter(registry):
    made = MetricsExporter(registry, host="127.0.0.1", port=0)
    made.start()
    yield made
    made.stop()


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read(), "utf-8")


def test_prometheus_reads_what_was_published(exporter):
    families = {
        each.name: each for each in parser.text_string_to_metric_families(get(exporter.url))
    }
    assert families["copied_records"].type == "counter"
    assert families["lag_seconds"].documentation == "Lag now."
    samples = [each for family in families.values() for each in family.samples]
    assert {each.name: (each.labels, each.value) for each in samples} == {
        "copied_records_total": ({"flow": "a->b", "topic": 'odd"\\\ntopic'}, 5.0),
        "lag_seconds": ({"flow": "a->b"}, 0.25),
    }


def test_who_accepts_it_is_answered_compressed(exporter):
    asked = urllib.request.Request(exporter.url, headers={"Accept-Encoding": "gzip, deflate"})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert gzip.decompress(answer.read()).decode() == get(exporter.url)


def test_a_scrape_shows_the_newest_values(exporter, registry):
    registry.set_gauge_series(LAG, {("a->b",): 7.0})
    assert "lag_seconds{" + 'flow="a->b"} 0.25' in get(exporter.url)
    registry.publish_metric_families()
    assert "lag_seconds{" + 'flow="a->b"} 7.0' in get(exporter.url)


def test_another_path_names_the_right_one(exporter):
    with pytest.raises(urllib.error.HTTPError) as raised:
        get(exporter.url.removesuffix("metrics"))
    with raised.value as answer:
        assert answer.code == 404
        assert "/metrics" in answer.read().decode()


def test_a_port_in_use_is_an_error_that_names_it(registry):
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        exporter = MetricsExporter(registry, host="127.0.0.1", port=port)
        with pytest.raises(ExporterError, match=rf"port {port}.*in use"):
            exporter.start()
    exporter.stop()


def test_a_host_that_is_not_ours_is_an_error(registry):
    exporter = MetricsExporter(registry, host="192.0.2.1", port=0)
    with pytest.raises(ExporterError, match=r"192\.0\.2\.1"):
        exporter.start()


def test_nobody_listens_after_stop(exporter):
    exporter.stop()
    with pytest.raises(urllib.error.URLError):
        get(exporter.url)


def test_a_client_that_hangs_up_early_leaves_the_service_alone(exporter):
    port = int(exporter.url.split(":")[2].split("/")[0])
    with closing(socket.create_connection(("127.0.0.1", port))) as client:
        client.sendall(b"GET /met")
    assert "lag_seconds" in get(exporter.url)


def test_without_a_host_everybody_may_ask(registry):
    exporter = MetricsExporter(registry, host="", port=0)
    exporter.start()
    try:
        assert exporter.url.startswith("http://localhost:")
        assert "lag_seconds" in get(exporter.url.replace("localhost", "127.0.0.2"))
    finally:
        exporter.stop()


def paged(registry, **beside: PageRenderer) -> MetricsExporter:
    made = MetricsExporter(
        registry,
        host="127.0.0.1",
        port=0,
        pages={f"/{name}": make for name, make in beside.items()},
    )
    made.start()
    return made


def told(url: str, **request) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, **request), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_pages_are_beside_the_metrics(registry, caplog):
    caplog.set_level(logging.ERROR)

    def seen(asked: PageRequest) -> PageResponse:
        text = f"{asked.path} {dict(asked.query)} {asked.accept} {asked.requested_with}"
        return PageResponse(status=503, body=text.encode())

    def broken(_: PageRequest) -> PageResponse:
        raise ValueError("why")

    exporter = paged(registry, seen=seen, broken=broken)
    root = exporter.url.removesuffix("/metrics")
    try:
        headers = {"Accept": "text/html", "X-Requested-With": "us"}
        asked = told(f"{root}/seen?a=1&a=2", headers=headers)
        assert asked == (503, "/seen {'a': '1'} text/html us")
        assert told(f"{root}/seen", method="HEAD") == (503, "")
        assert told(f"{root}/seen", method="POST", data=b"")[0] == 405
        assert told(f"{root}/broken")[0] == 500
        assert "why" in caplog.text
        assert "lag_seconds" in get(exporter.url)
    finally:
        exporter.stop()


def test_pages_for_people_are_shown_under_own_names_alone(registry):
    """DNS rebinding: a page from elsewhere has its own name looked up as our address."""

    def seen(asked: PageRequest) -> PageResponse:
        return PageResponse(body=asked.requested_with.encode())

    exporter = MetricsExporter(
        registry,
        host="127.0.0.1",
        port=0,
        pages={"/seen": seen, "/lives": LIVES},
        hosts=host_and_origin_rules.parse_allowed_hosts(["node.example.org"]),
    )
    exporter.start()
    root = exporter.url.removesuffix("/metrics")
    try:
        status, text = told(f"{root}/seen", headers={"Host": "evil.example"})
        assert status == 403
        assert "'evil.example'" in text
        assert host_and_origin_rules.ALLOWED_HOST_NAMES_KEY in text
        ours = {"Host": "node.example.org:9464", "X-Requested-With": "us"}
        assert told(f"{root}/seen", headers=ours) == (200, "us")
        for foreign in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}):
            assert told(f"{root}/seen", headers=ours | foreign) == (200, "")
        for path in ("lives", "metrics"):
            assert told(f"{root}/{path}", headers={"Host": "mm2.mm2.svc"})[0] == 200
    finally:
        exporter.stop()


def test_unread_responses_are_bounded(registry, monkeypatch):
    monkeypatch.setattr(metrics_server_exporter, "MAX_UNSENT_BYTES", 20_000_000)
    made = 0

    def large(_: PageRequest) -> PageResponse:
        nonlocal made
        made += 1
        return PageResponse(body=b"%07d " % made * 1_000_000)

    def is_made(count: int) -> bool:
        return made == count

    exporter = paged(registry, large=large)
    address = ("127.0.0.1", int(exporter.url.rsplit(":", 1)[1].split("/")[0]))
    clients = [socket.create_connection(address, timeout=10.0) for _ in range(6)]
    try:
        for number, each in enumerate(clients, start=1):
            each.sendall(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
            eventually.eventually(functools.partial(is_made, number), 10.0)

        def read(client: socket.socket) -> int:
            size = 0
            with contextlib.suppress(ConnectionResetError):
                while piece := client.recv(1 << 20):
                    size += len(piece)
            return size

        sizes = [read(each) for each in clients]
        assert [size > 8_000_000 for size in sizes] == [False] * 4 + [True] * 2, sizes
    finally:
        for each in clients:
            each.close()
        exporter.stop()


def test_a_page_that_takes_long_holds_up_no_scrape(registry):
    ending, asked = threading.Event(), threading.Event()

    def slow(_: PageRequest) -> PageResponse:
        asked.set()
        ending.wait(30)
        return PageResponse(body=b"late")

    exporter = paged(registry, slow=slow)
    url = exporter.url.replace("/metrics", "/slow")
    clients = ThreadPool("client", threads_max=1, waiting_max=1)
    answer = clients.submit(lambda: told(url))
    try:
        assert asked.wait(10)
        assert "lag_seconds" in get(exporter.url)
        ending.set()
        assert answer.result(10) == (200, "late")
    finally:
        ending.set()
        clients.stop(1.0)
        exporter.stop()


CLIENTS = 50
LIVES = MountedPage(PageThreadPool.EVENT_LOOP, lambda _: PageResponse(body=b"yes"))
READY = MountedPage(PageThreadPool.PROBES, lambda _: PageResponse(body=b"ready"))


def test_a_page_that_many_want_keeps_nobody_from_hearing_that_we_live(registry):
    ending, asked = threading.Event(), threading.Event()

    def slow(_: PageRequest) -> PageResponse:
        asked.set()
        ending.wait(30)
        return PageResponse(body=b"late")

    exporter = paged(registry, slow=slow, lives=LIVES, ready=READY)
    root = exporter.url.removesuffix("/metrics")
    clients = ThreadPool("clients", threads_max=CLIENTS, waiting_max=CLIENTS)
    answers = [clients.submit(lambda: told(f"{root}/slow")) for _ in range(CLIENTS)]
    try:
        assert asked.wait(10)
        assert told(f"{root}/lives") == (200, "yes")
        assert told(f"{root}/ready") == (200, "ready")
        assert "lag_seconds" in get(exporter.url)
        ending.set()
        statuses = [each.result(30)[0] for each in answers]
        assert set(statuses) <= {200, 503}, "who is too much is told so"
        assert statuses.count(200) >= 4
    finally:
        ending.set()
        clients.stop(1.0)
        exporter.stop()


def test_who_comes_is_answered_however_many_never_say_what_they_want(registry):
    exporter = paged(registry, lives=LIVES)
    root = exporter.url.removesuffix("/metrics")
    port = int(root.rpartition(":")[2])
    try:
        with ExitStack() as many:
            slow = []
            for _ in range(2 * metrics_server_exporter.CONNECTION_LIMITS.loopback):
                slow.append(socket.create_connection(("127.0.0.1", port)))
                many.enter_context(closing(slow[-1]))
                slow[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
                assert told(f"{root}/lives") == (200, "yes")
            slow[0].settimeout(10)
            assert is_cut_off(slow[0]), "who came first made room"
    finally:
        exporter.stop()


def is_cut_off(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


class SlowSource:
    """Metrics that take a moment; counts how often they were read."""

    all_reads = 0

    @property
    def all_families(self) -> tuple[MetricFamily, ...]:
        self.all_reads += 1
        threading.Event().wait(0.3)
        return ()


def test_scrapes_at_the_same_time_share_one_page():
    """One client that scrapes without end keeps no other from being answered."""
    source = SlowSource()
    made = MetricsExporter(source, host="127.0.0.1", port=0)
    made.start()
    try:
        with futures.ThreadPoolExecutor(50) as clients:
            assert list(clients.map(get, [made.url] * 50)) == [""] * 50
    finally:
        made.stop()
    assert source.all_reads < 10
