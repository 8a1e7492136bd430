"""What clients of a cluster log."""

from __future__ import annotations

import logging

import pytest

from connect_runtime.kafka import librdkafka_logging
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol.security_settings import OAuthSettings, SecuritySettings

REFUSED = "FAIL [c#consumer-1] [thrd:h:1/bootstrap]: Connection refused (after %sms in state %s)"


def logger(name, secret=None):
    oauth = OAuthSettings(endpoint="http://h", client_id="c", client_secret=secret or "")
    security = SecuritySettings(oauth=oauth if secret else None)
    return librdkafka_logging.get_cluster_logger(
        KafkaClusterAccess(name=name, bootstrap=("h:1",), security=security)
    )


def log(logger, text, *args, at_s):
    record = logger.makeRecord(logger.name, logging.ERROR, "x", 1, text, args, None)
    record.created = at_s
    logger.handle(record)


def test_what_a_client_repeats_is_told_twice_a_minute(caplog):
    repeating = logger("repeats")
    for second in range(120):
        log(repeating, REFUSED, second, "CONNECT", at_s=float(second))
        log(repeating, "another one", at_s=float(second))
    assert len(caplog.records) == 8
    assert logger("repeats") is repeating


def test_only_so_many_texts_are_remembered(caplog):
    talkative = logger("texts")
    for number in range(1_000):
        log(talkative, f"text {number} of many", at_s=0.0)
    (discretion,) = talkative.filters
    assert len(discretion.logged_s) <= 200
    assert len(caplog.records) == 1_000


@pytest.mark.parametrize(("name", "wanted"), [("west", "librdkafka.west"), ("", None)])
def test_a_logger_is_named_as_its_cluster_is(name, wanted):
    found = logger(name).name
    assert found == wanted if wanted else found.startswith("librdkafka.")
    other = librdkafka_logging.get_cluster_logger(KafkaClusterAccess(name=name, bootstrap=("h:2",)))
    assert (other.name == found) == bool(name)


def test_an_issuers_secret_is_not_told_not_even_an_older_one(caplog):
    logger("issued", "s3 cret").warning("it said %s, as it was sent %s", "s3 cret", "s3+cret")
    assert caplog.messages == ["it said …, as it was sent …"]
    logger("issued", "n3wer").warning("it said n3wer, not s3 cret")
    logger("issued").warning("now it said s3+cret")
    assert caplog.messages[1:] == ["it said …, not …", "now it said …"]


def test_a_secret_within_another_leaves_nothing_of_it():
    assert librdkafka_logging.redact_secrets("abc ab", {"ab", "abc"}) == "… …"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            'Failed to acquire SASL OAUTHBEARER token: {"error":"X","error_description":"BODY"}',
            "Failed to acquire SASL OAUTHBEARER token: the issuer's response is not shown",
        ),
        (
            'Failed to acquire SASL OAUTHBEARER token: {"error":"invalid_client","x":"BODY"}',
            "Failed to acquire SASL OAUTHBEARER token: invalid_client",
        ),
        (
            'a: Failed to retrieve OIDC token from "http://h/t": {"BODY":1} (401)',
            'a: Failed to retrieve OIDC token from "http://h/t": '
            "the issuer's response is not shown (401)",
        ),
        (
            "Failed to acquire SASL OAUTHBEARER token: Response is not JSON encoded: BODY",
            "Failed to acquire SASL OAUTHBEARER token: Response is not JSON encoded",
        ),
        ("Failed to acquire SASL OAUTHBEARER token", None),
        ("something else: BODY", "something else: BODY"),
    ],
)
def test_an_issuers_answer_is_not_repeated(text, told):
    found = librdkafka_logging.redact_secrets(text, ())
    if told is None:
        assert found.startswith(text)
    else:
        assert found == told
