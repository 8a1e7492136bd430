"""A member's part of a round: what it says when it joins, and what an answer changes for it.

Under the eager protocol a member stops everything before it joins and runs what the answer says.
Under the others it goes on running, stops what is revoked, and adds what is assigned: its
assignment grows and shrinks over many rounds, and is reported whole (Java: WorkerCoordinator).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass

from connect_runtime.core.assignment import protocol, work


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """What one worker knows of its part in the group.

    offers: its `connect.protocol`. current: what the group speaks, by the last answer.
    assignment: all that it is to run, None before the first answer and after it gave up its work.
    completed: the generation of the last answer, -1 before the first.
    """

    offers: protocol.Protocol
    current: protocol.Protocol
    assignment: protocol.Assignment | None = None
    completed: int = -1

    @classmethod
    def fresh(cls, offers: protocol.Protocol) -> Member:
        """Nobody has answered yet."""
        return cls(offers=offers, current=offers)

    @property
    def holding(self) -> work.Work:
        """All that it is to run, whether that was started or not."""
        return work.NO_WORK if self.assignment is None else self.assignment.assigned

    @property
    def rejoin_needed(self) -> bool:
        """Whether what it was told cannot be what it is to do for long."""
        return self.assignment is None or self.assignment.failed

    def metadata(self, url: str, config_offset: int) -> tuple[tuple[str, bytes], ...]:
        """(protocol's name on the wire, what to say in it), the favourite first.

        url: where other workers reach this one. config_offset: of its snapshot of the config
        topic; keep that snapshot: this worker may have to lead with it.
        """
        state = protocol.WorkerState(
            url=url, config_offset=config_offset, allocation=self.assignment
        )
        return tuple(
            (each.wire_name, protocol.encode_metadata(state, each))
            for each in self.offers.offered()
        )

    def stop_before_joining(self) -> work.Work:
        """What has to be stopped before the group is joined (again)."""
        eager = self.current is protocol.Protocol.EAGER
        return self.holding if eager and not self.rejoin_needed else work.NO_WORK

    def answered(self, data: bytes, *, protocol_name: str, generation: int) -> Answer:
        """A round is over. Raises MalformedBytesError or ValueError (a protocol not offered).

        A failed answer takes nothing away: only the next one says what changes. When a group
        falls back to the eager protocol, its members have not stopped anything before they
        joined: what others run now stops here (Java's members forget it, and it runs twice).
        """
        told = protocol.decode_assignment(data)
        current = protocol.Protocol.of_wire_name(protocol_name)
        if current is not protocol.Protocol.EAGER:
            stop = told.revoked
            kept = self.holding.without(stop.items)
            told = dataclasses.replace(told, assigned=told.assigned.then(kept))
        elif self.current is not protocol.Protocol.EAGER:
            stop = self.holding.without(told.assigned.items)
        else:
            stop = work.NO_WORK
        after = dataclasses.replace(self, current=current, assignment=told, completed=generation)
        return Answer(member=after, stop=stop, assignment=told)

    def given_up(self) -> tuple[Member, work.Work]:
        """Without a group (its coordinator is gone) nothing may run: and what was to run."""
        return dataclasses.replace(self, assignment=None), self.holding


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """stop: to be stopped before anything is started. assignment: all that is to run from now on,
    and from whom, at which config offset, for how long."""

    member: Member
    stop: work.Work
    assignment: protocol.Assignment

    def start(self, running: Iterable[work.Item]) -> work.Work:
        """What is to run and does not."""
        return self.assignment.assigned.without(running)
