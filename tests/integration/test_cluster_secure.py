"""Credentials, certificates and rights: what each lack of them is answered with."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import admin as library

from connect_runtime.kafka.client_errors import (
    AuthenticationError,
    NotAuthorizedError,
    UnreachableError,
)
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.topic_requests import ConfigChange, NewTopic
from connect_runtime.system.certificates import CertificateAuthority
from mm2.kafka.kafka_client_interfaces import FlowStateLog, FlowStateTopic
from mm2.sandbox import cluster_security
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import cluster_access, eventually, kafka, state_records

pytestmark = pytest.mark.integration

WAIT_S = 30.0
USERS = ["nobody", "viewer", "mirror"]


@pytest.fixture(scope="module")
def fort() -> Iterator[SandboxCluster]:
    with SandboxCluster("fort", users=USERS) as running:
        yield running


def changed(access: KafkaClusterAccess, **changes: object) -> KafkaClusterAccess:
    security = dataclasses.replace(access.security, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(access, security=security)


def allow(running: SandboxCluster, user: str, *rights: tuple[str, str, str]) -> None:
    """Rights are (resource type, name prefix, operation)."""
    bindings = [
        library.AclBinding(
            library.ResourceType[kind],
            prefix,
            library.ResourcePatternType.PREFIXED,
            f"User:{user}",
            "*",
            library.AclOperation[operation],
            library.AclPermissionType.ALLOW,
        )
        for kind, prefix, operation in rights
    ]
    kafka.create_acls(running.client_properties(), bindings)


@pytest.mark.parametrize("mechanism", cluster_security.SASL_MECHANISMS)
def test_every_mechanism_gets_in(fort, mechanism):
    access = cluster_access.of(fort, mechanism=mechanism)
    assert cluster_access.admin(access).read_cluster_id(WAIT_S)


def raised_soon(access: KafkaClusterAccess, kind: type[Exception]) -> str:
    """A refusal is told at once, not when time is up."""
    admin = cluster_access.admin(access)
    started_s = cluster_access.CLOCK.now_s()
    with pytest.raises(kind) as raised:
        admin.describe_topics(["t"], WAIT_S)
    assert cluster_access.CLOCK.now_s() - started_s < WAIT_S / 2
    assert access.name_and_addresses in str(raised.value)
    return str(raised.value)


@pytest.mark.parametrize("mechanism", cluster_security.SASL_MECHANISMS)
def test_a_wrong_password_is_said_and_not_repeated(fort, mechanism):
    right = cluster_access.of(fort, "viewer", mechanism=mechanism)
    access = changed(right, password="wrong-password")
    message = raised_soon(access, AuthenticationError)
    assert "Authentication failed" in message
    assert "sasl.jaas.config" in message
    assert "wrong-password" not in message


def test_a_certificate_that_nobody_vouches_for_is_refused_by_us(fort):
    wall_ms = cluster_access.CLOCK.wall_ms()
    stranger = CertificateAuthority.create("stranger", wall_ms=wall_ms)
    access = changed(cluster_access.of(fort), ca_pem=stranger.certificate_pem.decode())
    message = raised_soon(access, AuthenticationError)
    assert "ssl.truststore" in message


def test_the_wrong_protocol_is_hinted_at(fort):
    access = changed(cluster_access.of(fort), protocol="SASL_PLAINTEXT")
    admin = cluster_access.admin(access)
    with pytest.raises(UnreachableError) as raised:
        admin.list_topics(3.0)
    assert "security.protocol" in str(raised.value)


def test_without_rights_nothing_can_be_seen_or_made(fort):
    admin = cluster_access.admin(cluster_access.of(fort, "nobody"))
    topics = [NewTopic(name=name, partitions=1, replication_factor=1) for name in ("a", "b")]
    for answer in (
        admin.create_topics(topics, WAIT_S),
        admin.describe_topics(["a", "b"], WAIT_S),
        admin.read_topic_configs(["a", "b"], WAIT_S),
        admin.add_partitions({"a": 2, "b": 2}, WAIT_S),
        admin.alter_configs({name: ConfigChange(set={"retention.ms": "1"}) for name in "ab"}, 9),
    ):
        assert not answer.succeeded
        assert set(answer.failed) == {"a", "b"}
        for name, failure in answer.failed.items():
            assert isinstance(failure, NotAuthorizedError)
            assert f" {name} on fort" in str(failure)
            assert "kafka-acls" in str(failure)
    assert admin.read_broker_configs(["producer.id.expiration.ms"], WAIT_S) is None
    assert admin.list_topics(WAIT_S) == frozenset()
    assert admin.read_cluster_id(WAIT_S)


def test_rights_on_some_topics_work_for_those(fort):
    root = cluster_access.admin(cluster_access.of(fort))
    root.create_topics(
        [NewTopic(name=name, partitions=1, replication_factor=1) for name in ("pub", "priv")],
        WAIT_S,
    )
    allow(fort, "viewer", ("TOPIC", "pub", "DESCRIBE"), ("TOPIC", "pub", "DESCRIBE_CONFIGS"))
    admin = cluster_access.admin(cluster_access.of(fort, "viewer"))
    eventually.eventually(lambda: admin.list_topics(WAIT_S) == {"pub"}, WAIT_S, "only pub is seen")
    for answer in (
        admin.describe_topics(["pub", "priv"], WAIT_S),
        admin.read_topic_configs(["pub", "priv"], WAIT_S),
    ):
        assert set(answer.succeeded) == {"pub"}
        assert isinstance(answer.failed["priv"], NotAuthorizedError)


def open_log(running: SandboxCluster, user: str, alias: str) -> FlowStateLog:
    log = cluster_access.flow_log(cluster_access.of(running, user), alias)
    log.open(WAIT_S)
    return log


def test_a_flow_log_that_may_not_be_created_says_which_right_is_missing(fort):
    with pytest.raises(NotAuthorizedError) as raised:
        open_log(fort, "nobody", "closed")
    assert "mm2-incidents.closed.internal on fort" in str(raised.value)
    assert "kafka-acls" in str(raised.value)
    allow(fort, "nobody", ("TOPIC", "mm2-", "DESCRIBE"))

    def creation_refused() -> bool:
        with pytest.raises(NotAuthorizedError) as refused:
            open_log(fort, "nobody", "closed")
        return "creating topic mm2-incidents.closed.internal" in str(refused.value)

    eventually.eventually(creation_refused, WAIT_S, "the refusal is about creating")


def mirror_rights(extra: Sequence[tuple[str, str, str]] = ()) -> list[tuple[str, str, str]]:
    operations = ("CREATE", "DESCRIBE", "READ", "WRITE")
    return [("TOPIC", "mm2-", operation) for operation in operations] + list(extra)


def opened_when_rights_are_known(running: SandboxCluster) -> FlowStateLog:
    def opened() -> FlowStateLog | None:
        try:
            return open_log(running, "mirror", "open")
        except NotAuthorizedError:
            return None

    log = eventually.eventually(opened, WAIT_S, "the rights are known")
    assert log is not None
    return log


def test_a_flow_log_needs_rights_on_its_topics_and_no_others(fort, caplog):
    allow(fort, "mirror", *mirror_rights())
    with caplog.at_level(logging.WARNING, logger="mm2.kafka"):
        log = opened_when_rights_are_known(fort)
    assert "without DESCRIBE_CONFIGS; make sure that it is compact" in caplog.text
    heard: list[object] = []
    log.append(FlowStateTopic.MAP, b"k", b"v", on_recorded=heard.append)
    eventually.eventually(lambda: log.poll(0.1), WAIT_S, "an answer came", interval_s=0.0)
    assert heard == [None]
    assert [record.key for record in state_records.read(log, WAIT_S)] == [b"k"]
    log.close(WAIT_S)


def test_rights_taken_away_break_the_log_aloud(fort):
    allow(fort, "mirror", *mirror_rights())
    log = opened_when_rights_are_known(fort)
    denial = library.AclBinding(
        library.ResourceType.TOPIC,
        "mm2-",
        library.ResourcePatternType.PREFIXED,
        "User:mirror",
        "*",
        library.AclOperation.WRITE,
        library.AclPermissionType.DENY,
    )
    kafka.create_acls(fort.client_properties(), [denial])
    heard: list[object] = []

    def refused() -> bool:
        log.append(FlowStateTopic.MAP, b"k", b"v", on_recorded=heard.append)
        eventually.eventually(lambda: log.poll(0.1), WAIT_S, "an answer came", interval_s=0.0)
        return isinstance(heard[-1], NotAuthorizedError)

    try:
        eventually.eventually(refused, WAIT_S, "writing is refused")
        assert "mm2-offset-map.open.internal" in str(heard[-1])
    finally:
        log.close(0.0)
