"""What a worker forwards for its users is heard where only workers may ask, if it is signed."""

from __future__ import annotations

import secrets

import pytest

from connect_runtime.herder import session_keys
from connect_runtime.herder.herder_requests import PutConnector, RestartConnectorAndTasks
from connect_runtime.herder.session_keys import SessionKeySettings, SignedUserRequest
from connect_runtime.rest import http_request, internal_connect_resource, rest_app
from connect_runtime.rest.http_request import RequestBodySlots
from connect_runtime.rest.rest_settings import RestSettings
from connect_runtime.storage.cluster_config_state import SessionKey
from connect_runtime.system.system_clock import SystemClock
from tests.fakes.rest_herder import FakeHerder
from tests.support import rest
from tests.support.rest import FakePeers

KEY = SessionKey(key=b"k" * 32, algorithm="HmacSHA256", created_ms=1)
OTHER = SessionKey(key=b"x" * 32, algorithm="HmacSHA256", created_ms=1)
HERE, ELSEWHERE = "http://here:8083/", "http://elsewhere:8083/"
ONE = "/connectors/c"
BODY = b'{"connector.class":"FileStreamSource","name":"c","topic":"t"}'


@pytest.fixture
def herder() -> FakeHerder:
    made = FakeHerder(signed=True, key=KEY)
    made.make("c")
    return made


@pytest.fixture
def served(herder):
    return rest_app.build_internal_application(
        rest.parts(herder),
        RestSettings(),
        SessionKeySettings(),
        receiver=HERE,
        must_be_signed=True,
    )


CLOCK = SystemClock()


def signed(method, target, body=b"", *, key=KEY, signed_ms=None, nonce=None, receiver=HERE):
    request = SignedUserRequest(
        receiver=receiver,
        method=method,
        target=target,
        digest=session_keys.compute_body_digest(body),
        signed_ms=CLOCK.wall_ms() if signed_ms is None else signed_ms,
        nonce=nonce or secrets.token_hex(16),
    )
    headers = request.build_headers(key, algorithm="HmacSHA256")
    return {"content-type": "application/json", **headers}


def test_what_is_signed_is_done(served, herder):
    target = f"{ONE}/restart?forward=false&includeTasks=true&onlyFailed=false"
    answer = rest.ask(served, "POST", target, headers=signed("POST", target))
    assert answer.status_code == 202, answer.text
    put = rest.ask(
        served,
        "PUT",
        f"{ONE}/config",
        content=BODY,
        headers=signed("PUT", f"{ONE}/config", BODY),
    )
    assert put.status_code == 200, put.text
    assert [type(each) for each in herder.submitted] == [
        RestartConnectorAndTasks,
        PutConnector,
    ]


def test_who_does_not_sign_finds_nothing_there(served, herder):
    for method, path in (("GET", "/connectors"), ("POST", f"{ONE}/restart"), ("GET", "/")):
        assert rest.ask(served, method, path).status_code == 404
    assert herder.submitted == []


@pytest.mark.parametrize(
    "made",
    [
        lambda: signed("POST", f"{ONE}/restart", key=OTHER),
        lambda: signed("POST", f"{ONE}/restart", receiver=ELSEWHERE),
        lambda: signed("GET", f"{ONE}/restart"),
        lambda: signed("POST", f"{ONE}/pause"),
        lambda: signed("POST", f"{ONE}/restart?includeTasks=true"),
        lambda: signed("POST", f"{ONE}/restart", b"body"),
        lambda: signed("POST", f"{ONE}/restart") | {session_keys.TIMESTAMP_HEADER: "1"},
        lambda: signed("POST", f"{ONE}/restart") | {session_keys.NONCE_HEADER: "0" * 32},
    ],
)
def test_a_signature_is_for_one_request_alone(served, herder, made):
    headers = made()
    answer = rest.ask(served, "POST", f"{ONE}/restart", headers=headers)
    assert answer.status_code == 403
    assert herder.submitted == []


@pytest.mark.parametrize("name", session_keys.REQUEST_SIGNATURE_HEADERS)
@pytest.mark.parametrize("first", [True, False])
def test_nobody_on_the_way_adds_a_second_signature_header(served, herder, name, first):
    """Otherwise one value is verified and the other one used: for the body or the response."""
    target, other = f"{ONE}/config", b'{"topics": "others"}'
    headers = [*signed("PUT", target, BODY).items()]
    forged = dict(signed("PUT", target, other, key=OTHER))[name]
    headers.insert(0 if first else len(headers), (name, forged))
    for body in (BODY, other):
        answer = rest.ask(served, "PUT", target, content=body, headers=headers)
        assert answer.status_code == 400
        assert f"one header {name}" in answer.json()["message"]
    assert herder.submitted == []


def test_of_a_request_whose_head_is_not_signed_no_body_is_read(served, herder):
    """Nobody but a worker of the group makes this one hold a body."""
    read = []

    async def body():
        read.append(1)
        yield b"x" * 1_000

    for headers in (
        signed("PUT", f"{ONE}/config", BODY, key=OTHER),
        signed("PUT", f"{ONE}/config", BODY) | {session_keys.BODY_HEADER: "0" * 64},
        {"content-type": "application/json", session_keys.SIGNATURE_HEADER: "AAAA"},
    ):
        answer = rest.ask(served, "PUT", f"{ONE}/config", content=body(), headers=headers)
        assert answer.status_code in (400, 403), answer.text
    assert (read, herder.submitted) == ([], [])


def test_another_body_than_the_signed_one_is_refused(served, herder):
    headers = signed("PUT", f"{ONE}/config", BODY)
    answer = rest.ask(served, "PUT", f"{ONE}/config", content=b"{}", headers=headers)
    assert (answer.status_code, herder.submitted) == (403, [])


def test_a_request_is_taken_once(served, herder):
    headers = signed("POST", f"{ONE}/restart")
    assert rest.ask(served, "POST", f"{ONE}/restart", headers=headers).is_success
    again = rest.ask(served, "POST", f"{ONE}/restart", headers=headers)
    assert (again.status_code, again.json()["message"]) == (
        403,
        "Forwarded request was rejected as a replay: its nonce was already used",
    )
    assert len(herder.submitted) == 1


@pytest.mark.parametrize("late_ms", [-61_500, 61_500, 3_600_000])
def test_a_request_is_taken_within_a_minute_of_its_signature(served, herder, late_ms):
    headers = signed("POST", f"{ONE}/restart", signed_ms=CLOCK.wall_ms() - late_ms)
    answer = rest.ask(served, "POST", f"{ONE}/restart", headers=headers)
    assert answer.status_code == 403
    assert "synchronize all nodes with NTP" in answer.json()["message"]
    assert herder.submitted == []


@pytest.mark.parametrize("name", ["X-Connect-Request-Timestamp", "X-Connect-Request-Nonce"])
@pytest.mark.parametrize("value", [None, "", "-1", "x", "9" * 40, "A" * 32])
def test_time_and_nonce_are_needed(served, herder, name, value):
    headers = {each: text for each, text in signed("POST", ONE).items() if each != name}
    if value is not None:
        headers[name] = value
    assert rest.ask(served, "POST", ONE, headers=headers).status_code == 400


def test_without_a_key_nobody_can_be_known(served, herder):
    herder.key = None
    headers = signed("POST", f"{ONE}/restart")
    assert rest.ask(served, "POST", f"{ONE}/restart", headers=headers).status_code == 503


TASKS, FENCE = ("POST", f"{ONE}/tasks", b"[]"), ("PUT", f"{ONE}/fence", b"")


@pytest.mark.parametrize(("method", "path", "body"), [TASKS, FENCE], ids=["tasks", "fence"])
def test_javas_two_requests_are_signed_whole_as_all_others(served, herder, method, path, body):
    headers = signed(method, path, body)
    assert rest.ask(served, method, path, content=body, headers=headers).status_code == 204
    again = rest.ask(served, method, path, content=body, headers=headers)
    assert (again.status_code, len(herder.submitted)) == (403, 1)


@pytest.mark.parametrize(("method", "path", "body"), [TASKS, FENCE], ids=["tasks", "fence"])
@pytest.mark.parametrize(
    ("made", "status"),
    [
        (lambda method, path, body: {}, 400),
        (lambda method, path, body: signed(method, "/connectors/d/fence", body), 403),
        (lambda method, path, body: signed(method, path, body, receiver=ELSEWHERE), 403),
        (lambda method, path, body: signed(method, path, body, signed_ms=1), 403),
        (lambda method, path, body: signed(method, path, b"{}"), 403),
    ],
    ids=["unsigned", "other connector", "other worker", "long ago", "other body"],
)
def test_a_signature_of_anything_else_is_refused(
    served, herder, *, method, path, body, made, status
):
    headers = {"content-type": "application/json", **made(method, path, body)}
    answer = rest.ask(served, method, path, content=body, headers=headers)
    assert (answer.status_code, herder.submitted) == (status, []), answer.text


@pytest.mark.parametrize(("method", "path", "body"), [TASKS, FENCE], ids=["tasks", "fence"])
def test_a_signature_of_the_body_alone_is_accepted_only_while_java_is_in_the_group(
    served, herder, *, method, path, body
):
    """Whoever recorded one could send it to any worker and connector."""
    read = []

    async def sent():
        read.append(1)
        yield body

    by_java = session_keys.build_signature_headers(KEY, body, algorithm="HmacSHA256")
    headers = {"content-type": "application/json", **by_java}
    herder.signs_whole = True
    refused = rest.ask(served, method, path, content=sent(), headers=headers)
    assert (refused.status_code, read, herder.submitted) == (400, [], []), refused.text
    whole = signed(method, path, body)
    assert rest.ask(served, method, path, content=body, headers=whole).status_code == 204
    herder.signs_whole = False
    assert rest.ask(served, method, path, content=body, headers=headers).status_code == 204


@pytest.mark.parametrize(("method", "path"), [each[:2] for each in (TASKS, FENCE)])
def test_what_was_signed_of_a_request_is_no_signed_body(served, herder, method, path):
    """Everything in it was sent in plaintext, by a worker that forwarded a user's request."""
    recorded = SignedUserRequest(
        receiver=ELSEWHERE,
        method="GET",
        target=f"{ONE}/offsets?forward=true",
        digest=session_keys.compute_body_digest(b""),
        signed_ms=1,
        nonce="0" * 32,
    )
    sent = recorded.build_headers(KEY, algorithm="HmacSHA256")
    names = (session_keys.SIGNATURE_HEADER, session_keys.ALGORITHM_HEADER)
    headers = {"content-type": "application/json", **{name: sent[name] for name in names}}
    answer = rest.ask(served, method, path, content=recorded.signed_bytes, headers=headers)
    assert answer.status_code in (403, 413), answer.text
    assert herder.submitted == []


def test_a_recorded_request_is_not_forwarded_by_another_worker(herder):
    """It would be signed anew on the way."""
    herder.leads, herder.leader_url = False, HERE
    others = FakePeers()
    follower = rest_app.build_internal_application(
        rest.parts(herder, among=others),
        RestSettings(),
        SessionKeySettings(),
        receiver=ELSEWHERE,
        must_be_signed=True,
    )
    target = f"{ONE}/restart?forward=true"
    answer = rest.ask(follower, "POST", target, headers=signed("POST", target))
    assert (answer.status_code, others.asked) == (403, [])


def test_task_configs_with_a_signed_head_may_be_as_long_as_any_body_and_need_no_slot(served):
    path, slots = f"{ONE}/tasks", RequestBodySlots(total=0, wait_s=0.01)

    async def with_slots(scope, receive, send):
        await served({**scope, http_request.BODY_SLOTS_SCOPE_KEY: slots}, receive, send)

    body = b"[" + b" " * (internal_connect_resource.MAX_TASK_CONFIGS_BYTES + 1) + b"]"
    headers = signed("POST", path, body)
    assert rest.ask(with_slots, "POST", path, content=body, headers=headers).status_code == 204


def test_the_response_to_a_signed_request_is_signed(served, herder):
    for target, status in (("/connectors/c/config", 200), ("/connectors/d/config", 404)):
        nonce = secrets.token_hex(16)
        answer = rest.ask(served, "GET", target, headers=signed("GET", target, nonce=nonce))
        assert answer.status_code == status
        assert answer.headers[session_keys.RESPONSE_SIGNATURE_HEADER] == session_keys.sign_response(
            KEY, nonce=nonce, status=status, body=answer.content
        )


def test_the_response_to_a_request_of_anybody_is_not_signed(served, herder):
    refused = signed("GET", "/", key=OTHER), signed("GET", "/", signed_ms=1)
    for headers in (*refused, None):
        answer = rest.ask(served, "GET", "/", headers=headers)
        assert session_keys.RESPONSE_SIGNATURE_HEADER not in answer.headers
