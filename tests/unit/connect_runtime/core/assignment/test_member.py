from __future__ import annotations

import pytest

from connect_runtime.core.assignment import member, protocol, work
from tests.fakes import connect_group

V0, V1, V2 = protocol.Protocol.EAGER, protocol.Protocol.COMPATIBLE, protocol.Protocol.SESSIONED
C1 = work.Work(connectors=("c1",), tasks=connect_group.tasks("c1", 2))
C2 = work.Work(connectors=("c2",), tasks=connect_group.tasks("c2", 1))


def answer(version: protocol.Protocol, **fields: object) -> bytes:
    told = {"leader": "m1", "leader_url": "http://m1/", "config_offset": 7, **fields}
    return protocol.encode_assignment(protocol.Assignment(**told), version)  # type: ignore[arg-type]


def after(
    one: member.Member, version: protocol.Protocol, generation: int = 1, **fields: object
) -> member.Answer:
    data = answer(version, **fields)
    return one.answered(data, protocol_name=version.wire_name, generation=generation)


def running(version: protocol.Protocol, held: work.Work = C1) -> member.Member:
    return after(member.Member.fresh(V2), version, assigned=held).member


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
    said = member.Member.fresh(offers).metadata("http://w/", 4)
    assert [name for name, _ in said] == names
    for name, data in said:
        assert int.from_bytes(data[:2], "big") == protocol.Protocol.of_wire_name(name).version
        state = protocol.WorkerState(url="http://w/", config_offset=4)
        assert protocol.decode_metadata(data) == state


def test_a_member_says_what_it_is_to_run():
    said = dict(running(V2).metadata("http://w/", 4))
    assert protocol.decode_metadata(said["sessioned"]).running == C1
    assert protocol.decode_metadata(said["compatible"]).running == C1
    assert protocol.decode_metadata(said["default"]).running == work.NO_WORK


# What an answer changes


@pytest.mark.parametrize("version", [V1, V2])
def test_cooperative_answers_add_and_take_away(version):
    one = running(version)
    gone = work.Work(tasks=C1.tasks[:1])
    found = after(one, version, 2, assigned=C2, revoked=gone, delay_ms=9)
    assert found.stop == gone
    assert found.assignment.revoked == gone
    assert found.assignment.assigned == C2.then(C1.without(gone.items)), "what is new comes first"
    assert found.assignment.delay_ms == 9
    assert found.start(C1.without(gone.items).items) == C2
    assert found.member.holding == found.assignment.assigned
    assert found.member.completed == 2
    assert found.member.current is version


def test_an_answer_that_changes_nothing_starts_and_stops_nothing():
    found = after(running(V2), V2, 2)
    assert not found.stop
    assert not found.assignment.revoked
    assert found.member.holding == C1
    assert not found.start(C1.items)


def test_what_was_to_run_and_was_not_started_is_started_after_the_next_answer():
    assert after(running(V2), V2, 2).start(()) == C1


@pytest.mark.parametrize("version", [V1, V2])
def test_a_failed_answer_leaves_everything_running_and_has_it_join_again(version):
    found = after(running(version), version, 2, error=protocol.CONFIG_MISMATCH, config_offset=9)
    assert found.assignment.failed
    assert found.assignment.config_offset == 9
    assert found.member.rejoin_needed
    assert found.member.holding == C1
    healed = after(found.member, version, 3)
    assert healed.member.holding == C1
    assert not healed.member.rejoin_needed


def test_an_eager_answer_is_all_there_is():
    found = after(running(V0), V0, 2, assigned=C2)
    assert found.assignment.assigned == C2
    assert not found.stop, "everything was stopped before"
    assert found.start(()) == C2


@pytest.mark.parametrize(
    ("version", "expected"), [(V0, C1), (V1, work.NO_WORK), (V2, work.NO_WORK)]
)
def test_only_eager_members_stop_before_they_join(version, expected):
    assert running(version).stop_before_joining() == expected


def test_a_member_that_has_nothing_stops_nothing():
    assert member.Member.fresh(V0).stop_before_joining() == work.NO_WORK
    failed = after(running(V0), V0, 2, error=protocol.CONFIG_MISMATCH).member
    assert failed.stop_before_joining() == work.NO_WORK


def test_the_group_may_change_its_protocol_both_ways():
    """What stopped for the eager protocol still counts as its own until it is answered."""
    down = after(running(V2), V0, 2, assigned=C2).member
    assert down.current is V0
    assert down.holding == C2
    assert down.stop_before_joining() == C2
    said = dict(down.metadata("http://w/", 4))
    assert protocol.decode_metadata(said["sessioned"]).running == C2
    up = after(down, V2, 3)
    assert up.assignment.assigned == C2
    assert up.start(()) == C2


@pytest.mark.parametrize("told", [{"assigned": C2.then(C1.without(C1.tasks))}, {"error": 1}])
def test_what_ran_before_the_group_fell_back_to_the_eager_protocol_stops(told):
    """Nothing was stopped before that round, as it began under the other protocol."""
    found = after(running(V2), V0, 2, **told)
    assert found.stop == C1.without(found.assignment.assigned.items)
    assert found.stop.tasks == C1.tasks
    assert not found.assignment.revoked


def test_a_member_that_the_leader_left_out_goes_on():
    found = running(V2).answered(b"", protocol_name="sessioned", generation=2)
    assert found.member.holding == C1
    assert found.assignment.leader == ""
    assert not found.member.rejoin_needed
    eager = running(V0).answered(b"", protocol_name="default", generation=2)
    assert not eager.member.holding


def test_an_answer_that_cannot_be_read_changes_nothing():
    one = running(V2)
    with pytest.raises(protocol.MalformedBytesError):
        one.answered(b"\0\2\0", protocol_name="sessioned", generation=2)
    with pytest.raises(ValueError, match="range"):
        one.answered(answer(V2), protocol_name="range", generation=2)
    assert one.holding == C1


# Without a group


def test_before_the_first_answer_it_has_to_join():
    assert member.Member.fresh(V2).rejoin_needed
    assert not running(V2).rejoin_needed


@pytest.mark.parametrize("version", list(protocol.Protocol))
def test_a_member_that_lost_its_coordinator_gives_up_all_its_work(version):
    alone, stop = running(version).given_up()
    assert stop == C1
    assert alone.rejoin_needed
    assert alone.holding == work.NO_WORK
    assert alone.completed == 1
    for _, data in alone.metadata("http://w/", 4):
        assert protocol.decode_metadata(data).allocation is None
    assert alone.given_up() == (alone, work.NO_WORK)
