"""TLS, SASL and what goes wrong with them, on real brokers."""

from __future__ import annotations

import dataclasses

import pytest

from connect_runtime.protocol import request_builders
from connect_runtime.protocol.produce_requests import ProduceBatch
from connect_runtime.protocol.request_builders import (
    AnyNodeTarget,
    CoordinatorKey,
    NodeTarget,
    RequestBuilder,
)
from connect_runtime.protocol.request_errors import AuthenticationFailed, CoordinatorLookupRefused
from connect_runtime.protocol.security_settings import SecuritySettings
from connect_runtime.system import system_clock
from connect_runtime.system.certificates import CertificateAuthority
from connect_runtime.system.system_clock import SystemClock
from mm2.formats import record_batch, record_set_splitter
from mm2.sandbox import cluster_security
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import kafka, wire
from tests.support.kafka import Outgoing
from tests.support.wire import Driver

pytestmark = pytest.mark.integration

SECONDS = 1000
SESSION_S = 10
"""They are renewed a second or so before their end, which a busy machine has to keep to."""


@pytest.fixture(scope="module")
def guarded():
    """SASL_SSL with ACLs; its sessions are short, so that tests see them renewed."""
    settings = {"connections.max.reauth.ms": str(SESSION_S * SECONDS)}
    with SandboxCluster("guarded", users=["alice"], settings=settings) as running:
        yield running


def anything() -> RequestBuilder:
    return wire.broker_settings(1)


def refusal(properties, **changes) -> AuthenticationFailed:
    """Connect with changed security and return why that was refused."""
    security = dataclasses.replace(wire.security_of(properties), **changes)
    with Driver(properties, security=security) as driver:
        start_s = driver.clock.now_s()
        reply = driver.call(AnyNodeTarget(), anything(), timeout_s=20.0)
        assert driver.clock.now_s() - start_s < 10.0
        assert isinstance(reply.failure, AuthenticationFailed), reply.failure
        assert not reply.sent
        return reply.failure


@pytest.mark.parametrize("mechanism", cluster_security.SASL_MECHANISMS)
def test_records_go_through_tls_and_every_mechanism(guarded, topic, mechanism):
    properties = guarded.client_properties(mechanism=mechanism)
    admin = guarded.client_properties()
    source, target = (kafka.create_topic(admin, topic(label)) for label in ("from", "to"))
    records = [Outgoing(value=bytes([i % 251]) * 3000) for i in range(2000)]
    kafka.produce(admin, source, records)
    with Driver(properties) as driver:
        driver.leader(target)
        offset = 0
        while offset < len(records):
            found = driver.fetch(source, offset)
            for header, batch in record_set_splitter.iter_batches(found.records):
                assert record_batch.has_valid_crc(batch, header)
                offset = header.last_offset + 1
                record_batch.stamp_producer_fields(
                    batch, attributes=header.attributes, producer=(-1, -1, -1)
                )
                (acked,) = driver.produce([ProduceBatch(target, driver.topic_id(target), 0, batch)])
                assert acked.error_code == 0
    one, other = (kafka.read_partition(admin, name, 0) for name in (source, target))
    assert len(other) == len(records)
    assert kafka.differences(one, other) == []


@pytest.mark.parametrize("mechanism", cluster_security.SASL_MECHANISMS)
def test_a_wrong_password_is_fatal_at_once_and_names_the_user(guarded, mechanism):
    properties = guarded.client_properties(mechanism=mechanism)
    failure = refusal(properties, password="not-it")
    assert f"{mechanism} as 'admin' was refused: " in str(failure)
    assert failure.address == guarded.bootstrap


def test_a_user_that_does_not_exist_is_refused_like_a_wrong_password(guarded):
    failure = refusal(guarded.client_properties(), username="nobody,=")
    assert "as 'nobody,=' was refused" in str(failure)


def test_a_broker_whose_authority_is_not_trusted_is_refused(guarded):
    other = CertificateAuthority.create("other", wall_ms=SystemClock().wall_ms())
    failure = refusal(guarded.client_properties(), ca_pem=other.certificate_pem.decode())
    assert "TLS: the broker's certificate was rejected" in str(failure)


def test_a_plain_connection_to_a_tls_listener_says_so(guarded):
    properties = guarded.client_properties()
    plain = SecuritySettings()
    with Driver(properties, security=plain) as driver:
        reply = driver.call(AnyNodeTarget(), anything(), timeout_s=3.0)
    assert "security.protocol" in str(reply.failure)
    assert "TLS" in str(reply.failure)


def test_tls_and_sasl_to_a_plain_listener_say_so(east, guarded):
    properties = {**guarded.client_properties(), "bootstrap.servers": east.bootstrap}
    with Driver(properties) as driver:
        reply = driver.call(AnyNodeTarget(), anything(), timeout_s=3.0)
    assert "the listener" in str(reply.failure)
    assert "security.protocol" in str(reply.failure)
    failure = refusal(properties, protocol="SASL_PLAINTEXT")
    assert "the listener does not use SASL" in str(failure) or "refused" in str(failure)


def test_sessions_are_renewed_on_the_same_connection(guarded):
    """The broker ends connections whose session ran out, so surviving is the proof."""
    properties = guarded.client_properties(mechanism=cluster_security.SCRAM_256)
    with Driver(properties) as driver:
        driver.ask(NodeTarget(1), anything())
        lane = driver.connections.get_broker_connection(1, "control")
        first = lane.connection
        system_clock.wait_until(
            lambda: driver.ask(NodeTarget(1), anything()) is None,
            timeout_s=1.5 * SESSION_S,
            interval_s=0.05,
        )
        assert lane.connection is first
        assert driver.connections.get_connection_errors() == {}


def test_an_id_that_acls_hide_is_refused_by_name(guarded):
    with Driver(guarded.client_properties("alice")) as driver:
        to = CoordinatorKey(request_builders.TRANSACTION_COORDINATOR, "mm2-secret")
        reply = driver.call(
            to, request_builders.build_init_producer_id_request("mm2-secret", 1000), timeout_s=10.0
        )
        if reply.failure is None:
            assert int(reply.body.error_code) == 53
        else:
            assert isinstance(reply.failure, CoordinatorLookupRefused)
            assert "transactional id mm2-secret" in str(reply.failure)
