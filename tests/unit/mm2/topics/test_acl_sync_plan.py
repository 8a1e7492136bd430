"""Which ACLs are copied; against Java: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

import pytest

from mm2.topics import acl_sync_plan, topic_filters, topic_selection
from mm2.topics.acl_sync_plan import AclPlan, TopicAcl
from mm2.topics.flow_config import Flow
from mm2.topics.replication_policy import IdentityReplicationPolicy

FLOW = Flow(source="A", target="B", topics=topic_filters.compile_topic_filter([".*"]))
IDENTITY = dataclasses.replace(FLOW, policy=IdentityReplicationPolicy(source_alias="A"))
MIRRORED = frozenset({"t", "heartbeats", "*"})


def acl(name: str = "t", **fields: str) -> TopicAcl:
    told = {
        "operation": "READ",
        "permission": "ALLOW",
        "principal": "User:a",
        "host": "*",
        **fields,
    }
    return TopicAcl(name=name, **told)


def derive(flow: Flow, *found: TopicAcl) -> list[TopicAcl]:
    return acl_sync_plan.derive_mirror_acls(flow, found, mirrored_topics=MIRRORED)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (acl(), [("A.t", "READ", "ALLOW")]),
        (acl(operation="DESCRIBE"), [("A.t", "DESCRIBE", "ALLOW")]),
        (acl(operation="ALL"), [("A.t", "READ", "ALLOW")]),
        (acl(permission="DENY"), [("A.t", "READ", "DENY")]),
        (acl(operation="DESCRIBE", permission="DENY"), [("A.t", "DESCRIBE", "DENY")]),
        (
            acl(operation="ALL", permission="DENY"),
            [("A.t", "DESCRIBE", "DENY"), ("A.t", "READ", "DENY")],
        ),
        (acl(pattern="PREFIXED"), []),
        (acl(resource="GROUP"), []),
        (acl("other"), []),
        (acl("heartbeats"), [("A.heartbeats", "READ", "ALLOW")]),
    ],
)
def test_read_access_is_copied_to_the_mirror_topic(found, expected):
    made = derive(FLOW, found)
    assert [(each.name, each.operation, each.permission) for each in made] == expected
    assert all((each.principal, each.host) == (found.principal, found.host) for each in made)


@pytest.mark.parametrize(
    "operation",
    ["WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "CLUSTER_ACTION"],
)
@pytest.mark.parametrize("permission", ["ALLOW", "DENY"])
def test_no_other_operation_is_copied(operation, permission):
    """The owner of a source topic could delete its mirror."""
    assert derive(FLOW, acl(operation=operation, permission=permission)) == []


@pytest.mark.parametrize("flow", [FLOW, IDENTITY])
@pytest.mark.parametrize("permission", ["ALLOW", "DENY"])
def test_acls_of_all_topics_are_never_copied(flow, permission):
    assert derive(flow, acl("*", permission=permission)) == []


def test_a_topic_that_exists_only_on_the_target_gets_no_acls():
    assert topic_selection.should_replicate_topic(IDENTITY, "target-only")
    assert derive(IDENTITY, acl("target-only"), acl()) == [acl()]


def test_two_that_become_the_same_are_one():
    assert len(derive(FLOW, acl(operation="ALL"), acl())) == 1


def test_what_is_there_is_not_sent_again_and_nothing_is_taken_away():
    source = [acl(), acl(operation="DESCRIBE")]

    def plan(target: Collection[TopicAcl] | None = None) -> AclPlan:
        return acl_sync_plan.plan_acls(FLOW, source, target, mirrored_topics=MIRRORED)

    first = plan([acl("A.old")])
    assert len(first.create) == 2
    again = plan(first.create)
    assert (again.create, again.present) == ((), 2)
    assert plan().create == first.create
    assert str(first) == ("ALLOW User:a from * to DESCRIBE A.t\nALLOW User:a from * to READ A.t")


def test_fields_and_back():
    assert TopicAcl.from_fields(*acl().to_fields()) == acl()


def test_mirror_topics_have_at_most_the_maximum_number_of_acls_and_denials_come_first():
    source = [acl(principal=f"User:{name}") for name in "abcd"]
    denied = acl(principal="User:z", permission="DENY")
    present = [acl("A.t", principal="User:a"), acl("A.t", principal="User:gone"), acl("other")]

    def plan(acls_max: int, target: Collection[TopicAcl] | None) -> AclPlan:
        return acl_sync_plan.plan_acls(
            FLOW, [*source, denied], target, mirrored_topics=MIRRORED, acls_max=acls_max
        )

    found = plan(4, present)
    assert [(each.permission, each.principal) for each in found.create] == [
        ("DENY", "User:z"),
        ("ALLOW", "User:b"),
    ]
    assert (found.present, found.beyond_limit) == (1, 2)
    assert [each.permission for each in plan(1, present).create] == ["DENY"]
    assert plan(6, present).beyond_limit == 0
    unread = plan(2, None)
    assert (len(unread.create), unread.beyond_limit) == (2, 3)


class CountingAcl(TopicAcl):
    """An ACL that counts comparisons with others."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        CountingAcl.compared += 1
        return super().__eq__(other)

    __hash__ = TopicAcl.__hash__


def test_source_acls_are_not_compared_with_every_acl_of_the_target():
    source = [acl(principal=f"User:{at}") for at in range(200)]
    target = [
        CountingAcl(name="A.t", principal=f"User:x{at}", host="*", operation="READ", permission="X")
        for at in range(200)
    ]
    CountingAcl.compared = 0
    found = acl_sync_plan.plan_acls(FLOW, source, target, mirrored_topics=MIRRORED)
    assert len(found.create) == 200
    assert CountingAcl.compared < 1_000
