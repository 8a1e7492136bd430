"""A worker's part in its group: the member, its assignment, and what the herder has heard of both.

Between the member machine, which knows only bytes, and the herder, which knows only work. What the
herder has not taken yet it does not know: a round that it never heard of is forgotten when it
leaves, and what it prepared before it heard that the group is lost does not count as prepared.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base import errors
from connect_runtime.core.assignment import leader, member, protocol, work
from connect_runtime.core.herder import events
from connect_runtime.core.membership import events as membership_events
from connect_runtime.core.membership import instructions, machine, standing
from connect_runtime.core.membership import settings as membership

Failed = instructions.Failed

News: TypeAlias = events.JoinAsked | events.RoundCompleted | events.GroupLost | Failed
"""What the herder is told. `Failed` is the last: it cannot be a member until it is started anew."""

Configured: TypeAlias = Callable[[], work.Configured]
"""The newest view of the config topic; asked on any thread, answers at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """membership: timeouts. url: where other workers reach this one. offers: `connect.protocol`.
    delay_max_ms: `scheduled.rebalance.max.delay.ms`."""

    membership: membership.Settings
    url: str
    offers: protocol.Protocol = protocol.Protocol.SESSIONED
    delay_max_ms: int = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAsked:
    """This worker leads: `planned` is awaited, and heartbeats go on meanwhile."""

    election: leader.Election
    joined_with: work.Configured


Outgoing: TypeAlias = instructions.Send | PlanAsked | instructions.Note | instructions.SlowTick


class Participation:
    """One thread at a time. After every call `outgoing` has what is to be done, in order.

    Invariant: at most one of each kind of news waits to be taken; no round waits with a loss.
    """

    def __init__(self, options: Settings, *, rng: random.Random, configured: Configured) -> None:
        self._options = options
        self._configured = configured
        self._machine = machine.GroupMember(options.membership, rng=rng)
        self._part = member.Member.fresh(options.offers)
        self._heard_part = self._part
        """As of the last news that the herder took."""
        self._news: list[News] = []
        self._outgoing: list[Outgoing] = []
        self._preparing: int | None = None
        self._joined_with = work.Configured()
        self._owners: tuple[int, leader.Owners | None] = (-1, None)

    @property
    def member_id(self) -> str:
        """As the group knows it; "" while this is no member of a complete round."""
        return self._machine.member_id

    @property
    def holding(self) -> work.Work:
        """What the group counts as this worker's."""
        return self._part.holding

    @property
    def confirmed_s(self) -> float:
        """When the newest heartbeat was sent that was answered without error; -inf for none."""
        return self._machine.pulse.confirmed_s

    @property
    def closed(self) -> bool:
        return self._machine.state is standing.State.CLOSED

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    def due_s(self) -> float:
        """When to tell `TimePassed` at the latest; inf for never."""
        return self._machine.due_s()

    def outgoing(self) -> list[Outgoing]:
        """Everything since the last time."""
        taken, self._outgoing = self._outgoing, []
        return taken

    # the herder's side

    def take(self) -> list[News]:
        """What there is to know since the last time, in order."""
        taken, self._news = self._news, []
        self._heard_part = self._part
        return taken

    def prepared(self, now_s: float) -> None:
        """What had to stop has stopped. Nothing happens unless the herder was asked, and has heard
        all since that makes a difference: then it will be asked again."""
        unheard = (events.JoinAsked, events.GroupLost)
        if self._preparing is None or any(isinstance(each, unheard) for each in self._news):
            return
        token, self._preparing = self._preparing, None
        self._joined_with = self._configured()
        protocols = self._part.metadata(self._options.url, self._joined_with.offset)
        self.tell(membership_events.Prepared(token=token, protocols=protocols), now_s)

    def rejoin(self, reason: str, now_s: float) -> None:
        self.tell(membership_events.RejoinRequested(reason), now_s)

    def leave(self, reason: str, now_s: float) -> None:
        """A round that the herder has not heard of is as if it had never been."""
        self._part = self._heard_part
        self._drop(events.RoundCompleted, events.JoinAsked)
        self._preparing = None
        self.tell(membership_events.LeaveRequested(reason), now_s)

    def give_up_work(self) -> None:
        """Everything has stopped: say so when joining."""
        self._part, _ = self._part.given_up()
        self._heard_part = self._part
        self._drop(events.RoundCompleted)

    def close(self, reason: str, now_s: float) -> None:
        """Nothing is told any more."""
        self._preparing = None
        self.tell(membership_events.CloseRequested(reason), now_s)
        self._news.clear()

    # the group's side

    def planned(self, generation: int, lead: leader.Lead, now_s: float) -> None:
        """The plan that was asked for; one for a generation that is over changes nothing."""
        self._owners = (generation, lead.owners)
        answers = membership_events.PlanMade(generation=generation, answers=lead.answers)
        self.tell(answers, now_s)

    def fail(self, error: errors.FatalError, now_s: float) -> None:
        """It cannot go on: leave the group, so that nobody waits for this worker."""
        self.close(str(error), now_s)
        self._news.append(Failed(error))

    def tell(self, event: membership_events.Event, now_s: float) -> None:
        for told in self._machine.step(event, now_s=now_s):
            self._hear(told, now_s)

    def _hear(self, told: instructions.Instruction, now_s: float) -> None:
        match told:
            case instructions.Send() | instructions.Note() | instructions.SlowTick():
                self._outgoing.append(told)
            case instructions.PrepareJoin(token):
                self._preparing = token
                self._ask_to_prepare()
            case instructions.MakePlan():
                self._outgoing.append(self._plan(told))
            case instructions.RoundCompleted():
                self._complete(told, now_s)
            case instructions.StopWork(reason):
                self._lose(reason)
            case instructions.Failed():
                self._drop(events.RoundCompleted, events.JoinAsked)
                self._news.append(told)
            case instructions.Closed():
                pass  # `closed` says so

    def _ask_to_prepare(self) -> None:
        self._drop(events.JoinAsked)
        self._news.append(events.JoinAsked(self._part.stop_before_joining()))

    def _lose(self, reason: str) -> None:
        """The herder forgets what it was asked before, so it is asked again."""
        self._part, _ = self._part.given_up()
        self._heard_part = self._part
        self._news[:] = [events.GroupLost(reason)]
        if self._preparing is not None:
            self._ask_to_prepare()

    def _plan(self, asked: instructions.MakePlan) -> PlanAsked:
        election = leader.Election(
            leader=asked.member_id,
            protocol=protocol.Protocol.of_wire_name(asked.protocol),
            generation=asked.generation,
            last_completed=self._part.completed,
            members=asked.members,
        )
        return PlanAsked(election=election, joined_with=self._joined_with)

    def _complete(self, told: instructions.RoundCompleted, now_s: float) -> None:
        try:
            answer = self._part.answered(
                told.assignment, protocol_name=told.protocol, generation=told.generation
            )
        except ValueError as error:
            why = (
                f"the leader of the group, {told.leader}, sent an assignment that is none: {error}"
            )
            self.fail(errors.FatalError(f"group {self._options.membership.group_id}: {why}"), now_s)
            return
        self._part = answer.member
        assignment = answer.assignment
        if not assignment.leader:  # left out: in step with what this worker knows, nothing to do
            assignment = dataclasses.replace(assignment, config_offset=self._joined_with.offset)
        generation, owners = self._owners
        self._drop(events.RoundCompleted)
        self._news.append(
            events.RoundCompleted(
                generation=told.generation,
                speaks=answer.member.current,
                assignment=assignment,
                stop=answer.stop,
                leads=told.leader == told.member_id,
                owners=owners if generation == told.generation else None,
            )
        )

    def _drop(self, *kinds: type[News]) -> None:
        self._news = [each for each in self._news if not isinstance(each, kinds)]
