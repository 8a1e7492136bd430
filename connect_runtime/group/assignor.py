"""Incremental cooperative (KIP-415) and eager assignors.

Incremental cooperative: in a rebalance, members keep most of their connectors and tasks ("work").
Moving work takes two rebalances. The first revokes it from a member. After the member has stopped
it, the second assigns it to another member. Revocations in consecutive rebalances are delayed by an
increasing backoff. Work of a departed member remains unassigned for up to
`scheduled.rebalance.max.delay.ms`, so that a restarting member receives it again. Decisions equal
those of Java's IncrementalCooperativeAssignor, because workers of either implementation may lead a
group. `AssignorState` contains the fields of Java's instance; a new leader starts with
`AssignorState()`.

Connectors and tasks are balanced separately, so all tasks of one connector may be assigned to one
member (KAFKA-17049).

Eager: all members have stopped their work, and everything is assigned round-robin, connectors first
(Java: EagerAssignor).
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TypeVar

from connect_runtime.base.ids import ConnectorTaskId
from connect_runtime.group import connectors_and_tasks
from connect_runtime.group.connectors_and_tasks import ConfiguredWork, ConnectorsAndTasks, WorkItem

T = TypeVar("T")


@dataclass(slots=True)
class MemberLoads:
    """Connectors and tasks of each member, in the order in which the member reported them.

    Invariant: `connectors` and `tasks` contain the same members in the same order.
    """

    connectors: dict[str, list[str]]
    tasks: dict[str, list[ConnectorTaskId]]

    @classmethod
    def from_members(
        cls, members: Mapping[str, ConnectorsAndTasks], *, without: Set[WorkItem]
    ) -> MemberLoads:
        """Create the loads from the connectors and tasks that each member reports. Items in
        `without` are omitted."""
        left = {member: held.difference(without) for member, held in members.items()}
        return cls(
            connectors={member: list(held.connectors) for member, held in left.items()},
            tasks={member: list(held.tasks) for member, held in left.items()},
        )

    @property
    def members(self) -> Set[str]:
        """Ids of all members."""
        return self.connectors.keys()

    @property
    def idle_members(self) -> tuple[str, ...]:
        """Ids of the members without any work."""
        return tuple(
            member
            for member, connectors in self.connectors.items()
            if not connectors and not self.tasks[member]
        )

    def assign_to_member(self, member: str, items: Iterable[WorkItem]) -> None:
        """Assign connectors and tasks to a member."""
        more = ConnectorsAndTasks.from_items(items)
        self.connectors[member] += more.connectors
        self.tasks[member] += more.tasks

    def remove_from_member(self, member: str, items: Set[WorkItem]) -> None:
        """Remove connectors and tasks from a member."""
        self.connectors[member] = [each for each in self.connectors[member] if each not in items]
        self.tasks[member] = [each for each in self.tasks[member] if each not in items]

    def assign_work_evenly(self, items: Iterable[WorkItem]) -> None:
        """Assign connectors and tasks to the least loaded members. Connectors and tasks are
        balanced separately."""
        fresh = ConnectorsAndTasks.from_items(items)
        assign_evenly_to_members(self.connectors, fresh.connectors)
        assign_evenly_to_members(self.tasks, fresh.tasks)

    def find_surplus_work(self, configured: ConnectorsAndTasks) -> dict[str, frozenset[WorkItem]]:
        """Return the work to revoke from each member so that all configured work can be balanced.

        The result is empty if no member is running any work or no work is configured.
        """
        if not configured or len(self.idle_members) == len(self.members):
            return {}
        connectors = find_surplus_assignments(self.connectors, len(configured.connectors))
        tasks = find_surplus_assignments(self.tasks, len(configured.tasks))
        return {
            member: frozenset((*connectors.get(member, ()), *tasks.get(member, ())))
            for member in self.members
            if member in connectors or member in tasks
        }

    def get_assigned_work(self, member: str) -> ConnectorsAndTasks:
        """Return all work assigned to a member."""
        return ConnectorsAndTasks(
            connectors=tuple(self.connectors[member]), tasks=tuple(self.tasks[member])
        )


def assign_evenly_to_members(held: Mapping[str, list[T]], items: Sequence[T]) -> None:
    """Assign each item to the member that has the fewest items so far. Ties are resolved by
    member id."""
    order = sorted(
        held,
        key=lambda member: (len(held[member]), connectors_and_tasks.build_utf16_sort_key(member)),
    )
    lists = [held[member] for member in order]
    given = 0
    while given < len(items):
        least = len(lists[0])
        for each in lists:  # the lists stay sorted by size
            if len(each) > least or given == len(items):
                break
            each.append(items[given])
            given += 1


def find_surplus_assignments(held: Mapping[str, Sequence[T]], total: int) -> dict[str, Sequence[T]]:
    """Return the items that each member has in excess of an even share of `total` items. They are
    taken from the start of the member's list.

    `total` includes unassigned items. If `total` is not divisible by the number of members, the
    first members may have one more item.
    """
    least, extras = divmod(total, len(held))
    sizes = collections.Counter(len(items) for items in held.values())
    if sizes[least + 1] == extras and sizes[least] + extras == len(held):
        return {}
    found: dict[str, Sequence[T]] = {}
    for member, items in held.items():
        allowed = least
        if len(items) > least and extras:
            extras -= 1
            allowed += 1
        if len(items) > allowed:
            found[member] = items[: len(items) - allowed]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedRebalance:
    """A scheduled rebalance. The work of departed members remains unassigned until the scheduled
    time."""

    candidates: tuple[str, ...] = ()
    """Members without work during the delay, in the order in which they joined."""
    scheduled_ms: int | None = None
    """End of the delay in milliseconds of the caller's clock; None if no rebalance is scheduled."""
    revoked_before: bool = False
    """True if the previous rebalance revoked work to balance the load."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostWorkDecision:
    """Decision on how to reassign lost work (the connectors and tasks of departed members)."""

    delayed_rebalance: DelayedRebalance
    reassign: Sequence[WorkItem] = ()
    """Lost work to distribute evenly among all members, in the same way as new work."""
    returned: Mapping[str, Sequence[WorkItem]] = field(default_factory=dict)
    """Lost work to assign to candidates (members that had no work during the delay), by member
    id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceTimes:
    """The current time on a monotonic clock, and the rebalance delay limit (0 disables delays)."""

    now_ms: int
    delay_max_ms: int


def handle_lost_assignments(
    lost: Sequence[WorkItem],
    loads: MemberLoads,
    waiting: DelayedRebalance,
    *,
    members_before: Set[str],
    times: RebalanceTimes,
) -> LostWorkDecision:
    """Decide how to reassign the sorted `lost` work. `loads` contains the work that members keep.

    The work is reassigned immediately if all members of the previous rebalance are present and no
    delay is active. In this case no member has departed: some members did not receive their
    assignments. As in Java, if an idle member leaves after a rebalance that revoked work, the group
    waits for the whole delay although no work was lost.
    """
    if not lost and not waiting.revoked_before:
        return LostWorkDecision(delayed_rebalance=DelayedRebalance())
    all_present = loads.members >= members_before
    if (waiting.scheduled_ms is None and all_present) or times.delay_max_ms == 0:
        return LostWorkDecision(delayed_rebalance=waiting, reassign=lost)
    if waiting.scheduled_ms is None or times.now_ms < waiting.scheduled_ms:
        return LostWorkDecision(
            delayed_rebalance=_schedule_rebalance(waiting, loads.idle_members, times)
        )
    present = [member for member in waiting.candidates if member in loads.members]
    if not present:
        return LostWorkDecision(delayed_rebalance=DelayedRebalance(), reassign=lost)
    return LostWorkDecision(
        delayed_rebalance=DelayedRebalance(), returned=_assign_round_robin(lost, present)
    )


def _schedule_rebalance(
    waiting: DelayedRebalance, idle: Sequence[str], times: RebalanceTimes
) -> DelayedRebalance:
    left_ms = times.delay_max_ms
    if waiting.scheduled_ms is not None:
        left_ms = min(waiting.scheduled_ms - times.now_ms, left_ms)
    return DelayedRebalance(
        candidates=tuple(dict.fromkeys((*waiting.candidates, *idle))),
        scheduled_ms=times.now_ms + left_ms,
        revoked_before=waiting.revoked_before,
    )


def _assign_round_robin(
    lost: Sequence[WorkItem], members: Sequence[str]
) -> dict[str, list[WorkItem]]:
    """Assign the connectors round-robin, starting with the first member. Then assign the tasks in
    the same way."""
    given: dict[str, list[WorkItem]] = {member: [] for member in members}
    apart = ConnectorsAndTasks.from_items(lost)
    kinds: tuple[Sequence[WorkItem], ...] = (apart.connectors, apart.tasks)
    for items in kinds:
        for item, member in zip(items, itertools.cycle(members), strict=False):
            given[member].append(item)
    return given


REVOCATION_BACKOFF_BASE_MS = 40
_MAX_REVOCATION_BACKOFF_EXPONENT = 6
"""Maximum exponent of the revocation backoff. With a larger exponent, the backoff would exceed any
delay limit of 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorState:
    """State that a leader keeps from its previous rebalance."""

    previous: frozenset[WorkItem] = frozenset()
    """Connectors and tasks that the previous rebalance assigned, and lost ones that it left
    unassigned because of a delay."""
    revoked: frozenset[WorkItem] = frozenset()
    """Connectors and tasks that the previous rebalance revoked."""
    members: frozenset[str] = frozenset()
    """Members of the previous rebalance."""
    generation: int = -1
    delayed_rebalance: DelayedRebalance = field(default_factory=DelayedRebalance)
    consecutive_revocations: int = 0
    """Number of rebalances that had to revoke work although the previous rebalance had already
    revoked work. Determines the revocation backoff. Reset as soon as no further revocation is
    needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInput:
    """Input of the assignor for one generation: configured work, and the members with the work
    they report."""

    configured: ConfiguredWork
    members: Mapping[str, ConnectorsAndTasks]
    """Connectors and tasks that each member reports, in the member's order."""
    generation: int
    last_completed: int
    """Generation of the last assignment that this leader received; -1 if it has received none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentPlan:
    """Assignment plan for one generation. Each map contains all members."""

    assigned: Mapping[str, ConnectorsAndTasks]
    """Connectors and tasks to start, by member id."""
    revoked: Mapping[str, ConnectorsAndTasks]
    """Connectors and tasks to stop, by member id. May include a lost item that was assigned to this
    member but would give it too much work. Revoking the item makes the member rejoin immediately,
    so that the item is reassigned without delay."""
    running: Mapping[str, ConnectorsAndTasks]
    """Connectors and tasks that are running after the rebalance, by member id."""
    delay_ms: int
    """Delay after which members rejoin; 0 if no rebalance is scheduled."""
    state: AssignorState


@dataclass(frozen=True, slots=True, kw_only=True)
class _PreviousRebalanceComparison:
    """Comparison of the previous rebalance's result with the work that members report now and with
    the configured work."""

    withdrawn: frozenset[WorkItem]
    """Work that was deleted or that several members are running. All members stop it, and
    configured work is reassigned."""
    missing: list[WorkItem]
    """Connectors and tasks that should be running but are not reported by any member."""
    created: list[WorkItem]
    """Configured connectors and tasks that have never been assigned."""


def plan_cooperative_assignment(
    round_: AssignmentInput, state: AssignorState, *, times: RebalanceTimes
) -> AssignmentPlan:
    """Plan the next assignments, so that eventually all configured work runs exactly once and is
    balanced."""
    configured = round_.configured.list_work()
    compared = _compare_with_previous_rebalance(
        round_, state, configured=frozenset(configured.items)
    )
    loads = MemberLoads.from_members(round_.members, without=compared.withdrawn)
    decision = handle_lost_assignments(
        compared.missing,
        loads,
        state.delayed_rebalance,
        members_before=state.members,
        times=times,
    )
    for member, items in decision.returned.items():
        loads.assign_to_member(member, items)
    state = dataclasses.replace(state, delayed_rebalance=decision.delayed_rebalance)
    if state.delayed_rebalance.scheduled_ms is None:
        needed = loads.find_surplus_work(configured)
        state = _update_revocation_delay(state, needed=bool(needed), times=times)
        to_revoke = needed if state.delayed_rebalance.scheduled_ms is None else {}
    else:
        state, to_revoke = _record_whether_work_was_revoked(state, value=False), {}
    for member, gone in to_revoke.items():
        loads.remove_from_member(member, gone)
    loads.assign_work_evenly(itertools.chain(compared.created, decision.reassign))
    return _build_assignment_plan(
        round_, loads, state=state, compared=compared, to_revoke=to_revoke, now_ms=times.now_ms
    )


def _compare_with_previous_rebalance(
    round_: AssignmentInput, state: AssignorState, *, configured: frozenset[WorkItem]
) -> _PreviousRebalanceComparison:
    reported = [item for held in round_.members.values() for item in held.items]
    active = frozenset(reported)
    previous = _select_previous_work(round_, state, active=active)
    deleted = previous - configured
    return _PreviousRebalanceComparison(
        withdrawn=deleted | _find_duplicate_assignments(reported, active),
        missing=connectors_and_tasks.sort_connectors_and_tasks(previous - active - deleted),
        created=connectors_and_tasks.sort_connectors_and_tasks(configured - previous - active),
    )


def _select_previous_work(
    round_: AssignmentInput, state: AssignorState, *, active: frozenset[WorkItem]
) -> frozenset[WorkItem]:
    """Return the connectors and tasks that should be running after the previous rebalance.

    If members still report work that the previous rebalance revoked, return all work that members
    report. Return an empty set if `state` does not describe the last assignment that this leader
    received.
    """
    if state.revoked & active:
        return active
    return state.previous if state.generation == round_.last_completed else frozenset()


def _find_duplicate_assignments(
    reported: list[WorkItem], active: frozenset[WorkItem]
) -> frozenset[WorkItem]:
    if len(reported) == len(active):
        return frozenset()
    counts = collections.Counter(reported)
    return frozenset(item for item, count in counts.items() if count > 1)


def _update_revocation_delay(
    state: AssignorState, *, needed: bool, times: RebalanceTimes
) -> AssignorState:
    """Update the revocation delay after a rebalance. `needed` is True if the rebalance had to
    revoke work.

    Starts a delay if the previous rebalance also revoked work. Call only while no delay is active.
    """
    waiting = state.delayed_rebalance
    if not needed:
        rounds = 0 if waiting.revoked_before else state.consecutive_revocations
        return _record_whether_work_was_revoked(
            dataclasses.replace(state, consecutive_revocations=rounds), value=False
        )
    if not waiting.revoked_before:
        return _record_whether_work_was_revoked(state, value=True)
    rounds = state.consecutive_revocations + 1
    delay_ms = compute_revocation_backoff_ms(rounds, times.delay_max_ms)
    if delay_ms:
        waiting = dataclasses.replace(waiting, scheduled_ms=times.now_ms + delay_ms)
    return dataclasses.replace(state, consecutive_revocations=rounds, delayed_rebalance=waiting)


def _record_whether_work_was_revoked(state: AssignorState, *, value: bool) -> AssignorState:
    waiting = dataclasses.replace(state.delayed_rebalance, revoked_before=value)
    return dataclasses.replace(state, delayed_rebalance=waiting)


def compute_revocation_backoff_ms(rounds: int, delay_max_ms: int) -> int:
    """Compute the delay before the next revocation: 40 ms, 1.6 s, 64 s, … up to `delay_max_ms`."""
    unbounded_ms: int = REVOCATION_BACKOFF_BASE_MS ** min(rounds, _MAX_REVOCATION_BACKOFF_EXPONENT)
    return min(unbounded_ms, delay_max_ms)


def _build_assignment_plan(
    round_: AssignmentInput,
    loads: MemberLoads,
    *,
    state: AssignorState,
    compared: _PreviousRebalanceComparison,
    to_revoke: Mapping[str, frozenset[WorkItem]],
    now_ms: int,
) -> AssignmentPlan:
    running = {member: loads.get_assigned_work(member) for member in round_.members}
    revoked: dict[str, ConnectorsAndTasks] = {}
    for member, held in round_.members.items():
        withdrawn = [item for item in held.items if item in compared.withdrawn]
        revoked[member] = ConnectorsAndTasks.from_items(
            [*withdrawn, *connectors_and_tasks.sort_connectors_and_tasks(to_revoke.get(member, ()))]
        )
    scheduled_ms = state.delayed_rebalance.scheduled_ms
    known = itertools.chain(compared.missing, *(held.items for held in running.values()))
    return AssignmentPlan(
        assigned={
            member: running[member].difference(frozenset(held.items))
            for member, held in round_.members.items()
        },
        revoked=revoked,
        running=running,
        delay_ms=0 if scheduled_ms is None else scheduled_ms - now_ms,
        state=dataclasses.replace(
            state,
            previous=frozenset(known),
            revoked=frozenset(item for gone in revoked.values() for item in gone.items),
            members=frozenset(round_.members),
            generation=round_.generation,
        ),
    )


def plan_eager_assignment(
    configured: ConfiguredWork, members: Iterable[str]
) -> dict[str, ConnectorsAndTasks]:
    """Return the complete eager assignment of each member. Requires at least one member."""
    ordered = sorted(members, key=connectors_and_tasks.build_utf16_sort_key)
    assert ordered, "a group must have at least one member"
    given: dict[str, list[WorkItem]] = {member: [] for member in ordered}
    for item, member in zip(configured.list_work().items, itertools.cycle(ordered), strict=False):
        given[member].append(item)
    return {member: ConnectorsAndTasks.from_items(items) for member, items in given.items()}
