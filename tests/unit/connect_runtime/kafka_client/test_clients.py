"""What clients are made with, what is wrong with their settings, and what they must not tell."""

from __future__ import annotations

import logging

import confluent_kafka
import pytest

from connect_runtime.base import errors
from connect_runtime.kafka_client import access, client_settings, clients, translate_errors
from connect_runtime.wire.codec import security_settings


def an_access(security=None, **properties):
    return access.Access(
        name="west",
        bootstrap=("127.0.0.1:1", "127.0.0.1:2"),
        security=security or security_settings.Security(),
        properties={key.replace("_", "."): value for key, value in properties.items()},
    )


def config(given, reports=None, **settings):
    return clients._config(
        given,
        client_id="me",
        settings=settings,
        reports=reports or translate_errors.ConnectionReports(),
    )


def test_a_plain_cluster_needs_little():
    found = config(an_access())
    del found["error_cb"]
    assert found == {
        "bootstrap.servers": "127.0.0.1:1,127.0.0.1:2",
        "client.id": "me",
        "enable.metrics.push": False,
        "log.connection.close": False,
        "reconnect.backoff.max.ms": 1000,
        "security.protocol": "PLAINTEXT",
        "socket.timeout.ms": 30_000,
    }


def test_a_clients_own_settings_win_over_what_all_share():
    given = an_access(reconnect_backoff_max_ms="7000", request_timeout_ms="8000")
    found = config(given, **{"socket.timeout.ms": 9000})
    assert (found["reconnect.backoff.max.ms"], found["socket.timeout.ms"]) == (7000, 9000)


def test_every_translated_name_is_known_to_the_library():
    given = an_access(**{name.replace(".", "_"): "1000" for name in client_settings.SHARED})
    reports = translate_errors.ConnectionReports()
    clients.producer(given, client_id="c", settings={}, reports=reports).poll(0)


def test_settings_that_the_library_refuses_are_named_without_the_others():
    security = security_settings.Security(
        protocol="SASL_SSL",
        mechanism="PLAIN",
        username="u",
        password="pass-word",
        ca_pem="no certificate: ca-text",
        key_pem="key-text",
    )
    for making, extra, told in (
        (clients.producer, {}, "ssl.ca.pem"),
        (clients.admin_client, {"socket.timeout.ms": "soon"}, "socket.timeout.ms"),
    ):
        with pytest.raises(errors.FatalError) as refused:
            making(
                an_access(security, sasl_jaas_config="pass-word"),
                client_id="c",
                settings=extra,
                reports=translate_errors.ConnectionReports(),
            )
        assert told in str(refused.value)
        assert "west" in str(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__
        for secret in ("pass-word", "key-text", "ca-text"):
            assert secret not in str(refused.value)


def test_an_issuers_secret_is_in_no_report():
    oauth = security_settings.OAuth(endpoint="http://h", client_id="c", client_secret="s3 cret")
    security = security_settings.Security(
        protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", oauth=oauth
    )
    reports = translate_errors.ConnectionReports()
    said = confluent_kafka.KafkaError(
        confluent_kafka.KafkaError._AUTHENTICATION, "it said s3 cret, as sent s3+cret"
    )
    config(an_access(security), reports)["error_cb"](said)
    reason = reports.reason()
    assert reason is not None
    assert reason.str() == "it said …, as sent …"


def test_the_librarys_log_goes_to_its_logger_and_nowhere_else(caplog, capfd):
    reports = translate_errors.ConnectionReports()
    with caplog.at_level(logging.DEBUG, logger="librdkafka"):
        producer = clients.producer(an_access(), client_id="me", settings={}, reports=reports)
        for _ in range(20):
            producer.poll(0.1)
            if reports.reason() and caplog.records:
                break
    assert {record.name for record in caplog.records} == {"librdkafka.west"}
    assert "Connection refused" in caplog.text
    reason = reports.reason()
    assert reason is not None
    assert "127.0.0.1" in reason.str()
    assert capfd.readouterr() == ("", "")
