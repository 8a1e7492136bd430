"""One rebalance round: what a member reports and applies, and how the leader makes the assignments.

Under the eager protocol a member stops everything before it joins and then runs what its assignment
says. Under the others it keeps running, stops what is revoked and starts what is assigned: its
assignment changes over many rounds and is reported whole (Java: WorkerCoordinator).

The leader must have read the config topic at least as far as every member. If it has not, all
members receive CONFIG_MISMATCH, read on and join again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.group import assignor, connect_protocol, connectors_and_tasks
from connect_runtime.group.assignor import (
    AssignmentPlan,
    AssignmentRound,
    AssignorState,
    RebalanceTimes,
)
from connect_runtime.group.connect_protocol import (
    ConnectAssignment,
    ConnectProtocol,
    MalformedBytesError,
    WorkerMetadata,
)
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks, WorkItem


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberAssignment:
    """What one worker knows of its part in the group.

    offers: its `connect.protocol`. current: what the group speaks, by the last answer.
    assignment: all that it is to run, None before the first answer and after it gave up its work.
    completed: the generation of the last answer, -1 before the first.
    """

    offers: ConnectProtocol
    current: ConnectProtocol
    assignment: ConnectAssignment | None = None
    completed: int = -1

    @classmethod
    def fresh(cls, offers: ConnectProtocol) -> MemberAssignment:
        """Nobody has answered yet."""
        return cls(offers=offers, current=offers)

    @property
    def holding(self) -> ConnectorsAndTasks:
        """All that it is to run, whether that was started or not."""
        return connectors_and_tasks.NO_WORK if self.assignment is None else self.assignment.assigned

    @property
    def rejoin_needed(self) -> bool:
        """Whether what it was told cannot be what it is to do for long."""
        return self.assignment is None or self.assignment.failed

    def metadata(self, url: str, config_offset: int) -> tuple[tuple[str, bytes], ...]:
        """(protocol's name on the wire, what to say in it), the favourite first.

        url: where other workers reach this one. config_offset: of its snapshot of the config
        topic; keep that snapshot: this worker may have to lead with it.
        """
        state = WorkerMetadata(url=url, config_offset=config_offset, allocation=self.assignment)
        return tuple(
            (each.wire_name, connect_protocol.encode_metadata(state, each))
            for each in self.offers.offered()
        )

    def stop_before_joining(self) -> ConnectorsAndTasks:
        """What has to be stopped before the group is joined (again)."""
        eager = self.current is ConnectProtocol.EAGER
        return self.holding if eager and not self.rejoin_needed else connectors_and_tasks.NO_WORK

    def answered(self, data: bytes, *, protocol_name: str, generation: int) -> AssignmentChange:
        """A round is over. Raises MalformedBytesError or ValueError (a protocol not offered).

        A failed answer takes nothing away: only the next one says what changes. When a group
        falls back to the eager protocol, its members have not stopped anything before they
        joined: what others run now stops here (Java's members forget it, and it runs twice).
        """
        told = connect_protocol.decode_assignment(data)
        current = ConnectProtocol.of_wire_name(protocol_name)
        if current is not ConnectProtocol.EAGER:
            stop = told.revoked
            kept = self.holding.without(stop.items)
            told = dataclasses.replace(told, assigned=told.assigned.then(kept))
        elif self.current is not ConnectProtocol.EAGER:
            stop = self.holding.without(told.assigned.items)
        else:
            stop = connectors_and_tasks.NO_WORK
        after = dataclasses.replace(self, current=current, assignment=told, completed=generation)
        return AssignmentChange(member=after, stop=stop, assignment=told)

    def given_up(self) -> tuple[MemberAssignment, ConnectorsAndTasks]:
        """Without a group (its coordinator is gone) nothing may run: and what was to run."""
        return dataclasses.replace(self, assignment=None), self.holding


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentChange:
    """stop: to be stopped before anything is started. assignment: all that is to run from now on,
    and from whom, at which config offset, for how long."""

    member: MemberAssignment
    stop: ConnectorsAndTasks
    assignment: ConnectAssignment

    def start(self, running: Iterable[WorkItem]) -> ConnectorsAndTasks:
        """What is to run and does not."""
        return self.assignment.assigned.without(running)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """What the coordinator told the leader. members: member id -> metadata, its own among them.

    last_completed: the generation whose answer last reached this worker, -1 for none.
    """

    leader: str
    protocol: ConnectProtocol
    generation: int
    last_completed: int
    members: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentOwners:
    """Who runs what in a generation, for requests that only the owner can answer."""

    urls: Mapping[str, str]
    members: Mapping[WorkItem, str]

    def url(self, item: WorkItem) -> str | None:
        """Where the worker of a connector or task is reached; None if nobody runs it."""
        member = self.members.get(item)
        return None if member is None else self.urls[member]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAssignments:
    """What comes of a round. answers: member id -> assignment bytes, never empty, for every one.

    owners: None when the leader was behind. configured: what was planned from. delay_ms: as told
    to the members. malformed: member id -> why its metadata could not be read; such a member runs
    nothing, and what it ran before counts as lost.
    """

    answers: Mapping[str, bytes]
    state: AssignorState
    owners: AssignmentOwners | None
    configured: ConfiguredWork
    delay_ms: int = 0
    malformed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigSnapshots:
    """What this worker knows to be configured: when it joined, and by now."""

    joined_with: ConfiguredWork
    newest: ConfiguredWork


def perform_assignment(
    election: LeaderElection,
    snapshots: ConfigSnapshots,
    state: AssignorState,
    *,
    times: RebalanceTimes,
) -> LeaderAssignments:
    """Raises MalformedBytesError if the leader cannot read even what it said itself."""
    states, malformed = _read_metadata(election)
    offset = max(each.config_offset for each in states.values())
    configured = snapshots.joined_with
    if configured.offset < offset:
        configured = snapshots.newest
        if configured.offset < offset:
            return _answer_config_mismatch(
                election, snapshots, state, states=states, malformed=malformed
            )
        offset = configured.offset
    plan = _plan_round(election, configured, state, states=states, times=times)
    template = _make_assignment_template(election, states, offset=offset, delay_ms=plan.delay_ms)
    answers = {
        member: dataclasses.replace(
            template,
            assigned=plan.assigned.get(member, connectors_and_tasks.NO_WORK),
            revoked=plan.revoked.get(member, connectors_and_tasks.NO_WORK),
        )
        for member in election.members
    }
    return LeaderAssignments(
        answers=_encode_assignments(election, answers),
        state=plan.state,
        owners=AssignmentOwners(
            urls={member: each.url for member, each in states.items()},
            members={item: member for member, has in plan.running.items() for item in has.items},
        ),
        configured=configured,
        delay_ms=plan.delay_ms,
        malformed=malformed,
    )


def _read_metadata(election: LeaderElection) -> tuple[dict[str, WorkerMetadata], dict[str, str]]:
    states: dict[str, WorkerMetadata] = {}
    malformed: dict[str, str] = {}
    for member in sorted(election.members, key=connectors_and_tasks.make_java_sort_key):
        try:
            states[member] = connect_protocol.decode_metadata(election.members[member])
        except MalformedBytesError as error:
            if member == election.leader:
                raise
            malformed[member] = str(error)
    assert election.leader in states, f"{election.leader} leads and is not a member"
    return states, malformed


def _plan_round(
    election: LeaderElection,
    configured: ConfiguredWork,
    state: AssignorState,
    *,
    states: Mapping[str, WorkerMetadata],
    times: RebalanceTimes,
) -> AssignmentPlan:
    """The eager assignor remembers nothing, so what the other one does stays as it is."""
    if election.protocol is ConnectProtocol.EAGER:
        assigned = assignor.plan_eager_assignment(configured, states)
        return AssignmentPlan(
            assigned=assigned, revoked={}, running=assigned, delay_ms=0, state=state
        )
    asked = AssignmentRound(
        configured=configured,
        members={member: each.running for member, each in states.items()},
        generation=election.generation,
        last_completed=election.last_completed,
    )
    return assignor.plan_cooperative_assignment(asked, state, times=times)


def _answer_config_mismatch(
    election: LeaderElection,
    snapshots: ConfigSnapshots,
    state: AssignorState,
    *,
    states: Mapping[str, WorkerMetadata],
    malformed: Mapping[str, str],
) -> LeaderAssignments:
    offset = max(each.config_offset for each in states.values())
    template = _make_assignment_template(election, states, offset=offset, delay_ms=0)
    mismatch = dataclasses.replace(template, error=connect_protocol.CONFIG_MISMATCH)
    return LeaderAssignments(
        answers=_encode_assignments(election, dict.fromkeys(election.members, mismatch)),
        state=state,
        owners=None,
        configured=snapshots.newest,
        malformed=malformed,
    )


def _make_assignment_template(
    election: LeaderElection,
    states: Mapping[str, WorkerMetadata],
    *,
    offset: int,
    delay_ms: int,
) -> ConnectAssignment:
    return ConnectAssignment(
        leader=election.leader,
        leader_url=states[election.leader].url,
        config_offset=offset,
        delay_ms=delay_ms,
    )


def _encode_assignments(
    election: LeaderElection, answers: Mapping[str, ConnectAssignment]
) -> dict[str, bytes]:
    return {
        member: connect_protocol.encode_assignment(answer, election.protocol)
        for member, answer in answers.items()
    }
