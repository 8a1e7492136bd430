"""Java's words in the library's."""

from __future__ import annotations

import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import client_settings
from connect_runtime.wire.codec import security_settings


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
    assert client_settings.shared({java: value}) == {name: expected}


def test_what_the_library_lacks_is_not_passed():
    assert client_settings.shared({"metric.reporters": "a.B", "linger.ms": "7"}) == {}


def test_what_is_no_number_is_refused():
    with pytest.raises(errors.FatalError, match=r"retry\.backoff\.ms is 'soon'"):
        client_settings.shared({"retry.backoff.ms": "soon"})


def test_the_library_asks_the_issuer_itself():
    oauth = security_settings.OAuth(
        endpoint="https://id/token",
        client_id="mm2",
        client_secret="s3 cret",
        scope="kafka",
        urlencode=True,
        extensions={"a": "b", "c": "d"},
    )
    found = client_settings.security(
        security_settings.Security(
            protocol="SASL_SSL", mechanism="OAUTHBEARER", username="mm2", oauth=oauth
        )
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
    security = security_settings.Security(
        protocol="SASL_SSL",
        mechanism="SCRAM-SHA-512",
        username="u",
        password="p",
        ca_pem="CA",
        certificate_pem="CERT",
        key_pem="KEY",
        key_password="KP",
    )
    assert client_settings.security(security) == {
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
    tls = client_settings.security(security_settings.Security(protocol="SSL"))
    careless = security_settings.Security(protocol="SSL", check_hostname=False)
    assert tls[name] == "https"
    assert client_settings.security(careless)[name] == "none"
    assert "ssl.ca.pem" not in tls
