"""Requests to other workers, over real sockets; mostly to our own API over a fake herder."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from http import server
from urllib import parse

import pytest

from connect_runtime.herder import requests_to_other_workers, session_keys
from connect_runtime.herder.herder_requests import (
    DescribeConnector,
    FenceZombieTasks,
    PutTaskConfigs,
    RestartConnector,
)
from connect_runtime.herder.requests_to_other_workers import (
    PeerRefusedError,
    PeerRequest,
    PeerResponse,
    PeerUnavailableError,
)
from connect_runtime.herder.session_keys import SessionKeySettings, SignedUserRequest
from connect_runtime.rest import rest_app
from connect_runtime.rest.path_prefix_router import NamespaceRouter
from connect_runtime.rest.rest_app import RestApplications
from connect_runtime.rest.rest_client import NamespacedRestClient, RestClient
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.storage.cluster_config_state import SessionKey
from connect_runtime.system.supervised_threads import ThreadGroup
from connect_runtime.system.system_clock import SystemClock
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest, rest_server

KEY = SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=0)
OTHER = SessionKey(key=b"o" * 32, algorithm="HmacSHA256", created_ms=0)


def test_a_follower_passes_on_to_the_leader_and_that_to_the_owner() -> None:
    leader, owner, follower = (FakeHerder() for _ in range(3))
    others = RestClient(timeout_s=10)
    with (
        rest_server.serving(owner, among=others) as at_owner,
        rest_server.serving(leader, among=others) as at_leader,
        rest_server.serving(follower, among=others) as at_follower,
    ):
        for each in (leader, owner, follower):
            each.make("a/b ä")
        owner.leads, owner.leader_url = False, at_leader.advertised_url
        follower.leads, follower.leader_url = False, at_leader.advertised_url
        follower.elsewhere = {"a/b ä": ""}
        leader.elsewhere = {"a/b ä": at_owner.advertised_url}
        said = others.send_and_wait(
            PeerRequest(
                url=at_follower.advertised_url,
                method="POST",
                path=requests_to_other_workers.build_connector_path("a/b ä", "restart"),
            )
        )
    assert said == PeerResponse(status=204)
    expected = [RestartConnector("a/b ä")]
    assert follower.submitted == leader.submitted == owner.submitted == expected


def test_the_third_hop_is_a_conflict() -> None:
    leader, follower = FakeHerder(), FakeHerder()
    others = RestClient(timeout_s=10)
    with (
        rest_server.serving(leader, among=others) as at_leader,
        rest_server.serving(follower, among=others) as at_follower,
    ):
        follower.leads, follower.leader_url = False, at_leader.advertised_url
        leader.leads, leader.leader_url = False, at_follower.advertised_url
        for each in (leader, follower):
            each.make("c")
        call = PeerRequest(url=at_follower.advertised_url, method="DELETE", path="/connectors/c")
        with pytest.raises(PeerRefusedError, match="conflicting operation") as refused:
            others.send_and_wait(call)
    assert refused.value.status == 409
    assert [len(each.submitted) for each in (follower, leader)] == [2, 1]


def test_bodies_and_answers_arrive_whole() -> None:
    leader, follower = FakeHerder(), FakeHerder()
    others = RestClient(timeout_s=10)
    with (
        rest_server.serving(leader, among=others) as at_leader,
        rest_server.serving(follower, among=others) as at_follower,
    ):
        follower.leads, follower.leader_url = False, at_leader.advertised_url
        said = others.send_and_wait(
            PeerRequest(
                url=at_follower.advertised_url,
                method="PUT",
                path="/connectors/c/config",
                body='{"connector.class":"FileStreamSource","topic":"ä"}'.encode(),
            )
        )
    assert said.status == 201
    assert said.value == {
        "name": "c",
        "config": {"connector.class": "FileStreamSource", "topic": "ä", "name": "c"},
        "tasks": [],
        "type": "source",
    }
    assert leader.get_config_state().has_connector("c")


@pytest.mark.parametrize(
    ("key", "status"), [(KEY, None), (OTHER, 403), (None, 400)], ids=["ours", "old", "none"]
)
def test_task_configs_are_taken_with_the_key_of_the_group(
    key: SessionKey | None, status: int | None
) -> None:
    leader = FakeHerder(signed=True, key=KEY)
    leader.make("c")
    with rest_server.serving(leader) as at_leader:
        call = requests_to_other_workers.build_task_configs_request(
            at_leader.advertised_url, "c", [{"a": "ä"}] * 3, key=key, algorithm="HmacSHA256"
        )
        others = RestClient(timeout_s=10)
        if status is None:
            assert others.send_and_wait(call) == PeerResponse(status=204)
        else:
            with pytest.raises(PeerRefusedError) as refused:
                others.send_and_wait(call)
            assert refused.value.status == status
    assert leader.get_config_state().task_count("c") == (3 if status is None else 1)


def test_a_wish_to_fence_is_signed() -> None:
    leader = FakeHerder(signed=True, key=KEY)
    leader.make("c")
    with rest_server.serving(leader) as at_leader:
        call = requests_to_other_workers.build_fence_request(
            at_leader.advertised_url, "c", key=KEY, algorithm="HmacSHA256"
        )
        assert RestClient().send_and_wait(call).status == 204


def test_credentials_are_passed_on() -> None:
    leader = FakeHerder()
    with rest_server.serving(leader, users={"u": "p"}) as at_leader:
        said = RestClient().send_and_wait(
            PeerRequest(
                url=at_leader.advertised_url,
                method="GET",
                path="/connectors",
                authorization="Basic dTpw",
            )
        )
    assert said.value == []


# Workers that are no workers


@pytest.fixture
def answering() -> Iterator[Callable[..., str]]:
    """Serves one status and body to everybody; gives its URL."""
    running = ThreadGroup(on_unexpected_end=lambda _: None)

    def serve(status: int, body: bytes, **headers: str) -> str:
        class Handler(server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Location", "/elsewhere")
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                del format, args

        listening = server.HTTPServer(("127.0.0.1", 0), Handler)
        listening.timeout = 0.05

        def body_of_thread(stop: threading.Event) -> None:
            with listening:
                while not stop.is_set():
                    listening.handle_request()

        running.start("answering", body_of_thread)
        return f"http://127.0.0.1:{listening.server_port}/"

    yield serve
    assert running.stop_all(5) == []


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"<html>", "status 200 with a body that is not JSON"),
        (500, b"<html>", "status 500 with a body that is not JSON"),
        (401, b'"User cannot access the resource."', "status 401 without an error message"),
        (302, b"", "Unexpected status code when handling forwarded request: 302"),
    ],
)
def test_an_answer_that_makes_no_sense_is_a_failure(
    answering: Callable[[int, bytes], str], status: int, body: bytes, told: str
) -> None:
    call = PeerRequest(url=answering(status, body), method="GET", path="/connectors")
    with pytest.raises(PeerUnavailableError, match=told):
        RestClient(timeout_s=10).send_and_wait(call)


@pytest.mark.parametrize(
    ("body", "headers", "told"),
    [
        (gzip.compress(b"0" * 1000), {"Content_Encoding": "gzip"}, "the response is compressed"),
        (b"0" * (8 * 1024 * 1024 + 1), {}, "the response has more than 8 MiB"),
        (b"[" + b"[]," * 600_000 + b"0]", {}, "more than 500,000 JSON values"),
    ],
    ids=["compressed", "long", "many values"],
)
def test_a_response_cannot_fill_the_memory(
    answering: Callable[..., str], body: bytes, headers: dict[str, str], told: str
) -> None:
    call = PeerRequest(url=answering(200, body, **headers), method="GET", path="/connectors")
    with pytest.raises(PeerUnavailableError, match=told):
        RestClient(timeout_s=10).send_and_wait(call)


def test_an_error_is_told_as_the_other_worker_told_it(
    answering: Callable[[int, bytes], str],
) -> None:
    url = answering(409, b'{"error_code":40901,"message":"not now"}')
    with pytest.raises(PeerRefusedError, match=r"^not now$") as refused:
        RestClient().send_and_wait(PeerRequest(url=url, method="GET", path="/"))
    assert (refused.value.status, refused.value.error_code) == (409, 40901)


def test_nobody_there_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    call = PeerRequest(url=f"http://127.0.0.1:{port}", method="GET", path="/")
    with pytest.raises(PeerUnavailableError, match=f"GET http://127.0.0.1:{port}/: "):
        RestClient(timeout_s=10).send_and_wait(call)


def test_silence_is_a_failure_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(PeerUnavailableError, match=r"no response within 0.2 s"):
            RestClient(timeout_s=0.2).send_and_wait(PeerRequest(url=url, method="GET", path="/"))


def test_a_url_that_is_none_is_a_failure() -> None:
    with pytest.raises(PeerUnavailableError):
        RestClient().send_and_wait(PeerRequest(url="nonsense", method="GET", path="/"))


class JavasNode(RestClient):
    """Knows Java's signature alone, as nodes of Java MirrorMaker 2 do."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[PeerRequest] = []

    async def send(self, call: PeerRequest) -> PeerResponse:
        self.asked.append(call)
        if session_keys.NONCE_HEADER in call.signature:
            raise PeerRefusedError("invalid signature", status=403, error_code=403)
        return PeerResponse(status=204)


def with_nonce(call: PeerRequest) -> PeerRequest:
    return dataclasses.replace(call, signature={session_keys.NONCE_HEADER: "0"})


def test_javas_nodes_are_asked_again_as_java_signs() -> None:
    asking = NamespacedRestClient(
        JavasNode(), prefix="/a/b", sign=with_nonce, has_java_workers=lambda: True
    )
    fence = requests_to_other_workers.build_fence_request(
        "http://java:1", "c", key=KEY, algorithm="HmacSHA256"
    )
    assert asking.send_and_wait(fence).status == 204
    assert asyncio.run(asking.send(fence)).status == 204
    restart = PeerRequest(url="http://java:1", method="POST", path="/connectors/c/restart")
    with pytest.raises(PeerRefusedError):
        asking.send_and_wait(restart)


def test_without_java_in_the_group_no_answer_makes_it_sign_as_java_does() -> None:
    """Anyone on the way can answer with 403, and would keep what is sent next."""
    receiver = JavasNode()
    asking = NamespacedRestClient(
        receiver,
        prefix="/a/b",
        sign=with_nonce,
        has_java_workers=lambda: False,
    )
    fence = requests_to_other_workers.build_fence_request(
        "http://java:1", "c", key=KEY, algorithm="HmacSHA256"
    )
    with pytest.raises(PeerRefusedError):
        asking.send_and_wait(fence)
    with pytest.raises(PeerRefusedError):
        asyncio.run(asking.send(fence))
    assert [dict(each.signature) for each in receiver.asked] == [
        {session_keys.NONCE_HEADER: "0"}
    ] * 2


def test_workers_of_several_groups_are_asked_under_their_names() -> None:
    """Every request and response is signed whole; nobody's password goes along."""
    herder = FakeHerder(signed=True, signs_whole=True, key=KEY)
    herder.make("c")
    served = NamespaceRouter()

    def sign(call: PeerRequest) -> PeerRequest:
        query = f"?{parse.urlencode(call.query)}" if call.query else ""
        request = SignedUserRequest(
            receiver=call.url,
            method=call.method,
            target=call.path + query,
            digest=session_keys.compute_body_digest(call.body or b""),
            signed_ms=SystemClock().wall_ms(),
            nonce=secrets.token_hex(16),
        )
        return dataclasses.replace(
            call,
            signature=request.build_headers(KEY, algorithm="HmacSHA256"),
            response_key=KEY,
        )

    with rest_server.started() as running:
        url = running.advertised_url
        one = rest_app.build_internal_application(
            rest.parts(herder),
            RestSettings(),
            SessionKeySettings(),
            receiver=url,
            must_be_signed=True,
        )
        served.mount_application(("a", "b c"), one)
        running.attach_applications(RestApplications(main=served, admin=None))
        asking = NamespacedRestClient(
            RestClient(), prefix="/a/b%20c", sign=sign, has_java_workers=lambda: False
        )
        configs = requests_to_other_workers.build_task_configs_request(
            url, "c", [{"n": "1"}], key=KEY, algorithm="HmacSHA256"
        )
        assert asking.send_and_wait(configs).status == 204
        fence = requests_to_other_workers.build_fence_request(
            url, "c", key=KEY, algorithm="HmacSHA256"
        )
        assert asking.send_and_wait(fence).status == 204
        restart = PeerRequest(
            url=url,
            method="POST",
            path="/connectors/c/restart",
            query={"forward": "true"},
            authorization="Basic c2VjcmV0OnNlY3JldA==",
        )
        assert asking.send_and_wait(restart).status == 204
        config = PeerRequest(url=url, method="GET", path="/connectors/c/config")
        assert asking.send_and_wait(config).value == herder.get_config_state().config("c")
        unknown = PeerRequest(url=url, method="GET", path="/connectors/d/config")
        with pytest.raises(PeerRefusedError) as refused:
            asking.send_and_wait(unknown)
        assert refused.value.status == 404
    assert [type(each) for each in herder.submitted] == [
        PutTaskConfigs,
        FenceZombieTasks,
        RestartConnector,
        DescribeConnector,
        DescribeConnector,
    ]
    assert asking._add_namespace_to_request(restart).authorization is None


NONCE = "1" * 32


@pytest.mark.parametrize(
    "signature",
    [
        "",
        session_keys.sign_response(OTHER, nonce=NONCE, status=200, body=b"[]"),
        session_keys.sign_response(KEY, nonce="2" * 32, status=200, body=b"[]"),
        session_keys.sign_response(KEY, nonce=NONCE, status=201, body=b"[]"),
        session_keys.sign_response(KEY, nonce=NONCE, status=200, body=b"[ ]"),
    ],
    ids=["none", "another key", "another request", "another status", "another body"],
)
def test_a_response_that_no_worker_of_the_group_signed_is_a_failure(
    answering: Callable[..., str], signature: str
) -> None:
    url = answering(200, b"[]", X_Connect_Response_Signature=signature)
    call = PeerRequest(
        url=url,
        method="GET",
        path="/connectors",
        signature={session_keys.NONCE_HEADER: NONCE},
        response_key=KEY,
    )
    with pytest.raises(PeerUnavailableError, match=r"is not signed .*; status 200: '\[\]'"):
        RestClient().send_and_wait(call)


def test_a_signed_response_is_accepted(answering: Callable[..., str]) -> None:
    signature = session_keys.sign_response(KEY, nonce=NONCE, status=200, body=b"[]")
    call = PeerRequest(
        url=answering(200, b"[]", X_Connect_Response_Signature=signature),
        method="GET",
        path="/connectors",
        signature={session_keys.NONCE_HEADER: NONCE},
        response_key=KEY,
    )
    assert RestClient().send_and_wait(call) == PeerResponse(status=200, value=[])


@pytest.mark.parametrize(
    ("url", "warns"),
    [
        ("http://192.0.2.1:1/", True),
        ("http://node-1.invalid:1/", True),
        ("http://127.0.0.1:1/", False),
        ("http://[::1]:1/", False),
        ("http://localhost:1/", False),
        ("https://node-1.invalid:1/", False),
    ],
)
def test_calls_that_the_network_can_read_are_warned_of_once(
    url: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    asking = RestClient(timeout_s=0.05)
    for _ in range(2):
        with pytest.raises(PeerUnavailableError):
            asking.send_and_wait(PeerRequest(url=url, method="GET", path="/"))
    told = [each for each in caplog.messages if "not encrypted" in each]
    assert len(told) == warns
