"""Which ACLs are copied; against Java: tests/interop/test_mirror_configs.py."""

from __future__ import annotations

import dataclasses

import pytest

from mm2.topics import acl_plan, filters
from mm2.topics.acl_plan import TopicAcl
from mm2.topics.flow_config import Flow
from mm2.topics.naming import IdentityReplicationPolicy

FLOW = Flow(source="A", target="B", topics=filters.compile_topic_filter(["t.*", r"\*", "B.*"]))
IDENTITY = dataclasses.replace(FLOW, policy=IdentityReplicationPolicy(source_alias="A"))


def acl(name: str = "t", **fields: str) -> TopicAcl:
    told = {
        "operation": "READ",
        "permission": "ALLOW",
        "principal": "User:a",
        "host": "*",
        **fields,
    }
    return TopicAcl(name=name, **told)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (acl(operation="WRITE"), None),
        (acl(operation="WRITE", permission="DENY"), ("A.t", "WRITE", "DENY")),
        (acl(operation="ALL"), ("A.t", "READ", "ALLOW")),
        (acl(operation="ALL", permission="DENY"), ("A.t", "ALL", "DENY")),
        (acl(operation="DESCRIBE"), ("A.t", "DESCRIBE", "ALLOW")),
        (acl(operation="DELETE"), ("A.t", "DELETE", "ALLOW")),
        (acl(pattern="PREFIXED"), None),
        (acl(resource="GROUP"), None),
        (acl("other"), None),
        (acl("B.t"), None),
        (acl("heartbeats"), ("A.heartbeats", "READ", "ALLOW")),
        (acl("*"), ("A.*", "READ", "ALLOW")),
    ],
)
def test_what_becomes_of_one(found, expected):
    made = acl_plan.derive_mirror_acls(FLOW, [found])
    assert [(each.name, each.operation, each.permission) for each in made] == (
        [] if expected is None else [expected]
    )
    assert all((each.principal, each.host) == (found.principal, found.host) for each in made)


def test_topics_that_keep_their_names_keep_their_wildcard():
    assert acl_plan.derive_mirror_acls(IDENTITY, [acl("*")]) == [acl("*")]


def test_two_that_become_the_same_are_one():
    assert len(acl_plan.derive_mirror_acls(FLOW, [acl(operation="ALL"), acl()])) == 1


def test_what_is_there_is_not_sent_again_and_nothing_is_taken_away():
    source = [acl(), acl(operation="DESCRIBE")]
    first = acl_plan.plan_acls(FLOW, source, [acl("A.old")])
    assert len(first.create) == 2
    again = acl_plan.plan_acls(FLOW, source, first.create)
    assert (again.create, again.present) == ((), 2)
    assert acl_plan.plan_acls(FLOW, source).create == first.create
    assert str(first) == ("ALLOW User:a from * to DESCRIBE A.t\nALLOW User:a from * to READ A.t")


def test_fields_and_back():
    assert TopicAcl.from_fields(*acl().fields()) == acl()
