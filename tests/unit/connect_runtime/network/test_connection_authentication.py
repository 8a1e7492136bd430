"""SASL over scripted brokers: what ends a connection for good, and sessions that are renewed."""

from __future__ import annotations

import datetime
from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from connect_runtime.protocol import api_versions, request_builders
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorKey,
    NodeTarget,
    RequestBuilder,
)
from connect_runtime.protocol.request_errors import AuthenticationFailed
from connect_runtime.protocol.security_settings import SecuritySettings
from tests.support.scripted_broker import Asked, ScriptedBroker

NO_TIME = datetime.timedelta(0)
PLAIN = SecuritySettings(
    protocol="SASL_PLAINTEXT", mechanism="PLAIN", username="alice", password="hunter2"
)


def answer_init(asked: Asked) -> None:
    asked.answer(
        asked.response(throttle_time=NO_TIME, error_code=0, producer_id=7, producer_epoch=1)
    )


def speak_plain(
    broker: ScriptedBroker,
    *,
    lifetime_s: float = 0.0,
    accept: Callable[[bytes], bool] = lambda token: token == b"\0alice\0hunter2",
) -> None:
    def handshake(asked: Asked) -> None:
        asked.answer(asked.response(error_code=0, mechanisms=("PLAIN",)))

    def authenticate(asked: Asked) -> None:
        accepted = accept(asked.entity.auth_bytes)
        code = ErrorCode.none if accepted else ErrorCode.sasl_authentication_failed
        asked.answer(
            asked.response(
                error_code=code,
                error_message=None if accepted else "Invalid username or password",
                auth_bytes=b"",
                session_lifetime=datetime.timedelta(seconds=lifetime_s),
            )
        )

    broker.scripts |= {"sasl_handshake": handshake, "sasl_authenticate": authenticate}


def init() -> RequestBuilder:
    return request_builders.build_init_producer_id_request("tx", 1000)


def test_every_connection_authenticates_before_anything_else(world):
    broker = world.broker()
    speak_plain(broker)
    broker.scripts["init_producer_id"] = answer_init
    link = world.connect(broker.address, security=PLAIN)
    replies: list = []
    link.call(NodeTarget(1), init(), done=replies.append)
    world.until(lambda: replies)
    assert replies[0].failure is None
    for connection in broker.links:
        apis = [asked.api for asked in broker.asked if asked.link is connection]
        assert apis[:3] == ["api_versions", "sasl_handshake", "sasl_authenticate"]


def test_a_wrong_password_fails_everybody_who_waits_at_once_and_is_not_tried_all_the_time(world):
    broker = world.broker()
    speak_plain(broker, accept=lambda token: False)
    link = world.connect(broker.address, security=PLAIN)
    replies: list = []
    for to in (AnyNodeTarget(), NodeTarget(1), CoordinatorKey(0, "g")):
        link.call(to, init(), done=replies.append)
    assert world.until(lambda: len(replies) == 3) < 1.0
    for reply in replies:
        assert isinstance(reply.failure, AuthenticationFailed)
        assert not reply.sent
        assert "PLAIN as 'alice' was refused: Invalid username or password" in str(reply.failure)
        assert "hunter2" not in str(reply)
    link.call(AnyNodeTarget(), init(), done=replies.append)
    assert world.until(lambda: len(replies) == 4) < 3.0
    before = len(broker.requests("sasl_authenticate"))
    world.settle(30.0)
    assert len(broker.requests("sasl_authenticate")) - before < 50


def test_sessions_are_renewed_in_time_between_requests_that_go_on(world):
    broker = world.broker()
    speak_plain(broker, lifetime_s=60.0)
    broker.scripts["init_producer_id"] = answer_init
    link = world.connect(broker.address, security=PLAIN, metadata_max_age_s=10_000.0)
    order: list[int] = []
    for number in range(300):
        link.call(NodeTarget(1), init(), done=lambda reply, n=number: order.append(n))
        world.settle(1.0)
    world.until(lambda: len(order) == 300)
    assert order == list(range(300))
    (busy,) = {asked.link for asked in broker.requests("init_producer_id")}
    apis = [asked.api for asked in broker.asked if asked.link is busy]
    assert 5 <= apis.count("sasl_authenticate") <= 7
    for index, api in enumerate(apis):
        if api == "sasl_handshake":
            assert apis[index + 1] == "sasl_authenticate"
    assert link.get_connection_errors() == {}


def test_requests_in_flight_are_answered_while_a_session_is_renewed(world):
    broker = world.broker()
    speak_plain(broker, lifetime_s=60.0)
    held: list[Asked] = []
    broker.scripts["init_producer_id"] = held.append
    link = world.connect(broker.address, security=PLAIN, metadata_max_age_s=10_000.0)
    replies: list = []
    world.until(lambda: link.view.brokers)
    link.call(NodeTarget(1), init(), done=replies.append, timeout_s=200.0)
    world.until(lambda: held)
    handshakes = len(broker.requests("sasl_handshake"))
    answer_handshake, broker.scripts["sasl_handshake"] = (
        broker.scripts["sasl_handshake"],
        held.append,
    )
    world.until(lambda: len(broker.requests("sasl_handshake")) > handshakes)
    link.call(NodeTarget(1), init(), done=replies.append, timeout_s=200.0)
    world.settle(1.0)
    assert [asked.api for asked in held] == ["init_producer_id", "sasl_handshake"]
    answer_init(held.pop(0))
    world.until(lambda: len(replies) == 1)
    broker.scripts |= {"sasl_handshake": answer_handshake, "init_producer_id": answer_init}
    answer_handshake(held.pop())
    world.until(lambda: len(replies) == 2)
    assert [reply.failure for reply in replies] == [None, None]


def test_a_renewal_that_is_refused_ends_the_connection_for_good(world):
    broker = world.broker()
    valid = [True]
    speak_plain(broker, lifetime_s=60.0, accept=lambda token: valid[0])
    broker.scripts["init_producer_id"] = answer_init
    link = world.connect(broker.address, security=PLAIN)
    replies: list = []
    link.call(NodeTarget(1), init(), done=replies.append)
    world.until(lambda: replies)
    valid[0] = False
    assert (
        world.until(lambda: isinstance(link.get_connection_error(1), AuthenticationFailed)) > 40.0
    )
    link.call(NodeTarget(1), init(), done=replies.append)
    assert world.until(lambda: len(replies) == 2) < 3.0
    assert isinstance(replies[1].failure, AuthenticationFailed)


def test_a_broker_before_2_4_is_spoken_to_in_its_own_version(world):
    broker = world.broker()
    broker.scripts["init_producer_id"] = answer_init
    broker.ranges["init_producer_id"] = (0, 1)

    def old_versions(asked: Asked) -> None:
        if asked.version == 0:
            broker.tell_versions(asked)
            return
        old = Asked(
            link=asked.link, api=asked.api, version=0, correlation_id=asked.correlation_id, body=b""
        )
        item = old.module.ApiVersion(
            api_key=api_versions.API_VERSIONS_KEY, min_version=0, max_version=2
        )
        old.answer(old.response(error_code=35, api_keys=(item,)))

    broker.scripts["api_versions"] = old_versions
    link = world.connect(broker.address)
    replies: list = []
    link.call(AnyNodeTarget(), init(), done=replies.append)
    world.until(lambda: replies)
    assert (replies[0].failure, replies[0].version) == (None, 1)


@pytest.mark.parametrize("stage", ["api_versions", "sasl_handshake", "sasl_authenticate"])
def test_a_broker_that_falls_silent_in_the_handshake_is_given_up_for_another(world, stage):
    silent, good = world.broker(1), world.broker(2)
    good.scripts["init_producer_id"] = answer_init
    for broker in (silent, good):
        speak_plain(broker)
    silent.scripts[stage] = lambda asked: None
    link = world.connect(silent.address, good.address, security=PLAIN)
    replies: list = []
    link.call(AnyNodeTarget(), init(), done=replies.append)
    assert world.until(lambda: replies) < 3.0
    assert replies[0].failure is None


def test_a_silent_broker_fails_its_connection_after_the_connect_timeout(world):
    broker = world.broker()
    broker.scripts["api_versions"] = lambda asked: None
    link = world.connect(broker.address, connect_timeout_s=4.0)
    assert 3.9 < world.until(link.get_connection_errors) < 6.0
    assert "no response in time while opening" in str(link.get_connection_errors()[broker.address])
