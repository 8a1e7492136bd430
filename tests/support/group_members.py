"""Members of a real group: the member machine and the assignors over real connections."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from connect_runtime.base import errors
from connect_runtime.core.assignment import cooperative, leader, lost, member, protocol, work
from connect_runtime.core.membership import events, instructions, machine, settings, standing
from connect_runtime.wire.connection import cluster
from tests.support import wire

SESSION_S = 6.0
"""The shortest that brokers allow."""


class GroupMember:
    """One worker, with a configuration that is what the test says; it runs what it is told at once.

    `failed`: why it cannot be a member.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        group_id: str,
        name: str,
        *,
        offers: protocol.Protocol = protocol.Protocol.SESSIONED,
        protocol_type: str = "connect",
    ) -> None:
        self.driver = wire.Driver(properties, client_id=f"connect-{name}")
        options = settings.Settings(
            group_id=group_id,
            protocol_type=protocol_type,
            session_timeout_s=SESSION_S,
            heartbeat_interval_s=0.5,
        )
        self.machine = machine.GroupMember(options, rng=random.Random(name))
        self.name = name
        self.part = member.Member.fresh(offers)
        self.state = cooperative.State()
        self.configured = work.Configured()
        self.rounds: list[instructions.RoundCompleted] = []
        self.notes: list[str] = []
        self.failed: errors.FatalError | None = None
        self.closed = False
        self._rejoin_s = float("inf")

    def turn(self) -> None:
        now_s = self.driver.clock.now_s()
        if now_s >= self._rejoin_s:
            self._rejoin_s = float("inf")
            self.tell(events.RejoinRequested("the delay is over"))
        self.tell(events.WorkerTicked())
        self.driver.turn(0.01)

    def tell(self, event: events.Event) -> None:
        told = self.machine.step(event, now_s=self.driver.clock.now_s())
        self.machine.check_invariants()
        for each in told:
            self._execute(each)

    def configure(self, configured: work.Configured) -> None:
        self.configured = configured
        self.tell(events.RejoinRequested("the configuration changed"))

    def close(self) -> None:
        self.tell(events.CloseRequested("the test is over"))

    @property
    def stable(self) -> bool:
        return self.machine.state is standing.State.STABLE

    @property
    def runs(self) -> set[str]:
        return {str(each) for each in self.part.holding.tasks}

    def _execute(self, told: instructions.Instruction) -> None:
        match told:
            case instructions.Send():
                self._send(told)
            case instructions.PrepareJoin(token):
                said = self.part.metadata(f"http://{self.name}/", self.configured.offset)
                self.tell(events.Prepared(token=token, protocols=said))
            case instructions.MakePlan():
                self._plan(told)
            case instructions.RoundCompleted():
                self._complete(told)
            case instructions.StopWork():
                self.part, _ = self.part.given_up()
            case instructions.Failed(error):
                self.failed = error
            case instructions.Closed():
                self.closed = True
            case instructions.Note(text):
                self.notes.append(text)

    def _send(self, send: instructions.Send) -> None:
        def done(reply: cluster.Reply) -> None:
            if reply.failure is None:
                self.tell(events.Answered(token=send.token, body=reply.body))
            else:
                self.tell(events.Unanswered(token=send.token, failure=reply.failure))

        self.driver.connections.call(
            send.to, send.message, done=done, timeout_s=send.timeout_s, lane=send.lane
        )

    def _plan(self, asked: instructions.MakePlan) -> None:
        election = leader.Election(
            leader=asked.member_id,
            protocol=protocol.Protocol.of_wire_name(asked.protocol),
            generation=asked.generation,
            last_completed=self.part.completed,
            members=asked.members,
        )
        snapshots = leader.Snapshots(joined_with=self.configured, newest=self.configured)
        times = lost.Times(now_ms=round(self.driver.clock.now_s() * 1000), delay_max_ms=500)
        lead = leader.lead(election, snapshots, self.state, times=times)
        self.state = lead.state
        self.tell(events.PlanMade(generation=asked.generation, answers=lead.answers))

    def _complete(self, told: instructions.RoundCompleted) -> None:
        self.rounds.append(told)
        answer = self.part.answered(
            told.assignment, protocol_name=told.protocol, generation=told.generation
        )
        self.part = answer.member
        delay_s = answer.assignment.delay_ms / 1000
        self._rejoin_s = self.driver.clock.now_s() + delay_s if delay_s else float("inf")
        if answer.rejoin_at_once or answer.assignment.failed:
            self.tell(events.RejoinRequested("work was taken away"))


class Members:
    """Several in one loop; closes their connections at the end."""

    def __init__(self) -> None:
        self.every: list[GroupMember] = []

    def __enter__(self) -> Members:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for each in self.every:
            each.driver.__exit__()

    def add(self, one: GroupMember, configured: work.Configured) -> GroupMember:
        one.configured = configured
        self.every.append(one)
        return one

    def until(self, condition: Callable[[], object], *, deadline_s: float = 30.0) -> None:
        clock = self.every[0].driver.clock
        end_s = clock.now_s() + deadline_s
        while not condition():
            assert clock.now_s() < end_s, [each.notes[-6:] for each in self.every]
            for each in self.every:
                each.turn()

    def share(self, members: Sequence[GroupMember], tasks: int) -> bool:
        """Whether these run so many tasks, each once and evenly, in one complete round."""
        sizes = [len(each.runs) for each in members]
        together = set().union(*(each.runs for each in members))
        rounds = {each.part.completed for each in members}
        return (
            all(each.stable and not each.part.rejoin_needed for each in members)
            and len(rounds) == 1
            and sum(sizes) == tasks == len(together)
            and max(sizes) - min(sizes) <= 1
        )
