"""Admin clients that are let go in threads of their own, and many of them after each other.

What clients are made with, what is wrong with their settings, and what they must not tell."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys

import confluent_kafka
import pytest

from connect_runtime.base.errors import FatalError
from connect_runtime.kafka import librdkafka_clients, librdkafka_connection_settings
from connect_runtime.kafka.client_errors import RecentConnectionErrors
from connect_runtime.kafka.librdkafka_clients import DeferredFreeAdminClient
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.security_settings import OAuthSettings, SecuritySettings

LET_GO_BY_ITS_OWN_CALLBACK = """
import sys, threading
import confluent_kafka.admin
from connect_runtime.kafka.librdkafka_clients import DeferredFreeAdminClient

def ends():
    kind = {"ours": DeferredFreeAdminClient, "plain": confluent_kafka.admin.AdminClient}
    held = [kind[sys.argv[1]]({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})]
    let_go = threading.Event()
    def answered(future):
        held.clear()
        let_go.set()
    held[0].describe_cluster(request_timeout=0.2).add_done_callback(answered)
    assert let_go.wait(20)

ends()
print("goes on")
"""
NOBODY = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


def run(kind: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", LET_GO_BY_ITS_OWN_CALLBACK, kind]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_client_that_its_own_thread_lets_go_does_not_end_the_process():
    done = run("ours")
    assert (done.returncode, done.stdout) == (0, "goes on\n"), done.stderr


def test_the_librarys_own_would_end_it():
    """Once this fails the class has no use any more."""
    done = run("plain")
    assert done.returncode == -signal.SIGABRT
    assert "librdkafka owned thread" in done.stderr


def test_more_clients_can_follow_each_other_than_a_process_has_room_for():
    """Some 1,000 fit."""
    for _ in range(1_200):
        DeferredFreeAdminClient(NOBODY)


def test_what_was_let_go_is_freed_when_another_is_polled():
    other = DeferredFreeAdminClient(NOBODY)
    DeferredFreeAdminClient(NOBODY)
    assert DeferredFreeAdminClient._dropped.qsize() == 1
    other.poll(0)
    assert DeferredFreeAdminClient._dropped.qsize() == 0


def test_what_the_library_refuses_is_raised_as_it_says_it():
    with pytest.raises(Exception, match="No such configuration property"):
        DeferredFreeAdminClient({"no.such": "setting"})


def an_access(security=None, **properties):
    return KafkaClusterAccess(
        name="west",
        bootstrap=("127.0.0.1:1", "127.0.0.1:2"),
        security=security or SecuritySettings(),
        properties={key.replace("_", "."): value for key, value in properties.items()},
    )


def config(given, reports=None, **settings):
    return librdkafka_clients._build_config(
        given,
        client_id="me",
        settings=settings,
        reports=reports or RecentConnectionErrors(),
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
    given = an_access(
        **{
            name.replace(".", "_"): "1000"
            for name in librdkafka_connection_settings.NUMBER_SETTINGS
        }
    )
    reports = RecentConnectionErrors()
    librdkafka_clients.create_producer(given, client_id="c", settings={}, reports=reports).poll(0)


def test_settings_that_the_library_refuses_are_named_without_the_others():
    security = SecuritySettings(
        protocol="SASL_SSL",
        mechanism="PLAIN",
        username="u",
        password="pass-word",
        ca_pem="no certificate: ca-text",
        key_pem="key-text",
    )
    for making, extra, told in (
        (librdkafka_clients.create_producer, {}, "ssl.ca.pem"),
        (
            librdkafka_clients.create_admin_client,
            {"socket.timeout.ms": "soon"},
            "socket.timeout.ms",
        ),
    ):
        with pytest.raises(FatalError) as refused:
            making(
                an_access(security, sasl_jaas_config="pass-word"),
                client_id="c",
                settings=extra,
                reports=RecentConnectionErrors(),
            )
        assert told in str(refused.value)
        assert "west" in str(refused.value)
        assert refused.value.__cause__ is None
        assert refused.value.__suppress_context__
        for secret in ("pass-word", "key-text", "ca-text"):
            assert secret not in str(refused.value)


def test_an_issuers_secret_is_in_no_report():
    oauth = OAuthSettings(endpoint="http://h", client_id="c", client_secret="s3 cret")
    security = SecuritySettings(protocol="SASL_PLAINTEXT", mechanism="OAUTHBEARER", oauth=oauth)
    reports = RecentConnectionErrors()
    said = confluent_kafka.KafkaError(
        confluent_kafka.KafkaError._AUTHENTICATION, "it said s3 cret, as sent s3+cret"
    )
    config(an_access(security), reports)["error_cb"](said)
    reason = reports.get_most_specific_error()
    assert reason is not None
    assert reason.str() == "it said …, as sent …"


def test_the_librarys_log_goes_to_its_logger_and_nowhere_else(caplog, capfd):
    reports = RecentConnectionErrors()
    with caplog.at_level(logging.DEBUG, logger="librdkafka"):
        producer = librdkafka_clients.create_producer(
            an_access(), client_id="me", settings={}, reports=reports
        )
        for _ in range(20):
            producer.poll(0.1)
            if reports.get_most_specific_error() and caplog.records:
                break
    assert {record.name for record in caplog.records} == {"librdkafka.west"}
    assert "Connection refused" in caplog.text
    reason = reports.get_most_specific_error()
    assert reason is not None
    assert "127.0.0.1" in reason.str()
    assert capfd.readouterr() == ("", "")
