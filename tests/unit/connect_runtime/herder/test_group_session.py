from __future__ import annotations

import random
from typing import Any

import pytest

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connect_protocol, connectors_and_tasks
from connect_runtime.group.assignor import AssignorState
from connect_runtime.group.connect_protocol import (
    ConnectAssignment,
    ConnectProtocol,
    WorkerMetadata,
)
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.group.leader_assignment import AssignmentOwners, LeaderAssignments
from connect_runtime.group.member_events import (
    GroupRequestFailed,
    GroupResponseReceived,
    MemberEvent,
    MemberTick,
    SendGroupRequest,
    WorkerLoopTicked,
)
from connect_runtime.group.member_state import GroupRebalanceConfig
from connect_runtime.herder.group_session import (
    AssignmentRequested,
    GroupSession,
    GroupSessionFailed,
    GroupSessionSettings,
)
from connect_runtime.herder.herder_events import AssignmentReceived, CoordinatorLost, JoinRequested
from connect_runtime.protocol.request_errors import ConnectionFailed
from tests.fakes import group_answers

T0, T1 = ConnectorTaskId("c", 0), ConnectorTaskId("c", 1)
EAGER = ConnectProtocol.EAGER


class Worker:
    """A participation whose coordinator is the test."""

    def __init__(self, offers: ConnectProtocol = ConnectProtocol.SESSIONED) -> None:
        options = GroupSessionSettings(
            membership=GroupRebalanceConfig(group_id="g"), url="http://me/", protocol=offers
        )
        self.configured = ConfiguredWork(offset=5, task_counts={"c": 2})
        self.part = GroupSession(
            options, rng=random.Random(1), read_configured_work=lambda: self.configured
        )
        self.now_s = 100.0
        self.sent: dict[str, SendGroupRequest] = {}
        self.plans: list[AssignmentRequested] = []

    def collect(self) -> None:
        for each in self.part.pop_actions():
            match each:
                case SendGroupRequest():
                    self.sent[each.message.api] = each
                case AssignmentRequested():
                    self.plans.append(each)

    def tell(self, event: MemberEvent) -> None:
        self.part.handle_event(event, self.now_s)
        self.collect()

    def answer(self, api: str, body: Any) -> None:
        self.collect()
        self.tell(GroupResponseReceived(token=self.sent.pop(api).token, body=body))

    def wait(self, seconds: float) -> None:
        """Nobody answers anything meanwhile."""
        end_s = self.now_s + seconds
        while self.part.get_next_tick_s() <= end_s:
            self.now_s = max(self.now_s, self.part.get_next_tick_s())
            self.tell(WorkerLoopTicked())
            gone = ConnectionFailed("broker:9092", "refused")
            for api in list(self.sent):
                self.tell(GroupRequestFailed(token=self.sent.pop(api).token, failure=gone))
        self.now_s = end_s

    def asked(self) -> Worker:
        self.tell(MemberTick())
        self.answer("find_coordinator", group_answers.found())
        return self

    def round(self, assignment: bytes, *, speaks: str = "sessioned", generation: int = 1) -> None:
        self.part.confirm_join_prepared(self.now_s)
        self.answer("join_group", group_answers.joined(generation=generation, protocol=speaks))
        self.answer("sync_group", group_answers.synced(assignment, protocol=speaks))

    def metadata(self) -> WorkerMetadata:
        """What the join says that was sent last."""
        self.collect()
        entity = self.sent["join_group"].message.build_request_message(9)
        return connect_protocol.decode_metadata(entity.protocols[0].metadata)


def assignment(
    *tasks: ConnectorTaskId,
    speaks: ConnectProtocol = ConnectProtocol.SESSIONED,
    **more: Any,
) -> bytes:
    told = ConnectAssignment(
        leader="m2",
        leader_url="http://other/",
        config_offset=5,
        assigned=ConnectorsAndTasks(tasks=tasks),
        **more,
    )
    return connect_protocol.encode_assignment(told, speaks)


def holding_both() -> Worker:
    worker = Worker().asked()
    worker.part.pop_events()
    worker.round(assignment(T0, T1))
    return worker


def test_it_is_asked_joins_and_hears_what_it_is_to_run():
    worker = Worker().asked()
    assert worker.part.pop_events() == [JoinRequested(connectors_and_tasks.NO_WORK)]
    worker.part.confirm_join_prepared(worker.now_s)
    assert worker.metadata() == WorkerMetadata(url="http://me/", config_offset=5)
    worker.answer("join_group", group_answers.joined(generation=7))
    worker.answer("sync_group", group_answers.synced(assignment(T0)))
    (told,) = worker.part.pop_events()
    assert isinstance(told, AssignmentReceived)
    assert (told.generation, told.protocol) == (7, ConnectProtocol.SESSIONED)
    assert told.assignment.assigned.tasks == (T0,)
    assert told.assignment.leader_url == "http://other/"
    assert (told.is_leader, told.owners, told.items_to_stop) == (
        False,
        None,
        connectors_and_tasks.NO_WORK,
    )
    assert worker.part.member_id == "m1"
    assert worker.part.assigned_work.tasks == (T0,)


def test_who_leads_is_asked_for_a_plan_and_hears_who_owns_what():
    worker = Worker().asked()
    worker.part.pop_events()
    worker.part.confirm_join_prepared(worker.now_s)
    metadata = connect_protocol.encode_metadata(worker.metadata(), ConnectProtocol.SESSIONED)
    worker.answer("join_group", group_answers.joined(leader="m1", members={"m1": metadata}))
    (asked,) = worker.plans
    assert asked.joined_with == worker.configured
    assert (asked.election.leader, asked.election.last_completed) == ("m1", -1)
    owners = AssignmentOwners(urls={"m1": "http://me/"}, members={"c": "m1"})
    lead = LeaderAssignments(
        assignments={"m1": assignment()},
        state=AssignorState(),
        owners=owners,
        configured=worker.configured,
    )
    worker.part.submit_assignments(1, lead, worker.now_s)
    worker.answer("sync_group", group_answers.synced(assignment()))
    (told,) = worker.part.pop_events()
    assert (told.is_leader, told.owners) == (True, owners)


def test_what_is_revoked_is_to_stop_and_is_not_reported_any_more():
    worker = holding_both()
    worker.part.pop_events()
    worker.part.rejoin_group("why not", worker.now_s)
    assert worker.part.pop_events() == [JoinRequested(connectors_and_tasks.NO_WORK)]
    worker.round(assignment(revoked=ConnectorsAndTasks(tasks=(T1,))), generation=2)
    (told,) = worker.part.pop_events()
    assert told.items_to_stop == told.assignment.revoked == ConnectorsAndTasks(tasks=(T1,))
    assert told.assignment.assigned.tasks == (T0,)
    worker.part.rejoin_group("it has stopped", worker.now_s)
    worker.part.pop_events()
    worker.part.confirm_join_prepared(worker.now_s)
    assert worker.metadata().reported_work.tasks == (T0,)


def test_eager_workers_stop_all_before_they_join():
    worker = Worker(EAGER).asked()
    worker.part.pop_events()
    worker.round(assignment(T0, speaks=EAGER), speaks="default")
    worker.part.pop_events()
    worker.part.rejoin_group("why not", worker.now_s)
    assert worker.part.pop_events() == [JoinRequested(ConnectorsAndTasks(tasks=(T0,)))]


def test_who_is_left_out_goes_on_in_step_with_what_it_knows():
    """Else it would join again and again to get into step with offset -1."""
    worker = holding_both()
    worker.part.pop_events()
    worker.part.rejoin_group("why not", worker.now_s)
    worker.part.pop_events()
    worker.round(b"", generation=2)
    (told,) = worker.part.pop_events()
    assert told.assignment.config_offset == 5
    assert told.assignment.leader_url == ""
    assert told.assignment.assigned.tasks == (T0, T1)
    assert told.items_to_stop == connectors_and_tasks.NO_WORK


def test_nothing_is_joined_before_the_herder_was_asked_and_answered():
    worker = Worker().asked()
    worker.part.confirm_join_prepared(worker.now_s)
    worker.collect()
    assert "join_group" not in worker.sent, "the herder has not taken the question"
    worker.part.pop_events()
    worker.part.confirm_join_prepared(worker.now_s)
    worker.collect()
    del worker.sent["join_group"]
    worker.part.confirm_join_prepared(worker.now_s)
    worker.collect()
    assert "join_group" not in worker.sent, "one answer is enough"


def test_without_a_coordinator_all_work_is_lost_and_the_question_asked_again():
    worker = holding_both()
    worker.part.pop_events()
    worker.part.rejoin_group("why not", worker.now_s)
    assert worker.part.pop_events() == [JoinRequested(connectors_and_tasks.NO_WORK)]
    worker.wait(30.0)
    worker.part.confirm_join_prepared(worker.now_s)  # said before the loss was heard
    lost, asked = worker.part.pop_events()
    assert isinstance(lost, CoordinatorLost)
    assert asked == JoinRequested(connectors_and_tasks.NO_WORK)
    assert worker.part.assigned_work == connectors_and_tasks.NO_WORK
    worker.now_s += 2.0  # as long as it may wait before it asks again
    worker.asked().answer("heartbeat", group_answers.beaten())
    worker.part.confirm_join_prepared(worker.now_s)
    assert worker.metadata().allocation is None


def test_who_leaves_forgets_a_round_that_it_has_not_heard_of():
    worker = holding_both()
    worker.part.pop_events()
    worker.part.rejoin_group("why not", worker.now_s)
    worker.part.pop_events()
    worker.round(assignment(revoked=ConnectorsAndTasks(tasks=(T1,))), generation=2)
    worker.part.leave_group("cannot read", worker.now_s)
    assert worker.part.pop_events() == []
    assert worker.part.assigned_work.tasks == (T0, T1), "it runs both"
    worker.part.rejoin_group("can read", worker.now_s)
    worker.part.pop_events()
    worker.part.confirm_join_prepared(worker.now_s)
    assert worker.metadata().reported_work.tasks == (T0, T1)


def test_who_gave_its_work_up_says_so():
    worker = holding_both()
    worker.part.pop_events()
    worker.part.revoke_all_work()
    worker.part.leave_group("cannot read", worker.now_s)
    worker.part.rejoin_group("can read", worker.now_s)
    worker.part.pop_events()
    worker.part.confirm_join_prepared(worker.now_s)
    assert worker.metadata().allocation is None


def test_an_assignment_that_is_none_ends_it():
    worker = Worker().asked()
    worker.part.pop_events()
    worker.round(b"\x00")
    (failed,) = worker.part.pop_events()
    assert isinstance(failed, GroupSessionFailed)
    assert "leader m2 sent an invalid assignment" in str(failed.error)
    assert "leave_group" in worker.sent
    worker.answer("leave_group", group_answers.left())
    assert worker.part.is_closed


def test_what_the_group_refuses_ends_it():
    worker = Worker().asked()
    worker.part.pop_events()
    worker.part.confirm_join_prepared(worker.now_s)
    worker.answer("join_group", group_answers.joined(code=30))
    (failed,) = worker.part.pop_events()
    assert isinstance(failed, GroupSessionFailed)
    assert "GROUP_AUTHORIZATION_FAILED" in str(failed.error)


@pytest.mark.parametrize("joined", [True, False])
def test_who_closes_hears_nothing_more(joined):
    worker = holding_both() if joined else Worker().asked()
    worker.part.close("enough", worker.now_s)
    worker.collect()
    assert worker.part.pop_events() == []
    assert worker.part.is_closed is not joined
    if joined:
        worker.answer("leave_group", group_answers.left())
    assert worker.part.is_closed
    worker.part.rejoin_group("no", worker.now_s)
    worker.part.confirm_join_prepared(worker.now_s)
    worker.part.leave_group("no", worker.now_s)
    assert worker.part.pop_events() == []
