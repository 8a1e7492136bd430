"""A worker: the real member machine and the real assignors, with a herder that is slow at times."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.group import leader_assignment
from connect_runtime.group.assignor import AssignorState, RebalanceTimes
from connect_runtime.group.connect_protocol import ConnectProtocol
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, WorkItem
from connect_runtime.group.leader_assignment import (
    ConfiguredWorkSnapshots,
    LeaderElection,
    MemberAssignment,
)
from connect_runtime.group.member import GroupMember
from connect_runtime.group.member_events import (
    AbandonAssignment,
    AssignmentsComputed,
    CloseRequested,
    ComputeAssignments,
    GroupRequestFailed,
    GroupResponseReceived,
    JoinPrepared,
    MemberEvent,
    MemberInstruction,
    MembershipClosed,
    MembershipFailed,
    MemberTick,
    PrepareJoin,
    RebalanceCompleted,
    RejoinRequested,
    SendGroupRequest,
    WorkerLoopTicked,
)
from connect_runtime.group.member_state import GroupRebalanceConfig, MemberState
from tests.model.membership.world import World

TICK_S = 1.0


@dataclass(slots=True, eq=False)
class Worker:
    """Its herder does one thing after the other; `busy_s` is when it is through.

    ended: its herder does nothing more. gone: it crashed, or closed. cut: nothing reaches it, nor
    does anybody hear of it.
    """

    number: int
    world: World
    offers: ConnectProtocol = ConnectProtocol.SESSIONED
    delay_max_ms: int = 20_000
    slow_s: float = 0.3
    closing: bool = False
    ended: bool = False
    gone: bool = False
    cut: bool = False
    busy_s: float = 0.0
    running: set[WorkItem] = field(default_factory=set)
    state: AssignorState = field(default_factory=AssignorState)
    part: MemberAssignment = field(init=False)
    group: GroupMember = field(init=False)
    snapshot: ConfiguredWork = field(init=False)
    failed: FatalError | None = None

    def __post_init__(self) -> None:
        self.part = MemberAssignment.create_initial(self.offers)
        self.group = GroupMember(
            GroupRebalanceConfig(group_id="g", rebalance_delay_s=self.delay_max_ms / 1000),
            rng=random.Random(self.number),
        )
        self.snapshot = self.world.configured()
        self.busy_s = self.world.now_s
        self.tell(MemberTick())
        self._tick()

    # the machine

    def tell(self, event: MemberEvent) -> None:
        if self.gone:
            return
        told = self.group.process_event(event, now_s=self.world.now_s)
        self.group.check_invariants()
        for each in told:
            self._execute(each)
        due_s = self.group.get_next_tick_s()
        if due_s < float("inf"):
            self.world.after(max(0.0, due_s - self.world.now_s), self._wake)

    def _wake(self) -> None:
        if self.group.get_next_tick_s() <= self.world.now_s:
            self.tell(MemberTick())

    def _execute(self, told: MemberInstruction) -> None:
        match told:
            case SendGroupRequest():
                self._send(told)
            case PrepareJoin(token):
                self._do(lambda: self._prepare(token))
            case ComputeAssignments():
                self._do(lambda: self._plan(told))
            case RebalanceCompleted():
                self._do(lambda: self._complete(told))
            case AbandonAssignment():
                self._do(self._stop_all)
            case MembershipFailed(error):
                self.failed = error
            case MembershipClosed():
                self.gone = True

    def _send(self, send: SendGroupRequest) -> None:
        def done(body: Any, failure: ConnectError | None) -> None:
            if failure is None:
                self.tell(GroupResponseReceived(token=send.token, body=body))
            else:
                self.tell(GroupRequestFailed(token=send.token, failure=failure))

        self.world.send(send, reachable=lambda: not (self.cut or self.gone), done=done)

    # the herder

    def _tick(self) -> None:
        if self.gone:
            return
        if self.world.now_s >= self.busy_s:
            self.tell(WorkerLoopTicked())
            if self.snapshot.offset != self.world.offset and not self.cut:
                self.snapshot = self.world.configured()
                self.tell(RejoinRequested("the configuration changed"))
        self.world.after(TICK_S, self._tick)

    def _do(self, action: Callable[[], None], seconds: float | None = None) -> None:
        takes_s = self.world.rng.uniform(0, self.slow_s) if seconds is None else seconds
        self.busy_s = max(self.busy_s, self.world.now_s) + takes_s
        self.world.after(self.busy_s - self.world.now_s, lambda: None if self.ended else action())

    def hang(self, seconds: float) -> None:
        self._do(lambda: None, seconds)

    def _prepare(self, token: int) -> None:
        self._stop(self.part.work_to_stop_before_join().items)
        said = self.part.metadata(f"http://w{self.number}/", self.snapshot.offset)
        self.tell(JoinPrepared(token=token, protocols=said))

    def _plan(self, asked: ComputeAssignments) -> None:
        election = LeaderElection(
            leader=asked.member_id,
            protocol=ConnectProtocol.from_wire_name(asked.protocol),
            generation=asked.generation,
            last_completed=self.part.last_generation,
            members=asked.members,
        )
        snapshots = ConfiguredWorkSnapshots(at_join=self.snapshot, newest=self.snapshot)
        now_ms = round(self.world.now_s * 1000)
        times = RebalanceTimes(now_ms=now_ms, delay_max_ms=self.delay_max_ms)
        lead = leader_assignment.perform_assignment(election, snapshots, self.state, times=times)
        self.state = lead.state
        self.tell(AssignmentsComputed(generation=asked.generation, assignments=lead.assignments))

    def _complete(self, told: RebalanceCompleted) -> None:
        answer = self.part.apply_assignment(
            told.assignment, protocol_name=told.protocol, generation=told.generation
        )
        self.part = answer.member
        self._stop(answer.work_to_stop.items)
        if not self.cut:
            self.snapshot = self.world.configured()
        if answer.assignment.failed or answer.assignment.config_offset != self.snapshot.offset:
            self.tell(RejoinRequested("the configuration is not the leader's"))
            return
        self._start(answer.work_to_start(self.running).items)
        if answer.assignment.revoked:
            self.tell(RejoinRequested("work was taken away"))
        elif answer.assignment.delay_ms:
            self.world.after(
                answer.assignment.delay_ms / 1000, lambda: self._delay_over(told.generation)
            )

    def _delay_over(self, generation: int) -> None:
        if self.part.last_generation == generation:
            self.tell(RejoinRequested("the delay is over"))

    def _stop_all(self) -> None:
        self.part, _ = self.part.abandon_work()
        self._stop(self.running)

    def _start(self, items: Iterable[WorkItem]) -> None:
        for item in items:
            self.running.add(item)
            self.world.started(item, self.number)

    def _stop(self, items: Iterable[WorkItem]) -> None:
        for item in [each for each in items if each in self.running]:
            self.running.remove(item)
            self.world.stopped(item, self.number)

    # its end

    def crash(self) -> None:
        self._stop(set(self.running))
        self.gone = self.ended = True

    def close(self) -> None:
        """All work stops, then it leaves."""
        self.closing = True
        self._do(self._leave)

    def _leave(self) -> None:
        self._stop(set(self.running))
        self.ended = True
        self.tell(CloseRequested("end"))

    @property
    def stable(self) -> bool:
        return self.group.state is MemberState.STABLE
