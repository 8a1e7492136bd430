"""The contract of `acls.Acls`, on the fake and on real clusters."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from connect_runtime.kafka.client_errors import NotAuthorizedError
from connect_runtime.system import system_clock
from mm2.kafka.acl_client import KafkaAclAdmin
from mm2.kafka.kafka_client_interfaces import AclAdmin, NoAuthorizerError
from mm2.sandbox.sandbox_cluster import SandboxCluster
from mm2.topics import acl_sync_plan
from mm2.topics.acl_sync_plan import TopicAcl
from tests.fakes.acls import FakeAclCluster, FakeAcls
from tests.support import cluster_access

WAIT_S = 30.0
USER = "nobody"
KINDS = ["fake", pytest.param("real", marks=pytest.mark.integration)]
_UNIQUE = itertools.count()


@pytest.fixture(scope="session")
def fort() -> Iterator[SandboxCluster]:
    with SandboxCluster("acl-fort", users=[USER]) as running:
        yield running


@pytest.fixture(params=KINDS)
def kept(request: pytest.FixtureRequest) -> Iterator[AclAdmin]:
    """Of a cluster that has an authorizer."""
    yield from _made(request, "fort", FakeAclCluster())


@pytest.fixture(params=KINDS)
def none(request: pytest.FixtureRequest) -> Iterator[AclAdmin]:
    """Of a cluster that has none."""
    yield from _made(request, "contract_cluster", FakeAclCluster(authorizer=False))


@pytest.fixture(params=KINDS)
def hidden(request: pytest.FixtureRequest) -> Iterator[AclAdmin]:
    """Of a cluster where we may do nothing."""
    refused = NotAuthorizedError("no")
    yield from _made(
        request, "fort", FakeAclCluster(reading=refused, refuse_all=refused), user=USER
    )


def _made(
    request: pytest.FixtureRequest, name: str, instead: FakeAclCluster, **user: str
) -> Iterator[AclAdmin]:
    made: AclAdmin = FakeAcls(instead)
    if request.param == "real":
        access = cluster_access.of(request.getfixturevalue(name), **user)
        made = KafkaAclAdmin(access, client_id="test-acls", clock=cluster_access.CLOCK)
    yield made
    made.close()


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_UNIQUE)}"


def acl(name: str, operation: str = "READ", **fields: str) -> TopicAcl:
    given = {"principal": "User:alice", "host": "*", "permission": acl_sync_plan.ALLOW, **fields}
    return TopicAcl(name=name, operation=operation, **given)


def found(each: AclAdmin, topic: str) -> Callable[[], list[TopicAcl]]:
    return lambda: [it for it in each.list_topic_acls(WAIT_S) if it.name == topic]


def test_what_is_created_is_read_whatever_it_says(kept, topic):
    wanted = [
        acl(topic),
        acl(topic, pattern="PREFIXED"),
        acl(topic, "ALL", permission=acl_sync_plan.DENY),
        acl(topic, host="127.0.0.1"),
        acl(topic, principal="User:CN=böb,O=x y"),
        *(acl(topic, each) for each in ("CREATE", "DELETE", "ALTER", "DESCRIBE_CONFIGS")),
    ]
    assert kept.create_acls(wanted, WAIT_S) == {}
    read = found(kept, topic)
    assert system_clock.wait_until(lambda: read() == sorted(wanted), timeout_s=WAIT_S), read()


def test_what_is_there_may_be_created_again(kept, topic):
    for _ in range(2):
        assert kept.create_acls([acl(topic)], WAIT_S) == {}
    read = found(kept, topic)
    assert system_clock.wait_until(lambda: read() == [acl(topic)], timeout_s=WAIT_S), read()


def test_acls_of_other_things_are_not_those_of_topics(kept, topic):
    assert kept.create_acls([acl(topic, resource="GROUP"), acl(topic)], WAIT_S) == {}
    read = found(kept, topic)
    assert system_clock.wait_until(lambda: read() == [acl(topic)], timeout_s=WAIT_S), read()


def test_creating_nothing_asks_nobody(none):
    assert none.create_acls([], WAIT_S) == {}


def test_without_an_authorizer_there_are_none_to_read_and_none_can_be_created(none, topic):
    with pytest.raises(NoAuthorizerError, match="SECURITY_DISABLED"):
        none.list_topic_acls(WAIT_S)
    refused = none.create_acls([acl(topic)], WAIT_S)
    assert isinstance(refused[acl(topic)], NoAuthorizerError)


def test_who_has_no_right_to_them_is_told(hidden, topic):
    with pytest.raises(NotAuthorizedError):
        hidden.list_topic_acls(WAIT_S)
    refused = hidden.create_acls([acl(topic)], WAIT_S)
    assert isinstance(refused[acl(topic)], NotAuthorizedError)
