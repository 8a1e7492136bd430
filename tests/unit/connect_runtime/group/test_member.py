from __future__ import annotations

import math

import pytest

from connect_runtime.group import member_events
from connect_runtime.group.coordinator import GroupMembershipError
from connect_runtime.group.member_events import (
    AbandonAssignment,
    AssignmentsComputed,
    CloseRequested,
    ComputeAssignments,
    GroupRequestFailed,
    GroupResponseReceived,
    HeartbeatRequested,
    JoinPrepared,
    LeaveRequested,
    MemberInstruction,
    MembershipClosed,
    MembershipFailed,
    MemberTick,
    PollTimeoutExpired,
    RebalanceCompleted,
    RejoinRequested,
)
from connect_runtime.group.member_state import MemberState
from connect_runtime.protocol.request_builders import AnyNodeTarget, NodeTarget
from connect_runtime.protocol.request_errors import (
    AuthenticationFailed,
    ConnectionFailed,
    UnsupportedVersion,
)
from tests.fakes import group_answers, group_talk
from tests.fakes.group_talk import GroupTalk

State = MemberState
PrepareJoin, StopWork, SlowTick = (
    member_events.PrepareJoin,
    AbandonAssignment,
    PollTimeoutExpired,
)


@pytest.fixture
def talk() -> GroupTalk:
    return GroupTalk()


def kinds(told: list[MemberInstruction]) -> list[type]:
    return [type(each) for each in told]


# The way in


def test_a_member_finds_its_coordinator_prepares_joins_and_syncs(talk):
    assert talk.tell(MemberTick()) == []
    assert talk.sent["find_coordinator"].to == AnyNodeTarget()
    told = talk.answer("find_coordinator", group_answers.found(3))
    assert kinds(told) == [PrepareJoin]
    assert talk.prepare() == []
    join = talk.sent["join_group"]
    assert join.to == NodeTarget(3)
    assert join.timeout_s == 65.0
    entity = talk.entity("join_group")
    assert (entity.group_id, entity.member_id, entity.protocol_type) == ("g", "", "connect")
    assert [(each.name, each.metadata) for each in entity.protocols] == [*group_talk.PROTOCOLS]
    assert talk.answer("join_group", group_answers.joined(generation=7)) == []
    sync = talk.entity("sync_group")
    assert (sync.member_id, sync.generation_id, sync.assignments) == ("m1", 7, ())
    assert (sync.protocol_type, sync.protocol_name) == ("connect", "sessioned")
    (completed,) = talk.answer("sync_group", group_answers.synced(b"all of it"))
    assert completed == RebalanceCompleted(
        generation=7, member_id="m1", leader="m2", protocol="sessioned", assignment=b"all of it"
    )
    assert talk.state is State.STABLE
    assert talk.member.member_id == "m1"


def test_a_member_is_given_its_id_and_joins_with_it(talk):
    talk.find()
    told = talk.join(code=79, member_id="given", generation=-1, protocol=None, leader="")
    assert kinds(told) == [PrepareJoin]
    talk.prepare()
    assert talk.entity("join_group").member_id == "given"
    assert talk.notes[-1].startswith("group g: joining the group")
    talk.answer("join_group", group_answers.joined(member_id="given"))
    talk.answer("sync_group", group_answers.synced())
    assert talk.member.member_id == "given"


def test_a_leader_plans_for_all_and_beats_meanwhile(talk):
    talk.find()
    members = {"m1": b"own", "m2": b"other"}
    (plan,) = talk.join(leader="m1", members=members, generation=4)
    assert plan == ComputeAssignments(
        generation=4, member_id="m1", protocol="sessioned", members=members
    )
    assert talk.wait(3) == []
    assert talk.entity("heartbeat").generation_id == 4
    talk.answer("heartbeat", group_answers.beaten())
    talk.wait(3)
    assert "heartbeat" in talk.sent
    talk.tell(AssignmentsComputed(generation=4, assignments={"m1": b"a", "m2": b"b"}))
    sent = talk.entity("sync_group").assignments
    assert {each.member_id: each.assignment for each in sent} == {"m1": b"a", "m2": b"b"}
    (completed,) = talk.answer("sync_group", group_answers.synced(b"a"))
    assert completed.leader == completed.member_id == "m1"


def test_a_plan_for_a_round_that_is_over_is_dropped(talk):
    talk.find()
    talk.join(leader="m1", members={"m1": b""}, generation=4)
    talk.wait(3)
    talk.answer("heartbeat", group_answers.beaten(code=25))
    assert talk.tell(AssignmentsComputed(generation=4, assignments={"m1": b"a"})) == []
    assert "sync_group" not in talk.sent
    talk.join(leader="m1", members={"m1": b""}, generation=5)
    talk.tell(AssignmentsComputed(generation=4, assignments={"m1": b"old"}))
    assert "sync_group" not in talk.sent


def test_joins_and_heartbeats_take_different_connections(talk):
    talk.find().join()
    talk.wait(3)
    assert talk.sent["sync_group"].lane == member_events.JOIN_PURPOSE
    assert talk.sent["heartbeat"].lane == member_events.GROUP_PURPOSE


@pytest.mark.parametrize("code", [-1, 14, 15])
def test_a_coordinator_that_is_not_known_yet_is_asked_for_again_later(talk, code):
    talk.tell(MemberTick())
    assert talk.answer("find_coordinator", group_answers.found(code=code)) == []
    assert "find_coordinator" not in talk.sent
    talk.wait(0.2)
    assert "find_coordinator" in talk.sent
    talk.fail("find_coordinator")
    talk.wait(1)
    talk.answer("find_coordinator", group_answers.found())
    assert kinds(talk.told) == [PrepareJoin]


def test_a_broker_before_3_0_is_asked_in_the_old_way(talk):
    talk.tell(MemberTick())
    unknown = UnsupportedVersion(
        "find_coordinator", client_versions=(4, 6), broker_versions=(0, 3), address="b"
    )
    talk.fail("find_coordinator", unknown)
    assert talk.entity("find_coordinator").key == "g"
    talk.answer("find_coordinator", group_answers.found_by_an_old_broker(5))
    talk.prepare()
    assert talk.sent["join_group"].to == NodeTarget(5)


# Heartbeats and rounds


def test_heartbeats_go_on_every_three_seconds(talk):
    talk.stable()
    for _ in range(20):
        talk.wait(2.9)
        assert "heartbeat" not in talk.sent
        talk.wait(0.1)
        assert talk.entity("heartbeat").member_id == "m1"
        assert talk.answer("heartbeat", group_answers.beaten()) == []
    assert talk.state is State.STABLE


def test_a_heartbeat_answered_without_error_confirms_when_it_was_sent(talk):
    talk.stable().wait(1)
    talk.tell(HeartbeatRequested())
    sent_s = talk.now_s
    assert "heartbeat" in talk.sent, "somebody waits for it"
    talk.wait(0.5)
    talk.answer("heartbeat", group_answers.beaten())
    assert talk.member.heartbeat_timer.last_confirmed_s == sent_s
    talk.wait(3)
    talk.answer("heartbeat", group_answers.beaten(code=27))
    assert talk.member.heartbeat_timer.last_confirmed_s == sent_s, "27 confirms nothing"


def test_a_rebalance_is_noticed_by_the_heartbeat_and_beats_until_the_worker_is_ready(talk):
    talk.stable().wait(3)
    assert kinds(talk.answer("heartbeat", group_answers.beaten(code=27))) == [PrepareJoin]
    talk.wait(3)
    assert talk.answer("heartbeat", group_answers.beaten(code=27)) == []
    talk.prepare()
    assert talk.entity("join_group").member_id == "m1"
    assert talk.entity("join_group").reason == "the group is rebalancing"
    talk.wait(30)
    assert "heartbeat" not in talk.sent


def test_the_worker_may_ask_for_a_round_at_any_time(talk):
    talk.stable()
    assert kinds(talk.tell(RejoinRequested("new tasks"))) == [PrepareJoin]
    talk.prepare()
    assert talk.entity("join_group").reason == "new tasks"
    assert talk.tell(RejoinRequested("more tasks")) == []
    talk.answer("join_group", group_answers.joined(generation=2))
    told = talk.answer("sync_group", group_answers.synced())
    assert kinds(told) == [RebalanceCompleted, PrepareJoin]
    talk.prepare()
    assert talk.entity("join_group").reason == "more tasks"


def test_what_was_asked_for_before_the_metadata_was_sent_is_not_asked_for_twice(talk):
    talk.stable()
    talk.tell(RejoinRequested("one"))
    talk.tell(RejoinRequested("two"))
    talk.join(generation=2)
    told = talk.answer("sync_group", group_answers.synced())
    assert kinds(told) == [RebalanceCompleted]


@pytest.mark.parametrize(("code", "member_id"), [(22, "m1"), (25, "")])
def test_a_heartbeat_may_say_that_the_generation_or_the_member_is_gone(talk, code, member_id):
    talk.stable().wait(3)
    assert kinds(talk.answer("heartbeat", group_answers.beaten(code=code))) == [PrepareJoin]
    assert talk.state is State.UNJOINED
    assert talk.member.member_id == ""
    talk.prepare()
    assert talk.entity("join_group").member_id == member_id


@pytest.mark.parametrize("code", [-1, 14, 7])
def test_a_heartbeat_that_passes_without_an_answer_of_use_is_sent_again(talk, code):
    talk.stable().wait(3)
    assert talk.answer("heartbeat", group_answers.beaten(code=code)) == []
    talk.wait(0.2)
    assert talk.answer("heartbeat", group_answers.beaten()) == []
    assert talk.state is State.STABLE


def test_an_answer_to_a_heartbeat_of_an_older_round_says_nothing(talk):
    talk.stable().wait(3)
    late = talk.sent.pop("heartbeat")
    talk.tell(RejoinRequested("new tasks"))
    talk.join(generation=2)
    talk.answer("sync_group", group_answers.synced())
    for code in (22, 25, 27, 30):
        assert (
            talk.tell(GroupResponseReceived(token=late.token, body=group_answers.beaten(code=code)))
            == []
        )
    assert talk.state is State.STABLE


@pytest.mark.parametrize(("code", "member_id"), [(22, "m1"), (25, ""), (27, "m1")])
def test_a_sync_may_say_that_the_round_is_over(talk, code, member_id):
    talk.find().join()
    assert kinds(talk.answer("sync_group", group_answers.synced(b"", code=code))) == [PrepareJoin]
    talk.prepare()
    assert talk.entity("join_group").member_id == member_id


@pytest.mark.parametrize("code", [25, 27])
def test_a_refused_join_is_tried_again_at_once(talk, code):
    talk.find()
    assert kinds(talk.join(code=code)) == [PrepareJoin]


def test_a_join_to_a_coordinator_that_is_loading_is_tried_again_later(talk):
    talk.find()
    assert talk.join(code=14) == []
    assert kinds(talk.wait(0.2)) == [PrepareJoin]


# The coordinator moves


@pytest.mark.parametrize("code", [15, 16])
def test_a_coordinator_that_moved_is_looked_for_at_once(talk, code):
    talk.stable().wait(3)
    assert talk.answer("heartbeat", group_answers.beaten(code=code)) == []
    assert talk.answer("find_coordinator", group_answers.found(2)) == []
    assert talk.sent["heartbeat"].to == NodeTarget(2)
    talk.answer("heartbeat", group_answers.beaten())
    assert talk.state is State.STABLE
    assert talk.wait(2.9) == []


@pytest.mark.parametrize("code", [15, 16])
@pytest.mark.parametrize("api", ["join_group", "sync_group"])
def test_a_round_begins_again_with_the_new_coordinator(talk, api, code):
    talk.find()
    if api == "join_group":
        talk.join(code=code)
    else:
        talk.join()
        talk.answer(api, group_answers.synced(b"", code=code))
    talk.answer("find_coordinator", group_answers.found(2))
    assert kinds(talk.wait(0.2))[-1:] == [PrepareJoin]
    talk.prepare()
    assert talk.sent["join_group"].to == NodeTarget(2)


@pytest.mark.parametrize("api", ["join_group", "sync_group"])
def test_a_broken_connection_ends_the_round(talk, api):
    talk.find()
    talk.prepare()
    if api == "sync_group":
        talk.answer("join_group", group_answers.joined())
    talk.fail(api)
    assert talk.state is State.UNJOINED
    assert "find_coordinator" in talk.sent


def test_a_worker_that_is_ready_when_the_coordinator_is_gone_is_asked_again(talk):
    talk.find()
    talk.tell(MemberTick())
    talk.member.coordinator_lookup.on_coordinator_lost(talk.now_s)
    talk.prepare()
    assert "join_group" not in talk.sent
    told = talk.answer("find_coordinator", group_answers.found(2))
    assert kinds(told) == [PrepareJoin]


# KAFKA-9184


def lose(talk: GroupTalk) -> None:
    talk.wait(3)
    talk.answer("heartbeat", group_answers.beaten(code=16))


def test_work_stops_when_no_coordinator_is_found_for_a_heartbeats_time(talk):
    lose(talk.stable())
    for _ in range(3):
        talk.answer("find_coordinator", group_answers.found(code=15))
        assert talk.wait(0.9) == []
    assert kinds(talk.wait(0.4)) == [StopWork]
    assert talk.wait(60) == [], "told once"
    told = talk.answer("find_coordinator", group_answers.found(2))
    assert told == []
    assert kinds(talk.answer("heartbeat", group_answers.beaten())) == [PrepareJoin]
    talk.prepare()
    assert talk.entity("join_group").member_id == "m1"
    assert "stopped" in talk.entity("join_group").reason


def test_a_coordinator_that_is_named_and_never_answers_is_not_found(talk):
    lose(talk.stable())
    told = []
    for _ in range(12):
        if "find_coordinator" in talk.sent:
            told += talk.answer("find_coordinator", group_answers.found(2))
        if "heartbeat" in talk.sent:
            told += talk.fail("heartbeat")
        told += talk.wait(0.5)
    assert kinds(told) == [StopWork]


@pytest.mark.parametrize(
    ("away_s", "delay_s", "told"),
    [
        (14, 5.0, [PrepareJoin]),
        (16, 5.0, [StopWork, PrepareJoin]),
        (16, 300.0, [PrepareJoin]),
        (90, 300.0, [PrepareJoin]),
        (90, 60.0, [StopWork, PrepareJoin]),
        (9, None, [PrepareJoin]),
        (11, None, [StopWork, PrepareJoin]),
    ],
)
def test_who_was_away_for_longer_than_its_work_is_kept_for_it_ends_it_before_it_joins(
    away_s, delay_s, told
):
    """A process that stood still, as long as its session and the delay for lost workers; a leader's
    (None) is not kept."""
    if delay_s is None:
        talk = GroupTalk(rebalance_delay_s=300.0).find()
        talk.join(leader="m1")
        talk.tell(
            AssignmentsComputed(generation=talk.member.generation.number, assignments={"m1": b""})
        )
        talk.answer("sync_group", group_answers.synced(b"work"))
        if "heartbeat" in talk.sent:
            talk.answer("heartbeat", group_answers.beaten())
    else:
        talk = GroupTalk(rebalance_delay_s=delay_s).stable()
    talk.now_s += away_s
    said = talk.tell(MemberTick())
    if "find_coordinator" in talk.sent:
        said += talk.answer("find_coordinator", group_answers.found(1))
    if "heartbeat" in talk.sent:
        said += talk.answer("heartbeat", group_answers.beaten(code=25))
    said += talk.wait(0.2)
    assert [each for each in kinds(said) if each in (StopWork, PrepareJoin)] == told
    talk.prepare()
    back = talk.answer("join_group", group_answers.joined(code=25)) + talk.wait(0.2)
    assert kinds(back) == [PrepareJoin], "it is stopped once"


def test_work_goes_on_when_the_coordinator_is_back_in_time(talk):
    lose(talk.stable())
    talk.wait(2.9)
    talk.answer("find_coordinator", group_answers.found(2))
    talk.answer("heartbeat", group_answers.beaten())
    assert talk.wait(2.9) == []


def test_a_member_without_work_has_none_to_stop(talk):
    talk.find().join(code=16)
    assert talk.wait(60) == []


def test_work_does_not_stop_while_the_group_holds_a_join_back(talk):
    talk.stable().wait(3)
    talk.answer("heartbeat", group_answers.beaten(code=25))
    talk.prepare()
    talk.fail("join_group")
    talk.answer("find_coordinator", group_answers.found(2))
    assert kinds(talk.wait(0.2)) == [PrepareJoin]
    talk.prepare()
    assert talk.wait(50) == []
    assert kinds(talk.fail("join_group")) == [StopWork]


def test_a_coordinator_that_says_nothing_for_a_session_is_lost(talk):
    talk.stable().wait(3)
    assert talk.wait(6.9) == []
    assert "find_coordinator" not in talk.sent
    assert talk.wait(0.1) == []
    assert "find_coordinator" in talk.sent
    assert kinds(talk.wait(3)) == [StopWork]


# A worker that is stuck


def test_a_worker_that_does_not_come_round_leaves_the_group(talk):
    talk.stable()
    for _ in range(19):
        talk.wait(3, ticking=False)
        talk.answer("heartbeat", group_answers.beaten())
    told = talk.wait(3, ticking=False)
    assert kinds(told) == [SlowTick, PrepareJoin]
    (leaving,) = talk.entity("leave_group").members
    assert leaving.member_id == "m1"
    assert "60 s" in leaving.reason
    assert talk.state is State.UNJOINED
    assert talk.wait(600, ticking=False) == []
    talk.prepare()
    assert talk.entity("join_group").member_id == ""


def test_a_worker_that_comes_round_stays(talk):
    talk.stable()
    for _ in range(60):
        talk.wait(3)
        talk.answer("heartbeat", group_answers.beaten())
    assert kinds(talk.told) == [PrepareJoin, RebalanceCompleted]


def test_a_plan_that_takes_too_long_leaves_the_group(talk):
    talk.find()
    talk.join(leader="m1", members={"m1": b""})
    told = []
    for _ in range(21):
        talk.answer("heartbeat", group_answers.beaten()) if "heartbeat" in talk.sent else None
        told += talk.wait(3, ticking=False)
    assert kinds(told) == [SlowTick, PrepareJoin]


# Leaving


def test_a_member_that_was_asked_to_leave_stays_out_until_it_is_asked_to_join(talk):
    talk.stable()
    assert talk.tell(LeaveRequested("cannot read the config topic")) == []
    assert talk.entity("leave_group").members[0].reason == "cannot read the config topic"
    assert talk.state is State.LEFT
    assert talk.member.get_next_tick_s() == math.inf
    talk.answer("leave_group", group_answers.left())
    assert talk.wait(200) == []
    assert kinds(talk.tell(RejoinRequested("read it"))) == [PrepareJoin]
    talk.prepare()
    assert talk.entity("join_group").member_id == ""


def test_a_member_that_left_while_it_searched_searches_again(talk):
    talk.tell(MemberTick())
    talk.tell(LeaveRequested("no"))
    late = talk.sent.pop("find_coordinator")
    talk.tell(RejoinRequested("yes"))
    assert talk.sent["find_coordinator"].token != late.token
    assert talk.tell(GroupResponseReceived(token=late.token, body=group_answers.found())) == []


@pytest.mark.parametrize("answered", [True, False])
def test_closing_says_goodbye_and_ends(talk, answered):
    talk.stable()
    assert talk.tell(CloseRequested("shutdown")) == []
    assert talk.state is State.CLOSING
    assert talk.entity("leave_group").members[0].member_id == "m1"
    told = (
        talk.answer("leave_group", group_answers.left(code=25))
        if answered
        else talk.fail("leave_group")
    )
    assert told == [MembershipClosed()]
    assert talk.wait(100) == []
    assert talk.tell(CloseRequested("again")) == []


def test_closing_before_anything_was_joined_is_over_at_once(talk):
    talk.tell(MemberTick())
    assert talk.tell(CloseRequested("shutdown")) == [MembershipClosed()]
    assert talk.answer("find_coordinator", group_answers.found()) == []


def test_closing_does_not_wait_for_the_join_that_is_held_back(talk):
    talk.stable()
    talk.tell(RejoinRequested("new tasks"))
    talk.prepare()
    talk.tell(CloseRequested("shutdown"))
    assert talk.sent["leave_group"].lane != talk.sent["join_group"].lane
    assert talk.answer("join_group", group_answers.joined(code=25)) == []
    assert talk.answer("leave_group", group_answers.left()) == [MembershipClosed()]


# What cannot be mended by waiting


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (23, "choose another group.id"),
        (24, "group.id must not be empty"),
        (26, "group.min.session.timeout.ms"),
        (30, "the principal needs READ permission on the group"),
        (35, "UNSUPPORTED_VERSION"),
        (81, "group.max.size"),
        (82, "FENCED_INSTANCE_ID"),
        (29, "check the broker's log"),
    ],
)
def test_a_join_that_cannot_succeed_fails_with_what_to_do(talk, code, said):
    talk.find()
    (failed,) = talk.join(code=code)
    assert isinstance(failed.error, GroupMembershipError)
    assert failed.error.error_code == code
    assert "group g: joining the group" in str(failed.error)
    assert said in str(failed.error)
    assert talk.state is State.FAILED
    assert talk.wait(600) == []
    assert talk.tell(RejoinRequested("please")) == []


def test_assignments_that_the_broker_cannot_store_are_an_error_and_tried_again(talk):
    """A member with large metadata must not end every other member of the group."""
    talk.find().join()
    assert kinds(talk.answer("sync_group", group_answers.synced(b"", code=-1))) == []
    assert kinds(talk.wait(0.2)) == [PrepareJoin]
    told = "group g: syncing the group failed: UNKNOWN_SERVER_ERROR (-1); check the broker's log"
    assert any(each.startswith(told) for each in talk.errors)


@pytest.mark.parametrize("code", [30, 82])
def test_a_sync_that_cannot_succeed_fails(talk, code):
    talk.find().join()
    assert kinds(talk.answer("sync_group", group_answers.synced(b"", code=code))) == [
        MembershipFailed
    ]


@pytest.mark.parametrize("code", [30, 82])
def test_a_heartbeat_without_the_right_to_it_fails(talk, code):
    talk.stable().wait(3)
    assert kinds(talk.answer("heartbeat", group_answers.beaten(code=code))) == [MembershipFailed]


def test_a_coordinator_that_may_not_be_asked_for_fails(talk):
    talk.tell(MemberTick())
    told = talk.answer("find_coordinator", group_answers.found(code=30))
    assert kinds(told) == [MembershipFailed]


def test_a_refused_login_fails_as_it_is(talk):
    talk.find()
    talk.prepare()
    refused = AuthenticationFailed("b:1", "wrong password")
    assert talk.fail("join_group", refused) == [MembershipFailed(refused)]
    assert talk.tell(CloseRequested("end")) == [MembershipClosed()]


@pytest.mark.parametrize(
    ("joined", "synced"),
    [
        ({"protocol_type": "consumer"}, {}),
        ({}, {"protocol_type": "consumer"}),
        ({}, {"protocol": "default"}),
    ],
)
def test_a_group_of_another_kind_fails(talk, joined, synced):
    talk.find()
    told = talk.join(**joined)
    if not told:
        told = talk.answer("sync_group", group_answers.synced(**synced))
    assert kinds(told) == [MembershipFailed]
    assert "expected" in str(told[0].error)


@pytest.mark.parametrize("field", [{"protocol_type": None}, {}])
def test_brokers_that_do_not_name_the_kind_of_group_are_believed(talk, field):
    talk.find().join(**field)
    told = talk.answer("sync_group", group_answers.synced(protocol=None, protocol_type=None))
    assert kinds(told) == [RebalanceCompleted]


def test_answers_to_nothing_are_not_heard(talk):
    talk.stable()
    for token in (0, 999):
        assert talk.tell(GroupResponseReceived(token=token, body=None)) == []
        gone = ConnectionFailed("b", "x")
        assert talk.tell(GroupRequestFailed(token=token, failure=gone)) == []
        assert talk.tell(JoinPrepared(token=token, protocols=())) == []
    assert talk.state is State.STABLE
