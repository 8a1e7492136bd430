"""The leader's part of a round: from what members said when they joined to one answer for each.

Who leads must know the config topic as far as anybody in the group does. If it does not, all are
told CONFIG_MISMATCH: they read on and join again (Java: WorkerCoordinator, both assignors).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.core.assignment import cooperative, eager, lost, protocol, work


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """What the coordinator told the leader. members: member id -> metadata, its own among them.

    last_completed: the generation whose answer last reached this worker, -1 for none.
    """

    leader: str
    protocol: protocol.Protocol
    generation: int
    last_completed: int
    members: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owners:
    """Who runs what in a generation, for requests that only the owner can answer."""

    urls: Mapping[str, str]
    members: Mapping[work.Item, str]

    def url(self, item: work.Item) -> str | None:
        """Where the worker of a connector or task is reached; None if nobody runs it."""
        member = self.members.get(item)
        return None if member is None else self.urls[member]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """What comes of a round. answers: member id -> assignment bytes, never empty, for every one.

    owners: None when the leader was behind. configured: what was planned from. delay_ms: as told
    to the members. malformed: member id -> why its metadata could not be read; such a member runs
    nothing, and what it ran before counts as lost.
    """

    answers: Mapping[str, bytes]
    state: cooperative.State
    owners: Owners | None
    configured: work.Configured
    delay_ms: int = 0
    malformed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshots:
    """What this worker knows to be configured: when it joined, and by now."""

    joined_with: work.Configured
    newest: work.Configured


def lead(
    election: Election, snapshots: Snapshots, state: cooperative.State, *, times: lost.Times
) -> Lead:
    """Raises MalformedBytesError if the leader cannot read even what it said itself."""
    states, malformed = _read(election)
    offset = max(each.config_offset for each in states.values())
    configured = snapshots.joined_with
    if configured.offset < offset:
        configured = snapshots.newest
        if configured.offset < offset:
            return _behind(election, snapshots, state, states=states, malformed=malformed)
        offset = configured.offset
    plan = _plan(election, configured, state, states=states, times=times)
    template = _answer(election, states, offset=offset, delay_ms=plan.delay_ms)
    answers = {
        member: dataclasses.replace(
            template,
            assigned=plan.assigned.get(member, work.NO_WORK),
            revoked=plan.revoked.get(member, work.NO_WORK),
        )
        for member in election.members
    }
    return Lead(
        answers=_encoded(election, answers),
        state=plan.state,
        owners=Owners(
            urls={member: each.url for member, each in states.items()},
            members={item: member for member, has in plan.running.items() for item in has.items},
        ),
        configured=configured,
        delay_ms=plan.delay_ms,
        malformed=malformed,
    )


def _read(election: Election) -> tuple[dict[str, protocol.WorkerState], dict[str, str]]:
    states: dict[str, protocol.WorkerState] = {}
    malformed: dict[str, str] = {}
    for member in sorted(election.members, key=work.java_order):
        try:
            states[member] = protocol.decode_metadata(election.members[member])
        except protocol.MalformedBytesError as error:
            if member == election.leader:
                raise
            malformed[member] = str(error)
    assert election.leader in states, f"{election.leader} leads and is not a member"
    return states, malformed


def _plan(
    election: Election,
    configured: work.Configured,
    state: cooperative.State,
    *,
    states: Mapping[str, protocol.WorkerState],
    times: lost.Times,
) -> cooperative.Plan:
    """The eager assignor remembers nothing, so what the other one does stays as it is."""
    if election.protocol is protocol.Protocol.EAGER:
        assigned = eager.plan(configured, states)
        return cooperative.Plan(
            assigned=assigned, revoked={}, running=assigned, delay_ms=0, state=state
        )
    asked = cooperative.Round(
        configured=configured,
        members={member: each.running for member, each in states.items()},
        generation=election.generation,
        last_completed=election.last_completed,
    )
    return cooperative.plan(asked, state, times=times)


def _behind(
    election: Election,
    snapshots: Snapshots,
    state: cooperative.State,
    *,
    states: Mapping[str, protocol.WorkerState],
    malformed: Mapping[str, str],
) -> Lead:
    offset = max(each.config_offset for each in states.values())
    template = _answer(election, states, offset=offset, delay_ms=0)
    mismatch = dataclasses.replace(template, error=protocol.CONFIG_MISMATCH)
    return Lead(
        answers=_encoded(election, dict.fromkeys(election.members, mismatch)),
        state=state,
        owners=None,
        configured=snapshots.newest,
        malformed=malformed,
    )


def _answer(
    election: Election,
    states: Mapping[str, protocol.WorkerState],
    *,
    offset: int,
    delay_ms: int,
) -> protocol.Assignment:
    return protocol.Assignment(
        leader=election.leader,
        leader_url=states[election.leader].url,
        config_offset=offset,
        delay_ms=delay_ms,
    )


def _encoded(election: Election, answers: Mapping[str, protocol.Assignment]) -> dict[str, bytes]:
    return {
        member: protocol.encode_assignment(answer, election.protocol)
        for member, answer in answers.items()
    }
