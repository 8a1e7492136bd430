"""Requests about the ACLs of topics, and what is answered to them.

The Kafka library takes a refusal to show them for there being none.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from connect_runtime.wire.codec import messages

RESOURCES = {2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID"}
PATTERNS = {3: "LITERAL", 4: "PREFIXED"}
OPERATIONS = {
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
PERMISSIONS = {2: "DENY", 3: "ALLOW"}

_ANY = 1
_TOPIC = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One ACL, in the words of Kafka's enumerations; a number stands for a word not known here."""

    resource: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str


def describe_topics() -> messages.Message:
    """All ACLs of topics, whatever their pattern."""

    def build(_: int, m: Any) -> Any:
        return m.DescribeAclsRequest(
            resource_type_filter=_TOPIC,
            resource_name_filter=None,
            pattern_type_filter=_ANY,
            principal_filter=None,
            host_filter=None,
            operation=_ANY,
            permission_type=_ANY,
        )

    return messages.Message(api="describe_acls", low=1, high=3, build=build)


def create(bindings: Iterable[Binding]) -> messages.Message:
    """Add these; answered one by one, in their order."""
    given = tuple(bindings)

    def build(_: int, m: Any) -> Any:
        return m.CreateAclsRequest(
            creations=tuple(
                m.AclCreation(
                    resource_type=_code(RESOURCES, each.resource),
                    resource_name=each.name,
                    resource_pattern_type=_code(PATTERNS, each.pattern),
                    principal=each.principal,
                    host=each.host,
                    operation=_code(OPERATIONS, each.operation),
                    permission_type=_code(PERMISSIONS, each.permission),
                )
                for each in given
            )
        )

    return messages.Message(api="create_acls", low=1, high=3, build=build)


def described(body: Any) -> list[Binding]:
    """What an answer to `describe_topics` says."""
    return [
        Binding(
            resource=_word(RESOURCES, found.resource_type),
            name=found.resource_name,
            pattern=_word(PATTERNS, found.pattern_type),
            principal=each.principal,
            host=each.host,
            operation=_word(OPERATIONS, each.operation),
            permission=_word(PERMISSIONS, each.permission_type),
        )
        for found in body.resources
        for each in found.acls
    ]


def created(body: Any) -> list[int]:
    """Error codes of an answer to `create`, 0 for what is there now."""
    return [int(each.error_code) for each in body.results]


def _word(words: dict[int, str], code: int) -> str:
    return words.get(code, str(int(code)))


def _code(words: dict[int, str], word: str) -> int:
    found = next((code for code, each in words.items() if each == word), None)
    return int(word) if found is None else found
