"""A group member as a state machine: find the coordinator, join, sync, send heartbeats, leave.

The state machine is independent of the group's purpose: metadata and assignments are bytes (Java:
AbstractCoordinator, and the membership parts of WorkerCoordinator). Every event has a time in
monotonic seconds. The caller executes the instructions that `process_event` returns, in order, and
calls `process_event` again with their outcome, or at `get_next_tick_s`.
"""

from __future__ import annotations

import math
import random
from typing import Any

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import FatalError
from connect_runtime.group import coordinator, member_state
from connect_runtime.group.coordinator import (
    CoordinatorErrorAction,
    CoordinatorLookup,
    GroupMembershipError,
)
from connect_runtime.group.group_membership_requests import MemberInstructionCollector
from connect_runtime.group.heartbeat import HeartbeatTimer
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
    MemberEvent,
    MemberInstruction,
    MembershipClosed,
    MembershipFailed,
    PollTimeoutExpired,
    RebalanceCompleted,
    RejoinRequested,
    WorkerLoopTicked,
)
from connect_runtime.group.member_state import GroupGeneration, GroupRebalanceConfig, MemberState
from connect_runtime.protocol import request_errors
from connect_runtime.protocol.request_errors import UnsupportedVersion


class GroupMember:
    """Membership in one group.

    Invariants: heartbeats are sent only in SYNCING and STABLE. A JoinGroup is in flight only in
    JOINING, and a SyncGroup only in SYNCING.
    """

    def __init__(self, options: GroupRebalanceConfig, *, rng: random.Random) -> None:
        self.state = MemberState.UNJOINED
        self.coordinator_lookup = CoordinatorLookup(settings=options, rng=rng)
        self.heartbeat_timer = HeartbeatTimer(settings=options, rng=rng)
        self._out = MemberInstructionCollector(
            settings=options, coordinator_lookup=self.coordinator_lookup
        )
        self._options = options
        self._rng = rng
        self._retry = Backoff(initial_s=options.retry_backoff_s, max_s=options.retry_backoff_max_s)
        self._rejoin_reason: str | None = "the worker starts"
        self._preparing: int | None = None
        self._join_not_before_s = -math.inf
        self._round_token: int | None = None
        self._heartbeat_token: int | None = None
        self._leave_token: int | None = None
        self._leader = ""
        self._is_leader = False
        self._has_work = False

    # public

    def process_event(self, event: MemberEvent, *, now_s: float) -> list[MemberInstruction]:
        """Process an event, and return the instructions to execute."""
        self._handle_event(event, now_s)
        if self.state in member_state.ACTIVE_STATES:
            self._perform_due_actions(now_s)
        return self._out.pop_instructions()

    def get_next_tick_s(self) -> float:
        """Return the time at which `MemberTick` must be sent if no other event occurs; inf if
        none is needed."""
        if self.state not in member_state.ACTIVE_STATES:
            return math.inf
        join_s = self._join_not_before_s if self._may_prepare_join else math.inf
        return min(
            self.heartbeat_timer.get_earliest_deadline_s(),
            self.coordinator_lookup.compute_next_lookup_time_s(),
            self._coordinator_timeout_s,
            join_s,
        )

    @property
    def generation(self) -> GroupGeneration:
        """The group generation of this member; while it is rejoining, its last generation."""
        return self._out.generation

    @property
    def member_id(self) -> str:
        """Member id in the current generation; "" unless this member has received its assignment
        and is in the state STABLE."""
        return self.generation.member_id if self.state is MemberState.STABLE else ""

    def check_invariants(self) -> None:
        self.heartbeat_timer.check_invariants()
        self.coordinator_lookup.check_invariants()
        assert self.heartbeat_timer.is_active == (self.state in member_state.IN_GROUP_STATES), (
            self.state
        )
        assert self.heartbeat_timer.in_flight == (self._heartbeat_token is not None), self.state
        assert self.state is not MemberState.JOINING or self._round_token is not None
        assert self.state in member_state.REBALANCING_STATES or self._round_token is None, (
            self.state
        )
        assert self.state not in member_state.IN_GROUP_STATES or self.generation.member_id, (
            self.generation
        )
        assert (self.state is MemberState.CLOSING) == (self._leave_token is not None), self.state

    # events

    def _handle_event(self, event: MemberEvent, now_s: float) -> None:
        match event:
            case CloseRequested(reason):
                self._begin_closing(reason)
            case GroupResponseReceived() | GroupRequestFailed() if event.token == self._leave_token:
                self._leave_token = None
                self._finish_closing()
            case RejoinRequested(reason) if self.state is MemberState.LEFT:
                self._rejoin_reason, self.state = reason, MemberState.UNJOINED
            case _ if self.state in member_state.ACTIVE_STATES:
                self._handle_event_while_active(event, now_s)

    def _handle_event_while_active(self, event: MemberEvent, now_s: float) -> None:
        match event:
            case WorkerLoopTicked():
                self.heartbeat_timer.on_loop_tick(now_s)
            case HeartbeatRequested():
                self.heartbeat_timer.request_heartbeat_now(now_s)
            case RejoinRequested(reason):
                self._rejoin_reason = reason
            case LeaveRequested(reason):
                self._leave_group(reason)
                self.coordinator_lookup.pending_token = None  # ignore its response
                self.state = MemberState.LEFT
            case JoinPrepared() if event.token == self._preparing:
                self._preparing = None
                self._send_join_group(event.protocols)
            case AssignmentsComputed() if (
                self._is_waiting_for_leader_assignments
                and event.generation == self.generation.number
            ):
                self._round_token = self._out.send_sync_group(event.assignments)
            case GroupResponseReceived():
                self._handle_response(event, now_s)
            case GroupRequestFailed():
                self._handle_request_failure(event, now_s)

    def _handle_response(self, event: GroupResponseReceived, now_s: float) -> None:
        if event.token == self.coordinator_lookup.pending_token:
            self._on_coordinator_found(event.body, now_s)
        elif event.token == self._heartbeat_token:
            self._heartbeat_token = None
            self._on_heartbeat_response(int(event.body.error_code), now_s)
        elif event.token == self._round_token:
            self._round_token = None
            if self.state is MemberState.JOINING:
                self._on_join_response(event.body, now_s)
            else:
                self._on_sync_response(event.body, now_s)

    def _handle_request_failure(self, event: GroupRequestFailed, now_s: float) -> None:
        searching = event.token == self.coordinator_lookup.pending_token
        if event.token not in {
            self.coordinator_lookup.pending_token,
            self._heartbeat_token,
            self._round_token,
        }:
            return
        unknown_question = isinstance(event.failure, UnsupportedVersion)
        if searching and unknown_question and not self.coordinator_lookup.looks_up_single_groups:
            self.coordinator_lookup.switch_to_single_group_lookups()
        elif isinstance(event.failure, FatalError):
            self._fail_membership(event.failure)
        elif searching:
            self.coordinator_lookup.on_lookup_failed(now_s)
        else:
            self._handle_coordinator_loss(str(event.failure), now_s)

    # due actions

    @property
    def _is_waiting_for_leader_assignments(self) -> bool:
        """True if this member is the leader and has not yet computed the generation's
        assignments."""
        return self.state is MemberState.SYNCING and self._round_token is None

    @property
    def _may_send_join(self) -> bool:
        """True if a JoinGroup request can be sent.

        A member that has lost its coordinator first waits for a response to a heartbeat. A
        JoinGroup request to an unresponsive coordinator would time out much later than a heartbeat.
        """
        answers = self.coordinator_lookup.lost_since_s is None or not self.heartbeat_timer.is_active
        waits = (
            self.state in {MemberState.UNJOINED, MemberState.STABLE}
            and self._rejoin_reason is not None
        )
        return waits and answers and self.coordinator_lookup.node is not None

    @property
    def _may_prepare_join(self) -> bool:
        return self._may_send_join and self._preparing is None

    @property
    def _coordinator_timeout_s(self) -> float:
        """Time at which to stop all work if no coordinator has been found; inf if there is no
        work to stop."""
        waits = self._has_work and self.state is not MemberState.JOINING
        return self.coordinator_lookup.work_stop_deadline_s if waits else math.inf

    def _perform_due_actions(self, now_s: float) -> None:
        if now_s >= self.heartbeat_timer.loop_deadline_s:
            self._leave_after_poll_timeout()
        if now_s >= self.heartbeat_timer.session_deadline_s:
            timeout_s = self._options.session_timeout_s
            self._handle_coordinator_loss(f"no response to heartbeats for {timeout_s:g} s", now_s)
        if now_s >= self._coordinator_timeout_s:
            self._stop_work("the group's coordinator was unavailable for too long")
        if now_s >= self.coordinator_lookup.compute_next_lookup_time_s():
            self.coordinator_lookup.pending_token = self._out.send_find_coordinator()
        if self._may_prepare_join and now_s >= self._join_not_before_s:
            if self._has_work and now_s >= self.heartbeat_timer.compute_reassignment_time_s(
                was_leader=self._is_leader
            ):
                self._stop_work(
                    "the group may already have assigned this worker's connectors and tasks to "
                    "other workers"
                )
            self._preparing = self._out.request_join_preparation()
        if now_s >= self.heartbeat_timer.next_heartbeat_s:
            self.heartbeat_timer.on_heartbeat_sent(now_s)
            self._heartbeat_token = self._out.send_heartbeat()

    def _leave_after_poll_timeout(self) -> None:
        limit_s = self._options.rebalance_timeout_s
        reason = f"the worker loop did not respond within {limit_s:g} s"
        self._out.add_instruction(PollTimeoutExpired(reason))
        self._leave_group(reason)
        self._rejoin_reason = reason

    def _stop_work(self, reason: str) -> None:
        self._has_work = False
        self._rejoin_reason = f"stopped all work: {reason}"
        self._out.add_instruction(AbandonAssignment(reason))

    # the coordinator

    def _on_coordinator_found(self, body: Any, now_s: float) -> None:
        (answer, *_) = getattr(body, "coordinators", ()) or (body,)
        code = int(getattr(answer, "error_code", -1))
        match coordinator.classify_lookup_error(code):
            case CoordinatorErrorAction.NONE:
                self.coordinator_lookup.on_coordinator_found(int(answer.node_id))
                self.heartbeat_timer.resume(now_s)
                self._out.add_log_line(f"broker {self.coordinator_lookup.node} is the coordinator")
            case CoordinatorErrorAction.RETRY_LATER:
                self.coordinator_lookup.on_lookup_failed(now_s)
            case _:
                self._fail_with_error_code("finding the coordinator", code)

    def _handle_coordinator_loss(self, reason: str, now_s: float) -> None:
        if self.coordinator_lookup.node is not None:
            self._out.add_log_line(
                f"broker {self.coordinator_lookup.node} is no longer the coordinator: {reason}"
            )
        self.coordinator_lookup.on_coordinator_lost(now_s)
        self.heartbeat_timer.pause()
        self._heartbeat_token = None
        if self.state in member_state.REBALANCING_STATES:
            self._reset_membership(reason)
            self._postpone_join(now_s)

    # rebalances

    def _send_join_group(self, protocols: tuple[tuple[str, bytes], ...]) -> None:
        if not self._may_send_join:
            return  # repeated when there is a coordinator
        self._out.add_log_line(f"joining the group ({self._rejoin_reason})")
        self._stop_heartbeats(MemberState.JOINING)
        self._round_token = self._out.send_join_group(protocols, reason=self._rejoin_reason or "")
        self._rejoin_reason = None

    def _on_join_response(self, body: Any, now_s: float) -> None:
        code = int(body.error_code)
        action = coordinator.classify_join_error(code)
        if action is not CoordinatorErrorAction.NONE:
            if action is CoordinatorErrorAction.REJOIN_WITH_NEW_ID:
                self._out.generation = GroupGeneration(member_id=body.member_id)
            self._on_rebalance_error("joining the group", code, action=action, now_s=now_s)
            return
        self.coordinator_lookup.on_coordinator_response()
        if self._fail_on_unexpected_group_type(body, "protocol_type", self._options.protocol_type):
            return
        self._out.generation = GroupGeneration(
            number=int(body.generation_id), member_id=body.member_id, protocol=body.protocol_name
        )
        self.state = MemberState.SYNCING
        self.heartbeat_timer.start(now_s)
        self._leader = body.leader
        self._is_leader = body.leader == body.member_id
        if self._is_leader:
            self._request_assignments(body)
        else:
            self._round_token = self._out.send_sync_group({})

    def _request_assignments(self, body: Any) -> None:
        self._out.add_instruction(
            ComputeAssignments(
                generation=self.generation.number,
                member_id=self.generation.member_id,
                protocol=self.generation.protocol,
                members={each.member_id: each.metadata for each in body.members},
            )
        )

    def _on_sync_response(self, body: Any, now_s: float) -> None:
        code = int(body.error_code)
        action = coordinator.classify_sync_error(code)
        if action is not CoordinatorErrorAction.NONE:
            self._on_rebalance_error("syncing the group", code, action=action, now_s=now_s)
            return
        self.coordinator_lookup.on_coordinator_response()
        foreign_type = self._fail_on_unexpected_group_type(
            body, "protocol_type", self._options.protocol_type
        )
        if foreign_type or self._fail_on_unexpected_group_type(
            body, "protocol_name", self.generation.protocol
        ):
            return
        self.state = MemberState.STABLE
        self._retry.reset()
        self._has_work = True
        self._out.add_instruction(
            RebalanceCompleted(
                generation=self.generation.number,
                member_id=self.generation.member_id,
                leader=self._leader,
                protocol=self.generation.protocol,
                assignment=body.assignment,
            )
        )

    def _fail_on_unexpected_group_type(self, body: Any, name: str, expected: str) -> bool:
        """Return whether the response is from a group of another type. If it is, end the membership
        with an error.

        Responses of older versions do not contain the group's type.
        """
        found = getattr(body, name, None)
        if found is None or found == expected:
            return False
        self._fail_with_error_code(
            f"the group's {name.replace('_', ' ')} is {found!r}, expected {expected!r}",
            coordinator.INCONSISTENT_PROTOCOL,
        )
        return True

    def _on_rebalance_error(
        self, doing: str, code: int, *, action: CoordinatorErrorAction, now_s: float
    ) -> None:
        reason = f"{doing} failed: {request_errors.format_error_code(code)}"
        if action is CoordinatorErrorAction.FATAL:
            self._fail_with_error_code(doing, code)
        elif action is CoordinatorErrorAction.FIND_COORDINATOR:
            self._handle_coordinator_loss(reason, now_s)
        else:
            if code == coordinator.UNKNOWN_SERVER_ERROR:
                problem = coordinator.format_error_and_remedy(code)
                self._out.add_log_line(f"{doing} failed: {problem}", is_error=True)
            self.coordinator_lookup.on_coordinator_response()
            self._reset_membership(reason, action)
            if action is CoordinatorErrorAction.RETRY_LATER:
                self._postpone_join(now_s)

    # heartbeats

    def _on_heartbeat_response(self, code: int, now_s: float) -> None:
        reason = f"a heartbeat failed with {request_errors.format_error_code(code)}"
        action = coordinator.classify_heartbeat_error(code)
        if action is not CoordinatorErrorAction.FIND_COORDINATOR:
            self.coordinator_lookup.on_coordinator_response()
        match action:
            case CoordinatorErrorAction.NONE:
                self.heartbeat_timer.on_membership_confirmed(now_s)
            case CoordinatorErrorAction.REJOIN:
                self.heartbeat_timer.on_heartbeat_response(now_s)
                if self.state is MemberState.STABLE:
                    self._rejoin_reason = self._rejoin_reason or "the group is rebalancing"
            case CoordinatorErrorAction.RETRY_LATER:
                self.heartbeat_timer.on_heartbeat_failed(now_s)
            case CoordinatorErrorAction.FIND_COORDINATOR:
                self._handle_coordinator_loss(reason, now_s)
            case CoordinatorErrorAction.FATAL:
                self._fail_with_error_code("sending a heartbeat", code)
            case _:
                self._reset_membership(reason, action)

    # leaving

    def _reset_membership(
        self, reason: str, action: CoordinatorErrorAction = CoordinatorErrorAction.REJOIN
    ) -> None:
        """End the membership in the current generation, so that the member rejoins."""
        if action is CoordinatorErrorAction.JOIN_AS_NEW_MEMBER:
            self._out.generation = GroupGeneration()
        elif action is CoordinatorErrorAction.REJOIN_SAME_ID:
            self._out.generation = GroupGeneration(member_id=self.generation.member_id)
        if action is not CoordinatorErrorAction.REJOIN_WITH_NEW_ID:
            self._out.add_log_line(f"must rejoin the group: {reason}")
        self._rejoin_reason = self._rejoin_reason or reason
        self._stop_heartbeats(MemberState.UNJOINED)

    def _postpone_join(self, now_s: float) -> None:
        self._join_not_before_s = now_s + self._retry.next_delay_s(self._rng)

    def _stop_heartbeats(self, state: MemberState) -> None:
        self._round_token = self._heartbeat_token = None
        self.heartbeat_timer.stop()
        self.state = state

    def _leave_group(self, reason: str) -> None:
        """Leave the group without waiting for the response."""
        if self.coordinator_lookup.node is not None and self.generation.member_id:
            self._out.send_leave_group(reason)
        self._out.add_log_line(f"leaving the group: {reason}")
        self._out.generation = GroupGeneration()
        self._preparing = None
        self._stop_heartbeats(MemberState.UNJOINED)

    def _begin_closing(self, reason: str) -> None:
        if self.state in {MemberState.CLOSING, MemberState.CLOSED}:
            return
        self._preparing = None
        self._stop_heartbeats(MemberState.CLOSING)
        if self.coordinator_lookup.node is not None and self.generation.member_id:
            self._out.add_log_line(f"leaving the group: {reason}")
            self._leave_token = self._out.send_leave_group(reason)
        else:
            self._finish_closing()

    def _finish_closing(self) -> None:
        self.state = MemberState.CLOSED
        self._out.add_instruction(MembershipClosed())

    def _fail_with_error_code(self, doing: str, code: int) -> None:
        what = f"group {self._options.group_id}: {doing}"
        self._fail_membership(GroupMembershipError(what, error_code=code))

    def _fail_membership(self, error: FatalError) -> None:
        self._stop_heartbeats(MemberState.FAILED)
        self._out.add_instruction(MembershipFailed(error))
