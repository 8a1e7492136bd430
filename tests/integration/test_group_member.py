"""Our members in a real broker's group of type `connect`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from connect_runtime.core.assignment import protocol, work
from connect_runtime.core.membership import verdicts
from mm2.sandbox import cluster
from tests.support import group_members

pytestmark = pytest.mark.integration

SIX = work.Configured(offset=3, task_counts={"c1": 4, "c2": 2})
Join = Callable[..., group_members.GroupMember]


@pytest.fixture
def members() -> Iterator[group_members.Members]:
    with group_members.Members() as every:
        yield every


def joining(members: group_members.Members, running: cluster.Cluster, group: str) -> Join:
    def add(name: str, **options: object) -> group_members.GroupMember:
        properties = running.client_properties()
        made = group_members.GroupMember(properties, group, name, **options)  # type: ignore[arg-type]
        return members.add(made, SIX)

    return add


@pytest.fixture
def join(members: group_members.Members, east: cluster.Cluster, topic: Callable[..., str]) -> Join:
    return joining(members, east, topic("group"))


def test_members_join_share_the_work_and_leave(members, join):
    one, two = join("one"), join("two")
    members.until(lambda: members.share([one, two], 6))
    assert {each.rounds[-1].protocol for each in (one, two)} == {"sessioned"}
    assert one.machine.member_id.startswith("connect-one-")
    before = one.runs | two.runs

    three = join("three")
    members.until(lambda: members.share([one, two, three], 6))
    assert one.runs | two.runs | three.runs == before

    kept = {one.name: one.runs, two.name: two.runs}
    three.close()
    members.until(lambda: three.closed)
    members.every.remove(three)
    three.driver.__exit__()
    members.until(lambda: members.share([one, two], 6))
    assert one.runs >= kept["one"], "nothing stopped that did not have to"
    assert two.runs >= kept["two"]


def test_a_new_configuration_is_a_new_round(members, join):
    one, two = join("one"), join("two")
    members.until(lambda: members.share([one, two], 6))
    more = work.Configured(offset=4, task_counts={"c1": 4, "c2": 5})
    for each in (one, two):
        each.configure(more)
    members.until(lambda: members.share([one, two], 9))


def test_a_leader_that_is_behind_has_all_of_them_join_again(members, join):
    one, two = join("one"), join("two")
    members.until(lambda: members.share([one, two], 6))
    leads = next(each for each in (one, two) if each.rounds[-1].leader == each.machine.member_id)
    (other,) = {one, two} - {leads}
    more = work.Configured(offset=4, task_counts={"c1": 4, "c2": 5})
    other.configure(more)
    members.until(lambda: other.part.rejoin_needed)
    assert other.runs, "what it runs goes on"
    assert other.part.assignment.config_offset == 4
    leads.configured = more
    members.until(lambda: members.share([one, two], 9))


def test_one_eager_member_makes_the_group_eager(members, join):
    one = join("one")
    members.until(lambda: members.share([one], 6))
    old = join("old", offers=protocol.Protocol.EAGER)
    members.until(lambda: members.share([one, old], 6))
    assert {each.rounds[-1].protocol for each in (one, old)} == {"default"}
    old.close()
    members.until(lambda: old.closed)
    members.every.remove(old)
    old.driver.__exit__()
    members.until(lambda: members.share([one], 6))
    assert one.rounds[-1].protocol == "sessioned"


def test_a_member_that_says_nothing_for_a_session_is_replaced(members, join):
    one, two = join("one"), join("two")
    members.until(lambda: members.share([one, two], 6))
    members.every.remove(two)
    members.until(lambda: members.share([one], 6))
    members.every.append(two)
    members.until(lambda: members.share([one, two], 6))
    assert any("UNKNOWN_MEMBER_ID" in each for each in two.notes)


def test_a_group_of_another_kind_is_no_group_for_workers(members, join):
    """Schema registries have groups of type `sr`."""
    registry = join("registry", protocol_type="sr")
    members.until(lambda: registry.stable)
    worker = join("worker")
    members.until(lambda: worker.failed)
    assert isinstance(worker.failed, verdicts.MembershipError)
    assert "INCONSISTENT_GROUP_PROTOCOL" in str(worker.failed)
    assert "choose another group.id" in str(worker.failed)


@pytest.mark.full
def test_members_stop_their_work_when_the_broker_is_gone_and_share_it_again(members, own_cluster):
    own = own_cluster()
    join = joining(members, own, "group")
    one, two = join("one"), join("two")
    members.until(lambda: members.share([one, two], 6))
    own.brokers[1].kill()
    members.until(lambda: not one.runs and not two.runs)
    own.brokers[1].start()
    members.until(lambda: members.share([one, two], 6), deadline_s=60.0)


@pytest.mark.full
@pytest.mark.kafka_versions("2.8", "3.9")
@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_old_brokers_have_groups_of_workers_too(members, own_cluster, version):
    join = joining(members, own_cluster(kafka_version=version), "group")
    one, two = join("one"), join("two")
    members.until(lambda: members.share([one, two], 6))
    two.close()
    members.until(lambda: two.closed)
    members.every.remove(two)
    two.driver.__exit__()
    members.until(lambda: members.share([one], 6))
