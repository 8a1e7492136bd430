from __future__ import annotations

import logging

import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import translate_errors
from connect_runtime.wire.codec import security_settings
from mm2.cluster import client_config


def access(security=None, **properties):
    return client_config.ClusterAccess(
        alias="west",
        bootstrap=("127.0.0.1:1", "127.0.0.1:2"),
        security=security or security_settings.Security(),
        properties={key.replace("_", "."): value for key, value in properties.items()},
    )


def settings(security=None, **properties):
    return client_config.client_settings(access(security, **properties), client_id="me")


def test_a_plain_cluster_needs_little():
    assert settings() == {
        "bootstrap.servers": "127.0.0.1:1,127.0.0.1:2",
        "client.id": "me",
        "log.connection.close": False,
        "reconnect.backoff.max.ms": 1000,
        "security.protocol": "PLAINTEXT",
    }


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
    ],
)
def test_java_settings_are_translated(java, value, name, expected):
    assert settings(**{java.replace(".", "_"): value})[name] == expected


def test_the_library_asks_the_issuer_itself_and_tells_no_secret(caplog):
    oauth = security_settings.OAuth(
        endpoint="https://id/token",
        client_id="mm2",
        client_secret="s3 cret",
        scope="kafka",
        urlencode=True,
        extensions={"a": "b", "c": "d"},
    )
    security = security_settings.Security(
        protocol="SASL_SSL", mechanism="OAUTHBEARER", username="mm2", oauth=oauth
    )
    found = settings(security)
    assert "sasl.username" not in found
    assert {name: value for name, value in found.items() if "oauth" in name} == {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.token.endpoint.url": "https://id/token",
        "sasl.oauthbearer.client.id": "mm2",
        "sasl.oauthbearer.client.secret": "s3+cret",
        "sasl.oauthbearer.scope": "kafka",
        "sasl.oauthbearer.extensions": "a=b,c=d",
    }
    logger = client_config._logger(access(security))
    logger.warning("it said %s, as it was sent %s", "s3 cret", "s3+cret")
    assert caplog.messages == ["it said …, as it was sent …"]


def test_what_librdkafka_lacks_is_not_passed():
    extra = settings(metric_reporters="a.B", interceptor_classes="c.D", linger_ms="7")
    assert extra == settings()


def test_every_translated_name_is_known_to_the_library():
    all_of_them = access(**{name.replace(".", "_"): "1000" for name in client_config.SHARED})
    reports = translate_errors.ConnectionReports()
    client_config.producer(all_of_them, client_id="c", settings={}, reports=reports).poll(0)


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
    passed = settings(security)
    assert {key: passed[key] for key in passed if key.startswith(("sasl", "ssl", "security"))} == {
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
    tls = security_settings.Security(protocol="SSL")
    careless = security_settings.Security(protocol="SSL", check_hostname=False)
    assert settings(tls)[name] == "https"
    assert settings(careless)[name] == "none"
    assert "ssl.ca.pem" not in settings(tls)


def test_secrets_are_in_no_repr_and_no_error():
    security = security_settings.Security(
        protocol="SASL_SSL",
        mechanism="PLAIN",
        username="u",
        password="pass-word",
        ca_pem="no certificate: ca-text",
        key_pem="key-text",
    )
    secretive = access(security, sasl_jaas_config="pass-word")
    reports = translate_errors.ConnectionReports()
    with pytest.raises(errors.FatalError) as refused:
        client_config.producer(secretive, client_id="c", settings={}, reports=reports)
    assert "ssl.ca.pem" in str(refused.value)
    assert "west" in str(refused.value)
    assert refused.value.__cause__ is None
    for text in (repr(secretive), str(refused.value)):
        for secret in ("pass-word", "key-text", "ca-text"):
            assert secret not in text


def test_the_librarys_log_goes_to_its_logger_and_nowhere_else(caplog, capfd):
    reports = translate_errors.ConnectionReports()
    with caplog.at_level(logging.DEBUG, logger="librdkafka"):
        producer = client_config.producer(access(), client_id="me", settings={}, reports=reports)
        for _ in range(20):
            producer.poll(0.1)
            if reports.reason() and caplog.records:
                break
    assert {record.name for record in caplog.records} == {"librdkafka"}
    assert "Connection refused" in caplog.text
    reason = reports.reason()
    assert reason is not None
    assert "127.0.0.1" in reason.str()
    assert capfd.readouterr() == ("", "")
