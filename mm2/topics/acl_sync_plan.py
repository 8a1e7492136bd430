"""Plans which ACLs of source topics are created for their mirror topics.

As in `MirrorSourceConnector.syncTopicAcls`, literal ACLs of replicated topics are synced, ALLOW ALL
becomes ALLOW READ, and ACLs are never removed. There are two differences from Java, so that the
source controls only read access to the mirror topics:

- only READ and DESCRIBE are synced. Java syncs everything but ALLOW WRITE, including DELETE and
  ALTER, with which the owner of a source topic could delete its mirror;
- only ACLs of topics that the flow mirrors are synced. Java syncs those of each name that the
  topic filter accepts: if the policy keeps names, also ACLs of `*` and of the target's own topics.

ACLs that already exist on the target are not sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from mm2.topics.flow_config import Flow

TOPIC = "TOPIC"
LITERAL = "LITERAL"
WILDCARD = "*"
ALLOW, DENY = "ALLOW", "DENY"
ALL, READ, DESCRIBE = "ALL", "READ", "DESCRIBE"
_MIRROR_OPERATIONS: Mapping[tuple[str, str], tuple[str, ...]] = {
    (ALLOW, READ): (READ,),
    (ALLOW, DESCRIBE): (DESCRIBE,),
    (ALLOW, ALL): (READ,),
    (DENY, READ): (READ,),
    (DENY, DESCRIBE): (DESCRIBE,),
    (DENY, ALL): (READ, DESCRIBE),
}
"""Operations on the mirror topic by permission and operation on the source topic. Other ACLs are
not synced. An allowed READ implies DESCRIBE, but a denied READ does not."""

MIRROR_ACLS_MAX = 50_000
"""Maximum number of ACLs of all mirror topics of a flow. mm2 never removes ACLs, so the source
could otherwise fill the target's metadata."""


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class TopicAcl:
    """One ACL binding, with the names of Kafka's enumerations: `TOPIC`, `LITERAL`, `READ`,
    `ALLOW`."""

    name: str
    principal: str
    """Principal, for example `User:alice`."""
    host: str
    """Host address, or `*`."""
    operation: str
    permission: str
    resource: str = TOPIC
    pattern: str = LITERAL

    @classmethod
    def from_fields(cls, *fields: str) -> TopicAcl:
        """Create a binding from its field values, in the order of `fields`."""
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

    def to_fields(self) -> tuple[str, ...]:
        """Return (resource, name, pattern, principal, host, operation, permission)."""
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
    """ACLs to create on the target, in order. `present` is the number of ACLs that already
    exist."""

    create: tuple[TopicAcl, ...]
    present: int = 0
    beyond_limit: int = 0
    """Number of missing ACLs that are not created, because the mirror topics have the maximum
    number of ACLs."""

    def __str__(self) -> str:
        return "\n".join(map(str, self.create))


def plan_acls(
    flow: Flow,
    source: Iterable[TopicAcl],
    target: Collection[TopicAcl] | None = None,
    *,
    mirrored_topics: Collection[str],
    acls_max: int = MIRROR_ACLS_MAX,
) -> AclPlan:
    """Plan the missing ACLs, so that no ALLOW is added once the mirror topics have `acls_max` ACLs.
    `mirrored_topics` are the source topics that the flow mirrors.

    If `target` is None (not authorized to read the target's ACLs), the first `acls_max` ACLs are
    created, because Kafka accepts ACLs that already exist. Up to `acls_max` DENY ACLs are created
    even if there is no room, and before ALLOW ACLs, because leaving out a DENY could grant access
    that the source denies.
    """
    found = derive_mirror_acls(flow, source, mirrored_topics=mirrored_topics)
    existing = frozenset(target or ())
    mirrors = frozenset(map(flow.format_remote_topic, mirrored_topics))
    missing = [each for each in found if each not in existing]
    room = max(0, acls_max - sum(each.name in mirrors for each in existing))
    denials = [each for each in missing if each.permission == DENY][:acls_max]
    grants = [each for each in missing if each.permission != DENY]
    create = (*denials, *grants[: max(0, room - len(denials))])
    return AclPlan(
        create=create,
        present=len(found) - len(missing),
        beyond_limit=len(missing) - len(create),
    )


def derive_mirror_acls(
    flow: Flow, source: Iterable[TopicAcl], *, mirrored_topics: Collection[str]
) -> list[TopicAcl]:
    """Return the ACLs that the mirror topics should have on the target, without duplicates."""
    topics = frozenset(mirrored_topics)
    copied = (each for each in source if _is_topic_acl(each) and each.name in topics)
    return sorted(
        {mirror for each in copied for mirror in _to_mirror_acls(flow, each)},
        key=TopicAcl.to_fields,
    )


def _is_topic_acl(acl: TopicAcl) -> bool:
    """Return whether the ACL applies to one topic. A literal `*` applies to all topics of the
    cluster."""
    return acl.resource == TOPIC and acl.pattern == LITERAL and acl.name != WILDCARD


def _to_mirror_acls(flow: Flow, acl: TopicAcl) -> Iterator[TopicAcl]:
    for operation in _MIRROR_OPERATIONS.get((acl.permission, acl.operation), ()):
        yield replace(acl, name=flow.format_remote_topic(acl.name), operation=operation)
