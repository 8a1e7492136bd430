"""Reads the operations for which a client is authorized (KIP-430), without attempting the
operations."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.kafka.admin_requests import AdminRequest, AdminRequestClient
from connect_runtime.kafka.client_errors import NotAuthorizedError
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol import acl_requests, request_builders
from connect_runtime.protocol.request_builders import AnyNodeTarget, CoordinatorKey
from connect_runtime.protocol.request_errors import CoordinatorLookupRefused, UnsupportedVersion
from mm2.kafka.kafka_client_interfaces import AuthorizedOperations

_MAX_TOPICS_PER_REQUEST = 500
_INVISIBLE_TOPIC_CODES = frozenset({3, 29})
"""UNKNOWN_TOPIC_OR_PARTITION and TOPIC_AUTHORIZATION_FAILED. Without DESCRIBE, brokers do not
reveal whether a topic exists."""
_NOT_AUTHORIZED_CODES = frozenset({29, 30, 31})
"""Error codes TOPIC_, GROUP_ and CLUSTER_AUTHORIZATION_FAILED: not even DESCRIBE is authorized."""


class AuthorizedOperationsClient:
    """Reads the authorized operations of one client login.

    Without DESCRIBE on a resource, brokers report no other operation on it. Connects on first use.
    Not thread-safe.
    """

    def __init__(self, access: KafkaClusterAccess, *, client_id: str, clock: Clock) -> None:
        self._where = access.name_and_addresses
        self._calls = AdminRequestClient(
            access.to_connection_settings(client_id),
            clock=clock,
            rng=random.Random(),  # noqa: S311  # spreads waits, no secret
            where=access.name_and_addresses,
        )

    def read_topic_operations(
        self, names: Sequence[str], timeout_s: float
    ) -> dict[str, AuthorizedOperations]:
        """Read the authorized operations per topic, including topics that do not exist. Raises
        `RetriableError` after a timeout, and `FatalError` for errors that a retry cannot
        resolve."""
        chunks = [
            names[at : at + _MAX_TOPICS_PER_REQUEST]
            for at in range(0, len(names), _MAX_TOPICS_PER_REQUEST)
        ]
        questions = [
            AdminRequest(
                to=AnyNodeTarget(),
                message=acl_requests.build_topic_operations_request(chunk),
                doing=f"reading the authorized operations on topics of {self._where}",
                get_error_code=_ignore_request_error,
            )
            for chunk in chunks
        ]
        found: dict[str, AuthorizedOperations] = {}
        for answer in self._calls.send_requests(questions, timeout_s):
            if isinstance(answer, ConnectError):
                raise answer
            for topic in answer.topics:
                code = int(topic.error_code)
                held = _decode_operations(code, int(topic.topic_authorized_operations))
                found[str(topic.name)] = AuthorizedOperations(
                    operations=held, exists=code not in _INVISIBLE_TOPIC_CODES
                )
        return found

    def read_group_operations(
        self, names: Sequence[str], timeout_s: float
    ) -> dict[str, AuthorizedOperations]:
        """Read the authorized operations per group. Raises the same errors as
        `read_topic_operations`."""
        questions = [
            AdminRequest(
                to=CoordinatorKey(request_builders.GROUP_COORDINATOR, name),
                message=acl_requests.build_group_operations_request(name),
                doing=f"reading the authorized operations on group {name} of {self._where}",
                get_error_code=_ignore_request_error,
            )
            for name in names
        ]
        found: dict[str, AuthorizedOperations] = {}
        for name, answer in zip(
            names, self._calls.send_requests(questions, timeout_s), strict=True
        ):
            if _is_access_denied(answer):
                found[name] = AuthorizedOperations(operations=frozenset())
                continue
            if isinstance(answer, ConnectError):
                raise answer
            (group,) = answer.groups
            held = _decode_operations(int(group.error_code), int(group.authorized_operations))
            found[name] = AuthorizedOperations(operations=held)
        return found

    def read_cluster_operations(self, timeout_s: float) -> AuthorizedOperations:
        """Read the authorized operations on the cluster. Brokers before 2.8 do not report them.
        Raises the same errors as `read_topic_operations`."""
        question = AdminRequest(
            to=AnyNodeTarget(),
            message=acl_requests.build_cluster_operations_request(),
            doing=f"reading the authorized operations on the cluster {self._where}",
        )
        try:
            answer = self._calls.send_request(question, timeout_s)
        except UnsupportedVersion:
            return AuthorizedOperations(operations=None)
        return AuthorizedOperations(
            operations=acl_requests.decode_authorized_operations(
                int(answer.cluster_authorized_operations)
            )
        )

    def close(self) -> None:
        self._calls.close()


def _ignore_request_error(_: Any) -> int:
    """Return 0 as the error code of the whole request, because each topic or group has its own
    error code."""
    return 0


def _decode_operations(code: int, bits: int) -> frozenset[str] | None:
    return (
        frozenset()
        if code in _NOT_AUTHORIZED_CODES
        else acl_requests.decode_authorized_operations(bits)
    )


def _is_access_denied(answer: object) -> bool:
    return isinstance(answer, (CoordinatorLookupRefused, NotAuthorizedError))
