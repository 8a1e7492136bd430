"""`users=…` makes a cluster that asks who you are, over TLS, and allows what its ACLs allow."""

from __future__ import annotations

from collections.abc import Iterator

import confluent_kafka
import pytest
from confluent_kafka import admin

from mm2.sandbox import broker_process, cluster_security
from mm2.sandbox.java_server_process import LocalRunner
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.sandbox.sandbox_errors import SandboxError
from tests.support import kafka, processes
from tests.support.kafka import Outgoing

pytestmark = pytest.mark.integration

_RECORDS = [Outgoing(value=b"secret")]


@pytest.fixture(scope="module")
def guarded() -> Iterator[SandboxCluster]:
    with SandboxCluster("guarded", users=["alice"]) as running:
        yield running


@pytest.mark.parametrize("mechanism", cluster_security.SASL_MECHANISMS)
def test_every_mechanism_lets_the_admin_in(guarded, topic, mechanism):
    access = guarded.client_properties(mechanism=mechanism)
    assert access["security.protocol"] == "SASL_SSL"
    name = kafka.create_topic(access, topic())

    kafka.produce(access, name, _RECORDS)

    assert [record.value for record in kafka.read_partition(access, name)] == [b"secret"]


def test_a_restricted_user_may_do_what_an_acl_allows_and_nothing_else(guarded, topic):
    name = kafka.create_topic(guarded.client_properties(), topic())
    alice = guarded.client_properties("alice")
    with pytest.raises(confluent_kafka.KafkaException, match="TOPIC_AUTHORIZATION_FAILED"):
        kafka.produce(alice, name, _RECORDS)

    allowed = admin.AclBinding(
        admin.ResourceType.TOPIC,
        name,
        admin.ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        admin.AclOperation.WRITE,
        admin.AclPermissionType.ALLOW,
    )
    kafka.create_acls(guarded.client_properties(), [allowed])

    kafka.produce(alice, name, _RECORDS)
    records = kafka.read_partition(guarded.client_properties(), name)
    assert [record.value for record in records] == [b"secret"]


def test_a_wrong_password_and_a_strange_authority_are_refused(guarded):
    access = guarded.client_properties()
    password = guarded.security.passwords["admin"]
    wrong = access | {"sasl.jaas.config": access["sasl.jaas.config"].replace(password, "guess")}
    with pytest.raises(confluent_kafka.KafkaException):
        admin.AdminClient(kafka.client_config(wrong)).list_topics(timeout=3)

    strange = kafka.client_config(access)
    del strange["ssl.ca.location"]
    with pytest.raises(confluent_kafka.KafkaException):
        admin.AdminClient(strange).list_topics(timeout=3)


def test_no_program_gets_a_credential_as_an_argument(monkeypatch):
    """Also not a salted one: every user of the machine could read it, and log in with it."""
    commands = []
    start = LocalRunner.start

    def record(self, argv, *, output, cwd):
        commands.append(list(argv))
        return start(self, argv, output=output, cwd=cwd)

    monkeypatch.setattr(LocalRunner, "start", record)
    monkeypatch.setattr(broker_process, "_write_cached_storage", lambda node, *, cluster_id: False)
    with SandboxCluster("watched", users=["alice"]) as running:
        passwords = running.security.passwords.values()
    assert len(commands) == 2, "the storage tool and the broker"
    for words in commands:
        line = " ".join(words)
        assert "scram" not in line.lower()
        assert not [each for each in passwords if each in line]


def test_passwords_are_in_no_command_line_and_no_repr(guarded):
    for password in guarded.security.passwords.values():
        assert not processes.mentioning(password)
        assert password not in repr(guarded.security)


def test_an_unknown_user_or_mechanism_is_named(guarded):
    with pytest.raises(SandboxError, match=r"unknown user bob: .*alice"):
        guarded.client_properties("bob")
    with pytest.raises(SandboxError, match=r"GSSAPI is not supported: .*SCRAM-SHA-512"):
        guarded.client_properties(mechanism="GSSAPI")
