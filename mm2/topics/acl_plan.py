"""Plans which ACLs of source topics are created for their mirror topics.

Rules follow `MirrorSourceConnector.syncTopicAcls`: literal ACLs of replicated topics, except
those that allow WRITE; ALLOW ALL becomes ALLOW READ. ACLs are never removed. Unlike Java, ACLs
that the target already has are not sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from mm2.topics.flow_config import Flow

TOPIC = "TOPIC"
LITERAL = "LITERAL"
ALLOW, DENY = "ALLOW", "DENY"
ALL, READ, WRITE = "ALL", "READ", "WRITE"


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class TopicAcl:
    """One ACL binding in the terms of Kafka's enumerations: `TOPIC`, `LITERAL`, `READ`, `ALLOW`."""

    name: str
    principal: str
    """Such as `User:alice`."""
    host: str
    """An address, or `*`."""
    operation: str
    permission: str
    resource: str = TOPIC
    pattern: str = LITERAL

    @classmethod
    def from_fields(cls, *fields: str) -> TopicAcl:
        """Create a binding from the fields that `fields` returns."""
        resource, name, pattern, principal, host, operation, permission = fields
        return cls(
            resource=resource,
            name=name,
            pattern=pattern,
            principal=principal,
            host=host,
            operation=operation,
            permission=permission,
        )

    def fields(self) -> tuple[str, ...]:
        """(resource, name, pattern, principal, host, operation, permission)."""
        return (
            *(self.resource, self.name, self.pattern),
            *(self.principal, self.host, self.operation, self.permission),
        )

    def __str__(self) -> str:
        return (
            f"{self.permission} {self.principal} from {self.host} to {self.operation} {self.name}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AclPlan:
    """ACLs to create on the target, in order; `present` is the number of those that exist
    already."""

    create: tuple[TopicAcl, ...]
    present: int = 0

    def __str__(self) -> str:
        return "\n".join(map(str, self.create))


def plan_acls(
    flow: Flow, source: Iterable[TopicAcl], target: Collection[TopicAcl] | None = None
) -> AclPlan:
    """Plan the missing ACLs. Without the target's ACLs (None: not authorized to read them) all
    are created, which Kafka accepts again."""
    found = derive_mirror_acls(flow, source)
    missing = tuple(each for each in found if target is None or each not in target)
    return AclPlan(create=missing, present=len(found) - len(missing))


def derive_mirror_acls(flow: Flow, source: Iterable[TopicAcl]) -> list[TopicAcl]:
    """ACLs that the target should have, without duplicates.

    A literal `*` stands for all topics on the source. If the policy renames topics, its mirror is
    for a topic name that cannot exist: kept as in Java, and harmless.
    """
    return sorted(
        {_to_mirror_acl(flow, each) for each in source if _is_synced_acl(flow, each)},
        key=TopicAcl.fields,
    )


def _is_synced_acl(flow: Flow, acl: TopicAcl) -> bool:
    writes = acl.permission == ALLOW and acl.operation == WRITE
    literal = acl.resource == TOPIC and acl.pattern == LITERAL
    return literal and not writes and flow.should_replicate_topic(acl.name)


def _to_mirror_acl(flow: Flow, acl: TopicAcl) -> TopicAcl:
    everything = acl.permission == ALLOW and acl.operation == ALL
    operation = READ if everything else acl.operation
    return replace(acl, name=flow.format_remote_topic(acl.name), operation=operation)
