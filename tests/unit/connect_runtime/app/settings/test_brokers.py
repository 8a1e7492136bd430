from __future__ import annotations

import pathlib

import pytest

from connect_runtime.app.settings import brokers, problems
from connect_runtime.core.task import worker_keys
from connect_runtime.wire.codec import security_settings
from connect_runtime.wire.connection import store_files

FILES = store_files.below(pathlib.Path("/"))
SSL = {"ssl.keystore.location": "x", "ssl.client.auth": "required", "listeners.https.ssl.a": "b"}


@pytest.mark.parametrize(
    ("protocol", "rest_uses_ssl", "kept"),
    [
        ({}, True, {"listeners.https.ssl.a"}),
        ({}, False, {"listeners.https.ssl.a", "ssl.keystore.location"}),
        (
            {"security.protocol": "sasl_ssl"},
            True,
            {"listeners.https.ssl.a", "ssl.keystore.location", "security.protocol"},
        ),
    ],
)
def test_what_is_for_the_rest_api_is_left_out(protocol, rest_uses_ssl, kept):
    assert brokers.properties({**SSL, **protocol}, rest_uses_ssl=rest_uses_ssl).keys() == kept


def test_security_is_judged(an_account):
    values = {"security.protocol": "SSL", "ssl.cipher.suites": "x", "sasl.password": "hush"}
    account = an_account(values)
    assert brokers.judge_security(account, values, files=FILES) is None
    with pytest.raises(problems.SettingsError) as raised:
        account.finish()
    assert "w:2: ssl.cipher.suites: it is not supported" in str(raised.value)
    assert "hush" not in str(raised.value)


def test_certificates_are_tried(an_account):
    pem = "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----"
    values = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": pem.replace("\\n", "\n"),
    }
    account = an_account({**values, "ssl.truststore.certificates": pem})
    assert brokers.judge_security(account, values, files=FILES) is not None
    with pytest.raises(problems.SettingsError, match=r"w: ssl.truststore: OpenSSL says"):
        account.finish()


@pytest.mark.parametrize("kind", ["producer.", "consumer.", "admin."])
def test_tasks_clients_are_only_warned_of(an_account, kind):
    account = an_account({
        f"{kind}security.protocol": "SSL",
        f"{kind}ssl.truststore.location": "gone.jks",
        f"{kind}linger.ms": "5",
    })  # fmt: skip
    brokers.judge_clients(account, account.values, files=FILES)
    (told,) = account.finish()
    assert told.startswith(f"w:2: {kind}ssl.truststore.location: gone.jks cannot be read")


def test_an_admin_client_inherits_and_the_others_do_not(an_account):
    values = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="u" password="p";',
        "admin.sasl.mechanism": "SCRAM-SHA-256",
        "consumer.sasl.mechanism": "PLAIN",
    }
    account = an_account(values)
    brokers.judge_clients(account, values, files=FILES)
    keys = {each.split(": ")[1] for each in account.finish()}
    assert any(each.startswith("admin.sasl.jaas") for each in keys)
    assert "consumer.sasl.mechanism" in keys


def test_numbers_of_clients_are_judged(an_account):
    values = {"bootstrap.servers": "a:1", "retry.backoff.ms": "soon"}
    account = an_account(values)
    assert brokers.access(account, values, files=FILES) is None
    with pytest.raises(problems.SettingsError, match=r"retry.backoff.ms is 'soon'"):
        account.finish()


def test_connections_of_the_group():
    given = {
        "bootstrap.servers": "a:1,b:2",
        "key.converter": "k",
        "value.converter": "v",
        "group.id": "g",
        "config.storage.topic": "c",
        "offset.storage.topic": "o",
        "status.storage.topic": "s",
        "socket.connection.setup.timeout.ms": "2000",
        "reconnect.backoff.max.ms": "5000",
        "client.dns.lookup": "resolve_canonical_bootstrap_servers_only",
        "metadata.recovery.strategy": "NONE",
    }
    found = worker_keys.DISTRIBUTED.parse(given)
    made = brokers.connections(given, found, security_settings.Security())
    assert (made.bootstrap, made.request_timeout_s) == (("a:1", "b:2"), 40)
    assert (made.connect_timeout_s, made.reconnect_backoff_max_s) == (2, 5)
    assert (made.metadata_max_age_s, made.connections_max_idle_s) == (300, 540)
    assert (made.canonical_bootstrap, made.rebootstrap) == (True, False)
    assert made.socket_buffer_bytes is None
    given["send.buffer.bytes"] = "65536"
    found = worker_keys.DISTRIBUTED.parse(given)
    made = brokers.connections(given, found, security_settings.Security())
    assert made.socket_buffer_bytes == 65536
