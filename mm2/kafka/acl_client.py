"""Implements `AclAdmin` with connect_runtime's connections: reads and creates topic ACLs."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from typing import Any

from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import ConnectError
from connect_runtime.kafka.admin_requests import AdminRequest, AdminRequestClient
from connect_runtime.kafka.client_errors import ErrorAdvice
from connect_runtime.kafka.librdkafka_connection_settings import KafkaClusterAccess
from connect_runtime.protocol import acl_requests
from connect_runtime.protocol.acl_requests import AclDescription
from connect_runtime.protocol.request_builders import AnyNodeTarget, ControllerTarget
from mm2.kafka.kafka_client_interfaces import NoAuthorizerError
from mm2.topics.acl_sync_plan import TopicAcl

_SECURITY_DISABLED = 54
_ERROR_ADVICE: Mapping[int, ErrorAdvice] = {
    _SECURITY_DISABLED: (
        NoAuthorizerError,
        "the brokers have no authorizer, so no ACLs exist",
    ),
}
_MAX_ACLS_PER_REQUEST = 500


class KafkaAclAdmin:
    """Implements `AclAdmin`, where the methods are documented. Connects on first use."""

    def __init__(
        self,
        access: KafkaClusterAccess,
        *,
        client_id: str,
        clock: Clock,
        is_shutting_down: Callable[[], bool] = lambda: False,
    ) -> None:
        """Create the client without connecting. Once `is_shutting_down` returns True, every call
        returns promptly. Raises `FatalError` for unsupported settings."""
        self._where = access.name_and_addresses
        self._calls = AdminRequestClient(
            access.to_connection_settings(client_id),
            clock=clock,
            rng=random.Random(),  # noqa: S311  # spreads waits, no secret
            where=access.name_and_addresses,
            advice=_ERROR_ADVICE,
            is_cancelled=is_shutting_down,
        )

    def list_topic_acls(self, timeout_s: float) -> list[TopicAcl]:
        """Return all topic ACLs of the cluster."""
        request = AdminRequest(
            to=AnyNodeTarget(),
            message=acl_requests.build_describe_topic_acls_request(),
            doing="reading the ACLs of topics",
        )
        answer = self._calls.send_request(request, timeout_s)
        return sorted(map(_convert_to_topic_acl, acl_requests.decode_acls(answer)))

    def create_acls(
        self, wanted: Collection[TopicAcl], timeout_s: float
    ) -> Mapping[TopicAcl, ConnectError]:
        acls = list(wanted)
        chunks = [
            acls[at : at + _MAX_ACLS_PER_REQUEST]
            for at in range(0, len(acls), _MAX_ACLS_PER_REQUEST)
        ]
        answers = self._calls.send_requests(
            [self._build_creation_request(chunk) for chunk in chunks], timeout_s
        )
        refused: dict[TopicAcl, ConnectError] = {}
        for chunk, answer in zip(chunks, answers, strict=True):
            if isinstance(answer, ConnectError):
                raise answer
            for each, code in zip(chunk, acl_requests.decode_creation_errors(answer), strict=True):
                if code:
                    refused[each] = self._calls.translate_error_code(
                        code, f"creating the ACL: {each}"
                    )
        return refused

    def close(self) -> None:
        self._calls.close()

    def _build_creation_request(self, chunk: Collection[TopicAcl]) -> AdminRequest:
        return AdminRequest(
            to=ControllerTarget(),
            message=acl_requests.build_create_acls_request(map(_convert_to_acl_description, chunk)),
            doing=f"creating {len(chunk)} ACLs",
            get_error_code=_ignore_request_error,
        )


def _ignore_request_error(_: Any) -> int:
    """Return 0 as the error code of the whole request, because each ACL has its own error code."""
    return 0


def _convert_to_topic_acl(found: AclDescription) -> TopicAcl:
    return TopicAcl(
        resource=found.resource,
        name=found.name,
        pattern=found.pattern,
        principal=found.principal,
        host=found.host,
        operation=found.operation,
        permission=found.permission,
    )


def _convert_to_acl_description(wanted: TopicAcl) -> AclDescription:
    return AclDescription(
        resource=wanted.resource,
        name=wanted.name,
        pattern=wanted.pattern,
        principal=wanted.principal,
        host=wanted.host,
        operation=wanted.operation,
        permission=wanted.permission,
    )
