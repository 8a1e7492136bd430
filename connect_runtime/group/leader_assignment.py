"""One rebalance: a member's metadata and assignment, and the leader's computation of all
assignments.

Under the eager protocol, a member stops everything before it joins, and then runs its assignment.
Under the other protocols, a member keeps running, stops revoked work and starts assigned work. An
assignment contains only the changes, but members report all of their work (Java:
WorkerCoordinator).

The leader must have read the config topic to at least the offset of every member. If it has not,
all members receive CONFIG_MISMATCH, read the topic to its end and rejoin.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from connect_runtime.group import assignor, connect_protocol, connectors_and_tasks
from connect_runtime.group.assignor import (
    AssignmentInput,
    AssignmentPlan,
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
    """A worker's protocol, assignment and last generation."""

    supported_protocol: ConnectProtocol
    """Protocol in the worker's `connect.protocol` setting."""
    current_protocol: ConnectProtocol
    """The group's protocol as of the last assignment."""
    assignment: ConnectAssignment | None = None
    """All assigned work; None before the first assignment and after the work was abandoned."""
    last_generation: int = -1
    """Generation of the last assignment; -1 before the first assignment."""

    @classmethod
    def create_initial(cls, offers: ConnectProtocol) -> MemberAssignment:
        """Return a worker's state before its first assignment."""
        return cls(supported_protocol=offers, current_protocol=offers)

    @property
    def assigned_work(self) -> ConnectorsAndTasks:
        """All assigned work, regardless of whether it has been started."""
        return connectors_and_tasks.NO_WORK if self.assignment is None else self.assignment.assigned

    @property
    def rejoin_needed(self) -> bool:
        """True if there is no valid assignment and the worker must rejoin."""
        return self.assignment is None or self.assignment.failed

    def build_metadata(self, url: str, config_offset: int) -> tuple[tuple[str, bytes], ...]:
        """Return the (wire name, metadata) pairs of the supported protocols in order of preference.

        `url` is the address at which other workers reach this worker. `config_offset` is the offset
        of this worker's snapshot of the config topic. The caller must keep this snapshot, because
        the worker may become the leader.
        """
        state = WorkerMetadata(url=url, config_offset=config_offset, allocation=self.assignment)
        return tuple(
            (each.wire_name, connect_protocol.encode_metadata(state, each))
            for each in self.supported_protocol.list_supported_protocols()
        )

    def find_work_to_stop_before_join(self) -> ConnectorsAndTasks:
        """Return the work to stop before joining or rejoining."""
        eager = self.current_protocol is ConnectProtocol.EAGER
        return (
            self.assigned_work if eager and not self.rejoin_needed else connectors_and_tasks.NO_WORK
        )

    def apply_assignment(
        self, data: bytes, *, protocol_name: str, generation: int
    ) -> AssignmentChange:
        """Apply the leader's assignment to this worker's state.

        Raises MalformedBytesError, or ValueError for an unknown protocol. An assignment with an
        error code revokes nothing; the next assignment contains the changes.

        When a group falls back to the eager protocol, its members have not stopped their work
        before joining. In this case, the returned change stops all work that is no longer assigned
        to this worker. (Java's members keep running such work, so it runs twice.)
        """
        received = connect_protocol.decode_assignment(data)
        current = ConnectProtocol.from_wire_name(protocol_name)
        if current is not ConnectProtocol.EAGER:
            stop = received.revoked
            kept = self.assigned_work.difference(stop.items)
            received = dataclasses.replace(received, assigned=received.assigned.union(kept))
        elif self.current_protocol is not ConnectProtocol.EAGER:
            stop = self.assigned_work.difference(received.assigned.items)
        else:
            stop = connectors_and_tasks.NO_WORK
        after = dataclasses.replace(
            self, current_protocol=current, assignment=received, last_generation=generation
        )
        return AssignmentChange(member=after, work_to_stop=stop, assignment=received)

    def abandon_work(self) -> tuple[MemberAssignment, ConnectorsAndTasks]:
        """Drop the assignment after the coordinator was lost. Return the new state and the work to
        stop."""
        return dataclasses.replace(self, assignment=None), self.assigned_work


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentChange:
    """Changes to a worker's connectors and tasks that result from a new assignment."""

    member: MemberAssignment
    work_to_stop: ConnectorsAndTasks
    """Work to stop before any other work is started."""
    assignment: ConnectAssignment
    """The new assignment. Contains all connectors and tasks of this worker, not only the new
    ones."""

    def find_work_to_start(self, running: Iterable[WorkItem]) -> ConnectorsAndTasks:
        """Return the assigned connectors and tasks that are not running."""
        return self.assignment.assigned.difference(running)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """Response with which the coordinator makes this member the leader."""

    leader: str
    protocol: ConnectProtocol
    generation: int
    last_completed: int
    """Generation of the last assignment that this worker received; -1 if it has received none."""
    members: Mapping[str, bytes]
    """Metadata of all members, including the leader, by member id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentOwners:
    """Workers that run the connectors and tasks of a generation, used to route requests to them."""

    urls: Mapping[str, str]
    members: Mapping[WorkItem, str]

    def get_owner_url(self, item: WorkItem) -> str | None:
        """Return the URL of the worker that runs an item, or None if no worker runs it."""
        member = self.members.get(item)
        return None if member is None else self.urls[member]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderAssignments:
    """The assignments that the leader has computed in a rebalance."""

    assignments: Mapping[str, bytes]
    """Encoded assignment by member id. Contains every member; no assignment is empty."""
    state: AssignorState
    owners: AssignmentOwners | None
    """Worker that runs each connector and task; None if a member has read more of the config topic
    than the leader."""
    configured: ConfiguredWork
    """The configured work on which the assignments are based."""
    left_out: frozenset[str] = frozenset()
    """Configured connectors that no member is assigned, because the assignments would exceed the
    protocol's limits."""
    delay_ms: int = 0
    malformed: Mapping[str, str] = field(default_factory=dict)
    """Error message by member id, for members with malformed metadata. Such a member is assigned no
    work, and its previous work counts as lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredWorkSnapshots:
    """The configured connectors and tasks at two times: when this worker last joined the group, and
    now."""

    at_join: ConfiguredWork
    newest: ConfiguredWork


def perform_assignment(
    election: LeaderElection,
    snapshots: ConfiguredWorkSnapshots,
    state: AssignorState,
    *,
    times: RebalanceTimes,
) -> LeaderAssignments:
    """Compute the assignments of all members. Raises MalformedBytesError if the leader's own
    metadata is malformed."""
    states, malformed = _decode_member_metadata(election)
    offset = max(each.config_offset for each in states.values())
    configured = snapshots.at_join
    if configured.offset < offset:
        configured = snapshots.newest
        if configured.offset < offset:
            return _build_config_mismatch_assignments(
                election, snapshots, state, states=states, malformed=malformed
            )
        offset = configured.offset
    left_out = connect_protocol.find_unassignable_connectors(
        configured.task_counts,
        members=len(election.members),
        running=set().union(*(each.reported_work.connectors for each in states.values())),
    )
    configured = configured.without_connectors(left_out)
    plan = _plan_assignment(election, configured, state, states=states, times=times)
    template = _build_empty_assignment(election, states, offset=offset, delay_ms=plan.delay_ms)
    answers = {
        member: dataclasses.replace(
            template,
            assigned=plan.assigned.get(member, connectors_and_tasks.NO_WORK),
            revoked=plan.revoked.get(member, connectors_and_tasks.NO_WORK),
        )
        for member in election.members
    }
    return LeaderAssignments(
        assignments=_encode_assignments(election, answers),
        state=plan.state,
        owners=AssignmentOwners(
            urls={member: each.url for member, each in states.items()},
            members={item: member for member, has in plan.running.items() for item in has.items},
        ),
        configured=configured,
        left_out=left_out,
        delay_ms=plan.delay_ms,
        malformed=malformed,
    )


def _decode_member_metadata(
    election: LeaderElection,
) -> tuple[dict[str, WorkerMetadata], dict[str, str]]:
    """Decode the metadata of all members.

    The limits of one member's metadata also apply to the total of all members. If the total exceeds
    a limit, the largest metadata is treated as malformed, but never the leader's.
    """
    states: dict[str, WorkerMetadata] = {}
    malformed: dict[str, str] = {}
    size, items_left = 0, connect_protocol.MAX_ITEMS
    leader_first = sorted(
        election.members.items(), key=lambda each: (each[0] != election.leader, len(each[1]))
    )
    for member, data in leader_first:
        size += len(data)
        if size > connect_protocol.MAX_BYTES and member != election.leader:
            malformed[member] = (
                f"a member's metadata of {len(data)} bytes: at most "
                f"{connect_protocol.MAX_BYTES:,} bytes are allowed for all members together"
            )
            continue
        try:
            state = connect_protocol.decode_metadata(data, max_items=items_left)
        except MalformedBytesError as error:
            if member == election.leader:
                raise
            malformed[member] = str(error)
        else:
            states[member] = state
            items_left -= len(state.reported_work.items)
    assert election.leader in states, f"the leader {election.leader} is not a member"
    in_java_order = sorted(states, key=connectors_and_tasks.build_utf16_sort_key)
    return {member: states[member] for member in in_java_order}, malformed


def _plan_assignment(
    election: LeaderElection,
    configured: ConfiguredWork,
    state: AssignorState,
    *,
    states: Mapping[str, WorkerMetadata],
    times: RebalanceTimes,
) -> AssignmentPlan:
    """Plan the assignments with the group's assignor, eager or cooperative. The eager assignor
    leaves the state unchanged."""
    if election.protocol is ConnectProtocol.EAGER:
        assigned = assignor.plan_eager_assignment(configured, states)
        return AssignmentPlan(
            assigned=assigned, revoked={}, running=assigned, delay_ms=0, state=state
        )
    round_ = AssignmentInput(
        configured=configured,
        members={member: each.reported_work for member, each in states.items()},
        generation=election.generation,
        last_completed=election.last_completed,
    )
    return assignor.plan_cooperative_assignment(round_, state, times=times)


def _build_config_mismatch_assignments(
    election: LeaderElection,
    snapshots: ConfiguredWorkSnapshots,
    state: AssignorState,
    *,
    states: Mapping[str, WorkerMetadata],
    malformed: Mapping[str, str],
) -> LeaderAssignments:
    offset = max(each.config_offset for each in states.values())
    template = _build_empty_assignment(election, states, offset=offset, delay_ms=0)
    mismatch = dataclasses.replace(template, error=connect_protocol.CONFIG_MISMATCH)
    return LeaderAssignments(
        assignments=_encode_assignments(election, dict.fromkeys(election.members, mismatch)),
        state=state,
        owners=None,
        configured=snapshots.newest,
        malformed=malformed,
    )


def _build_empty_assignment(
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
