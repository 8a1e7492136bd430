"""OAUTHBEARER with tokens of an OIDC issuer, on a real broker that checks them; both clients."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from connect_runtime.kafka import librdkafka_clients
from connect_runtime.kafka.client_errors import AuthenticationError, RecentConnectionErrors
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.request_builders import AnyNodeTarget, NodeTarget, RequestBuilder
from connect_runtime.protocol.request_errors import AuthenticationFailed, RequestTimedOut
from connect_runtime.protocol.topic_requests import NewTopic
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox import port_reservation
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import cluster_access, eventually, issuer, wire
from tests.support.issuer import Issuer
from tests.support.wire import Driver

pytestmark = pytest.mark.integration

WAIT_S = 30.0


@pytest.fixture(scope="module")
def trust():
    """A broker and the issuer that it trusts."""
    inner = port_reservation.reserve_port()
    listeners = {1: [issuer.plain_listener(inner.port)]}
    with (
        issuer.running() as found,
        SandboxCluster("trust", listeners=listeners, **issuer.trusting(found)) as running,
    ):
        yield running, found
    inner.release()


@pytest.fixture(autouse=True)
def usual(request):
    """Tests change the issuer, each for itself."""
    if "trust" in request.fixturenames:
        _, found = request.getfixturevalue("trust")
        found.life_s, found.audience, found.status = 3600.0, issuer.AUDIENCE, 200
        found.asked = 0


def properties(running: SandboxCluster, found: Issuer, **changed: str) -> dict[str, str]:
    return {"bootstrap.servers": running.bootstrap, **found.client_properties(**changed)}


def access(given: dict[str, str]) -> KafkaClusterAccess:
    return KafkaClusterAccess(
        name="trust",
        bootstrap=(given["bootstrap.servers"],),
        security=wire.security_of(given),
        properties={},
    )


def anything() -> RequestBuilder:
    return wire.broker_settings(1)


def refusal(given: dict[str, str]) -> str:
    """How the wire says that there is no way in, which it does soon."""
    with Driver(given) as driver:
        started_s = driver.clock.now_s()
        reply = driver.call(AnyNodeTarget(), anything(), timeout_s=20.0)
        assert driver.clock.now_s() - started_s < 10.0
    assert isinstance(reply.failure, AuthenticationFailed), reply.failure
    return str(reply.failure)


def control_refusal(given: dict[str, str]) -> str:
    admin = cluster_access.admin(access(given))
    started_s = cluster_access.CLOCK.now_s()
    with pytest.raises(AuthenticationError) as raised:
        admin.create_topics(
            [NewTopic(name="t", partitions=1, replication_factor=1)], WAIT_S, validate_only=True
        )
    assert cluster_access.CLOCK.now_s() - started_s < WAIT_S / 2
    return str(raised.value)


def library_refusal(given: dict[str, str]) -> str:
    """How librdkafka says it, to which Connect's own topics are left."""
    reports = RecentConnectionErrors()
    producer = librdkafka_clients.create_producer(
        access(given), client_id="control", settings={}, reports=reports
    )

    def reported() -> Any:
        producer.poll(0.1)
        return reports.get_security_error()

    return str(eventually.eventually(reported, WAIT_S).str())


def test_both_clients_get_in_with_one_token_each(trust):
    running, found = trust
    given = properties(running, found)
    with Driver(given) as driver:
        driver.ask(AnyNodeTarget(), anything())
        driver.ask(NodeTarget(1), anything())
    assert found.asked == 1
    assert found.scopes[-1] == "kafka"
    assert cluster_access.admin(access(given)).read_cluster_id(WAIT_S)


def test_a_wrong_secret_is_refused_clearly_and_not_repeated(trust, caplog):
    running, found = trust
    caplog.set_level(logging.DEBUG)
    given = properties(running, found, clientSecret="wrong-secret")
    said = refusal(given)
    assert f"127.0.0.1:{found.port}" in said
    assert "status 401 (invalid_client" in said
    assert "refused the token request of client 'mm2': check client id, secret" in said
    controlled, told = control_refusal(given), library_refusal(given)
    assert "Failed to acquire SASL OAUTHBEARER token" in told
    for each in (controlled, told):
        assert "invalid_client" in each
    assert "sasl.jaas.config" in controlled
    for text in (said, controlled, told, caplog.text):
        assert "wrong-secret" not in text


def test_a_token_that_the_broker_refuses_is_a_refusal_and_is_in_no_output(trust, caplog):
    running, found = trust
    caplog.set_level(logging.DEBUG)
    found.audience = "somebody else"
    given = properties(running, found)
    said = refusal(given)
    assert "OAUTHBEARER as 'mm2' was refused" in said
    controlled = control_refusal(given)
    for text in (said, controlled, caplog.text):
        assert issuer.SECRET not in text
        assert not [token for token in found.tokens if token in text]


@pytest.mark.full
def test_sessions_outlive_their_tokens_on_the_same_connection(trust):
    """The broker ends a connection with its token, so surviving three of them is the proof."""
    running, found = trust
    found.life_s = 4.0
    given = properties(running, found)
    admin = cluster_access.admin(access(given))
    admin.list_topics(WAIT_S)
    with Driver(given) as driver:
        driver.ask(NodeTarget(1), anything())
        lane = driver.connections.get_broker_connection(1, "control")
        first = lane.connection
        driver.until(lambda: found.asked >= 8, 30.0)
        end_s = driver.clock.now_s() + 3.0
        while driver.clock.now_s() < end_s:
            driver.ask(NodeTarget(1), anything())
        assert lane.connection is first
        assert driver.connections.get_connection_errors() == {}
    admin.list_topics(WAIT_S)


def test_an_issuer_that_is_away_for_a_moment_is_asked_again(trust):
    running, found = trust
    found.status = 503
    with Driver(properties(running, found)) as driver:
        reply = driver.call(AnyNodeTarget(), anything(), timeout_s=2.0)
        assert isinstance(reply.failure, RequestTimedOut)
        assert "status 503 (server_error)" in str(reply.failure)
        found.status = 200
        driver.ask(AnyNodeTarget(), anything())
        assert driver.connections.get_connection_errors() == {}


def test_an_issuer_behind_tls_needs_its_own_authority(trust, tmp_path):
    """Its tokens are another issuer's to this broker: how far one gets tells all."""
    running, _ = trust
    authority = CertificateAuthority.create("ids", wall_ms=SystemClock().wall_ms())
    (tmp_path / "ids.pem").write_bytes(authority.certificate_pem)
    with issuer.running(tls=authority) as found:
        given = properties(running, found)
        assert "TLS: the token endpoint's certificate was rejected" in refusal(given)
        assert "ssl.truststore.location" in refusal(given)
        assert found.asked == 0
        store = {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "ids.pem"),
        }
        given = properties(running, found, **store)
        assert "OAUTHBEARER as 'mm2' was refused" in refusal(given)
        before = found.asked
        assert before > 0
        control_refusal(given)
        assert found.asked > before
