"""The contract of `group.Group`, on the fake and in a real broker's group."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest

from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork
from connect_runtime.herder.herder_events import CoordinatorLost, JoinRequested
from connect_runtime.herder.worker_group_interface import WorkerGroup
from connect_runtime.system.system_clock import SystemClock
from mm2.sandbox.sandbox_cluster import SandboxCluster
from tests.fakes.group import FakeCoordinator
from tests.support import group_workers
from tests.support.group_workers import Worker, Workers

SIX = ConfiguredWork(offset=3, task_counts={"c1": 4, "c2": 2})
EAGER = ConnectProtocol.EAGER
CLOCK = SystemClock()
DELAY_MS = 300
_UNIQUE = itertools.count()


class Place(Protocol):
    """One group."""

    def member(
        self, name: str, *, offers: ConnectProtocol = ConnectProtocol.SESSIONED
    ) -> WorkerGroup: ...

    def away(self) -> contextlib.AbstractContextManager[None]:
        """The coordinator does not respond."""


class FakePlace:
    def __init__(self) -> None:
        self._at = FakeCoordinator(delay_max_ms=DELAY_MS)
        self.member = self._at.member
        self.away = self._at.away


class RealPlace:
    def __init__(self, running: SandboxCluster) -> None:
        self._group_id = f"workers-{next(_UNIQUE)}"
        self._cluster = running

    def member(
        self, name: str, *, offers: ConnectProtocol = ConnectProtocol.SESSIONED
    ) -> WorkerGroup:
        return group_workers.kafka_member(
            self._cluster.client_properties(),
            self._group_id,
            name,
            offers=offers,
            delay_max_ms=DELAY_MS,
        )

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        self._cluster.freeze()
        try:
            yield
        finally:
            self._cluster.unfreeze()


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.integration)])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "fake":
        return FakePlace()
    return RealPlace(request.getfixturevalue("contract_cluster"))


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers() as every:
        yield every


@pytest.fixture
def join(place: Place, workers: Workers) -> Callable[..., Worker]:
    def add(name: str, offers: ConnectProtocol = ConnectProtocol.SESSIONED) -> Worker:
        member = place.member(name, offers=offers)
        return workers.add(Worker(name, member, SIX))

    return add


def test_it_is_asked_first_and_told_then(workers, join):
    one = join("one")
    assert one.group.member_id == ""
    workers.until(lambda: one.joined)
    assert one.woken > 0
    assert one.heard[0] == JoinRequested(connectors_and_tasks.NO_WORK)
    assert one.group.member_id.startswith("connect-one")
    assert one.last.is_leader
    assert one.last.protocol is ConnectProtocol.SESSIONED
    assert one.last.assignment.leader_url == "http://one/"
    assert one.last.assignment.config_offset == 3
    assert one.last.assignment.assigned == SIX.list_work()
    assert one.last.owners is not None
    assert {one.last.owners.get_owner_url(each) for each in SIX.list_work().items} == {
        "http://one/"
    }


def test_a_member_is_confirmed_soon_where_somebody_waits_for_it(workers, place, join):
    """Heartbeats are three seconds apart."""
    one = join("one")
    before_s = CLOCK.now_s()
    one.group.request_heartbeat()
    assert one.group.get_last_heartbeat_s() < before_s
    workers.until(lambda: one.joined)
    took_s = []
    for _ in range(4):
        asked_s = CLOCK.now_s()
        one.group.request_heartbeat()
        workers.until(lambda since_s=asked_s: one.group.get_last_heartbeat_s() >= since_s)
        took_s.append(CLOCK.now_s() - asked_s)
    assert min(took_s[1:]) < 2.0  # right behind a heartbeat the next one is three seconds away
    assert one.group.session_timeout_s > 0
    with place.away():
        asked_s = CLOCK.now_s()
        one.group.request_heartbeat()
        workers.until(lambda: not one.joined)
        assert one.group.get_last_heartbeat_s() < asked_s


def test_nobody_joins_who_has_not_prepared(workers, place, join):
    one = join("one")
    one.group.confirm_join_prepared()
    workers.until(lambda: workers.share([one], 6))
    slow = place.member("slow")
    slow.start(lambda: None, lambda: SIX)
    slow.confirm_join_prepared()
    other = join("other")
    workers.until(lambda: workers.share([one, other], 6))
    slow.close(group_workers.CLOSE_S)


def test_work_is_shared_and_taken_over(workers, join):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    assert [one.last.is_leader, two.last.is_leader].count(True) == 1
    follows = two if one.leads else one
    assert follows.last.owners is None
    workers.close(two)
    workers.until(lambda: workers.share([one], 6))


@pytest.mark.parametrize("offers", list(ConnectProtocol))
def test_the_protocol_is_the_one_that_all_speak(workers, join, offers):
    one, two = join("one", ConnectProtocol.SESSIONED_WHOLE), join("two", offers)
    workers.until(lambda: workers.share([one, two], 6))
    assert one.last.protocol is two.last.protocol is offers


def test_eager_workers_are_asked_to_stop_everything(workers, join):
    one = join("one", EAGER)
    workers.until(lambda: workers.share([one], 6))
    one.group.rejoin_group("why not")
    workers.until(lambda: len(one.rounds) == 2)
    asked = [each for each in one.heard if isinstance(each, JoinRequested)]
    assert asked[-1].items_to_stop == SIX.list_work()
    one.runs = connectors_and_tasks.NO_WORK
    one.group.revoke_all_work()
    one.group.rejoin_group("it was given up")
    workers.until(lambda: len(one.rounds) == 3)
    asked = [each for each in one.heard if isinstance(each, JoinRequested)]
    assert asked[-1].items_to_stop == connectors_and_tasks.NO_WORK


def test_who_leaves_stays_out_and_may_come_back(workers, join):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    ran = two.tasks
    two.group.leave_group("cannot read")
    assert two.group.member_id == ""
    two.group.confirm_join_prepared()
    workers.until(lambda: len(one.tasks | ran) == 6 and one.joined and one.last.is_leader)
    before = len(two.rounds)
    workers.until(lambda: workers.share([one], 6))
    assert len(two.rounds) == before
    two.runs = connectors_and_tasks.NO_WORK
    two.group.revoke_all_work()
    two.group.rejoin_group("can read")
    workers.until(lambda: workers.share([one, two], 6))


def test_who_leaves_without_giving_up_still_runs_what_it_ran(workers, join):
    one = join("one")
    workers.until(lambda: workers.share([one], 6))
    one.group.leave_group("cannot read")
    one.group.rejoin_group("can read")
    workers.until(lambda: len(one.rounds) == 2 and workers.share([one], 6))
    assert one.last.items_to_stop == connectors_and_tasks.NO_WORK


def test_a_new_configuration_is_shared_when_all_know_it(workers, join):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    leads, follows = (one, two) if one.leads else (two, one)
    nine = ConfiguredWork(offset=4, task_counts={"c1": 4, "c2": 5})
    follows.configure(nine)
    workers.until(lambda: follows.last.assignment.failed and leads.last.assignment.failed)
    assert follows.last.owners is leads.last.owners is None
    leads.configured = nine
    workers.until(lambda: workers.share([one, two], 9))


def test_without_a_coordinator_work_is_lost_and_comes_back(workers, place, join):
    one = join("one")
    workers.until(lambda: workers.share([one], 6))
    with place.away():
        workers.until(lambda: isinstance(one.heard[-1], CoordinatorLost))
        assert one.runs == connectors_and_tasks.NO_WORK
    workers.until(lambda: workers.share([one], 6))


def test_who_is_closed_says_and_hears_nothing(workers, join):
    one, two = join("one"), join("two")
    workers.until(lambda: workers.share([one, two], 6))
    workers.close(two)
    for say in (
        two.group.report_herder_loop_alive,
        two.group.confirm_join_prepared,
        two.group.revoke_all_work,
    ):
        say()
    two.group.rejoin_group("no")
    two.group.leave_group("no")
    two.group.close(0.0)
    assert two.group.pop_events() == []
    assert two.group.member_id == ""
    workers.until(lambda: workers.share([one], 6))


def test_nothing_happens_before_the_start(place):
    one = place.member("one")
    one.report_herder_loop_alive()
    one.confirm_join_prepared()
    one.rejoin_group("too early")
    assert one.pop_events() == []
    assert one.member_id == ""
    one.close(0.0)
