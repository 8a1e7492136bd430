"""Kafka client errors: only this module translates the errors of librdkafka and of
`connect_runtime.network` to a `ConnectError`.

Errors that callers distinguish have their own types; all others are plain `RetriableError` or
`FatalError`. Every message has three parts: what was being done and where, what the cluster or
network reported, and the remedy. librdkafka reports why a connection fails only to its error
callback. `RecentConnectionErrors` stores the reason, so that the message names the cause ("wrong
password") instead of "timed out".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from connect_runtime.base import terminal_escape
from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    MalformedResponseError,
    RequestFailureLayer,
    UnsupportedVersion,
)


class UnreachableError(RetriableError):
    """No broker responded in time: the address is wrong, the network fails, or the cluster is
    down."""


class AuthenticationError(FatalError):
    """The brokers rejected the client's credentials, or the client rejected a broker's
    certificate."""


class NotAuthorizedError(FatalError):
    """The principal is authenticated but not authorized for the operation."""


class TopicMissingError(FatalError):
    """The topic does not exist, or the principal may not DESCRIBE it."""


class TopicExistsError(FatalError):
    """The topic to create already exists."""


class UnsupportedByBrokersError(FatalError):
    """The brokers are too old to support the request."""


# ruff: noqa: SLF001 - the library spells its local error codes with a leading underscore


PARTITION_EOF = KafkaError._PARTITION_EOF
GROUP_ERRORS = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._UNKNOWN_GROUP})
OUT_OF_RANGE_ERRORS = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
)
OFFSET_OUT_OF_RANGE: int = KafkaError.OFFSET_OUT_OF_RANGE
UNKNOWN_TOPIC_OR_PARTITION: int = KafkaError.UNKNOWN_TOPIC_OR_PART
LEADER_NOT_AVAILABLE: int = KafkaError.LEADER_NOT_AVAILABLE
CORRUPT_BATCH_ERRORS = frozenset({KafkaError._BAD_MSG, KafkaError.INVALID_MSG})
_WHOLE_REQUEST_ERRORS = frozenset(
    {
        KafkaError._INVALID_ARG,
        KafkaError.INVALID_REQUEST,
        KafkaError.UNKNOWN,
        # A create.topic.policy, but also more than 10,000 partitions in one request.
        KafkaError.POLICY_VIOLATION,
    }
)
PURGED_ERRORS = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

_CREDENTIALS_ADVICE = "check sasl.mechanism, sasl.jaas.config and security.protocol"
_CERTIFICATES_ADVICE = "check the ssl.truststore.* and ssl.keystore.* settings"
_ADDRESS_ADVICE = (
    "check bootstrap.servers, security.protocol and the network, and that brokers are up"
)
_GRANT_ADVICE = "grant the permission with kafka-acls.sh --add, or use another principal"
_RETRY_ADVICE = "usually transient; check the brokers if the error persists"
_TLS_REFUSAL = re.compile(
    r"alert (bad |unknown |unsupported )?(certificate|ca\b|handshake failure)"
)
_LOCAL_DETAIL = re.compile(r" \(after \d{1,20}ms in state ")

ErrorAdvice = tuple[type[ConnectError], str]
"""Exception type and remedy for an error code."""

CREDENTIALS_REFUSED: ErrorAdvice = (AuthenticationError, _CREDENTIALS_ADVICE)
CERTIFICATE_REFUSED: ErrorAdvice = (AuthenticationError, _CERTIFICATES_ADVICE)
NO_RESPONSE: ErrorAdvice = (UnreachableError, _ADDRESS_ADVICE)
BROKERS_TOO_OLD: ErrorAdvice = (UnsupportedByBrokersError, "this needs newer brokers")
RESPONSE_MALFORMED: ErrorAdvice = (
    RetriableError,
    "check that bootstrap.servers names Kafka brokers",
)

_AUTHENTICATION_ERRORS: dict[int, ErrorAdvice] = {
    KafkaError._AUTHENTICATION: CREDENTIALS_REFUSED,
    KafkaError.SASL_AUTHENTICATION_FAILED: CREDENTIALS_REFUSED,
    KafkaError.UNSUPPORTED_SASL_MECHANISM: CREDENTIALS_REFUSED,
    KafkaError.ILLEGAL_SASL_STATE: CREDENTIALS_REFUSED,
    KafkaError._SSL: CERTIFICATE_REFUSED,
}

_NETWORK_ERRORS: dict[int, ErrorAdvice] = dict.fromkeys(
    (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,  # also for a single request to a silent broker
    ),
    NO_RESPONSE,
)

_AUTHORIZATION_ERRORS: dict[int, ErrorAdvice] = dict.fromkeys(
    (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (NotAuthorizedError, _GRANT_ADVICE),
)

_MISSING_TOPIC_ERRORS: dict[int, ErrorAdvice] = dict.fromkeys(
    (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    ),
    (
        TopicMissingError,
        "create the topic, or grant DESCRIBE on it: brokers report topics without this permission "
        "as missing",
    ),
)

_REFUSAL_ERRORS: dict[int, ErrorAdvice] = {
    KafkaError.TOPIC_ALREADY_EXISTS: (
        TopicExistsError,
        "use the existing topic if its partitions and settings are suitable",
    ),
    KafkaError.TOPIC_EXCEPTION: (
        FatalError,
        "use at most 249 letters, digits, '.', '_' and '-'; names that differ only in '.' and '_' "
        "collide",
    ),
    KafkaError.POLICY_VIOLATION: (
        FatalError,
        "a cluster policy forbids the request: change the request or the policy",
    ),
    KafkaError.INVALID_REPLICATION_FACTOR: (
        RetriableError,  # brokers may still be starting
        "set replication.factor to at most the number of brokers",
    ),
    KafkaError.INVALID_PARTITIONS: (
        FatalError,
        "a topic has at least one partition, and partitions can be added but not removed",
    ),
    KafkaError.INVALID_CONFIG: (
        FatalError,
        "correct the configuration property",
    ),
    KafkaError._UNSUPPORTED_FEATURE: BROKERS_TOO_OLD,
    KafkaError.UNSUPPORTED_VERSION: BROKERS_TOO_OLD,
    KafkaError.MSG_SIZE_TOO_LARGE: (FatalError, "raise the topic's max.message.bytes"),
    KafkaError.RECORD_LIST_TOO_LARGE: (FatalError, "raise the topic's segment.bytes"),
}

_RETRIABLE_ERRORS: dict[int, ErrorAdvice] = dict.fromkeys(
    (
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.INCONSISTENT_TOPIC_ID,  # the topic was created again
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_MEMBER_ID,  # a consumer joins its group again
        KafkaError._DESTROY_BROKER,
        KafkaError._ISR_INSUFF,
        KafkaError._NOENT,  # no leader at the moment
        KafkaError._WAIT_CACHE,
    ),
    (RetriableError, _RETRY_ADVICE),
)

_MALFORMED_RESPONSE_ERRORS: dict[int, ErrorAdvice] = {KafkaError._UNDERFLOW: RESPONSE_MALFORMED}

_ADVICE_BY_CODE = {
    **_AUTHENTICATION_ERRORS,
    **_NETWORK_ERRORS,
    **_AUTHORIZATION_ERRORS,
    **_MISSING_TOPIC_ERRORS,
    **_REFUSAL_ERRORS,
    **_RETRIABLE_ERRORS,
    **_MALFORMED_RESPONSE_ERRORS,
}
_UNKNOWN_ERROR_ADVICE: ErrorAdvice = (FatalError, "see the brokers' log")


@dataclass(slots=True)
class RecentConnectionErrors:
    """The latest connection errors of a client since its last successful response.

    Keeps one error per code. Thread-safe.
    """

    _latest: dict[int, KafkaError] = field(default_factory=dict)

    def record_connection_error(self, error: KafkaError) -> None:
        """Record a connection error. Used as the client's `error_cb`.

        A TLS 1.3 broker rejects a client certificate after the handshake. librdkafka reports this
        as a broken connection, but it is recorded as a TLS error.
        """
        if error.code() == KafkaError._TRANSPORT and _TLS_REFUSAL.search(get_error_text(error)):
            error = KafkaError(KafkaError._SSL, get_error_text(error))
        if error.code() in _AUTHENTICATION_ERRORS or error.code() in _NETWORK_ERRORS:
            self._latest[error.code()] = error

    def clear_errors(self) -> None:
        """Clear the recorded errors. Call after a successful response."""
        self._latest.clear()

    def get_security_error(self) -> KafkaError | None:
        """Return the recorded authentication or TLS error, which a retry cannot resolve; None if
        none is recorded."""
        return self._find_first_error(_AUTHENTICATION_ERRORS)

    def get_most_specific_error(self) -> KafkaError | None:
        """Return the recorded error that best explains a failure: an authentication or TLS
        error, else a network error."""
        return self.get_security_error() or self._find_first_error(_NETWORK_ERRORS)

    def _find_first_error(self, codes: dict[int, ErrorAdvice]) -> KafkaError | None:
        found = (self._latest.get(code) for code in codes)
        return next((each for each in found if each is not None), None)


def is_network_error(error: KafkaError) -> bool:
    """Return whether the error is a network error or timeout. `RecentConnectionErrors` may have
    recorded its cause."""
    return error.code() in _NETWORK_ERRORS


def create_timeout_error() -> KafkaError:
    """Create the error that librdkafka reports after a timeout. Used when a deadline expires that
    the caller enforces itself."""
    return KafkaError(KafkaError._TIMED_OUT)


def get_error_text(error: KafkaError) -> str:
    """Return the text of a librdkafka error. If the text contains a broker's message that is not
    UTF-8, return the error's name instead."""
    try:
        return error.str()
    except UnicodeDecodeError:
        return f"{error.name()} (the brokers' text is malformed)"


def is_whole_request_error_code(code: int) -> bool:
    """Return whether brokers may return this error code for all topics of a request although only
    one topic is invalid."""
    return code in _WHOLE_REQUEST_ERRORS


def is_missing_topic_error(error: KafkaError) -> bool:
    """Return whether the error means that the topic is missing, or not yet known to the broker."""
    return is_missing_topic_code(error.code())


def is_missing_topic_code(code: int) -> bool:
    """Return whether an error code means that the topic is missing, or not yet known to the
    broker."""
    return code in _MISSING_TOPIC_ERRORS


def is_retriable_error(error: KafkaError) -> bool:
    """Return whether a retry may succeed after this error."""
    return is_retriable_code(error.code())


def is_retriable_code(code: int) -> bool:
    """Return whether a retry may succeed after this error code of a broker or of librdkafka."""
    tables = (_NETWORK_ERRORS, _RETRIABLE_ERRORS, _MALFORMED_RESPONSE_ERRORS)
    return any(code in each for each in tables)


def translate_error(
    error: KafkaError,
    doing: str,
    *,
    where: str,
    reports: RecentConnectionErrors | None = None,
    advice_overrides: Mapping[int, ErrorAdvice] | None = None,
) -> ConnectError:
    """Translate a librdkafka error to a `ConnectError`.

    The message starts with `doing`, for example "creating topic orders". `where` names the cluster
    and its bootstrap addresses. If `error` is a network error or timeout, the most specific error
    in `reports` replaces it, because that error names the cause. `advice_overrides` maps error
    codes to remedies that are specific to this request.
    """
    if reports is not None and is_network_error(error):
        error = reports.get_most_specific_error() or error
    kind, advice = (advice_overrides or {}).get(error.code()) or _ADVICE_BY_CODE.get(
        error.code(), _UNKNOWN_ERROR_ADVICE
    )
    text = _strip_librdkafka_suffix(get_error_text(error)).strip().rstrip(".")
    text = terminal_escape.replace_remedy_labels(text)
    return kind(f"{doing} on {where}: {text} ({error.name().lstrip('_')}); {advice}")


def _strip_librdkafka_suffix(text: str) -> str:
    """Strip librdkafka's suffix, such as ` (after 5ms in state CONNECT, 30 identical error(s)
    suppressed)`."""
    found = _LOCAL_DETAIL.search(text)
    return text[: found.start()] if found and text.endswith(")") else text


def translate_error_code(
    code: int,
    doing: str,
    *,
    where: str,
    broker_message: str | None = None,
    advice_overrides: Mapping[int, ErrorAdvice] | None = None,
) -> ConnectError:
    """Translate an error code in a broker's response to a `ConnectError`. Used for responses that
    were received over `connect_runtime.network`, not through librdkafka. `broker_message` replaces
    the code's default text."""
    error = KafkaError(code, broker_message) if broker_message else KafkaError(code)
    return translate_error(error, doing, where=where, advice_overrides=advice_overrides)


def translate_request_failure(failure: ConnectError, doing: str) -> ConnectError:
    """Translate the failure of a request that got no response to a `ConnectError` whose message
    suggests a remedy.

    The request was sent over a connection of `connect_runtime.network`.
    """
    match failure:
        case AuthenticationFailed(layer=RequestFailureLayer.TLS):
            kind, advice = CERTIFICATE_REFUSED
        case AuthenticationFailed(layer=RequestFailureLayer.AUTH):
            kind, advice = CREDENTIALS_REFUSED
        case MalformedResponseError():
            kind, advice = RESPONSE_MALFORMED
        case UnsupportedVersion():
            kind, advice = BROKERS_TOO_OLD
        case RetriableError() | AuthenticationFailed():
            kind, advice = NO_RESPONSE
        case _:
            return failure
    return kind(f"{doing}: {failure}; {advice}")
