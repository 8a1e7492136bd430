"""Our members in a real broker's group of type `connect`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from connect_runtime.group import connect_protocol, group_membership_requests, leader_assignment
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork
from connect_runtime.group.coordinator import GroupMembershipError
from connect_runtime.group.leader_assignment import LeaderAssignments
from connect_runtime.herder.herder_events import JoinRequested
from connect_runtime.protocol import request_builders
from connect_runtime.protocol.request_builders import CoordinatorKey
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.support import group_workers
from tests.support.group_workers import Worker, Workers
from tests.support.wire import Driver

pytestmark = pytest.mark.integration

SIX = ConfiguredWork(offset=3, task_counts={"c1": 4, "c2": 2})
NINE = ConfiguredWork(offset=4, task_counts={"c1": 4, "c2": 5})
Join = Callable[..., Worker]


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers() as every:
        yield every


def joining(workers: Workers, running: SandboxCluster, group: str) -> Join:
    def add(name: str, **options: Any) -> Worker:
        member = group_workers.kafka_member(running.client_properties(), group, name, **options)
        return workers.add(Worker(name, member, SIX))

    return add


@pytest.fixture
def group(topic: Callable[..., str]) -> str:
    return topic("group")


@pytest.fixture
def join(workers: Workers, east: SandboxCluster, group: str) -> Join:
    return joining(workers, east, group)


def test_members_join_share_the_work_and_leave(workers, join):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    assert {each.last.protocol for each in (one, two)} == {ConnectProtocol.SESSIONED}
    assert one.group.member_id.startswith("connect-one-")
    before = one.tasks | two.tasks

    three = join("three")
    workers.until(lambda: workers.share([one, two, three], 6))
    assert one.tasks | two.tasks | three.tasks == before

    (reading,) = one.group.get_metric_readings()
    assert reading.tags[0].startswith("connect-one")
    numbers = reading.numbers
    assert numbers["assigned-tasks"] == len(one.tasks)
    assert numbers["rebalance-total"] == numbers["sync-total"] == len(one.rounds)
    assert 0 < numbers["rebalance-latency-max"] < 60_000
    workers.until(lambda: one.group.get_metric_readings()[0].numbers["heartbeat-total"] >= 2)

    kept = {one.name: one.tasks, two.name: two.tasks}
    workers.close(three)
    workers.until(lambda: workers.share([one, two], 6))
    assert one.tasks >= kept["one"], "nothing stopped that did not have to"
    assert two.tasks >= kept["two"]


def test_a_new_configuration_is_a_new_round(workers, join):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    for each in (one, two):
        each.configure(NINE)
    workers.until(lambda: workers.share([one, two], 9))


def long_connectors(letter: str, *, offset: int) -> ConfiguredWork:
    """4,000 connectors with one task and a name of 255 bytes: more than the broker can store."""
    counts = {f"{letter}{number:04}" + "x" * 250: 1 for number in range(4_000)}
    return ConfiguredWork(offset=offset, task_counts=counts)


def test_more_connectors_than_the_broker_can_store_end_no_member(workers, join, caplog):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    for offset, letter in enumerate("ab", start=10):
        everything = long_connectors(letter, offset=offset)
        left_out = connect_protocol.find_unassignable_connectors(everything.task_counts, members=2)
        kept = everything.without_connectors(left_out)
        assert 500 < len(kept.task_counts) < 4_000
        for each in (one, two):
            each.configure(everything)
        workers.until(lambda kept=kept: workers.share([one, two], len(kept.task_counts)))
        assert one.tasks | two.tasks == {f"{name}-0" for name in kept.task_counts}
    assert "connector(s) are not assigned to any worker" in caplog.text
    assert "UNKNOWN_SERVER_ERROR" not in caplog.text


def test_assignments_that_the_broker_refuses_end_no_member(workers, join, caplog, monkeypatch):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    monkeypatch.setattr(connect_protocol, "MAX_WORK_BYTES", 10_000_000)
    for each in (one, two):
        each.configure(long_connectors("a", offset=10))
    workers.until(lambda: "syncing the group failed: UNKNOWN_SERVER_ERROR" in caplog.text)
    assert len(one.tasks | two.tasks) == 6, "members keep their current work"
    for each in (one, two):
        each.configure(NINE)
    workers.until(lambda: workers.share([one, two], 9))
    assert one.failed is None
    assert two.failed is None


def test_a_leader_that_is_behind_has_all_of_them_join_again(workers, join):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    leads = one if one.leads else two
    (other,) = {one.name, two.name} - {leads.name}
    follows = one if other == "one" else two
    follows.configure(NINE)
    workers.until(lambda: follows.rounds[-1].assignment.failed)
    assert follows.runs, "the member keeps its current work"
    assert follows.last.assignment.config_offset == 4
    leads.configured = NINE
    workers.until(lambda: workers.share([one, two], 9))


def test_one_eager_member_makes_the_group_eager(workers, join):
    one = join("one")
    workers.until(lambda: workers.share([one], 6))
    old = join("old", offers=ConnectProtocol.EAGER)
    workers.until(lambda: workers.share([one, old], 6))
    assert {each.last.protocol for each in (one, old)} == {ConnectProtocol.EAGER}
    workers.close(old)
    workers.until(lambda: workers.share([one], 6))
    assert one.last.protocol is ConnectProtocol.SESSIONED


def test_a_member_that_the_group_forgot_joins_anew(workers, join, east, group):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    was = two.group.member_id
    with Driver(east.client_properties()) as driver:
        gone = group_membership_requests.build_leave_group_request(
            group, member_id=was, reason="thrown out"
        )
        coordinator = CoordinatorKey(request_builders.GROUP_COORDINATOR, group)
        assert int(driver.ask(coordinator, gone).error_code) == 0
    workers.until(lambda: two.joined and two.group.member_id not in {"", was})
    workers.until(lambda: workers.share([one, two], 6))


def test_a_worker_that_is_stuck_leaves_and_comes_back(workers, join):
    one, two = join("one"), join("two", rebalance_timeout_s=3.0)
    workers.until(lambda: workers.share([one, two], 6))
    two.ticks = False
    workers.until(lambda: workers.share([one], 6))
    two.ticks = True
    workers.until(lambda: workers.share([one, two], 6))


def test_heartbeats_go_on_while_the_leader_computes(workers, join, monkeypatch):
    computes, goes_on = threading.Event(), threading.Event()
    plan = leader_assignment.perform_assignment

    def slowly(*args: Any, **more: Any) -> LeaderAssignments:
        computes.set()
        assert goes_on.wait(60.0)
        return plan(*args, **more)

    monkeypatch.setattr(leader_assignment, "perform_assignment", slowly)
    one = join("one")
    workers.until(computes.is_set)
    end_s = group_workers.CLOCK.now_s() + 1.5 * group_workers.SESSION_S
    workers.until(lambda: group_workers.CLOCK.now_s() >= end_s)
    goes_on.set()
    workers.until(lambda: workers.share([one], 6))
    asked = [each for each in one.heard if isinstance(each, JoinRequested)]
    assert one.last.generation == 1, "the session outlived the wait"
    assert len(asked) <= 2, "as asked for its id (KIP-394), and to join"


def test_a_group_of_another_kind_is_no_group_for_workers(workers, join):
    """Schema registries have groups of type `sr`."""
    registry = join("registry", protocol_type="sr")
    workers.until(lambda: registry.joined)
    worker = join("worker")
    workers.until(lambda: worker.failed)
    assert isinstance(worker.failed, GroupMembershipError)
    assert "INCONSISTENT_GROUP_PROTOCOL" in str(worker.failed)
    assert "choose another group.id" in str(worker.failed)


@pytest.mark.full
def test_members_stop_their_work_when_the_broker_is_gone_and_share_it_again(workers, own_cluster):
    own = own_cluster()
    join = joining(workers, own, "group")
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    own.brokers[1].kill()
    workers.until(lambda: not one.runs and not two.runs)
    own.brokers[1].start()
    workers.until(lambda: workers.share([one, two], 6), deadline_s=120.0)


@pytest.mark.full
@pytest.mark.kafka_versions("2.8", "3.9")
@pytest.mark.parametrize("version", ["2.8", "3.9"])
def test_old_brokers_have_groups_of_workers_too(workers, own_cluster, version):
    join = joining(workers, own_cluster(kafka_version=version), "group")
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    workers.close(two)
    workers.until(lambda: workers.share([one], 6))
