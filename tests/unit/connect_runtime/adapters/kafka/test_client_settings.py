"""What a worker's properties say of its cluster, in the library's words, secrets hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.adapters.kafka import access, client_settings
from connect_runtime.base import errors
from connect_runtime.wire.connection import store_files

FILES = store_files.below(Path())
PLAIN = {"bootstrap.servers": "127.0.0.1:1, 127.0.0.1:2"}
OAUTH = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:1/token",
    "sasl.jaas.config": (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
        'clientId="connect" clientSecret="s3 cret";'
    ),
}


def settings(**properties):
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return client_settings.access(PLAIN | given, files=FILES).settings


def test_a_plain_cluster_needs_little():
    found = client_settings.access(PLAIN, files=FILES)
    assert found.settings == {"security.protocol": "PLAINTEXT"}
    assert found.bootstrap == found.where == "127.0.0.1:1,127.0.0.1:2"
    told = {"bootstrap.servers": "SASL_PLAINTEXT://h:1, [::1]:2"}
    assert client_settings.access(told, files=FILES).bootstrap == "h:1,[::1]:2"


@pytest.mark.parametrize(
    ("java", "value", "name", "expected"),
    [
        ("request.timeout.ms", "15000", "socket.timeout.ms", 15000),
        ("request.timeout.ms", "9999999", "socket.timeout.ms", 300_000),
        ("metadata.max.age.ms", "1000", "topic.metadata.refresh.interval.ms", 1000),
        ("send.buffer.bytes", "-1", "socket.send.buffer.bytes", 0),
        ("connections.max.idle.ms", "-1", "connections.max.idle.ms", 0),
        ("client.dns.lookup", "USE_ALL_DNS_IPS", "client.dns.lookup", "use_all_dns_ips"),
    ],
)
def test_java_settings_are_translated(java, value, name, expected):
    assert settings(**{java.replace(".", "_"): value})[name] == expected


def test_what_the_library_lacks_is_not_passed():
    assert settings(metric_reporters="a.B", linger_ms="7", group_id="g") == settings()


def test_sasl_and_tls_are_passed_inline():
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    found = settings(
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_jaas_config=f'{login} username="u" password="p";',
    )
    assert found["sasl.username"] == "u"
    assert found["sasl.password"] == "p"
    assert found["ssl.endpoint.identification.algorithm"] == "https"


def test_an_issuers_secret_is_not_told(caplog):
    given = client_settings.access(PLAIN | OAUTH, files=FILES)
    assert given.settings["sasl.oauthbearer.client.secret"] == "s3 cret"
    assert "s3" not in repr(given)
    logger = access._logger(given)
    logger.warning("it said %s, as it was sent %s", "s3 cret", "s3+cret")
    assert caplog.messages == ["it said …, as it was sent …"]


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({}, r"bootstrap.servers is missing"),
        ({"bootstrap.servers": " , "}, r"bootstrap.servers is missing"),
        ({"bootstrap.servers": "a:1,nobody"}, r"bootstrap.servers: 'nobody' is not host:port"),
        ({"bootstrap.servers": "a:0"}, r"bootstrap.servers: 'a:0' has no port"),
        (PLAIN | {"request.timeout.ms": "soon"}, "request.timeout.ms is 'soon'"),
        (PLAIN | {"security.protocol": "SSH"}, "security.protocol"),
    ],
)
def test_what_cannot_be_meant_is_refused(properties, told):
    with pytest.raises(errors.FatalError, match=told):
        client_settings.access(properties, files=FILES)


def connections(**properties):
    given = {key.replace("_", "."): value for key, value in properties.items()}
    return client_settings.connections(PLAIN | given, client_id="me", files=FILES)


def test_our_own_connections_go_by_the_same_settings():
    plain = connections()
    assert plain.bootstrap == ("127.0.0.1:1", "127.0.0.1:2")
    assert (plain.client_id, plain.request_timeout_s) == ("me", 30.0)
    assert plain.rebootstrap
    assert not plain.canonical_bootstrap
    told = connections(
        request_timeout_ms="1500",
        retry_backoff_ms="0",
        metadata_recovery_strategy="NONE",
        client_dns_lookup="resolve_canonical_bootstrap_servers_only",
    )
    assert (told.request_timeout_s, told.retry_backoff_s) == (1.5, 0.001)
    assert told.canonical_bootstrap
    assert not told.rebootstrap
    assert connections(security_protocol="SSL").security.uses_tls


def test_a_first_wait_is_no_longer_than_the_longest():
    assert connections(retry_backoff_ms="5000").retry_backoff_max_s == 5.0
    assert connections(reconnect_backoff_max_ms="20").reconnect_backoff_s == 0.02


def test_our_own_connections_need_an_address_and_settings_that_can_be_meant():
    with pytest.raises(errors.FatalError, match=r"bootstrap\.servers is missing"):
        client_settings.connections({}, client_id="me", files=FILES)
    with pytest.raises(errors.FatalError, match=r"security\.protocol"):
        connections(security_protocol="ODD")
