"""Membership of a worker in its group.

Connects the member protocol, which only knows bytes, with assignments of connectors and tasks.

Events wait here until the herder takes them. An assignment that the herder never took is dropped
when the worker leaves the group; `prepared` is ignored if the group was lost in between.
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
from connect_runtime.group.rebalance_rounds import (
    AssignmentOwners,
    LeaderAssignments,
    LeaderElection,
    MemberAssignment,
)
from connect_runtime.herder.herder_events import AssignmentReceived, CoordinatorLost, JoinRequested

GroupSessionFailed = MembershipFailed

GroupSessionEvent: TypeAlias = (
    JoinRequested | AssignmentReceived | CoordinatorLost | GroupSessionFailed
)
"""What the herder is told. `GroupSessionFailed` is the last: it cannot be a member until it is
started anew."""

ReadConfiguredWork: TypeAlias = Callable[[], ConfiguredWork]
"""The newest view of the config topic; asked on any thread, answers at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSessionSettings:
    """membership: timeouts. url: where other workers reach this one. offers: `connect.protocol`.
    delay_max_ms: `scheduled.rebalance.max.delay.ms`."""

    membership: GroupRebalanceConfig
    url: str
    offers: ConnectProtocol = ConnectProtocol.SESSIONED
    delay_max_ms: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRequested:
    """This worker leads: `planned` is awaited, and heartbeats go on meanwhile."""

    election: LeaderElection
    joined_with: ConfiguredWork


GroupSessionAction: TypeAlias = (
    SendGroupRequest | AssignmentRequested | MemberLogLine | PollTimeoutExpired
)


class GroupSession:
    """One thread at a time. After every call `outgoing` has what is to be done, in order.

    Invariant: at most one of each kind of news waits to be taken; no round waits with a loss.
    """

    def __init__(
        self, options: GroupSessionSettings, *, rng: random.Random, configured: ReadConfiguredWork
    ) -> None:
        self._options = options
        self._configured = configured
        self._machine = GroupMember(options.membership, rng=rng)
        self._part = MemberAssignment.fresh(options.offers)
        self._heard_part = self._part
        """As of the last news that the herder took."""
        self._news: list[GroupSessionEvent] = []
        self._outgoing: list[GroupSessionAction] = []
        self._preparing: int | None = None
        self._joined_with = ConfiguredWork()
        self._owners: tuple[int, AssignmentOwners | None] = (-1, None)

    @property
    def member_id(self) -> str:
        """As the group knows it; "" while this is no member of a complete round."""
        return self._machine.member_id

    @property
    def holding(self) -> ConnectorsAndTasks:
        """What the group counts as this worker's."""
        return self._part.holding

    @property
    def confirmed_s(self) -> float:
        """When the newest heartbeat was sent that was answered without error; -inf for none."""
        return self._machine.pulse.confirmed_s

    @property
    def closed(self) -> bool:
        return self._machine.state is MemberState.CLOSED

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    def due_s(self) -> float:
        """When to tell `TimePassed` at the latest; inf for never."""
        return self._machine.due_s()

    def outgoing(self) -> list[GroupSessionAction]:
        """Everything since the last time."""
        taken, self._outgoing = self._outgoing, []
        return taken

    # the herder's side

    def take(self) -> list[GroupSessionEvent]:
        """What there is to know since the last time, in order."""
        taken, self._news = self._news, []
        self._heard_part = self._part
        return taken

    def prepared(self, now_s: float) -> None:
        """What had to stop has stopped. Nothing happens unless the herder was asked, and has heard
        all since that makes a difference: then it will be asked again."""
        unheard = (JoinRequested, CoordinatorLost)
        if self._preparing is None or any(isinstance(each, unheard) for each in self._news):
            return
        token, self._preparing = self._preparing, None
        self._joined_with = self._configured()
        protocols = self._part.metadata(self._options.url, self._joined_with.offset)
        self.tell(JoinPrepared(token=token, protocols=protocols), now_s)

    def rejoin(self, reason: str, now_s: float) -> None:
        self.tell(RejoinRequested(reason), now_s)

    def leave(self, reason: str, now_s: float) -> None:
        """A round that the herder has not heard of is as if it had never been."""
        self._part = self._heard_part
        self._drop(AssignmentReceived, JoinRequested)
        self._preparing = None
        self.tell(LeaveRequested(reason), now_s)

    def give_up_work(self) -> None:
        """Everything has stopped: say so when joining."""
        self._part, _ = self._part.given_up()
        self._heard_part = self._part
        self._drop(AssignmentReceived)

    def close(self, reason: str, now_s: float) -> None:
        """Nothing is told any more."""
        self._preparing = None
        self.tell(CloseRequested(reason), now_s)
        self._news.clear()

    # the group's side

    def planned(self, generation: int, lead: LeaderAssignments, now_s: float) -> None:
        """The plan that was asked for; one for a generation that is over changes nothing."""
        self._owners = (generation, lead.owners)
        answers = AssignmentsComputed(generation=generation, answers=lead.answers)
        self.tell(answers, now_s)

    def fail(self, error: FatalError, now_s: float) -> None:
        """It cannot go on: leave the group, so that nobody waits for this worker."""
        self.close(str(error), now_s)
        self._news.append(GroupSessionFailed(error))

    def tell(self, event: MemberEvent, now_s: float) -> None:
        for told in self._machine.step(event, now_s=now_s):
            self._hear(told, now_s)

    def _hear(self, told: MemberInstruction, now_s: float) -> None:
        match told:
            case SendGroupRequest() | MemberLogLine() | PollTimeoutExpired():
                self._outgoing.append(told)
            case PrepareJoin(token):
                self._preparing = token
                self._ask_to_prepare()
            case ComputeAssignments():
                self._outgoing.append(self._plan(told))
            case RebalanceCompleted():
                self._complete(told, now_s)
            case AbandonAssignment(reason):
                self._lose(reason)
            case MembershipFailed():
                self._drop(AssignmentReceived, JoinRequested)
                self._news.append(told)
            case MembershipClosed():
                pass  # `closed` says so

    def _ask_to_prepare(self) -> None:
        self._drop(JoinRequested)
        self._news.append(JoinRequested(self._part.stop_before_joining()))

    def _lose(self, reason: str) -> None:
        """The herder forgets what it was asked before, so it is asked again."""
        self._part, _ = self._part.given_up()
        self._heard_part = self._part
        self._news[:] = [CoordinatorLost(reason)]
        if self._preparing is not None:
            self._ask_to_prepare()

    def _plan(self, asked: ComputeAssignments) -> AssignmentRequested:
        election = LeaderElection(
            leader=asked.member_id,
            protocol=ConnectProtocol.of_wire_name(asked.protocol),
            generation=asked.generation,
            last_completed=self._part.completed,
            members=asked.members,
        )
        return AssignmentRequested(election=election, joined_with=self._joined_with)

    def _complete(self, told: RebalanceCompleted, now_s: float) -> None:
        try:
            answer = self._part.answered(
                told.assignment, protocol_name=told.protocol, generation=told.generation
            )
        except ValueError as error:
            why = (
                f"the leader of the group, {told.leader}, sent an assignment that is none: {error}"
            )
            self.fail(FatalError(f"group {self._options.membership.group_id}: {why}"), now_s)
            return
        self._part = answer.member
        assignment = answer.assignment
        if not assignment.leader:  # left out: in step with what this worker knows, nothing to do
            assignment = dataclasses.replace(assignment, config_offset=self._joined_with.offset)
        generation, owners = self._owners
        self._drop(AssignmentReceived)
        self._news.append(
            AssignmentReceived(
                generation=told.generation,
                speaks=answer.member.current,
                assignment=assignment,
                stop=answer.stop,
                leads=told.leader == told.member_id,
                owners=owners if generation == told.generation else None,
            )
        )

    def _drop(self, *kinds: type[GroupSessionEvent]) -> None:
        self._news = [each for each in self._news if not isinstance(each, kinds)]
