"""Membership of a worker in its group.

Translates between the member protocol, in which assignments are bytes, and assignments of
connectors and tasks. Events are queued until the herder pops them. An assignment that was never
popped is dropped when the worker leaves the group. `confirm_join_prepared` is ignored if the
coordinator has been lost since the request to prepare.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.errors import FatalError
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks
from connect_runtime.group.leader_assignment import (
    AssignmentOwners,
    LeaderAssignments,
    LeaderElection,
    MemberAssignment,
)
from connect_runtime.group.member import GroupMember
from connect_runtime.group.member_events import (
    AbandonAssignment,
    AssignmentsComputed,
    CloseRequested,
    ComputeAssignments,
    JoinPrepared,
    LeaveRequested,
    MemberEvent,
    MemberInstruction,
    MemberLogLine,
    MembershipClosed,
    MembershipFailed,
    PollTimeoutExpired,
    PrepareJoin,
    RebalanceCompleted,
    RejoinRequested,
    SendGroupRequest,
)
from connect_runtime.group.member_state import GroupRebalanceConfig, MemberState
from connect_runtime.herder.herder_events import AssignmentReceived, CoordinatorLost, JoinRequested

GroupSessionFailed = MembershipFailed

GroupSessionEvent: TypeAlias = (
    JoinRequested | AssignmentReceived | CoordinatorLost | GroupSessionFailed
)
"""Events for the herder. `GroupSessionFailed` is always the last event: a new session must be
created after it."""

ReadConfiguredWork: TypeAlias = Callable[[], ConfiguredWork]
"""Returns the connectors and tasks configured in the config topic. May be called on any thread;
must return immediately."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSessionSettings:
    """Settings of a group session."""

    membership: GroupRebalanceConfig
    """Group id and timeouts."""
    url: str
    """URL at which other workers reach this worker."""
    protocol: ConnectProtocol = ConnectProtocol.SESSIONED
    """Setting `connect.protocol`."""
    max_rebalance_delay_ms: int = 300_000
    """Setting `scheduled.rebalance.max.delay.ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRequested:
    """This worker was elected leader and must call `submit_assignments`. Heartbeats continue in the
    meantime."""

    election: LeaderElection
    joined_with: ConfiguredWork


GroupSessionAction: TypeAlias = (
    SendGroupRequest | AssignmentRequested | MemberLogLine | PollTimeoutExpired
)


class GroupSession:
    """Group membership of one worker. Not thread-safe: only one thread may use it at a time.

    After every call, `pop_actions` returns the actions to execute, in order. Invariant: at most one
    event of each kind is queued, and an assignment is never queued together with a lost
    coordinator.
    """

    def __init__(
        self,
        settings: GroupSessionSettings,
        *,
        rng: random.Random,
        read_configured_work: ReadConfiguredWork,
    ) -> None:
        self._options = settings
        self._read_configured_work = read_configured_work
        self._machine = GroupMember(settings.membership, rng=rng)
        self._assignment = MemberAssignment.create_initial(settings.protocol)
        self._delivered_assignment = self._assignment
        """Assignment that the herder knows: the current assignment at the time of its last call of
        `pop_events` or `revoke_all_work`."""
        self._events: list[GroupSessionEvent] = []
        self._actions: list[GroupSessionAction] = []
        self._prepare_token: int | None = None
        self._joined_with = ConfiguredWork()
        self._owners: tuple[int, AssignmentOwners | None] = (-1, None)

    @property
    def member_id(self) -> str:
        """Member id of this worker in the group; "" before a rebalance has completed."""
        return self._machine.member_id

    @property
    def assigned_work(self) -> ConnectorsAndTasks:
        """Connectors and tasks that the group considers assigned to this worker."""
        return self._assignment.assigned_work

    @property
    def last_heartbeat_s(self) -> float:
        """Monotonic time at which the latest successful heartbeat was sent; -inf if none was
        sent."""
        return self._machine.heartbeat_timer.last_confirmed_s

    @property
    def is_closed(self) -> bool:
        return self._machine.state is MemberState.CLOSED

    @property
    def has_events(self) -> bool:
        return bool(self._events)

    def get_next_tick_s(self) -> float:
        """Return the time at which the next `MemberTick` event is due; inf for never."""
        return self._machine.get_next_tick_s()

    def pop_actions(self) -> list[GroupSessionAction]:
        """Return the actions that were added since the last call, in order, and clear them."""
        taken, self._actions = self._actions, []
        return taken

    # Called by the herder

    def pop_events(self) -> list[GroupSessionEvent]:
        """Return the events that were added since the last call, in order, and clear them."""
        taken, self._events = self._events, []
        self._delivered_assignment = self._assignment
        return taken

    def confirm_join_prepared(self, now_s: float) -> None:
        """Confirm that revoked work has stopped, and join the group.

        Does nothing if the group did not request preparation, or if a newer `JoinRequested` or
        `CoordinatorLost` is queued, because the group then requests another confirmation.
        """
        outdating = (JoinRequested, CoordinatorLost)
        if self._prepare_token is None or any(isinstance(each, outdating) for each in self._events):
            return
        token, self._prepare_token = self._prepare_token, None
        self._joined_with = self._read_configured_work()
        protocols = self._assignment.build_metadata(self._options.url, self._joined_with.offset)
        self.handle_event(JoinPrepared(token=token, protocols=protocols), now_s)

    def rejoin_group(self, reason: str, now_s: float) -> None:
        self.handle_event(RejoinRequested(reason), now_s)

    def leave_group(self, reason: str, now_s: float) -> None:
        """Leave the group. An assignment that the herder has not popped is dropped."""
        self._assignment = self._delivered_assignment
        self._discard_events_of_types(AssignmentReceived, JoinRequested)
        self._prepare_token = None
        self.handle_event(LeaveRequested(reason), now_s)

    def revoke_all_work(self) -> None:
        """Record that all work has stopped, so that the worker joins without an assignment."""
        self._assignment, _ = self._assignment.abandon_work()
        self._delivered_assignment = self._assignment
        self._discard_events_of_types(AssignmentReceived)

    def close(self, reason: str, now_s: float) -> None:
        """Leave the group permanently and drop all events."""
        self._prepare_token = None
        self.handle_event(CloseRequested(reason), now_s)
        self._events.clear()

    # Called by the group's thread

    def submit_assignments(
        self, generation: int, assignments: LeaderAssignments, now_s: float
    ) -> None:
        """Submit the assignments of all members. Ignored if `generation` is no longer current."""
        self._owners = (generation, assignments.owners)
        answers = AssignmentsComputed(generation=generation, assignments=assignments.assignments)
        self.handle_event(answers, now_s)

    def leave_after_fatal_error(self, error: FatalError, now_s: float) -> None:
        """Leave the group after an unrecoverable error, so that no rebalance waits for this
        worker."""
        self.close(str(error), now_s)
        self._events.append(GroupSessionFailed(error))

    def handle_event(self, event: MemberEvent, now_s: float) -> None:
        for instruction in self._machine.process_event(event, now_s=now_s):
            self._handle_instruction(instruction, now_s)

    def _handle_instruction(self, instruction: MemberInstruction, now_s: float) -> None:
        match instruction:
            case SendGroupRequest() | MemberLogLine() | PollTimeoutExpired():
                self._actions.append(instruction)
            case PrepareJoin(token):
                self._prepare_token = token
                self._request_join_preparation()
            case ComputeAssignments():
                self._actions.append(self._build_assignment_request(instruction))
            case RebalanceCompleted():
                self._accept_assignment(instruction, now_s)
            case AbandonAssignment(reason):
                self._handle_coordinator_loss(reason)
            case MembershipFailed():
                self._discard_events_of_types(AssignmentReceived, JoinRequested)
                self._events.append(instruction)
            case MembershipClosed():
                pass  # the property `is_closed` reports it

    def _request_join_preparation(self) -> None:
        self._discard_events_of_types(JoinRequested)
        self._events.append(JoinRequested(self._assignment.find_work_to_stop_before_join()))

    def _handle_coordinator_loss(self, reason: str) -> None:
        """Record the coordinator loss. If a join was being prepared, request preparation again,
        because the herder forgets earlier requests."""
        self._assignment, _ = self._assignment.abandon_work()
        self._delivered_assignment = self._assignment
        self._events[:] = [CoordinatorLost(reason)]
        if self._prepare_token is not None:
            self._request_join_preparation()

    def _build_assignment_request(self, request: ComputeAssignments) -> AssignmentRequested:
        election = LeaderElection(
            leader=request.member_id,
            protocol=ConnectProtocol.from_wire_name(request.protocol),
            generation=request.generation,
            last_completed=self._assignment.last_generation,
            members=request.members,
        )
        return AssignmentRequested(election=election, joined_with=self._joined_with)

    def _accept_assignment(self, instruction: RebalanceCompleted, now_s: float) -> None:
        try:
            answer = self._assignment.apply_assignment(
                instruction.assignment,
                protocol_name=instruction.protocol,
                generation=instruction.generation,
            )
        except ValueError as error:
            reason = f"the leader {instruction.leader} sent an invalid assignment: {error}"
            self.leave_after_fatal_error(
                FatalError(f"group {self._options.membership.group_id}: {reason}"), now_s
            )
            return
        self._assignment = answer.member
        assignment = answer.assignment
        if not assignment.leader:  # not in the plan: nothing to run, and no need to sync
            assignment = dataclasses.replace(assignment, config_offset=self._joined_with.offset)
        generation, owners = self._owners
        self._discard_events_of_types(AssignmentReceived)
        self._events.append(
            AssignmentReceived(
                generation=instruction.generation,
                protocol=answer.member.current_protocol,
                assignment=assignment,
                items_to_stop=answer.work_to_stop,
                is_leader=instruction.leader == instruction.member_id,
                owners=owners if generation == instruction.generation else None,
            )
        )

    def _discard_events_of_types(self, *kinds: type[GroupSessionEvent]) -> None:
        self._events = [each for each in self._events if not isinstance(each, kinds)]
