"""The one place where errors of the Kafka library become ours.

Every message has three parts: what was being done and where, what the cluster or the network
said, and what to do about it. librdkafka tells why a connection fails only through its error
callback; `ConnectionReports` keeps that, so that "timed out" becomes "wrong password".
"""
# ruff: noqa: SLF001 - the library spells its local error codes with a leading underscore

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from confluent_kafka import KafkaError

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors

PARTITION_EOF = KafkaError._PARTITION_EOF
GROUP_TROUBLE = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError._UNKNOWN_GROUP})
OUT_OF_RANGE = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION}
)
DAMAGED = frozenset({KafkaError._BAD_MSG, KafkaError.INVALID_MSG})
_WHOLE_REQUEST = frozenset(
    {
        KafkaError._INVALID_ARG,
        KafkaError.INVALID_REQUEST,
        KafkaError.UNKNOWN,
        # A create.topic.policy, but also more than 10,000 partitions in one request.
        KafkaError.POLICY_VIOLATION,
    }
)
PURGED = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

_CREDENTIALS = "check sasl.mechanism, sasl.jaas.config and security.protocol"
_CERTIFICATES = "check the ssl.truststore.* and ssl.keystore.* settings"
_ADDRESS = "check bootstrap.servers, security.protocol and the network, and that brokers are up"
_GRANT = "grant it with kafka-acls.sh --add, or use another user"
_LATER = "it may pass; look at the brokers when it stays"
_TLS_REFUSAL = re.compile(
    r"alert (bad |unknown |unsupported )?(certificate|ca\b|handshake failure)"
)
_LOCAL_DETAIL = re.compile(r" \(after \d{1,20}ms in state ")

Advice = tuple[type[errors.ConnectError], str]
"""What a code becomes, and what to do about it."""

_AUTHENTICATION: dict[int, Advice] = {
    KafkaError._AUTHENTICATION: (kafka_errors.AuthenticationError, _CREDENTIALS),
    KafkaError.SASL_AUTHENTICATION_FAILED: (kafka_errors.AuthenticationError, _CREDENTIALS),
    KafkaError.UNSUPPORTED_SASL_MECHANISM: (kafka_errors.AuthenticationError, _CREDENTIALS),
    KafkaError.ILLEGAL_SASL_STATE: (kafka_errors.AuthenticationError, _CREDENTIALS),
    KafkaError._SSL: (kafka_errors.AuthenticationError, _CERTIFICATES),
}

_NETWORK: dict[int, Advice] = dict.fromkeys(
    (
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,  # also of one request to a silent broker, without retries
    ),
    (kafka_errors.UnreachableError, _ADDRESS),
)

_RIGHTS: dict[int, Advice] = dict.fromkeys(
    (
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (kafka_errors.NotAuthorizedError, _GRANT),
)

_MISSING: dict[int, Advice] = dict.fromkeys(
    (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    ),
    (
        kafka_errors.TopicMissingError,
        "create the topic, or grant DESCRIBE on it: without that right it looks missing",
    ),
)

_REFUSALS: dict[int, Advice] = {
    KafkaError.TOPIC_ALREADY_EXISTS: (
        kafka_errors.TopicExistsError,
        "use it as it is if its partitions and settings are as wanted",
    ),
    KafkaError.TOPIC_EXCEPTION: (
        errors.FatalError,
        "names have at most 249 letters, digits, '.', '_' and '-', and '.' collides with '_'",
    ),
    KafkaError.POLICY_VIOLATION: (
        errors.FatalError,
        "the cluster's own policy forbids it: change what is asked for, or the policy",
    ),
    KafkaError.INVALID_REPLICATION_FACTOR: (
        errors.RetriableError,  # brokers may still be starting
        "set a replication.factor of at most the number of brokers",
    ),
    KafkaError.INVALID_PARTITIONS: (
        errors.FatalError,
        "a topic has at least one partition, and their number only grows",
    ),
    KafkaError.INVALID_CONFIG: (
        errors.FatalError,
        "correct the property",
    ),
    KafkaError._UNSUPPORTED_FEATURE: (kafka_errors.UnsupportedError, "this needs newer brokers"),
    KafkaError.UNSUPPORTED_VERSION: (kafka_errors.UnsupportedError, "this needs newer brokers"),
    KafkaError.MSG_SIZE_TOO_LARGE: (errors.FatalError, "raise max.message.bytes of the topic"),
    KafkaError.RECORD_LIST_TOO_LARGE: (errors.FatalError, "raise segment.bytes of the topic"),
}

_RETRIABLE: dict[int, Advice] = dict.fromkeys(
    (
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_LEADER_EPOCH,
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
    (errors.RetriableError, _LATER),
)

_ADVICE = {
    **_AUTHENTICATION,
    **_NETWORK,
    **_RIGHTS,
    **_MISSING,
    **_REFUSALS,
    **_RETRIABLE,
}
_UNKNOWN: Advice = (errors.FatalError, "see the brokers' log")


@dataclass(slots=True)
class ConnectionReports:
    """What one client's error callback said since it last got an answer.

    Bounded: the latest of each kind. Any thread may ask.
    """

    _latest: dict[int, KafkaError] = field(default_factory=dict)

    def on_error(self, error: KafkaError) -> None:
        """Is the client's `error_cb`.

        With TLS 1.3 the broker's verdict on our certificate comes after the handshake, which the
        library takes for a broken connection.
        """
        if error.code() == KafkaError._TRANSPORT and _TLS_REFUSAL.search(error.str()):
            error = KafkaError(KafkaError._SSL, error.str())
        if error.code() in _AUTHENTICATION or error.code() in _NETWORK:
            self._latest[error.code()] = error

    def forget(self) -> None:
        """Called when an answer came: what went wrong before has passed."""
        self._latest.clear()

    def refused(self) -> KafkaError | None:
        """The brokers' (or our own TLS library's) refusal, which no waiting heals."""
        return self._first(_AUTHENTICATION)

    def reason(self) -> KafkaError | None:
        """The most telling report: a refusal, else the network's answer."""
        return self.refused() or self._first(_NETWORK)

    def _first(self, codes: dict[int, Advice]) -> KafkaError | None:
        found = (self._latest.get(code) for code in codes)
        return next((each for each in found if each is not None), None)


def is_network_trouble(error: KafkaError) -> bool:
    """True when the library gave up waiting, so that a `ConnectionReports` knows more."""
    return error.code() in _NETWORK


def timed_out() -> KafkaError:
    """What the library says when nothing came in time, for waits that it does not end itself."""
    return KafkaError(KafkaError._TIMED_OUT)


def may_concern_whole_request(error: KafkaError) -> bool:
    """True for answers that one bad topic can bring upon all topics of a request."""
    return error.code() in _WHOLE_REQUEST


def is_missing_topic(error: KafkaError) -> bool:
    """True for a topic that is not there, or not yet known to the broker asked."""
    return error.code() in _MISSING


def is_retriable(error: KafkaError) -> bool:
    """True for what passes by itself, as far as the code tells."""
    return error.code() in _NETWORK or error.code() in _RETRIABLE


def translate(
    error: KafkaError,
    doing: str,
    *,
    where: str,
    reports: ConnectionReports | None = None,
    own: Mapping[int, Advice] | None = None,
) -> errors.ConnectError:
    """Make ours of the library's. `doing` begins the message: "creating topic orders".

    `where` names the cluster with its bootstrap addresses. With `reports`, a mere time-out is
    explained by what the client's connections said. `own`: what codes mean to this question alone.
    """
    if reports is not None and is_network_trouble(error):
        error = reports.reason() or error
    kind, advice = (own or {}).get(error.code()) or _ADVICE.get(error.code(), _UNKNOWN)
    said = _without_local_detail(error.str()).strip().rstrip(".")
    return kind(f"{doing} on {where}: {said} ({error.name().lstrip('_')}); {advice}")


def _without_local_detail(said: str) -> str:
    """Without ` (after 5ms in state CONNECT, 30 identical error(s) suppressed)` at its end."""
    found = _LOCAL_DETAIL.search(said)
    return said[: found.start()] if found and said.endswith(")") else said


def of_code(
    code: int, doing: str, *, where: str, own: Mapping[int, Advice] | None = None
) -> errors.ConnectError:
    """As `translate`, of an error code that a broker answered to a request of our own."""
    return translate(KafkaError(code), doing, where=where, own=own)
