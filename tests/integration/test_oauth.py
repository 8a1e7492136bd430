"""OAUTHBEARER with tokens of an OIDC issuer, on a real broker that checks them; both clients."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.kafka_client import access as kafka_access
from connect_runtime.kafka_client import errors as kafka_errors
from connect_runtime.system import certificates, clock
from connect_runtime.wire.codec import failures, messages, targets
from mm2.sandbox import cluster, ports
from tests.support import cluster_access, issuer, wire

pytestmark = pytest.mark.integration

WAIT_S = 30.0


@pytest.fixture(scope="module")
def trust():
    """A broker and the issuer that it trusts."""
    inner = ports.reserve()
    listeners = {1: [issuer.plain_listener(inner.port)]}
    with (
        issuer.running() as found,
        cluster.Cluster("trust", listeners=listeners, **issuer.trusting(found)) as running,
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


def properties(running: cluster.Cluster, found: issuer.Issuer, **changed: str) -> dict[str, str]:
    return {"bootstrap.servers": running.bootstrap, **found.client_properties(**changed)}


def access(given: dict[str, str]) -> kafka_access.Access:
    return kafka_access.Access(
        name="trust",
        bootstrap=(given["bootstrap.servers"],),
        security=wire.security_of(given),
        properties={},
    )


def anything() -> messages.Message:
    return wire.broker_settings(1)


def refusal(given: dict[str, str]) -> str:
    """How the wire says that there is no way in, which it does soon."""
    with wire.Driver(given) as driver:
        started_s = driver.clock.now_s()
        reply = driver.call(targets.AnyNode(), anything(), timeout_s=20.0)
        assert driver.clock.now_s() - started_s < 10.0
    assert isinstance(reply.failure, failures.AuthenticationFailed), reply.failure
    return str(reply.failure)


def control_refusal(given: dict[str, str]) -> str:
    admin = cluster_access.admin(access(given))
    started_s = cluster_access.CLOCK.now_s()
    with pytest.raises(kafka_errors.AuthenticationError) as raised:
        admin.list_topics(WAIT_S)
    assert cluster_access.CLOCK.now_s() - started_s < WAIT_S / 2
    return str(raised.value)


def test_both_clients_get_in_with_one_token_each(trust):
    running, found = trust
    given = properties(running, found)
    with wire.Driver(given) as driver:
        driver.ask(targets.AnyNode(), anything())
        driver.ask(targets.Node(1), anything())
    assert found.asked == 1
    assert found.scopes[-1] == "kafka"
    assert cluster_access.admin(access(given)).cluster_id(WAIT_S)


def test_a_wrong_secret_is_refused_clearly_and_not_repeated(trust, caplog):
    running, found = trust
    caplog.set_level(logging.DEBUG)
    given = properties(running, found, clientSecret="wrong-secret")
    said = refusal(given)
    assert f"127.0.0.1:{found.port}" in said
    assert "status 401 (invalid_client" in said
    assert "a token for client 'mm2' was refused: check its id, its secret" in said
    controlled = control_refusal(given)
    assert "Failed to acquire SASL OAUTHBEARER token" in controlled
    assert "invalid_client" in controlled
    assert "sasl.jaas.config" in controlled
    for text in (said, controlled, caplog.text):
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
    with wire.Driver(given) as driver:
        driver.ask(targets.Node(1), anything())
        lane = driver.connections.lane(1, "control")
        first = lane.connection
        driver.until(lambda: found.asked >= 8, 30.0)
        end_s = driver.clock.now_s() + 3.0
        while driver.clock.now_s() < end_s:
            driver.ask(targets.Node(1), anything())
        assert lane.connection is first
        assert driver.connections.troubles() == {}
    admin.list_topics(WAIT_S)


def test_an_issuer_that_is_away_for_a_moment_is_asked_again(trust):
    running, found = trust
    found.status = 503
    with wire.Driver(properties(running, found)) as driver:
        reply = driver.call(targets.AnyNode(), anything(), timeout_s=2.0)
        assert isinstance(reply.failure, failures.RequestTimedOut)
        assert "status 503 (server_error)" in str(reply.failure)
        found.status = 200
        driver.ask(targets.AnyNode(), anything())
        assert driver.connections.troubles() == {}


def test_an_issuer_behind_tls_needs_its_own_authority(trust, tmp_path):
    """Its tokens are another issuer's to this broker: how far one gets tells all."""
    running, _ = trust
    authority = certificates.Authority.create("ids", wall_ms=clock.SystemClock().wall_ms())
    (tmp_path / "ids.pem").write_bytes(authority.certificate_pem)
    with issuer.running(tls=authority) as found:
        given = properties(running, found)
        assert "TLS: its certificate was not accepted" in refusal(given)
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
