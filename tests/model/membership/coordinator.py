"""A group's coordinator as brokers behave for classic groups (Java: GroupMetadataManager).

One node at a time coordinates. What a group is survives a move, requests that wait do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.fakes import group_answers

Reply: TypeAlias = Callable[[Any], None]

EMPTY, PREPARING, COMPLETING, STABLE = "empty", "preparing", "completing", "stable"


@dataclass(slots=True)
class Known:
    """A member of the group; `join` and `sync` are requests that wait."""

    protocols: tuple[tuple[str, bytes], ...]
    session_s: float
    end_s: float
    join: Reply | None = None
    sync: Reply | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class Coordinator:
    """`now_s` is set by the world before every call."""

    node: int = 1
    now_s: float = 0.0
    state: str = EMPTY
    generation: int = 0
    protocol: str = ""
    leader: str = ""
    members: dict[str, Known] = field(default_factory=dict)
    promised: set[str] = field(default_factory=set)
    join_end_s: float = 0.0
    _ids: int = 0

    def move(self) -> None:
        self.node = self.node % 3 + 1
        for member in self.members.values():
            member.end_s = self.now_s + member.session_s
            self._answer(member, group_answers.joined(code=16), group_answers.synced(code=16))

    def receive(self, node: int, api: str, entity: Any, reply: Reply) -> None:
        answers: dict[str, tuple[Callable[[Any, Reply], None], Callable[..., Any]]] = {
            "join_group": (self._join, group_answers.joined),
            "sync_group": (self._sync, group_answers.synced),
            "heartbeat": (self._heartbeat, group_answers.beaten),
            "leave_group": (self._leave, group_answers.left),
        }
        handle, build = answers[api]
        if node != self.node:
            reply(build(code=16))
        else:
            handle(entity, reply)
        self.advance()

    def advance(self) -> None:
        """Sessions end, and a round begins when all have come or have taken too long."""
        gone = [
            name
            for name, member in self.members.items()
            if self.now_s >= member.end_s and member.join is None and member.sync is None
        ]
        self._remove(gone)
        if self.state == PREPARING:
            late = [name for name, member in self.members.items() if member.join is None]
            if late and self.now_s >= self.join_end_s:
                self._remove(late)
                late = []
            if not late and self.members:
                self._begin()

    # requests

    def _join(self, entity: Any, reply: Reply) -> None:
        name = entity.member_id
        protocols = tuple((each.name, each.metadata) for each in entity.protocols)
        if not name:
            self._ids += 1
            self.promised.add(f"m{self._ids}")
            reply(group_answers.joined(code=79, member_id=f"m{self._ids}", protocol=None))
        elif name not in self.members and name not in self.promised:
            reply(group_answers.joined(code=25))
        elif self._knows_already(name, protocols):
            reply(self._joined(name))
        else:
            self.promised.discard(name)
            session_s = entity.session_timeout.total_seconds()
            member = self.members.setdefault(name, Known(protocols, session_s, 0.0))
            if member.join is not None:
                member.join(group_answers.joined(code=25))
            member.protocols, member.join = protocols, reply
            self._prepare(entity.rebalance_timeout.total_seconds())

    def _knows_already(self, name: str, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """A follower that says nothing new has missed an answer: no new round for that."""
        known = self.members.get(name)
        if known is None or known.protocols != protocols:
            return False
        return self.state == COMPLETING or (self.state == STABLE and name != self.leader)

    def _sync(self, entity: Any, reply: Reply) -> None:
        known = self.members.get(entity.member_id)
        if known is None:
            reply(group_answers.synced(b"", code=25))
        elif entity.generation_id != self.generation:
            reply(group_answers.synced(b"", code=22))
        elif self.state == PREPARING:
            reply(group_answers.synced(b"", code=27))
        elif self.state == STABLE:
            known.end_s = self.now_s + known.session_s
            reply(group_answers.synced(known.assignment, protocol=self.protocol))
        else:
            known.sync = reply
            if entity.member_id == self.leader:
                self._complete({each.member_id: each.assignment for each in entity.assignments})

    def _heartbeat(self, entity: Any, reply: Reply) -> None:
        known = self.members.get(entity.member_id)
        if known is None:
            reply(group_answers.beaten(code=25))
        elif entity.generation_id != self.generation:
            reply(group_answers.beaten(code=22))
        else:
            known.end_s = self.now_s + known.session_s
            reply(group_answers.beaten(code=27 if self.state == PREPARING else 0))

    def _leave(self, entity: Any, reply: Reply) -> None:
        self._remove([each.member_id for each in entity.members])
        reply(group_answers.left())

    # rounds

    def _prepare(self, timeout_s: float = 60.0) -> None:
        if self.state != PREPARING:
            self.state = PREPARING
            self.join_end_s = self.now_s + timeout_s
            for member in self.members.values():
                self._answer(member, None, group_answers.synced(b"", code=27))

    def _begin(self) -> None:
        self.generation += 1
        self.state = COMPLETING
        offered = [{name for name, _ in member.protocols} for member in self.members.values()]
        common = set.intersection(*offered)
        first = next(iter(self.members.values())).protocols
        self.protocol = next(name for name, _ in first if name in common)
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        for name, member in self.members.items():
            member.end_s = self.now_s + member.session_s
            member.assignment = b""
            self._answer(member, self._joined(name), None)

    def _joined(self, name: str) -> Any:
        told = {each: dict(known.protocols)[self.protocol] for each, known in self.members.items()}
        return group_answers.joined(
            generation=self.generation,
            member_id=name,
            leader=self.leader,
            protocol=self.protocol,
            members=told if name == self.leader else None,
        )

    def _complete(self, assignments: dict[str, bytes]) -> None:
        self.state = STABLE
        for name, member in self.members.items():
            member.assignment = assignments.get(name, b"")
            member.end_s = self.now_s + member.session_s
            self._answer(
                member, None, group_answers.synced(member.assignment, protocol=self.protocol)
            )

    def _remove(self, names: list[str]) -> None:
        for name in names:
            member = self.members.pop(name, None)
            self.promised.discard(name)
            if member is not None:
                gone = group_answers.synced(b"", code=25)
                self._answer(member, group_answers.joined(code=25), gone)
                self._prepare()
        if not self.members:
            self.state = EMPTY

    @staticmethod
    def _answer(member: Known, joined: Any, synced: Any) -> None:
        if joined is not None and member.join is not None:
            reply, member.join = member.join, None
            reply(joined)
        if synced is not None and member.sync is not None:
            reply, member.sync = member.sync, None
            reply(synced)
