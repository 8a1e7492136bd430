"""A group member as a state machine: find the coordinator, join, sync, send heartbeats, leave.

It does not know what the group is for: metadata, plans and assignments are bytes (Java:
AbstractCoordinator, and the membership parts of WorkerCoordinator). Every event carries the time in
monotonic seconds. The caller executes what `step` returns, in order, and calls again with the
outcome, or at `due_s`.
"""

from __future__ import annotations

import math
import random
from typing import Any

from connect_runtime.base.backoff import Backoff
from connect_runtime.base.errors import FatalError
from connect_runtime.group import coordinator, member_state
from connect_runtime.group.coordinator import CoordinatorLookup, GroupMembershipError
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
from connect_runtime.group.member_requests import MemberStepOutput
from connect_runtime.group.member_state import GroupGeneration, GroupRebalanceConfig
from connect_runtime.protocol import request_errors
from connect_runtime.protocol.request_errors import UnsupportedVersion

MemberState = member_state.MemberState
CoordinatorErrorAction = coordinator.CoordinatorErrorAction


class GroupMember:
    """Invariants: heartbeats are sent in SYNCING and STABLE alone; of JoinGroup and SyncGroup one
    is in flight in JOINING, at most one in SYNCING, none elsewhere."""

    def __init__(self, options: GroupRebalanceConfig, *, rng: random.Random) -> None:
        self.state = MemberState.UNJOINED
        self.search = CoordinatorLookup(settings=options, rng=rng)
        self.pulse = HeartbeatTimer(settings=options, rng=rng)
        self._out = MemberStepOutput(settings=options, search=self.search)
        self._options = options
        self._rng = rng
        self._retry = Backoff(initial_s=options.retry_backoff_s, max_s=options.retry_backoff_max_s)
        self._wish: str | None = "the worker starts"
        self._preparing: int | None = None
        self._join_not_before_s = -math.inf
        self._round: int | None = None
        self._beat: int | None = None
        self._leave: int | None = None
        self._leader = ""
        self._led = False
        self._holds_work = False

    # outside

    def step(self, event: MemberEvent, *, now_s: float) -> list[MemberInstruction]:
        self._hear(event, now_s)
        if self.state in member_state.ACTIVE_STATES:
            self._advance(now_s)
        return self._out.take()

    def due_s(self) -> float:
        """When to come back with `TimePassed` if nothing else happens; inf for never."""
        if self.state not in member_state.ACTIVE_STATES:
            return math.inf
        join_s = self._join_not_before_s if self._may_prepare else math.inf
        return min(self.pulse.due_s(), self.search.due_s(), self._silence_end_s, join_s)

    @property
    def generation(self) -> GroupGeneration:
        """Of the round that is joined, or was last."""
        return self._out.generation

    @property
    def member_id(self) -> str:
        """As the group knows it; "" while this is no member of a complete round."""
        return self.generation.member_id if self.state is MemberState.STABLE else ""

    def check_invariants(self) -> None:
        self.pulse.check_invariants()
        self.search.check_invariants()
        assert self.pulse.beats == (self.state in member_state.IN_GROUP_STATES), self.state
        assert self.pulse.in_flight == (self._beat is not None), self.state
        assert self.state is not MemberState.JOINING or self._round is not None
        assert self.state in member_state.REBALANCING_STATES or self._round is None, self.state
        assert self.state not in member_state.IN_GROUP_STATES or self.generation.member_id, (
            self.generation
        )
        assert (self.state is MemberState.CLOSING) == (self._leave is not None), self.state

    # events

    def _hear(self, event: MemberEvent, now_s: float) -> None:
        match event:
            case CloseRequested(reason):
                self._close(reason)
            case GroupResponseReceived() | GroupRequestFailed() if event.token == self._leave:
                self._leave = None
                self._closed()
            case RejoinRequested(reason) if self.state is MemberState.OUT:
                self._wish, self.state = reason, MemberState.UNJOINED
            case _ if self.state in member_state.ACTIVE_STATES:
                self._hear_at_work(event, now_s)

    def _hear_at_work(self, event: MemberEvent, now_s: float) -> None:
        match event:
            case WorkerLoopTicked():
                self.pulse.ticked(now_s)
            case HeartbeatRequested():
                self.pulse.hurry(now_s)
            case RejoinRequested(reason):
                self._wish = reason
            case LeaveRequested(reason):
                self._depart(reason)
                self.search.asked = None  # its answer will not be heard
                self.state = MemberState.OUT
            case JoinPrepared() if event.token == self._preparing:
                self._preparing = None
                self._join(event.protocols)
            case AssignmentsComputed() if (
                self._plans and event.generation == self.generation.number
            ):
                self._round = self._out.sync(event.answers)
            case GroupResponseReceived():
                self._hear_answer(event, now_s)
            case GroupRequestFailed():
                self._hear_silence(event, now_s)

    def _hear_answer(self, event: GroupResponseReceived, now_s: float) -> None:
        if event.token == self.search.asked:
            self._found(event.body, now_s)
        elif event.token == self._beat:
            self._beat = None
            self._heartbeat_answered(int(event.body.error_code), now_s)
        elif event.token == self._round:
            self._round = None
            if self.state is MemberState.JOINING:
                self._join_answered(event.body, now_s)
            else:
                self._sync_answered(event.body, now_s)

    def _hear_silence(self, event: GroupRequestFailed, now_s: float) -> None:
        searching = event.token == self.search.asked
        if event.token not in {self.search.asked, self._beat, self._round}:
            return
        unknown_question = isinstance(event.failure, UnsupportedVersion)
        if searching and unknown_question and not self.search.asks_old_way:
            self.search.old_broker()
        elif isinstance(event.failure, FatalError):
            self._fail(event.failure)
        elif searching:
            self.search.failed(now_s)
        else:
            self._lose_coordinator(str(event.failure), now_s)

    # what is due

    @property
    def _plans(self) -> bool:
        """The round waits for this member's plan."""
        return self.state is MemberState.SYNCING and self._round is None

    @property
    def _may_join(self) -> bool:
        """A coordinator that does not answer heartbeats would not answer a join either, and that
        would take much longer to notice."""
        answers = self.search.silent_s is None or not self.pulse.beats
        waits = self.state in {MemberState.UNJOINED, MemberState.STABLE} and self._wish is not None
        return waits and answers and self.search.node is not None

    @property
    def _may_prepare(self) -> bool:
        return self._may_join and self._preparing is None

    @property
    def _silence_end_s(self) -> float:
        """When work has to stop for want of a coordinator."""
        waits = self._holds_work and self.state is not MemberState.JOINING
        return self.search.silence_end_s if waits else math.inf

    def _advance(self, now_s: float) -> None:
        if now_s >= self.pulse.tick_end_s:
            self._leave_for_slow_tick()
        if now_s >= self.pulse.session_end_s:
            timeout_s = self._options.session_timeout_s
            self._lose_coordinator(f"no heartbeat was answered for {timeout_s:g} s", now_s)
        if now_s >= self._silence_end_s:
            self._stop_work("the group's coordinator has been away for too long")
        if now_s >= self.search.due_s():
            self.search.asked = self._out.find()
        if self._may_prepare and now_s >= self._join_not_before_s:
            if self._holds_work and now_s >= self.pulse.lapse_s(led=self._led):
                self._stop_work("the group may have given it to others meanwhile")
            self._preparing = self._out.prepare()
        if now_s >= self.pulse.beat_s:
            self.pulse.sent(now_s)
            self._beat = self._out.heartbeat()

    def _leave_for_slow_tick(self) -> None:
        limit_s = self._options.rebalance_timeout_s
        reason = f"the worker's loop did not come round within {limit_s:g} s"
        self._out.tell(PollTimeoutExpired(reason))
        self._depart(reason)
        self._wish = reason

    def _stop_work(self, why: str) -> None:
        self._holds_work = False
        self._wish = f"the work was stopped: {why}"
        self._out.tell(AbandonAssignment(why))

    # the coordinator

    def _found(self, body: Any, now_s: float) -> None:
        (answer, *_) = getattr(body, "coordinators", ()) or (body,)
        code = int(getattr(answer, "error_code", -1))
        match coordinator.classify_lookup_error(code):
            case CoordinatorErrorAction.FINE:
                self.search.found(int(answer.node_id))
                self.pulse.resume(now_s)
                self._out.note(f"broker {self.search.node} coordinates the group")
            case CoordinatorErrorAction.LATER:
                self.search.failed(now_s)
            case _:
                self._refuse("finding the coordinator", code)

    def _lose_coordinator(self, why: str, now_s: float) -> None:
        if self.search.node is not None:
            self._out.note(
                f"broker {self.search.node} does not coordinate the group any more: {why}"
            )
        self.search.lost(now_s)
        self.pulse.pause()
        self._beat = None
        if self.state in member_state.REBALANCING_STATES:
            self._unjoin(why)
            self._postpone_join(now_s)

    # rounds

    def _join(self, protocols: tuple[tuple[str, bytes], ...]) -> None:
        if not self._may_join:
            return  # asked again when there is somebody to join with
        self._out.note(f"joining the group ({self._wish})")
        self._stop_beating(MemberState.JOINING)
        self._round = self._out.join(protocols, reason=self._wish or "")
        self._wish = None

    def _join_answered(self, body: Any, now_s: float) -> None:
        code = int(body.error_code)
        verdict = coordinator.classify_join_error(code)
        if verdict is not CoordinatorErrorAction.FINE:
            if verdict is CoordinatorErrorAction.ID_GIVEN:
                self._out.generation = GroupGeneration(member_id=body.member_id)
            self._round_refused("joining the group", code, verdict=verdict, now_s=now_s)
            return
        self.search.heard()
        if self._is_foreign(body, "protocol_type", self._options.protocol_type):
            return
        self._out.generation = GroupGeneration(
            number=int(body.generation_id), member_id=body.member_id, protocol=body.protocol_name
        )
        self.state = MemberState.SYNCING
        self.pulse.start(now_s)
        self._leader = body.leader
        self._led = body.leader == body.member_id
        if self._led:
            self._lead(body)
        else:
            self._round = self._out.sync({})

    def _lead(self, body: Any) -> None:
        self._out.tell(
            ComputeAssignments(
                generation=self.generation.number,
                member_id=self.generation.member_id,
                protocol=self.generation.protocol,
                members={each.member_id: each.metadata for each in body.members},
            )
        )

    def _sync_answered(self, body: Any, now_s: float) -> None:
        code = int(body.error_code)
        verdict = coordinator.classify_sync_error(code)
        if verdict is not CoordinatorErrorAction.FINE:
            self._round_refused("syncing the group", code, verdict=verdict, now_s=now_s)
            return
        self.search.heard()
        foreign_type = self._is_foreign(body, "protocol_type", self._options.protocol_type)
        if foreign_type or self._is_foreign(body, "protocol_name", self.generation.protocol):
            return
        self.state = MemberState.STABLE
        self._retry.reset()
        self._holds_work = True
        self._out.tell(
            RebalanceCompleted(
                generation=self.generation.number,
                member_id=self.generation.member_id,
                leader=self._leader,
                protocol=self.generation.protocol,
                assignment=body.assignment,
            )
        )

    def _is_foreign(self, body: Any, name: str, expected: str) -> bool:
        """A group of another kind answered; older versions do not say. Fails if so."""
        found = getattr(body, name, None)
        if found is None or found == expected:
            return False
        self._refuse(
            f"the group's {name.replace('_', ' ')} is {found!r}, expected {expected!r}",
            coordinator.INCONSISTENT_PROTOCOL,
        )
        return True

    def _round_refused(
        self, doing: str, code: int, *, verdict: CoordinatorErrorAction, now_s: float
    ) -> None:
        why = f"{doing} was answered with {request_errors.format_error_code(code)}"
        if verdict is CoordinatorErrorAction.FATAL:
            self._refuse(doing, code)
        elif verdict is CoordinatorErrorAction.MOVED:
            self._lose_coordinator(why, now_s)
        else:
            self.search.heard()
            self._unjoin(why, verdict)
            if verdict is CoordinatorErrorAction.LATER:
                self._postpone_join(now_s)

    # heartbeats

    def _heartbeat_answered(self, code: int, now_s: float) -> None:
        why = f"a heartbeat was answered with {request_errors.format_error_code(code)}"
        verdict = coordinator.classify_heartbeat_error(code)
        if verdict is not CoordinatorErrorAction.MOVED:
            self.search.heard()
        match verdict:
            case CoordinatorErrorAction.FINE:
                self.pulse.confirmed(now_s)
            case CoordinatorErrorAction.AGAIN:
                self.pulse.answered(now_s)
                if self.state is MemberState.STABLE:
                    self._wish = self._wish or "the group is rebalancing"
            case CoordinatorErrorAction.LATER:
                self.pulse.failed(now_s)
            case CoordinatorErrorAction.MOVED:
                self._lose_coordinator(why, now_s)
            case CoordinatorErrorAction.FATAL:
                self._refuse("sending a heartbeat", code)
            case _:
                self._unjoin(why, verdict)

    # leaving, in all its forms

    def _unjoin(
        self, why: str, verdict: CoordinatorErrorAction = CoordinatorErrorAction.AGAIN
    ) -> None:
        """No member of a round any more, and to join another one."""
        if verdict is CoordinatorErrorAction.MEMBER_GONE:
            self._out.generation = GroupGeneration()
        elif verdict is CoordinatorErrorAction.GENERATION_GONE:
            self._out.generation = GroupGeneration(member_id=self.generation.member_id)
        if verdict is not CoordinatorErrorAction.ID_GIVEN:
            self._out.note(f"out of the round: {why}")
        self._wish = self._wish or why
        self._stop_beating(MemberState.UNJOINED)

    def _postpone_join(self, now_s: float) -> None:
        self._join_not_before_s = now_s + self._retry.next_delay_s(self._rng)

    def _stop_beating(self, state: MemberState) -> None:
        self._round = self._beat = None
        self.pulse.stop()
        self.state = state

    def _depart(self, reason: str) -> None:
        """Out of the group at once; whether the coordinator hears of it is not waited for."""
        if self.search.node is not None and self.generation.member_id:
            self._out.leave(reason)
        self._out.note(f"leaving the group: {reason}")
        self._out.generation = GroupGeneration()
        self._preparing = None
        self._stop_beating(MemberState.UNJOINED)

    def _close(self, reason: str) -> None:
        if self.state in {MemberState.CLOSING, MemberState.CLOSED}:
            return
        self._preparing = None
        self._stop_beating(MemberState.CLOSING)
        if self.search.node is not None and self.generation.member_id:
            self._out.note(f"leaving the group: {reason}")
            self._leave = self._out.leave(reason)
        else:
            self._closed()

    def _closed(self) -> None:
        self.state = MemberState.CLOSED
        self._out.tell(MembershipClosed())

    def _refuse(self, doing: str, code: int) -> None:
        what = f"group {self._options.group_id}: {doing}"
        self._fail(GroupMembershipError(what, error_code=code))

    def _fail(self, error: FatalError) -> None:
        self._stop_beating(MemberState.FAILED)
        self._out.tell(MembershipFailed(error))
