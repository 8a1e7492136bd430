"""What properties say of a cluster, secrets hidden.

Java's words in the library's."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka import librdkafka_connection_settings
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.network import keystore_files
from connect_runtime.protocol.security_settings import OAuthSettings, SecuritySettings

FILES = keystore_files.create_store_files(Path())
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
    return librdkafka_connection_settings.parse_cluster_access(
        PLAIN | given, files=FILES
    ).librdkafka_settings


def test_a_plain_cluster_needs_little():
    found = librdkafka_connection_settings.parse_cluster_access(PLAIN, files=FILES)
    assert found.librdkafka_settings == {"security.protocol": "PLAINTEXT"}
    assert found.oauth_secret is None
    assert found.bootstrap == ("127.0.0.1:1", "127.0.0.1:2")
    told = {"bootstrap.servers": "SASL_PLAINTEXT://h:1, [::1]:2"}
    assert librdkafka_connection_settings.parse_cluster_access(told, files=FILES).bootstrap == (
        "h:1",
        "[::1]:2",
    )


def test_messages_say_which_cluster_and_where():
    assert (
        librdkafka_connection_settings.parse_cluster_access(PLAIN, files=FILES).name_and_addresses
        == "127.0.0.1:1,127.0.0.1:2"
    )
    named = librdkafka_connection_settings.parse_cluster_access(PLAIN, files=FILES, name="west")
    assert named.name_and_addresses == "west (127.0.0.1:1,127.0.0.1:2)"


def test_what_no_client_acts_on_is_not_kept():
    assert settings(metric_reporters="a.B", linger_ms="7", group_id="g") == settings()
    found = librdkafka_connection_settings.parse_cluster_access(
        PLAIN | {"linger.ms": "7", "request.timeout.ms": "5000"}, files=FILES
    )
    assert found.properties == {"request.timeout.ms": "5000"}


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


def test_secrets_are_in_no_repr():
    given = librdkafka_connection_settings.parse_cluster_access(PLAIN | OAUTH, files=FILES)
    assert (
        given.librdkafka_settings["sasl.oauthbearer.client.secret"]
        == given.oauth_secret
        == "s3 cret"
    )
    assert "s3" not in repr(given)
    security = SecuritySettings(password="pass-word", key_pem="key-text")
    properties = {"sasl.jaas.config": "pass-word"}
    shown = repr(KafkaClusterAccess(bootstrap=("h:1",), security=security, properties=properties))
    assert "pass-word" not in shown
    assert "key-text" not in shown


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
    with pytest.raises(FatalError, match=told):
        librdkafka_connection_settings.parse_cluster_access(properties, files=FILES)


@pytest.mark.parametrize(
    ("given", "wanted"), [({}, 10_000), ({"request.timeout.ms": "5000"}, 5000)]
)
def test_silent_brokers_are_given_up_soon_unless_it_is_said_when(given, wanted):
    found = librdkafka_connection_settings.shorten_request_timeout(
        KafkaClusterAccess(bootstrap=("h:1",), properties=given)
    )
    assert found.librdkafka_settings["socket.timeout.ms"] == wanted


@pytest.mark.parametrize(
    ("java", "value", "name", "expected"),
    [
        ("request.timeout.ms", "15000", "socket.timeout.ms", 15000),
        ("request.timeout.ms", "9999999", "socket.timeout.ms", 300_000),
        ("metadata.max.age.ms", "1000", "topic.metadata.refresh.interval.ms", 1000),
        ("send.buffer.bytes", "-1", "socket.send.buffer.bytes", 0),
        ("receive.buffer.bytes", "65536", "socket.receive.buffer.bytes", 65536),
        ("connections.max.idle.ms", "-1", "connections.max.idle.ms", 0),
        ("reconnect.backoff.max.ms", "7000", "reconnect.backoff.max.ms", 7000),
        ("client.dns.lookup", "USE_ALL_DNS_IPS", "client.dns.lookup", "use_all_dns_ips"),
    ],
)
def test_java_settings_are_translated(java, value, name, expected):
    assert librdkafka_connection_settings.translate_client_settings({java: value}) == {
        name: expected
    }


def test_what_the_library_lacks_is_not_passed():
    assert (
        librdkafka_connection_settings.translate_client_settings(
            {"metric.reporters": "a.B", "linger.ms": "7"}
        )
        == {}
    )


def test_what_is_no_number_is_refused():
    with pytest.raises(FatalError, match=r"retry\.backoff\.ms is 'soon'"):
        librdkafka_connection_settings.translate_client_settings({"retry.backoff.ms": "soon"})


def test_the_library_asks_the_issuer_itself():
    oauth = OAuthSettings(
        endpoint="https://id/token",
        client_id="mm2",
        client_secret="s3 cret",
        scope="kafka",
        urlencode=True,
        extensions={"a": "b", "c": "d"},
    )
    found = librdkafka_connection_settings.translate_security_settings(
        SecuritySettings(protocol="SASL_SSL", mechanism="OAUTHBEARER", username="mm2", oauth=oauth)
    )
    assert "sasl.username" not in found
    assert {name: value for name, value in found.items() if "oauth" in name} == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://id/token",
        "sasl.oauthbearer.client.id": "mm2",
        "sasl.oauthbearer.client.secret": "s3+cret",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "a=b,c=d",
    }


def test_scram_over_tls():
    security = SecuritySettings(
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-512",
        username="u",
        password="p",
        ca_pem="CA",
        certificate_pem="CERT",
        key_pem="KEY",
        key_password="KP",
    )
    assert librdkafka_connection_settings.translate_security_settings(security) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "u",
        "sasl.password": "p",
        "ssl.ca.pem": "CA",
        "ssl.certificate.pem": "CERT",
        "ssl.key.pem": "KEY",
        "ssl.key.password": "KP",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_host_names_are_checked_unless_told_otherwise():
    name = "ssl.endpoint.identification.algorithm"
    tls = librdkafka_connection_settings.translate_security_settings(
        SecuritySettings(protocol="SSL")
    )
    careless = SecuritySettings(protocol="SSL", check_hostname=False)
    assert tls[name] == "https"
    assert librdkafka_connection_settings.translate_security_settings(careless)[name] == "none"
    assert "ssl.ca.pem" not in tls
