from __future__ import annotations

import datetime
import math
import random
from typing import Any

import kio.index
import pytest
from kio.schema.errors import ErrorCode

from connect_runtime.protocol import api_versions, connection_handshake
from connect_runtime.protocol.api_versions import ApiVersionRange, NodeApiVersions
from connect_runtime.protocol.connection_handshake import SaslSessionLifetime
from connect_runtime.protocol.request_errors import AuthenticationFailed, MalformedResponseError
from connect_runtime.protocol.security_settings import OAuthSettings, SecuritySettings
from tests.support import kio_bytes


def begun(life_s):
    life = SaslSessionLifetime()
    life.start_session(life_s, 1000.0, random.Random(3))
    return life


def test_an_endless_session_is_never_renewed():
    assert (begun(None).renew_at_s, begun(None).ends_s) == (math.inf, math.inf)


def test_a_session_is_renewed_before_its_end_and_not_while_that_goes_on():
    life = begun(100.0)
    assert 1085.0 <= life.renew_at_s <= 1095.0
    assert life.ends_s == 1100.0
    life.start_reauthentication()
    assert life.renew_at_s == math.inf
    life.start_session(None, 1090.0, random.Random(3))
    assert life.ends_s == math.inf


@pytest.mark.parametrize(("now_s", "in_time"), [(1090.0, True), (1099.0, True), (1099.9, False)])
def test_what_has_to_be_waited_for_is_waited_for_until_shortly_before_the_end(now_s, in_time):
    life = begun(100.0)
    assert life.postpone_reauthentication(now_s) is in_time
    assert now_s <= life.renew_at_s <= max(now_s, min(now_s + 1.0, life.ends_s))


PLAINTEXT = SecuritySettings()
PLAIN = SecuritySettings(
    protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="alice", password="hunter2"
)
SCRAM = SecuritySettings(
    protocol="SASL_SSL", mechanism="SCRAM-SHA-256", username="alice", password="hunter2"
)


def body(key: int, version: int, **fields: Any) -> memoryview:
    entity_type: Any = kio.index.load_response_schema(key, version)
    return memoryview(kio_bytes.written(entity_type(**fields)))


def versions_body(version: int = 3, error: ErrorCode = ErrorCode.none, **apis) -> memoryview:
    module = kio.index.load_response_schema(18, version)
    item: Any = __import__(module.__module__, fromlist=["ApiVersion"]).ApiVersion
    offered = {"api_versions": (0, 4), "sasl_authenticate": (0, 2), **apis}
    fields: dict[str, Any] = {"throttle_time": datetime.timedelta(0)} if version else {}
    keys = tuple(
        item(api_key=api_versions.API_KEYS[name], min_version=low, max_version=high)
        for name, (low, high) in offered.items()
    )
    return body(18, version, error_code=error, api_keys=keys, **fields)


def ends_with(conversation, answer: memoryview):
    with pytest.raises(StopIteration) as stopped:
        conversation.send(answer)
    return stopped.value.value


def test_a_token_is_shown_with_its_extensions():
    oauth = OAuthSettings(
        endpoint="http://id", client_id="mm2", client_secret="s3cret", extensions={"pool": "p"}
    )
    bearer = SecuritySettings(
        protocol="SASL_SSL", mechanism="OAUTHBEARER", username="mm2", oauth=oauth
    )
    talk = connection_handshake.perform_handshake(bearer, address="b:1", token="t0ken")
    next(talk)
    asked = talk.send(versions_body())
    assert asked.mechanism == "OAUTHBEARER"
    asked = talk.send(body(17, 1, error_code=ErrorCode.none, mechanisms=("OAUTHBEARER",)))
    assert asked.auth_bytes == b"n,,\x01auth=Bearer t0ken\x01pool=p\x01\x01"


def test_without_sasl_versions_are_all():
    talk = connection_handshake.perform_handshake(PLAINTEXT, address="b:1")
    asked = next(talk)
    assert (asked.__api_key__, asked.__version__) == (18, 3)
    opened = ends_with(talk, versions_body(fetch=(4, 17)))
    assert opened.session_lifetime_s is None
    assert opened.versions.choose_version(api_versions.FETCH_KEY, low=12, high=17) == 17


def test_a_broker_before_2_4_is_asked_again_in_version_0():
    talk = connection_handshake.perform_handshake(PLAINTEXT, address="b:1")
    next(talk)
    asked = talk.send(versions_body(0, ErrorCode.unsupported_version, api_versions=(0, 2)))
    assert (asked.__api_key__, asked.__version__) == (18, 0)
    opened = ends_with(talk, versions_body(0, produce=(0, 7)))
    assert opened.versions.choose_version(api_versions.PRODUCE_KEY, low=7, high=13) == 7


def test_plain_authenticates_and_learns_how_long_the_session_lasts():
    talk = connection_handshake.perform_handshake(PLAIN, address="b:1")
    next(talk)
    asked = talk.send(versions_body())
    assert (asked.__api_key__, asked.mechanism) == (17, "PLAIN")
    asked = talk.send(body(17, 1, error_code=ErrorCode.none, mechanisms=("PLAIN",)))
    assert (asked.__version__, asked.auth_bytes) == (2, b"\0alice\0hunter2")
    lifetime = datetime.timedelta(seconds=90)
    opened = ends_with(talk, body(36, 2, error_code=ErrorCode.none, error_message=None,
                                  auth_bytes=b"", session_lifetime=lifetime))  # fmt: skip
    assert opened.session_lifetime_s == 90.0


def test_authenticating_alone_renews_a_session_on_an_old_broker_without_lifetimes():
    known = NodeApiVersions(address="b:1", ranges={36: ApiVersionRange(0, 0)})
    talk = connection_handshake.authenticate_connection(PLAIN, address="b:1", known=known)
    next(talk)
    asked = talk.send(body(17, 1, error_code=ErrorCode.none, mechanisms=("PLAIN",)))
    assert asked.__version__ == 0
    opened = ends_with(
        talk, body(36, 0, error_code=ErrorCode.none, error_message=None, auth_bytes=b"")
    )
    assert opened.session_lifetime_s is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            {"error_code": ErrorCode.unsupported_sasl_mechanism, "mechanisms": ("PLAIN", "GSSAPI")},
            "the broker does not offer SCRAM-SHA-256; it offers PLAIN, GSSAPI: set sasl.mechanism",
        ),
        ({"error_code": ErrorCode.illegal_sasl_state}, "the listener does not use SASL"),
        ({"error_code": ErrorCode.unknown_server_error}, "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_a_refused_mechanism_says_what_to_set(answer, problem):
    talk = connection_handshake.perform_handshake(SCRAM, address="b:1")
    next(talk)
    talk.send(versions_body())
    with pytest.raises(AuthenticationFailed, match=problem):
        talk.send(body(17, 1, **answer))


def test_a_wrong_password_is_fatal_names_the_user_and_shows_no_secret_and_no_foreign_remedy():
    talk = connection_handshake.perform_handshake(PLAIN, address="b:1")
    next(talk)
    talk.send(versions_body())
    talk.send(body(17, 1, error_code=ErrorCode.none))
    with pytest.raises(AuthenticationFailed) as caught:
        talk.send(
            body(36, 2, error_code=ErrorCode.sasl_authentication_failed,
                 error_message="Remedy: call 0900", auth_bytes=b"",
                 session_lifetime=datetime.timedelta(0))
        )  # fmt: skip
    assert str(caught.value) == (
        "authentication with b:1: PLAIN as 'alice' was refused: Remedy - call 0900 (58)"
    )


def test_a_forged_exchange_is_fatal():
    talk = connection_handshake.perform_handshake(SCRAM, address="b:1")
    next(talk)
    talk.send(versions_body())
    talk.send(body(17, 1, error_code=ErrorCode.none))
    with pytest.raises(AuthenticationFailed, match="SCRAM-SHA-256"):
        talk.send(
            body(36, 2, error_code=ErrorCode.none, error_message=None,
                 auth_bytes=b"r=foreign,s=c2FsdHNhbHRzYWx0,i=4096",
                 session_lifetime=datetime.timedelta(0))
        )  # fmt: skip


@pytest.mark.parametrize("garbage", [b"", b"HTTP/1.1 400", b"\x00\x00\xff\xff\xff\xff\x0f"])
def test_garbage_is_a_truncated_response(garbage):
    talk = connection_handshake.perform_handshake(PLAINTEXT, address="b:1")
    next(talk)
    with pytest.raises(MalformedResponseError, match="api_versions response"):
        talk.send(memoryview(garbage))
