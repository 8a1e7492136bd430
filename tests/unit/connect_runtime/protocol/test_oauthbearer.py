from __future__ import annotations

import base64
import contextlib
import json
import math
import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect_runtime.base.errors import ConnectError
from connect_runtime.protocol import oauthbearer, security_settings
from connect_runtime.protocol.oauth_token_refresh import TokenRefresher
from connect_runtime.protocol.oauthbearer import AccessToken, OAuthSettings, TokenResponseReader
from connect_runtime.protocol.request_errors import AuthenticationFailed, ConnectionFailed
from connect_runtime.protocol.security_settings import SecurityParseResult, SecuritySettings
from connect_runtime.protocol.tls_settings import KeyStoreContent, KeyStoreFileReader

CA = "-----BEGIN CERTIFICATE-----\nCA\n-----END CERTIFICATE-----\n"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
URL = "https://id.example.com:8443/realms/kafka/token"
JAAS = f'{MODULE} clientId="mm2" clientSecret="s3cret" scope="kafka";'
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"


def read_text(path: str) -> str:
    if path != "/issuer.pem":
        raise FileNotFoundError(2, "No such file or directory", path)
    return CA


def no_store(path: str, password: str) -> KeyStoreContent:
    raise AssertionError(path)


def parse(*, jaas: str = JAAS, url: str = URL, **properties: str) -> SecurityParseResult:
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": jaas,
        "sasl.oauthbearer.token.endpoint.url": url,
    }
    given |= {f"sasl.{key.replace('__', '.')}": value for key, value in properties.items()}
    files = KeyStoreFileReader(read_text=read_text, read_store=no_store)
    return security_settings.parse_security_settings(given, files=files)


def accepted(**properties: str) -> OAuthSettings:
    parsed = parse(**properties)
    assert parsed.errors == ()
    assert parsed.security is not None
    assert parsed.security.oauth is not None
    return parsed.security.oauth


def refused(**properties: str) -> dict[str, str]:
    parsed = parse(**properties)
    assert parsed.security is None
    for error in parsed.errors:
        assert "s3cret" not in str(error)
    return {error.key: str(error) for error in parsed.errors}


def test_the_spelling_of_kafka_3_is_read():
    found = accepted(login__callback__handler__class=HANDLER.replace("r.O", "r.secured.O"))
    assert (found.endpoint, found.client_id, found.client_secret) == (URL, "mm2", "s3cret")
    assert (found.scope, found.urlencode, found.ca_pem) == ("kafka", False, None)
    times = (found.connect_timeout_s, found.read_timeout_s, found.retry_s, found.retry_max_s)
    assert times == (10.0, 10.0, 0.1, 10.0)


def test_properties_win_over_the_login_modules_options():
    found = accepted(
        oauthbearer__client__credentials__client__id="other",
        oauthbearer__client__credentials__client__secret="thing",
        oauthbearer__scope="wide",
    )
    assert (found.client_id, found.client_secret, found.scope) == ("other", "thing", "wide")


def test_properties_alone_need_no_login_module():
    found = accepted(
        jaas="",
        login__callback__handler__class=HANDLER,
        oauthbearer__client__credentials__client__id="mm2",
        oauthbearer__client__credentials__client__secret="s3cret",
        oauthbearer__jwt__retriever__class=(
            "org.apache.kafka.common.security.oauthbearer.ClientCredentialsJwtRetriever"
        ),
    )
    assert (found.client_id, found.scope) == ("mm2", "")


def test_extensions_and_the_endpoints_authorities_stand_in_the_login_module():
    jaas = (
        f'{MODULE} clientId="mm2" clientSecret="s3cret" extension_logicalCluster="lkc-1" '
        'ssl.truststore.type="PEM" ssl.truststore.location="/issuer.pem";'
    )
    found = accepted(jaas=jaas)
    assert found.extensions == {"logicalCluster": "lkc-1"}
    assert found.ca_pem == CA


def test_times_are_javas_in_milliseconds_and_seconds():
    found = accepted(
        login__connect__timeout__ms="1500",
        login__read__timeout__ms="2500",
        login__retry__backoff__ms="200",
        login__retry__backoff__max__ms="100",
        login__refresh__window__factor="0.5",
        login__refresh__window__jitter="0",
        login__refresh__min__period__seconds="1",
        login__refresh__buffer__seconds="2",
        oauthbearer__header__urlencode="true",
    )
    assert (found.connect_timeout_s, found.read_timeout_s) == (1.5, 2.5)
    assert (found.retry_s, found.retry_max_s) == (0.2, 0.2)
    assert (found.refresh_factor, found.refresh_jitter) == (0.5, 0.0)
    assert (found.refresh_min_period_s, found.refresh_buffer_s) == (1, 2)
    assert found.urlencode


@pytest.mark.parametrize(
    ("url", "in_clear"),
    [
        ("https://id/token", False),
        ("http://id/token", True),
        ("http://10.0.0.1:8080/token", True),
        ("HTTP://ID/token", True),
        ("http://localhost:8080/token", False),
        ("http://127.0.0.9/token", False),
        ("http://[::1]:8080/token", False),
        ("http://localhost.example.com/token", True),
    ],
)
def test_whether_a_secret_would_travel_in_clear(url, in_clear):
    assert accepted(url=url).is_unencrypted == in_clear


def test_the_secret_is_in_no_repr_and_survives_the_way_to_an_executor():
    security = parse().security
    assert security is not None
    assert "s3cret" not in repr(security)
    assert security.username == "mm2"
    carried = json.loads(json.dumps(security.to_dict()))
    assert SecuritySettings.from_dict(carried) == security


@pytest.mark.parametrize(
    ("properties", "key", "text"),
    [
        ({"url": ""}, "sasl.oauthbearer.token.endpoint.url", "it is missing"),
        (
            {"url": "file:///token"},
            "sasl.oauthbearer.token.endpoint.url",
            "the value is not an http or https URL; the issuer's token endpoint",
        ),
        (
            {"url": "https://u:s3cret@id/token"},
            "sasl.oauthbearer.token.endpoint.url",
            "it contains credentials",
        ),
        (
            {"jaas": f'{MODULE} clientId="mm2";'},
            "sasl.oauthbearer.client.credentials.client.secret",
            "this property, and clientSecret in sasl.jaas.config, are not set; set it, or write",
        ),
        (
            {"jaas": JAAS.replace("scope", "unsecuredLoginStringClaim_sub")},
            "sasl.jaas.config",
            "sasl.jaas.config: option unsecuredLoginStringClaim_sub is not supported",
        ),
        (
            {"jaas": JAAS.replace("scope", "extension_auth")},
            "sasl.jaas.config",
            "sasl.jaas.config: option extension_auth is malformed",
        ),
        (
            {"jaas": JAAS.replace("scope=", "ssl.truststore.type=PEM ssl.truststore.location=")},
            "sasl.jaas.config",
            "its option ssl.truststore.location: kafka cannot be read: No such file",
        ),
        (
            {"jaas": JAAS.replace("scope=", "ssl.keystore.location=")},
            "sasl.jaas.config",
            "sasl.jaas.config: option ssl.keystore.location is not supported",
        ),
        (
            {"jaas": "x.PlainLoginModule required;"}
            | {
                "oauthbearer__client__credentials__client__id": "a",
                "oauthbearer__client__credentials__client__secret": "b",
            },
            "sasl.jaas.config",
            "PlainLoginModule does not belong to this sasl.mechanism",
        ),
        (
            {
                "login__callback__handler__class": (
                    "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
                )
            },
            "sasl.login.callback.handler.class",
            "is not supported; Amazon MSK IAM is not supported: MSK also supports SCRAM",
        ),
        (
            {"login__callback__handler__class": "com.example.Handler"},
            "sasl.login.callback.handler.class",
            "com.example.Handler is not supported; remove this setting",
        ),
        (
            {"oauthbearer__jwt__retriever__class": "com.example.Retriever"},
            "sasl.oauthbearer.jwt.retriever.class",
            "one of org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
        ),
        (
            {"oauthbearer__client__id": "mm2"},
            "sasl.oauthbearer.client.id",
            "it is not supported; write sasl.oauthbearer.client.credentials.client.id",
        ),
        (
            {"oauthbearer__assertion__file": "/a.jwt"},
            "sasl.oauthbearer.assertion.file",
            "only the client credentials grant",
        ),
        (
            {"oauthbearer__jwks__endpoint__url": "https://id/keys"},
            "sasl.oauthbearer.jwks.endpoint.url",
            "remove this setting: brokers validate tokens",
        ),
        (
            {"login__refresh__window__factor": "0.1"},
            "sasl.login.refresh.window.factor",
            "0.1 is not allowed; a number from 0.5 to 1",
        ),
        (
            {"login__read__timeout__ms": "soon"},
            "sasl.login.read.timeout.ms",
            "soon is not allowed; a whole number from 1",
        ),
    ],
)
def test_what_is_wrong_is_told_by_its_key(properties, key, text):
    errors = refused(**properties)
    assert set(errors) == {key}
    assert text in errors[key]


TROUBLE = ConnectionFailed("id:443", "closed")


def keeper(**changed: Any) -> TokenRefresher:
    oauth = OAuthSettings(endpoint="http://id/token", client_id="mm2", client_secret="x", **changed)
    return TokenRefresher(oauth, random.Random(3))


def with_token(life_s: float, **changed: float) -> TokenRefresher:
    """It received a token at 0."""
    found = keeper(**changed)
    found.get_or_request_token(0.0)
    found.on_request_sent()
    found.on_token_received(AccessToken(text="one", lifetime_s=life_s), 0.0)
    return found


def test_nobody_asks_before_somebody_wants():
    found = keeper()
    assert found.get_next_request_time_s() == math.inf
    assert found.get_or_request_token(5.0) is None
    assert found.get_next_request_time_s() <= 5.0
    found.on_request_sent()
    assert (found.get_next_request_time_s(), found.get_or_request_token(6.0)) == (math.inf, None)


@pytest.mark.parametrize(
    ("life_s", "earliest_s", "latest_s"),
    [(3600.0, 2880.0, 3060.0), (400.0, 100.0, 100.0), (100.0, 80.0, 85.0), (4.0, 3.2, 3.4)],
    ids=["a share", "before the buffer", "too short for the buffer", "very short"],
)
def test_a_token_is_used_and_refreshed_before_its_end(life_s, earliest_s, latest_s):
    found = with_token(life_s)
    assert found.get_or_request_token(0.0) == found.get_current_token(life_s * 0.97) == "one"
    assert earliest_s <= found.get_next_request_time_s() <= latest_s
    assert found.get_current_token(life_s) is None


def test_a_refresh_that_fails_leaves_the_token_and_is_tried_again():
    found = with_token(100.0)
    found.on_request_sent()
    found.on_request_failed(TROUBLE, 85.0)
    assert found.get_or_request_token(86.0) == "one"
    assert 85.0 < found.get_next_request_time_s() <= 86.0
    found.on_request_sent()
    found.on_token_received(AccessToken(text="two", lifetime_s=100.0), 87.0)
    assert (found.get_or_request_token(150.0), found.last_failure) == ("two", None)


def test_without_a_token_the_trouble_is_told_between_tries_which_grow_apart():
    found = keeper(retry_s=1.0, retry_max_s=10.0)
    now_s, waits = 0.0, []
    for _ in range(6):
        assert found.get_or_request_token(now_s) is None
        assert found.get_next_request_time_s() <= now_s
        found.on_request_sent()
        found.on_request_failed(TROUBLE, now_s)
        assert found.get_or_request_token(now_s) is TROUBLE
        assert found.get_next_request_time_s() == math.inf, (
            "only who wants a token makes it ask again"
        )
        waited_s = next(s for s in range(1, 20) if found.get_or_request_token(now_s + s) is None)
        waits.append(waited_s)
        now_s += waited_s
    assert waits[0] < waits[2] < waits[4]
    assert waits[-1] <= 10


def test_a_token_that_brokers_refuse_is_dropped_and_the_next_one_is_not_hurried():
    found = with_token(3600.0, retry_s=1.0)
    refusal = AuthenticationFailed("b:9092", "no")
    found.on_token_refused("another", refusal, 10.0)
    assert found.get_current_token(10.0) == "one"
    found.on_token_refused("one", refusal, 10.0)
    assert found.get_current_token(10.0) is None
    assert found.get_or_request_token(10.0) is refusal
    assert found.get_or_request_token(12.0) is None
    assert found.get_next_request_time_s() <= 12.0


def test_what_was_accepted_makes_the_next_trouble_a_new_one():
    found = with_token(3600.0, retry_s=1.0, retry_max_s=60.0)
    for number in range(5):
        found.on_request_failed(TROUBLE, 100.0 * number)
    assert found.get_next_request_time_s() - 400.0 > 5.0
    found.on_token_accepted()
    found.on_request_failed(TROUBLE, 1000.0)
    assert found.get_next_request_time_s() <= 1002.0


def test_a_session_that_the_token_does_not_outlive_wants_the_next_one():
    found = with_token(100.0)
    assert found.is_token_valid_beyond(60.0, 50.0)
    before_s = found.get_next_request_time_s()
    assert before_s > 50.0
    assert not found.is_token_valid_beyond(100.0, 50.0)
    assert found.get_next_request_time_s() == 50.0


def test_an_issuer_that_gives_the_same_token_again_is_asked_ever_more_seldom():
    found = with_token(100.0, retry_s=0.1, retry_max_s=10.0)
    now_s, asked = 85.0, 0
    while now_s < 95.0:
        assert not found.is_token_valid_beyond(100.0, now_s)
        if found.get_next_request_time_s() <= now_s:
            found.on_request_sent()
            found.on_token_received(AccessToken(text="one", lifetime_s=100.0 - now_s), now_s)
            asked += 1
        now_s += 0.25
    assert 1 < asked < 10
    found.on_request_sent()
    found.on_token_received(AccessToken(text="two", lifetime_s=100.0), now_s)
    assert found.is_token_valid_beyond(100.0, now_s)


WALL_MS = 1_700_000_000_000
OAUTH = OAuthSettings(
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


def decode(data: bytes, *, ended: bool = False) -> AccessToken | None:
    """Whole, and then byte by byte, with the same outcome."""
    by_byte = TokenResponseReader(OAUTH)
    outcomes: list[object] = []
    for feed in (
        lambda: TokenResponseReader(OAUTH).feed(data, ended=ended, wall_ms=WALL_MS),
        lambda: fed(by_byte, data, ended=ended),
    ):
        try:
            outcomes.append(feed())
        except ConnectError as error:
            outcomes.append((type(error), str(error)))
            if len(outcomes) == 2:
                assert outcomes[0] == outcomes[1]
                raise
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[1], AccessToken | None)
    return outcomes[1]


def fed(answer: TokenResponseReader, data: bytes, *, ended: bool) -> AccessToken | None:
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
    fed(TokenResponseReader(OAUTH), data, ended=False)
    assert time.process_time() - started_s < 10.0  # minutes, if each byte had all joined anew


def jwt(**claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"head.{payload}.signature"


def test_a_request_is_what_issuers_expect():
    head, _, body = oauthbearer.encode_token_request(OAUTH).decode().partition("\r\n\r\n")
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
    bare = OAuthSettings(
        endpoint="http://id:8080", client_id="a b", client_secret="c+d", urlencode=True
    )
    head, _, body = oauthbearer.encode_token_request(bare).decode().partition("\r\n\r\n")
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
    assert oauthbearer.parse_token_endpoint(endpoint) == place


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
    assert found.lifetime_s == life_s
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
    with pytest.raises(ConnectionFailed, match="closed the connection without a response"):
        decode(interim, ended=True)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\n", answer({"access_token": "x"})[:-1]])
def test_an_answer_that_ends_too_early_may_come_whole_next_time(data):
    with pytest.raises(ConnectionFailed):
        decode(data, ended=True)


@pytest.mark.parametrize("status", [500, 503, 429, 408])
def test_an_issuer_out_of_order_is_asked_again(status):
    with pytest.raises(ConnectionFailed, match=f"status {status}"):
        decode(answer(b"<html>", status))


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_says_what_to_check_and_no_secret(status):
    said = {"error": "invalid_client", "error_description": "no s3cret+/\r\nhere"}
    with pytest.raises(AuthenticationFailed) as raised:
        decode(answer(said, status))
    text = str(raised.value)
    assert f"status {status} (invalid_client); the issuer refused" in text
    assert "the issuer refused the token request of client 'mm2': check client id, secret" in text
    assert raised.value.address == "id.example.com:443"


def test_a_redirection_is_not_followed():
    with pytest.raises(
        AuthenticationFailed, match="the token endpoint redirects to another address"
    ):
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
    with pytest.raises(ConnectError) as raised:
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
    with pytest.raises(ConnectError):
        decode(data, ended=True)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"<html>", "contains no access_token"),
        ([1], "contains no access_token"),
        ({"access_token": "a\x01b", "expires_in": 9}, "contains no access_token"),
        ({"access_token": 7, "expires_in": 9}, "contains no access_token"),
        ({"access_token": "opaque"}, "no expires_in"),
        ({"access_token": "opaque", "expires_in": "nan"}, "no expires_in"),
        ({"access_token": "a.AAAA.c"}, "no expires_in"),
    ],
)
def test_an_answer_without_a_usable_token_is_a_refusal(said, problem):
    with pytest.raises(AuthenticationFailed, match=problem):
        decode(answer(said))


def test_an_expired_token_and_another_server_may_be_other_next_time():
    with pytest.raises(ConnectionFailed, match="already expired"):
        decode(answer({"access_token": "opaque", "expires_in": 0}))
    with pytest.raises(ConnectionFailed, match="the server's response is not HTTP"):
        decode(b"SSH-2.0-x\r\n\r\n\r\n")


@given(st.binary(max_size=300), st.booleans(), st.booleans())
def test_no_answer_crashes_it(data, ended, after_head):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" if after_head else b""
    with contextlib.suppress(ConnectError):
        decode(head + data, ended=ended)
