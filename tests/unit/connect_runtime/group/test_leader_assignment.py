"""Scenarios of Java's WorkerCoordinatorTest and WorkerCoordinatorIncrementalTest among them."""

from __future__ import annotations

import dataclasses
import time

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connect_protocol, connectors_and_tasks, leader_assignment
from connect_runtime.group.assignor import AssignorState, RebalanceTimes
from connect_runtime.group.connect_protocol import (
    ConnectAssignment,
    ConnectProtocol,
    MalformedBytesError,
    WorkerMetadata,
)
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.group.leader_assignment import (
    AssignmentChange,
    ConfiguredWorkSnapshots,
    LeaderAssignments,
    LeaderElection,
    MemberAssignment,
)
from tests.fakes import connect_group

V0, V1, V2 = ConnectProtocol.EAGER, ConnectProtocol.COMPATIBLE, ConnectProtocol.SESSIONED
C1 = ConnectorsAndTasks(connectors=("c1",), tasks=connect_group.tasks("c1", 2))
C2 = ConnectorsAndTasks(connectors=("c2",), tasks=connect_group.tasks("c2", 1))


def answer(version: ConnectProtocol, **fields: object) -> bytes:
    told = {"leader": "m1", "leader_url": "http://m1/", "config_offset": 7, **fields}
    return connect_protocol.encode_assignment(ConnectAssignment(**told), version)  # type: ignore[arg-type]


def after(
    one: MemberAssignment, version: ConnectProtocol, generation: int = 1, **fields: object
) -> AssignmentChange:
    data = answer(version, **fields)
    return one.apply_assignment(data, protocol_name=version.wire_name, generation=generation)


def running(version: ConnectProtocol, held: ConnectorsAndTasks = C1) -> MemberAssignment:
    return after(MemberAssignment.create_initial(V2), version, assigned=held).member


# What it says


@pytest.mark.parametrize(
    ("offers", "names"),
    [
        (V2, ["sessioned", "compatible", "default"]),
        (V1, ["compatible", "default"]),
        (V0, ["default"]),
    ],
)
def test_a_new_member_offers_what_it_can_and_runs_nothing(offers, names):
    said = MemberAssignment.create_initial(offers).build_metadata("http://w/", 4)
    assert [name for name, _ in said] == names
    for name, data in said:
        assert int.from_bytes(data[:2], "big") == ConnectProtocol.from_wire_name(name).version
        state = WorkerMetadata(url="http://w/", config_offset=4)
        assert connect_protocol.decode_metadata(data) == state


def test_a_member_says_what_it_is_to_run():
    said = dict(running(V2).build_metadata("http://w/", 4))
    assert connect_protocol.decode_metadata(said["sessioned"]).reported_work == C1
    assert connect_protocol.decode_metadata(said["compatible"]).reported_work == C1
    assert (
        connect_protocol.decode_metadata(said["default"]).reported_work
        == connectors_and_tasks.NO_WORK
    )


# What an answer changes


@pytest.mark.parametrize("version", [V1, V2])
def test_cooperative_answers_add_and_take_away(version):
    one = running(version)
    gone = ConnectorsAndTasks(tasks=C1.tasks[:1])
    found = after(one, version, 2, assigned=C2, revoked=gone, delay_ms=9)
    assert found.work_to_stop == gone
    assert found.assignment.revoked == gone
    assert found.assignment.assigned == C2.union(C1.difference(gone.items)), (
        "what is new comes first"
    )
    assert found.assignment.delay_ms == 9
    assert found.find_work_to_start(C1.difference(gone.items).items) == C2
    assert found.member.assigned_work == found.assignment.assigned
    assert found.member.last_generation == 2
    assert found.member.current_protocol is version


def test_an_answer_that_changes_nothing_starts_and_stops_nothing():
    found = after(running(V2), V2, 2)
    assert not found.work_to_stop
    assert not found.assignment.revoked
    assert found.member.assigned_work == C1
    assert not found.find_work_to_start(C1.items)


def test_what_was_to_run_and_was_not_started_is_started_after_the_next_answer():
    assert after(running(V2), V2, 2).find_work_to_start(()) == C1


@pytest.mark.parametrize("version", [V1, V2])
def test_a_failed_answer_leaves_everything_running_and_has_it_join_again(version):
    found = after(
        running(version), version, 2, error=connect_protocol.CONFIG_MISMATCH, config_offset=9
    )
    assert found.assignment.failed
    assert found.assignment.config_offset == 9
    assert found.member.rejoin_needed
    assert found.member.assigned_work == C1
    healed = after(found.member, version, 3)
    assert healed.member.assigned_work == C1
    assert not healed.member.rejoin_needed


def test_an_eager_answer_is_all_there_is():
    found = after(running(V0), V0, 2, assigned=C2)
    assert found.assignment.assigned == C2
    assert not found.work_to_stop, "everything was stopped before"
    assert found.find_work_to_start(()) == C2


@pytest.mark.parametrize(
    ("version", "expected"),
    [(V0, C1), (V1, connectors_and_tasks.NO_WORK), (V2, connectors_and_tasks.NO_WORK)],
)
def test_only_eager_members_stop_before_they_join(version, expected):
    assert running(version).find_work_to_stop_before_join() == expected


def test_a_member_that_has_nothing_stops_nothing():
    assert (
        MemberAssignment.create_initial(V0).find_work_to_stop_before_join()
        == connectors_and_tasks.NO_WORK
    )
    failed = after(running(V0), V0, 2, error=connect_protocol.CONFIG_MISMATCH).member
    assert failed.find_work_to_stop_before_join() == connectors_and_tasks.NO_WORK


def test_the_group_may_change_its_protocol_both_ways():
    """What stopped for the eager protocol still counts as its own until it is answered."""
    down = after(running(V2), V0, 2, assigned=C2).member
    assert down.current_protocol is V0
    assert down.assigned_work == C2
    assert down.find_work_to_stop_before_join() == C2
    said = dict(down.build_metadata("http://w/", 4))
    assert connect_protocol.decode_metadata(said["sessioned"]).reported_work == C2
    up = after(down, V2, 3)
    assert up.assignment.assigned == C2
    assert up.find_work_to_start(()) == C2


@pytest.mark.parametrize("told", [{"assigned": C2.union(C1.difference(C1.tasks))}, {"error": 1}])
def test_what_ran_before_the_group_fell_back_to_the_eager_protocol_stops(told):
    """Nothing was stopped before that round, as it began under the other protocol."""
    found = after(running(V2), V0, 2, **told)
    assert found.work_to_stop == C1.difference(found.assignment.assigned.items)
    assert found.work_to_stop.tasks == C1.tasks
    assert not found.assignment.revoked


def test_a_member_that_the_leader_left_out_goes_on():
    found = running(V2).apply_assignment(b"", protocol_name="sessioned", generation=2)
    assert found.member.assigned_work == C1
    assert found.assignment.leader == ""
    assert not found.member.rejoin_needed
    eager = running(V0).apply_assignment(b"", protocol_name="default", generation=2)
    assert not eager.member.assigned_work


def test_an_answer_that_cannot_be_read_changes_nothing():
    one = running(V2)
    with pytest.raises(MalformedBytesError):
        one.apply_assignment(b"\0\2\0", protocol_name="sessioned", generation=2)
    with pytest.raises(ValueError, match="range"):
        one.apply_assignment(answer(V2), protocol_name="range", generation=2)
    assert one.assigned_work == C1


# Without a group


def test_before_the_first_answer_it_has_to_join():
    assert MemberAssignment.create_initial(V2).rejoin_needed
    assert not running(V2).rejoin_needed


@pytest.mark.parametrize("version", list(ConnectProtocol))
def test_a_member_that_lost_its_coordinator_gives_up_all_its_work(version):
    alone, stop = running(version).abandon_work()
    assert stop == C1
    assert alone.rejoin_needed
    assert alone.assigned_work == connectors_and_tasks.NO_WORK
    assert alone.last_generation == 1
    for _, data in alone.build_metadata("http://w/", 4):
        assert connect_protocol.decode_metadata(data).allocation is None
    assert alone.abandon_work() == (alone, connectors_and_tasks.NO_WORK)


TIMES = RebalanceTimes(now_ms=1_790_000_000_000, delay_max_ms=300_000)


def configured(offset: int = 10, **task_counts: int) -> ConfiguredWork:
    return ConfiguredWork(offset=offset, task_counts=task_counts or {"c1": 2, "c2": 1})


def says(
    member: str,
    offset: int = 10,
    *,
    held: ConnectorsAndTasks = connectors_and_tasks.NO_WORK,
    version: ConnectProtocol = V2,
) -> bytes:
    told = ConnectAssignment(leader="old", leader_url="", config_offset=3, assigned=held)
    state = WorkerMetadata(url=f"http://{member}/", config_offset=offset, allocation=told)
    return connect_protocol.encode_metadata(state, version)


def elected(members: dict[str, bytes], version: ConnectProtocol = V2) -> LeaderElection:
    return LeaderElection(
        leader="leader", protocol=version, generation=5, last_completed=4, members=members
    )


def led(
    members: dict[str, bytes],
    *,
    version: ConnectProtocol = V2,
    knows: ConfiguredWork | None = None,
    newest: ConfiguredWork | None = None,
    state: AssignorState | None = None,
) -> tuple[LeaderAssignments, dict[str, ConnectAssignment]]:
    knows = knows or configured()
    found = leader_assignment.perform_assignment(
        elected(members, version),
        ConfiguredWorkSnapshots(at_join=knows, newest=newest or knows),
        state or AssignorState(generation=4),
        times=TIMES,
    )
    assert list(found.assignments) == list(members)
    assert all(found.assignments.values()), "an empty answer ends a Java worker"
    return found, {
        member: connect_protocol.decode_assignment(data)
        for member, data in found.assignments.items()
    }


TWO = {"leader": says("leader"), "member": says("member")}


@pytest.mark.parametrize("version", list(ConnectProtocol))
def test_every_member_is_answered_in_the_groups_protocol(version):
    found, answers = led({name: says(name, version=version) for name in TWO}, version=version)
    for data, answer in zip(found.assignments.values(), answers.values(), strict=True):
        assert int.from_bytes(data[:2], "big") == version.version
        assert (answer.leader, answer.leader_url) == ("leader", "http://leader/")
        assert answer.error == connect_protocol.NO_ERROR
        assert answer.config_offset == 10
    given = [str(item) for answer in answers.values() for item in answer.assigned.items]
    assert sorted(given) == ["c1", "c1-0", "c1-1", "c2", "c2-0"]


def test_eager_members_share_in_turns():
    _, answers = led(TWO, version=V0)
    shares = {member: list(map(str, each.assigned.items)) for member, each in answers.items()}
    assert shares == {"leader": ["c1", "c1-0", "c2-0"], "member": ["c2", "c1-1"]}


def test_the_eager_protocol_leaves_what_the_other_one_remembers():
    state = AssignorState(generation=4, members=frozenset({"x"}), consecutive_revocations=2)
    found, _ = led(TWO, version=V0, state=state)
    assert found.state == state


def share(connector: str, *numbers: int) -> ConnectorsAndTasks:
    tasks = connect_group.tasks(connector, 4)
    return ConnectorsAndTasks(connectors=(connector,), tasks=tuple(tasks[each] for each in numbers))


def test_a_third_member_gets_nothing_before_the_others_have_stopped():
    members = {
        "leader": says("leader", held=share("c1", 0, 1, 2, 3)),
        "member": says("member", held=share("c2", 0, 1, 2, 3)),
        "third": says("third"),
    }
    found, answers = led(members, knows=configured(c1=4, c2=4))
    assert {name: len(each.revoked.tasks) for name, each in answers.items()} == {
        "leader": 1,
        "member": 1,
        "third": 0,
    }
    assert not any(each.assigned for each in answers.values())
    assert found.delay_ms == 0
    assert found.state.revoked == {item for each in answers.values() for item in each.revoked.items}


def test_the_delay_is_told_to_everybody():
    state = AssignorState(
        generation=4,
        members=frozenset({"leader", "gone"}),
        previous=frozenset(configured().list_work().items),
    )
    found, answers = led(TWO, state=state)
    assert {each.delay_ms for each in answers.values()} == {TIMES.delay_max_ms}
    assert found.delay_ms == TIMES.delay_max_ms
    _, again = led({"leader": says("leader", version=V1)}, version=V1, state=state)
    assert again["leader"].delay_ms == TIMES.delay_max_ms


# Who knows the config topic how far


def ahead(offset: int) -> dict[str, bytes]:
    return {"leader": says("leader"), "member": says("member", offset)}


@pytest.mark.parametrize("version", list(ConnectProtocol))
def test_a_leader_that_is_behind_tells_everybody_to_read_on(version):
    state = AssignorState(generation=4, consecutive_revocations=1)
    found, answers = led(ahead(12), version=version, newest=configured(11), state=state)
    for answer in answers.values():
        assert answer.error == connect_protocol.CONFIG_MISMATCH
        assert answer.config_offset == 12
        assert (answer.leader, answer.leader_url) == ("leader", "http://leader/")
        assert not answer.assigned
        assert not answer.revoked
        assert answer.delay_ms == 0
    assert found.owners is None
    assert found.state == state


def test_a_leader_that_has_read_on_meanwhile_plans_from_what_it_knows_now():
    newest = configured(14, c9=1)
    found, answers = led(ahead(12), newest=newest)
    assert {each.config_offset for each in answers.values()} == {14}
    assert found.configured == newest
    assert {found.owners.get_owner_url("c9")} <= {"http://leader/", "http://member/"}


def test_a_leader_that_joined_with_enough_does_not_use_what_came_since():
    found, answers = led(ahead(10), newest=configured(14, c9=1))
    assert {each.config_offset for each in answers.values()} == {10}
    assert found.configured == configured()


def test_members_that_are_behind_are_told_how_far_to_read():
    _, answers = led({"leader": says("leader"), "member": says("member", -1)})
    assert answers["member"].config_offset == 10
    assert answers["member"].error == connect_protocol.NO_ERROR


# Owners


@pytest.mark.parametrize("version", [V0, V2])
def test_owners_are_those_that_run_it_after_the_round(version):
    found, answers = led(TWO, version=version)
    for member, answer in answers.items():
        for item in answer.assigned.items:
            assert found.owners.get_owner_url(item) == f"http://{member}/"
    assert found.owners.get_owner_url("unheard of") is None


def test_what_is_revoked_has_no_owner():
    everything = configured().list_work()
    found, answers = led({"leader": says("leader", held=everything), "member": says("member")})
    (taken, *_) = answers["leader"].revoked.items
    assert found.owners.get_owner_url(taken) is None
    kept = next(item for item in everything.items if item not in answers["leader"].revoked.items)
    assert found.owners.get_owner_url(kept) == "http://leader/"


# What members say that cannot be read


@pytest.mark.parametrize("version", list(ConnectProtocol))
@pytest.mark.parametrize("said", [b"", b"\xff\xff", b"\0\1\0\5abc"])
def test_a_member_that_cannot_be_understood_is_answered_and_runs_nothing(said, version):
    found, answers = led({**TWO, "odd": said}, version=version)
    assert answers["odd"].error == connect_protocol.NO_ERROR
    assert not answers["odd"].assigned
    assert list(found.malformed) == ["odd"]
    assert "a member's metadata" in found.malformed["odd"]
    assert len(found.owners.members) == 5


def test_members_with_too_much_work_together_run_nothing():
    """They would occupy the leader: joining the group takes only READ on it."""
    many = tuple(ConnectorTaskId("x", number) for number in range(60_000))
    held = ConnectorsAndTasks(tasks=many)
    hostile = {f"a{number}": says("evil", held=held) for number in range(100)}
    start_s = time.thread_time()
    found, answers = led({**TWO, **hostile})
    assert time.thread_time() - start_s < 10.0
    assert set(found.malformed) == set(hostile) - {"a0"}
    assert answers["leader"].assigned
    assert answers["member"].assigned
    assert not answers["a1"].assigned


def test_a_new_connector_does_not_stop_a_larger_one_that_runs():
    counts = {"large": 9_000, **{f"{number:04}" + "x" * 251: 1 for number in range(1_500)}}
    left_out = connect_protocol.find_unassignable_connectors(counts, 2, running={"large"})
    assert left_out
    assert "large" not in left_out
    assert "large" in connect_protocol.find_unassignable_connectors(counts, 2)


@pytest.mark.parametrize("version", list(ConnectProtocol))
def test_connectors_that_would_exceed_the_brokers_record_are_left_out(version):
    """Without this, the broker refuses the assignments, and no worker of the group runs any."""
    large = {f"{number:04}" + "x" * 251: 1 for number in range(4_000)}
    knows = ConfiguredWork(offset=10, task_counts={**large, "MirrorSourceConnector": 20})
    found, answers = led(
        {name: says(name, version=version) for name in TWO}, version=version, knows=knows
    )
    stored = sum(len(each) for each in found.assignments.values())
    assert 140_000 < stored <= connect_protocol.MAX_WORK_BYTES
    running = set(found.owners.members)
    assert {each for each in running if each == "MirrorSourceConnector"}
    assert len(found.left_out) > 3_000
    assert found.left_out <= set(large)
    assert running == set(knows.without_connectors(found.left_out).list_work().items)
    assert found.configured == knows.without_connectors(found.left_out)
    held = {name: answers[name].assigned for name in TWO}
    again = {name: says(name, held=held[name], version=version) for name in TWO}
    second, _ = led(again, version=version, knows=knows, state=found.state)
    assert second.left_out == found.left_out


def test_work_that_stays_and_work_that_is_replaced_fit_into_one_record_of_the_broker():
    def connectors(letter: str) -> ConfiguredWork:
        counts = {f"{letter}{number:04}" + "x" * 250: 1 for number in range(4_000)}
        return ConfiguredWork(offset=10, task_counts=counts)

    before, answers = led(TWO, knows=connectors("a"))
    members = {name: says(name, held=answers[name].assigned) for name in TWO}
    state = dataclasses.replace(before.state, generation=4)
    after, answers = led(members, knows=connectors("b"), state=state)
    assert all(each.revoked for each in answers.values())
    parts = [*members.values(), *after.assignments.values()]
    assert sum(map(len, parts)) < 1_000_000


def test_the_connectors_with_most_tasks_are_left_out_if_there_are_too_many_tasks():
    counts = {f"c{number}": 10_000 for number in range(7)} | {"small": 3}
    found, answers = led(TWO, knows=ConfiguredWork(offset=10, task_counts=counts))
    assert "small" not in found.left_out
    assert 0 < len(found.left_out) < 7
    assert len(found.owners.members) <= 50_000
    assert all(each.assigned for each in answers.values())


def test_usual_work_is_not_left_out():
    counts = {f"connector-with-a-usual-name-{number:04}": 3 for number in range(1_500)}
    found, _ = led(TWO, knows=ConfiguredWork(offset=10, task_counts=counts))
    assert not found.left_out


def test_a_leader_that_cannot_understand_itself_raises():
    with pytest.raises(MalformedBytesError):
        led({"leader": b"", "member": says("member")})


def test_a_version_from_the_future_is_a_member_like_others():
    future = (9).to_bytes(2, "big") + says("member")[2:] + b"more"
    found, answers = led({"leader": says("leader"), "member": future})
    assert answers["member"].assigned
    assert not found.malformed


def test_the_order_of_answers_to_the_join_does_not_matter():
    reversed_ = dict(reversed(TWO.items()))
    assert led(TWO)[1] == led(reversed_)[1]
