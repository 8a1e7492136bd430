"""Requests that list and create topic ACLs, and requests for the client's authorized operations
(KIP-430).

librdkafka is not used for ACLs, because it returns an empty list if listing ACLs is not authorized.
Requests for authorized operations are read-only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from connect_runtime.protocol.request_builders import RequestBuilder

RESOURCE_TYPES = {2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID"}
PATTERN_TYPES = {3: "LITERAL", 4: "PREFIXED"}
ACL_OPERATIONS = {
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
PERMISSION_TYPES = {2: "DENY", 3: "ALLOW"}

_ANY_FILTER = 1
_TOPIC_RESOURCE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AclDescription:
    """An ACL of a topic. Enum fields contain Kafka's names, or decimal numbers for codes unknown to
    this client."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


def build_describe_topic_acls_request() -> RequestBuilder:
    """Build a request that lists the ACLs of all topics, with any pattern type."""

    def build_request_message(_: int, m: Any) -> Any:
        return m.DescribeAclsRequest(
            resource_type_filter=_TOPIC_RESOURCE,
            resource_name_filter=None,
            pattern_type_filter=_ANY_FILTER,
            principal_filter=None,
            host_filter=None,
            operation=_ANY_FILTER,
            permission_type=_ANY_FILTER,
        )

    return RequestBuilder(api="describe_acls", low=1, high=3, build=build_request_message)


def build_create_acls_request(bindings: Iterable[AclDescription]) -> RequestBuilder:
    """Build a request that creates ACLs. The response contains one result per ACL, in the order of
    the request."""
    given = tuple(bindings)

    def build_request_message(_: int, m: Any) -> Any:
        return m.CreateAclsRequest(
            creations=tuple(
                m.AclCreation(
                    resource_type=_get_enum_code(RESOURCE_TYPES, each.resource),
                    resource_name=each.name,
                    resource_pattern_type=_get_enum_code(PATTERN_TYPES, each.pattern),
                    principal=each.principal,
                    host=each.host,
                    operation=_get_enum_code(ACL_OPERATIONS, each.operation),
                    permission_type=_get_enum_code(PERMISSION_TYPES, each.permission),
                )
                for each in given
            )
        )

    return RequestBuilder(api="create_acls", low=1, high=3, build=build_request_message)


def decode_acls(body: Any) -> list[AclDescription]:
    """Decode the ACLs in the response to `build_describe_topic_acls_request`."""
    return [
        AclDescription(
            resource=_get_enum_name(RESOURCE_TYPES, found.resource_type),
            name=found.resource_name,
            pattern=_get_enum_name(PATTERN_TYPES, found.pattern_type),
            principal=each.principal,
            host=each.host,
            operation=_get_enum_name(ACL_OPERATIONS, each.operation),
            permission=_get_enum_name(PERMISSION_TYPES, each.permission_type),
        )
        for found in body.resources
        for each in found.acls
    ]


def decode_creation_errors(body: Any) -> list[int]:
    """Decode the error codes in the response to `build_create_acls_request`, one per ACL; 0 if the
    ACL was created or already existed."""
    return [int(each.error_code) for each in body.results]


def _get_enum_name(words: dict[int, str], code: int) -> str:
    return words.get(code, str(int(code)))


def _get_enum_code(words: dict[int, str], word: str) -> int:
    found = next((code for code, each in words.items() if each == word), None)
    return int(word) if found is None else found


_OPERATIONS_UNKNOWN = -(2**31)
_METADATA_WITH_TOPIC_IDS = 10
_METADATA_WITH_CLUSTER_OPERATIONS_LAST = 10


def build_topic_operations_request(names: Sequence[str]) -> RequestBuilder:
    """Build a request for the client's authorized operations on topics. The topics need not exist.
    A topic that the client may not DESCRIBE has an error code in the response."""

    def build_request_message(version: int, m: Any) -> Any:
        if version >= _METADATA_WITH_TOPIC_IDS:
            wanted = [m.MetadataRequestTopic(topic_id=None, name=name) for name in names]
        else:
            wanted = [m.MetadataRequestTopic(name=name) for name in names]
        more = (
            {"include_cluster_authorized_operations": False}
            if version <= _METADATA_WITH_CLUSTER_OPERATIONS_LAST
            else {}
        )
        return m.MetadataRequest(
            topics=tuple(wanted),
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=True,
            **more,
        )

    return RequestBuilder(api="metadata", low=8, high=13, build=build_request_message)


def build_group_operations_request(name: str) -> RequestBuilder:
    """Build a request for the client's authorized operations on a group. The group need not exist.
    Send the request to the group's coordinator."""

    def build_request_message(_: int, m: Any) -> Any:
        return m.DescribeGroupsRequest(groups=(name,), include_authorized_operations=True)

    return RequestBuilder(api="describe_groups", low=3, high=5, build=build_request_message)


def build_cluster_operations_request() -> RequestBuilder:
    """Build a request for the client's authorized operations on the cluster (brokers 2.8 and
    later)."""

    def build_request_message(_: int, m: Any) -> Any:
        return m.DescribeClusterRequest(include_cluster_authorized_operations=True)

    return RequestBuilder(api="describe_cluster", low=0, high=0, build=build_request_message)


def decode_authorized_operations(bits: int) -> frozenset[str] | None:
    """Decode a bit field of authorized operations to names from `ACL_OPERATIONS`. Return None if
    the broker did not report them."""
    if bits == _OPERATIONS_UNKNOWN:
        return None
    return frozenset(word for code, word in ACL_OPERATIONS.items() if bits & (1 << code))
