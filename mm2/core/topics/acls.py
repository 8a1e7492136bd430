"""Which ACLs of source topics are copied to their mirrors, and what they become (planner).

As MirrorMaker 2 does it (`MirrorSourceConnector.syncTopicAcls`): literal ones of mirrored topics,
but never the right to write; all rights become the right to read. None is ever taken away. Unlike
Java, what the target has already is not sent again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from mm2.core import flows

TOPIC = "TOPIC"
LITERAL = "LITERAL"
ALLOW, DENY = "ALLOW", "DENY"
ALL, READ, WRITE = "ALL", "READ", "WRITE"


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Acl:
    """One binding, in the words of Kafka's enumerations: `TOPIC`, `LITERAL`, `READ`, `ALLOW`.

    `principal` is such as `User:alice`; `host` an address, or `*`.
    """

    name: str
    principal: str
    host: str
    operation: str
    permission: str
    resource: str = TOPIC
    pattern: str = LITERAL

    @classmethod
    def of(cls, *fields: str) -> Acl:
        """From what `fields` gives."""
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
    """What to create on the target, in order; `present` is how many of the wanted are there."""

    create: tuple[Acl, ...]
    present: int = 0

    def __str__(self) -> str:
        return "\n".join(map(str, self.create))


def plan(flow: flows.Flow, source: Iterable[Acl], target: Collection[Acl] | None = None) -> AclPlan:
    """`target` None: its ACLs may not be read; then all are created, which Kafka takes twice."""
    found = wanted(flow, source)
    missing = tuple(each for each in found if target is None or each not in target)
    return AclPlan(create=missing, present=len(found) - len(missing))


def wanted(flow: flows.Flow, source: Iterable[Acl]) -> list[Acl]:
    """What the target should have, each once.

    A literal `*` stands for all topics on the source. Where the policy renames topics its mirror is
    for a topic that nobody can have: kept as in Java, and harmless.
    """
    return sorted(
        {_mirrored(flow, each) for each in source if _is_copied(flow, each)}, key=Acl.fields
    )


def _is_copied(flow: flows.Flow, acl: Acl) -> bool:
    writes = acl.permission == ALLOW and acl.operation == WRITE
    literal = acl.resource == TOPIC and acl.pattern == LITERAL
    return literal and not writes and flow.should_replicate_topic(acl.name)


def _mirrored(flow: flows.Flow, acl: Acl) -> Acl:
    everything = acl.permission == ALLOW and acl.operation == ALL
    operation = READ if everything else acl.operation
    return replace(acl, name=flow.remote_topic(acl.name), operation=operation)
