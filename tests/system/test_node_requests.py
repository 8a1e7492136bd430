"""What nodes of a group send each other, through a network that somebody reads and answers for."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import itertools
import json
import signal
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from connect_runtime.herder import session_keys
from mm2.sandbox import port_reservation
from tests.support import eventually
from tests.support.mirror import Mirror

if TYPE_CHECKING:
    from mm2.sandbox.sandbox_cluster import SandboxCluster

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

WAIT_S = 120.0
TASKS = "/tasks"
FLOW = "read-by-others->west-of-it"
SPOKEN = "kafka_connect_worker_rebalance_connect_protocol"


@dataclass
class Network:
    """Stands before the node at `port`, and records requests. Unless `answer` is None, it answers
    those with task configurations with this status, as anyone on the way can."""

    port: int
    answer: int | None = 403
    delivered: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """Task configurations that the node has accepted."""
    seen: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def task_configs(self) -> list[dict[str, str]]:
        """The headers of each request with task configurations."""
        return [headers for path, headers, _ in self.seen if path.endswith(TASKS)]


class Handler(http.server.BaseHTTPRequestHandler):
    network: ClassVar[Network]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = self.path.partition("?")[0]
        self.network.seen.append((path, headers, body))
        if self.network.answer and path.endswith(TASKS):
            body = json.dumps({"error_code": 403, "message": "no"}).encode()
            with contextlib.suppress(OSError):
                self._answer(self.network.answer, body if self.network.answer == 403 else b"", {})
            return
        to = http.client.HTTPConnection("127.0.0.1", self.network.port, timeout=60.0)
        with contextlib.closing(to):
            to.request(self.command, self.path, body or None, dict(self.headers))
            answer = to.getresponse()
            status, text = answer.status, answer.read()
            name = session_keys.RESPONSE_SIGNATURE_HEADER
            signature = {name: found} if (found := answer.headers[name]) else {}
        with contextlib.suppress(OSError):  # the node that asked has ended
            self._answer(status, text, signature)
        if path.endswith(TASKS) and status < 300:
            self.network.delivered.append((path, headers, body))

    do_GET = do_PUT = do_DELETE = do_POST

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if body:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


@pytest.fixture
def networks() -> Iterator[dict[str, Network]]:
    """Two of them, by the port at which nodes are to be asked."""
    with contextlib.ExitStack() as last_first:
        made: dict[str, Network] = {}
        for _ in range(2):
            node = port_reservation.reserve_port()
            last_first.callback(node.release)
            network = Network(node.port)
            handler = type("OfThisTest", (Handler,), {"network": network})
            server = last_first.enter_context(
                http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
            )
            serving = threading.Thread(target=server.serve_forever)  # noqa: TID251 - it is joined
            serving.start()
            last_first.callback(serving.join)
            last_first.callback(server.shutdown)
            made[str(server.server_address[1])] = network
        yield made


def test_whoever_answers_for_a_node_gets_no_signature_that_fits_another_request(
    tmp_path: Path,
    east: SandboxCluster,
    west: SandboxCluster,
    networks: dict[str, Network],
    topic: Callable[..., str],
) -> None:
    # A flow that no other test has run. Task configurations that have not changed are not sent.
    origin, destination = FLOW.split("->")
    usual: dict[str, Any] = {
        "clusters": {
            origin: east.client_properties(),
            destination: west.client_properties(),
        },
        "flows": [{"from": origin, "to": destination, "topics": topic(), "replication.factor": 1}],
        "spark": {"engine": "inline"},
    }
    with contextlib.ExitStack() as running:
        nodes = [
            running.enter_context(
                Mirror(
                    tmp_path / port,
                    {
                        **usual,
                        "rest": {
                            "listeners": f"http://127.0.0.1:{network.port}",
                            "rest.advertised.host.name": "127.0.0.1",
                            "rest.advertised.port": port,
                        },
                    },
                )
            )
            for port, network in networks.items()
        ]
        for each in nodes:
            each.await_log("the status page is available at")

        def tails() -> str:
            return "".join(each.tail for each in nodes)

        def are_sent_to_leader(count: int) -> Callable[[], Network | None]:
            """Once so many requests with task configurations were sent to the leader, it."""
            return lambda: next(
                (each for each in networks.values() if len(each.task_configs()) >= count), None
            )

        lags = itertools.count(101)

        def reconfigured() -> Network | None:
            """All connectors get another configuration, and thus all tasks do."""
            usual["flows"][0]["offset.lag.max"] = next(lags)
            for each in nodes:
                each.settings_path.write_text(
                    json.dumps({**json.loads(each.settings_path.read_text()), **usual})
                )
                each.signal(signal.SIGHUP)
            return are_sent_to_leader(1)()

        between = eventually.eventually(reconfigured, WAIT_S, tails, interval_s=5)
        assert between is not None
        eventually.eventually(are_sent_to_leader(3), WAIT_S, tails)
        for each in nodes:
            assert {labels["connect_protocol"] for labels, _ in each.metrics()[SPOKEN]} == {
                "SESSIONED_WHOLE"
            }
        between.answer = 204  # not signed: the task configurations are sent again
        before = len(between.task_configs())
        eventually.eventually(lambda: are_sent_to_leader(before + 3)() is between, WAIT_S, tails)
        between.answer = None
        eventually.eventually(lambda: between.delivered, WAIT_S, tails)
        sent = between.task_configs()
        assert all(session_keys.NONCE_HEADER.lower() in each for each in sent)
        path, headers, body = between.delivered[0]
        names = (session_keys.SIGNATURE_HEADER.lower(), session_keys.ALGORITHM_HEADER.lower())
        by_body = {"content-type": "application/json", **{name: headers[name] for name in names}}
        other = path.replace("Checkpoint", "Heartbeat").replace("Source", "Heartbeat")
        for to, given in ((path, headers), (path, by_body), (other, by_body)):
            request = urllib.request.Request(
                f"http://127.0.0.1:{between.port}{to}", method="POST", data=body, headers=given
            )
            with pytest.raises(urllib.error.HTTPError) as raised:
                urllib.request.urlopen(request, timeout=20.0)
            with raised.value as refused:
                assert refused.code in (400, 403), to
