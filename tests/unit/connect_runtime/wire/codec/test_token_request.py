from __future__ import annotations

import base64
import contextlib
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base import errors
from connect_runtime.wire.codec import failures, oauth_settings, token_request

WALL_MS = 1_700_000_000_000
OAUTH = oauth_settings.OAuth(
    endpoint="https://id.example.com/realms/kafka/token?a=b",
    client_id="mm2",
    client_secret="s3cret+/",
    scope="kafka offline",
)


def answer(body: object, status: int = 200, **headers: str) -> bytes:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(text)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + text


def decode(data: bytes, *, ended: bool = False) -> token_request.Token | None:
    """Whole, and then byte by byte, with the same outcome."""
    by_byte = token_request.Answer(OAUTH)
    outcomes: list[object] = []
    for feed in (
        lambda: token_request.Answer(OAUTH).feed(data, ended=ended, wall_ms=WALL_MS),
        lambda: fed(by_byte, data, ended=ended),
    ):
        try:
            outcomes.append(feed())
        except errors.ConnectError as error:
            outcomes.append((type(error), str(error)))
            if len(outcomes) == 2:
                assert outcomes[0] == outcomes[1]
                raise
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[1], token_request.Token | None)
    return outcomes[1]


def fed(answer: token_request.Answer, data: bytes, *, ended: bool) -> token_request.Token | None:
    """What is known at the first byte that makes it known, or at the end."""
    for at in range(len(data)):
        found = answer.feed(data[at : at + 1], ended=False, wall_ms=WALL_MS)
        if found is not None:
            return found
    return answer.feed(b"", ended=ended, wall_ms=WALL_MS)


@pytest.mark.parametrize("in_chunks", [True, False])
def test_a_megabyte_that_comes_byte_by_byte_takes_no_time_that_grows_with_its_square(in_chunks):
    body = b'{"access_token":"opaque","expires_in":300}'.ljust(150_000)
    if in_chunks:
        data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        data += b"".join(b"1\r\n%c\r\n" % each for each in body) + b"0\r\n\r\n"
    else:
        data = b"HTTP/1.1 200 OK\r\nX: " + body + b"\r\n\r\n"
    started_s = time.process_time()
    fed(token_request.Answer(OAUTH), data, ended=False)
    assert time.process_time() - started_s < 10.0  # minutes, if each byte had all joined anew


def jwt(**claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{payload}.signature"


def test_a_request_is_what_issuers_expect():
    head, _, body = token_request.encode(OAUTH).decode().partition("\r\n\r\n")
    assert body == "grant_type=client_credentials&scope=kafka+offline"
    credentials = base64.b64encode(b"mm2:s3cret+/").decode()
    assert head.split("\r\n") == [
        "POST /realms/kafka/token?a=b HTTP/1.1",
        "Host: id.example.com",
        f"Authorization: Basic {credentials}",
        "Content-Type: application/x-www-form-urlencoded",
        f"Content-Length: {len(body)}",
        "Accept: application/json",
        "User-Agent: mm2",
        "Connection: close",
    ]


def test_without_a_scope_none_is_asked_and_an_issuer_may_want_quoted_credentials():
    bare = oauth_settings.OAuth(
        endpoint="http://id:8080", client_id="a b", client_secret="c+d", urlencode=True
    )
    head, _, body = token_request.encode(bare).decode().partition("\r\n\r\n")
    assert body == "grant_type=client_credentials"
    assert head.startswith("POST / HTTP/1.1\r\nHost: id:8080\r\n")
    assert base64.b64encode(b"a+b:c%2Bd").decode() in head


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        ("http://id/token", ("id", 80, False)),
        ("https://id/token", ("id", 443, True)),
        ("https://[::1]:8443/token", ("::1", 8443, True)),
    ],
)
def test_where_an_endpoint_is(endpoint, place):
    assert token_request.place(endpoint) == place


@pytest.mark.parametrize(
    ("said", "life_s"),
    [
        ({"access_token": "opaque", "expires_in": 300}, 300.0),
        ({"access_token": "opaque", "expires_in": "300"}, 300.0),
        ({"id_token": "opaque", "expires_in": 300}, 300.0),
        ({"access_token": jwt(exp=WALL_MS / 1000 + 60)}, 60.0),
        ({"access_token": jwt(exp=1), "expires_in": 90.5}, 90.5),
    ],
)
def test_a_token_and_its_life(said, life_s):
    found = decode(answer(said))
    assert found is not None
    assert found.life_s == life_s
    assert found.text not in repr(found)


def test_an_answer_is_read_however_it_comes():
    body = json.dumps({"access_token": "opaque", "expires_in": 300}).encode()
    chunks = b"".join(b"%x;ext=1\r\n%s\r\n" % (1, body[i : i + 1]) for i in range(len(body)))
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    to_the_end = b"HTTP/1.0 200 OK\r\n\r\n" + body
    counted = answer(body)
    for whole, ended in ((chunked, False), (counted, False), (to_the_end, True)):
        found = decode(whole, ended=ended)
        assert found is not None
        assert found.text == "opaque"
    for cut in range(len(chunked) - 2):
        assert decode(chunked[:cut]) is None
    for cut in range(len(counted)):
        assert decode(counted[:cut]) is None
    assert decode(to_the_end) is None


def test_interim_answers_are_passed_over():
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
    whole = interim + answer({"access_token": "opaque", "expires_in": 300})
    for cut in range(len(whole)):
        assert decode(whole[:cut]) is None
    found = decode(whole)
    assert found is not None
    assert found.text == "opaque"
    with pytest.raises(failures.ConnectionFailed, match="closed without an answer"):
        decode(interim, ended=True)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", answer({"access_token": "x"})[:-1]])
def test_an_answer_that_ends_too_early_may_come_whole_next_time(data):
    with pytest.raises(failures.ConnectionFailed):
        decode(data, ended=True)


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_an_issuer_out_of_order_is_asked_again(status):
    with pytest.raises(failures.ConnectionFailed, match=f"status {status}"):
        decode(answer(b"<html>", status))


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_says_what_to_check_and_no_secret(status):
    said = {"error": "invalid_client", "error_description": "no s3cret+/\r\nhere"}
    with pytest.raises(failures.AuthenticationFailed) as raised:
        decode(answer(said, status))
    text = str(raised.value)
    assert f"status {status} (invalid_client); a token" in text
    assert "a token for client 'mm2' was refused: check its id, its secret" in text
    assert raised.value.address == "id.example.com:443"


def test_a_redirection_is_not_followed():
    with pytest.raises(failures.AuthenticationFailed, match="it points to another address"):
        decode(answer(b"", 302, Location="https://elsewhere/t"))


@pytest.mark.parametrize("status", [200, 302, 400, 401, 404, 429, 500, 503])
@pytest.mark.parametrize(
    "body",
    [
        b"INTERNAL",
        {"error": "INTERNAL", "error_description": "INTERNAL"},
        {"error": "invalid_client", "error_description": "INTERNAL"},
        {"INTERNAL": "INTERNAL", "access_token": "INTERNAL token"},
    ],
)
def test_no_failure_repeats_what_the_issuer_wrote(status, body):
    """Whoever may configure a connector chooses the host that is asked, and reads its status."""
    with pytest.raises(errors.ConnectError) as raised:
        decode(answer(body, status, Location="http://INTERNAL"), ended=True)
    assert "INTERNAL" not in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [
        answer(b"[" * 100_000),
        answer(b'{"access_token": "a", "expires_in": 1' + b"0" * 400 + b"}"),
        answer({"access_token": f"a.{base64.b64encode(b'[' * 90_000).decode()}.c"}),
        answer({"error": {"deep": [1]}}, 400),
        b"HTTP/1.1 200 OK\r\nContent-Length: \xb2\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\nContent-Length: " + b"1" * 5_000 + b"\r\n\r\nx",
    ],
    ids=["nested", "expires", "claims", "error", "length", "long length"],
)
def test_nonsense_is_a_failure_like_any_other(data):
    with pytest.raises(errors.ConnectError):
        decode(data, ended=True)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"<html>", "holds no access_token"),
        ([1], "holds no access_token"),
        ({"access_token": "a\x01b", "expires_in": 9}, "holds no access_token"),
        ({"access_token": 7, "expires_in": 9}, "holds no access_token"),
        ({"access_token": "opaque"}, "neither expires_in nor"),
        ({"access_token": "opaque", "expires_in": "nan"}, "neither expires_in nor"),
        ({"access_token": "a.AAAA.c"}, "neither expires_in nor"),
    ],
)
def test_an_answer_without_a_usable_token_is_a_refusal(said, problem):
    with pytest.raises(failures.AuthenticationFailed, match=problem):
        decode(answer(said))


def test_an_expired_token_and_another_server_may_be_other_next_time():
    with pytest.raises(failures.ConnectionFailed, match="expired already"):
        decode(answer({"access_token": "opaque", "expires_in": 0}))
    with pytest.raises(failures.ConnectionFailed, match="no HTTP server"):
        decode(b"SSH-2.0-x\r\n\r\n\r\n")


@given(st.binary(max_size=300), st.booleans(), st.booleans())
def test_no_answer_crashes_it(data, ended, after_head):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if after_head else b""
    with contextlib.suppress(errors.ConnectError):
        decode(head + data, ended=ended)
