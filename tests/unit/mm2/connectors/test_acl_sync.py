"""ACLs on their way to mirrors. Java: MirrorSourceConnectorTest.testAclFiltering and others."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from connect_runtime.base.errors import FatalError, RetriableError
from connect_runtime.kafka.client_errors import NotAuthorizedError, UnreachableError
from mm2 import suggested_commands
from mm2.connectors import acl_sync
from mm2.connectors.acl_sync import AclSync
from mm2.topics import acl_sync_plan
from mm2.topics.acl_sync_plan import TopicAcl
from mm2.topics.flow_config import Flow
from tests.fakes.acls import FakeAclCluster, FakeAcls
from tests.fakes.plugin_contexts import Clock

TOPICS = ["t", "u"]
REFUSED = NotAuthorizedError("CLUSTER_AUTHORIZATION_FAILED")


def acl(
    name: str,
    operation: str,
    *,
    permission: str = acl_sync_plan.ALLOW,
    pattern: str = acl_sync_plan.LITERAL,
) -> TopicAcl:
    return TopicAcl(
        name=name,
        principal="User:alice",
        host="*",
        operation=operation,
        permission=permission,
        pattern=pattern,
    )


class Pair:
    def __init__(self) -> None:
        self.source, self.target = FakeAclCluster(), FakeAclCluster()
        self.clock = Clock()
        self.made = AclSync(
            Flow(source="A", target="B"),
            source=FakeAcls(self.source),
            target=FakeAcls(self.target),
            clock=self.clock,
        )


@pytest.fixture
def pair() -> Pair:
    made = Pair()
    made.source.bindings = {
        acl("t", "WRITE"),
        acl("t", "ALL"),
        acl("t", "ALL", permission=acl_sync_plan.DENY),
        acl("t", "DESCRIBE"),
        acl("t", "READ", pattern="PREFIXED"),
        acl("mm2-offsets.B.internal", "READ"),
    }
    return made


WANTED = {
    acl("A.t", "READ"),
    acl("A.t", "READ", permission=acl_sync_plan.DENY),
    acl("A.t", "DESCRIBE"),
    acl("A.t", "DESCRIBE", permission=acl_sync_plan.DENY),
}


def test_what_the_mirror_should_have_is_created_once(pair, caplog):
    with caplog.at_level(logging.INFO):
        pair.made.sync_acls(TOPICS, 5.0)
        pair.made.sync_acls(TOPICS, 5.0)
    assert pair.target.bindings == WANTED
    assert sorted(pair.target.created) == sorted(WANTED)
    assert "created mirror topic ACL: DENY User:alice from * to READ A.t" in caplog.text


def test_what_is_taken_away_from_the_source_stays_on_the_target_as_in_java(pair):
    pair.made.sync_acls(TOPICS, 5.0)
    pair.source.bindings.clear()
    pair.made.sync_acls(TOPICS, 5.0)
    assert pair.target.bindings == WANTED


def test_who_may_not_read_the_targets_sends_all_each_time(pair):
    pair.target.reading = REFUSED
    pair.made.sync_acls(TOPICS, 5.0)
    pair.made.sync_acls(TOPICS, 5.0)
    assert sorted(pair.target.created) == sorted([*WANTED, *WANTED])


def test_a_source_without_an_authorizer_is_logged_once_by_the_process(pair, caplog, monkeypatch):
    monkeypatch.setattr(acl_sync, "_CLUSTERS_WITHOUT_AUTHORIZER", set())
    pair.source.authorizer = False
    pair.target.writing = FatalError("nobody should ask")
    with caplog.at_level(logging.INFO):
        assert [pair.made.sync_acls(TOPICS, 5.0) for _ in range(3)] == [None, None, None]
        again = type(pair)()  # the connector was restarted
        again.source.authorizer = False
        assert again.made.sync_acls(TOPICS, 5.0) is None
    assert caplog.text.count("A has no authorizer") == 1


def test_a_target_without_an_authorizer_is_told_once(pair, caplog, monkeypatch):
    monkeypatch.setattr(acl_sync, "_CLUSTERS_WITHOUT_AUTHORIZER", set())
    pair.target.authorizer = False
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            pair.made.sync_acls(TOPICS, 5.0)
    assert caplog.text.count("B has no authorizer") == 1
    assert "WARNING" not in {each.levelname for each in caplog.records}


def test_a_source_that_shows_none_of_its_acls_is_told_with_the_right_that_is_lacking(pair, caplog):
    pair.source.reading = REFUSED
    for _ in range(3):
        assert pair.made.sync_acls(TOPICS, 5.0) is None
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert suggested_commands.extract_remedy_from_message(line).endswith(
        "--operation Describe --cluster"
    )
    assert pair.target.created == []


def test_one_that_is_refused_stands_in_nobodys_way(pair, caplog):
    pair.source.bindings.add(acl("u", "READ"))
    pair.target.refused["A.t"] = REFUSED
    with caplog.at_level(logging.INFO):
        pair.made.sync_acls(TOPICS, 5.0)
    assert pair.target.bindings == {acl("A.u", "READ")}
    told = [each.getMessage() for each in caplog.records if each.levelname == "INFO"]
    assert told == ["created mirror topic ACL: ALLOW User:alice from * to READ A.u"]
    (line,) = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert "(and 3 more)" in line
    assert suggested_commands.extract_remedy_from_message(line).endswith(
        "--operation Alter --operation Describe --cluster"
    )


def test_a_cluster_that_does_not_answer_is_raised(pair):
    pair.target.writing = UnreachableError("nobody")
    with pytest.raises(RetriableError, match="nobody"):
        pair.made.sync_acls(TOPICS, 5.0)


def test_few_created_acls_are_logged_one_by_one_and_each_line_is_bounded(pair, caplog):
    pair.source.bindings = {
        dataclasses.replace(acl("t", "READ"), principal=f"User:{at}" + "x" * 10_000)
        for at in range(acl_sync.LOGGED_ACLS_MAX + 5)
    }
    with caplog.at_level(logging.INFO):
        pair.made.sync_acls(TOPICS, 5.0)
    lines = [each.getMessage() for each in caplog.records]
    assert len(pair.target.created) == acl_sync.LOGGED_ACLS_MAX + 5
    assert len(lines) == acl_sync.LOGGED_ACLS_MAX + 1
    assert max(map(len, lines)) < 500
    assert lines[-1] == "created 5 more mirror topic ACLs"


def test_acls_beyond_the_limit_are_reported(pair, caplog, monkeypatch):
    monkeypatch.setattr(acl_sync_plan, "MIRROR_ACLS_MAX", 2)
    pair.made.sync_acls(TOPICS, 5.0)
    assert {each.permission for each in pair.target.bindings} == {acl_sync_plan.DENY}
    assert "2 ACLs are not copied from A" in caplog.text
    assert "at most 2 ACLs: remove unneeded ACLs" in caplog.text
