"""Round after round as bytes: WorkerCoordinatorIncrementalTest, with its numbers.

Two connectors of four tasks each; whoever leads hears metadata and answers with assignments, and
members take them as they come.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from connect_runtime.group import connect_protocol, leader_assignment
from connect_runtime.group.assignor import AssignorState, RebalanceTimes
from connect_runtime.group.connect_protocol import ConnectAssignment, ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.group.leader_assignment import (
    ConfiguredWorkSnapshots,
    LeaderElection,
    MemberAssignment,
)

D_MS = 300_000
OFFSET = 10
V0, V1, V2 = ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED
Counts = tuple[int, int, int, int]
"""Assigned connectors and tasks, revoked connectors and tasks."""


@dataclass(slots=True)
class Group:
    """`worker1` leads as long as it is there."""

    speaks: ConnectProtocol
    members: dict[str, MemberAssignment] = field(default_factory=dict)
    configured: ConfiguredWork = field(
        default_factory=lambda: ConfiguredWork(
            offset=OFFSET, task_counts={"connector1": 4, "connector2": 4}
        )
    )
    state: AssignorState = field(default_factory=lambda: AssignorState(generation=2))
    generation: int = 3
    now_ms: int = 1_790_000_000_000

    def join(self, *names: str) -> None:
        for name in names:
            self.members[name] = MemberAssignment.create_initial(self.speaks)

    def round(self, *, hear: bool = True) -> tuple[dict[str, Counts], int]:
        """What each is told, and the delay. Not `hear`: nobody takes it up."""
        said = {
            name: dict(each.metadata(f"http://{name}:8083", OFFSET))[self.speaks.wire_name]
            for name, each in self.members.items()
        }
        election = LeaderElection(
            leader="worker1",
            protocol=self.speaks,
            generation=self.generation,
            last_completed=self.generation - 1,
            members=said,
        )
        snapshots = ConfiguredWorkSnapshots(at_join=self.configured, newest=self.configured)
        times = RebalanceTimes(now_ms=self.now_ms, delay_max_ms=D_MS)
        found = leader_assignment.perform_assignment(election, snapshots, self.state, times=times)
        self.state = found.state
        told = {
            name: connect_protocol.decode_assignment(data)
            for name, data in found.assignments.items()
        }
        for name, data in found.assignments.items() if hear else ():
            heard = self.members[name].apply_assignment(
                data, protocol_name=self.speaks.wire_name, generation=self.generation
            )
            self.members[name] = heard.member
        self.generation += 1
        for each in told.values():
            assert (each.leader, each.leader_url) == ("worker1", "http://worker1:8083")
            assert (each.config_offset, each.error) == (OFFSET, connect_protocol.NO_ERROR)
            assert each.delay_ms == found.delay_ms
        return {name: counts(each) for name, each in told.items()}, found.delay_ms


def counts(told: ConnectAssignment) -> Counts:
    return (
        len(told.assigned.connectors),
        len(told.assigned.tasks),
        len(told.revoked.connectors),
        len(told.revoked.tasks),
    )


NOTHING = (0, 0, 0, 0)


@pytest.fixture(params=[V1, V2], ids=["compatible", "sessioned"])
def group(request: pytest.FixtureRequest) -> Group:
    return Group(request.param)


def test_who_joins_two_others_gets_nothing_before_they_gave_up_a_task_each(group: Group) -> None:
    group.join("worker1", "worker2")
    assert group.round() == ({"worker1": (1, 4, 0, 0), "worker2": (1, 4, 0, 0)}, 0)
    assert group.members["worker1"].assigned_work.connectors == ("connector1",)
    assert group.members["worker2"].assigned_work.connectors == ("connector2",)
    group.join("worker3")
    told, delay_ms = group.round()
    assert told == {"worker1": (0, 0, 0, 1), "worker2": (0, 0, 0, 1), "worker3": NOTHING}
    assert delay_ms == 0
    assert group.round()[0] == {"worker1": NOTHING, "worker2": NOTHING, "worker3": (0, 2, 0, 0)}


def left(group: Group) -> None:
    """Three shared; the third, with two tasks, is gone, and half of the delay has passed."""
    group.join("worker1", "worker2", "worker3")
    told, delay_ms = group.round()
    assert told == {"worker1": (1, 3, 0, 0), "worker2": (1, 3, 0, 0), "worker3": (0, 2, 0, 0)}
    assert delay_ms == 0
    del group.members["worker3"]
    assert group.round() == ({"worker1": NOTHING, "worker2": NOTHING}, D_MS)
    group.now_ms += D_MS // 2


def test_tasks_of_who_stays_away_are_shared_after_the_delay(group: Group) -> None:
    left(group)
    assert group.round() == ({"worker1": NOTHING, "worker2": NOTHING}, D_MS // 2)
    group.now_ms += D_MS // 2 + 1
    assert group.round() == ({"worker1": (0, 1, 0, 0), "worker2": (0, 1, 0, 0)}, 0)


def test_who_comes_back_in_time_gets_both_tasks_back(group: Group) -> None:
    left(group)
    group.join("worker3")
    three = dict.fromkeys(["worker1", "worker2", "worker3"], NOTHING)
    assert group.round() == (three, D_MS // 2)
    group.now_ms += D_MS // 2 + 1
    assert group.round() == (three | {"worker3": (0, 2, 0, 0)}, 0)


def test_a_round_of_which_nobody_heard_is_made_again(group: Group) -> None:
    group.join("worker1", "worker2")
    first = group.round(hear=False)
    assert group.round() == first


# What a member says, by what it was told before


@pytest.mark.parametrize(
    ("speaks", "size", "keeps"), [(V0, 1, False), (V1, 2, True), (V2, 3, True)]
)
@pytest.mark.parametrize("told_in", [V0, V1, V2])
def test_metadata_names_every_protocol_and_what_runs(
    speaks: ConnectProtocol, size: int, *, keeps: bool, told_in: ConnectProtocol
) -> None:
    """testMetadata, …WithExistingAssignment, …ButOlderProtocolSelection."""
    held = ConnectorsAndTasks(connectors=("connector1",), tasks=TASKS)
    told = ConnectAssignment(
        leader="worker1", leader_url="http://worker1:8083", config_offset=OFFSET, assigned=held
    )
    fresh = MemberAssignment.create_initial(speaks)
    assert len(fresh.metadata("url", OFFSET)) == size
    heard = fresh.apply_assignment(
        connect_protocol.encode_assignment(told, told_in),
        protocol_name=told_in.wire_name,
        generation=3,
    )
    said = heard.member.metadata("url", OFFSET)
    assert said[0][0] == speaks.wire_name
    assert len(said) == size
    state = connect_protocol.decode_metadata(said[0][1])
    assert state.config_offset == OFFSET
    assert set(state.running.items) == (set(held.items) if keeps else set())


TASKS = ConfiguredWork(task_counts={"connector1": 1, "connector2": 1}).list_work().tasks


# Eager members, as in WorkerCoordinatorTest


def test_eager_members_give_up_everything_in_each_round() -> None:
    """testRejoinGroup: what it ran is stopped before it joins, and it runs what it is told."""
    group = Group(V0, configured=ConfiguredWork(offset=OFFSET, task_counts={"connector1": 1}))
    group.join("worker1", "worker2")
    assert group.round()[0] == {"worker1": (1, 0, 0, 0), "worker2": (0, 1, 0, 0)}
    before = group.members["worker2"].work_to_stop_before_join()
    assert before.items == TASKS[:1]
    group.members = {"worker1": group.members["worker2"]}
    assert group.round()[0] == {"worker1": (1, 1, 0, 0)}


def test_a_leader_that_cannot_keep_up_has_them_join_again_with_what_they_know_by_then() -> None:
    """testJoinLeaderCannotAssign, from the member's side."""
    one = MemberAssignment.create_initial(V1)
    mismatch = ConnectAssignment(
        error=connect_protocol.CONFIG_MISMATCH, leader="leader", leader_url="url", config_offset=9
    )
    heard = one.apply_assignment(
        connect_protocol.encode_assignment(mismatch, V1), protocol_name=V1.wire_name, generation=1
    )
    assert heard.member.rejoin_needed
    assert heard.assignment.config_offset == 9
    ((_, data), *_) = heard.member.metadata("url", 9)
    assert connect_protocol.decode_metadata(data).config_offset == 9
    good = ConnectAssignment(
        leader="leader",
        leader_url="url",
        config_offset=9,
        assigned=ConnectorsAndTasks(tasks=TASKS[:1]),
    )
    again = heard.member.apply_assignment(
        connect_protocol.encode_assignment(good, V1), protocol_name=V1.wire_name, generation=2
    )
    assert not again.member.rejoin_needed
    assert again.work_to_start(()).tasks == TASKS[:1]
