"""Assignors: the incremental cooperative one (KIP-415) and the eager one.

Incremental cooperative: members keep what they run, and little moves at a time. Work moves in two
rounds: one revokes it from a member, and once the member has stopped it, the next assigns it to
another. Revocations in consecutive rounds are delayed, longer each time. Work that a departed
member ran is delayed too, up to `scheduled.rebalance.max.delay.ms`, so that a member that only
restarts gets its work back. Decisions equal those of Java's IncrementalCooperativeAssignor, because
workers of either kind may lead a group. What Java keeps in its instance is an `AssignorState` here;
a new leader starts from `AssignorState()`.

Balancing counts connectors and tasks separately, so the tasks of one connector may end up on one
member (KAFKA-17049).

Eager: everything was stopped before, and everything is assigned anew, round-robin, connectors first
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
    """What members are to run, by member id, each list in the member's own order.

    Invariant: both have the same members in the same order.
    """

    connectors: dict[str, list[str]]
    tasks: dict[str, list[ConnectorTaskId]]

    @classmethod
    def of(
        cls, members: Mapping[str, ConnectorsAndTasks], *, without: Set[WorkItem]
    ) -> MemberLoads:
        """What members say they run, without these items."""
        left = {member: held.without(without) for member, held in members.items()}
        return cls(
            connectors={member: list(held.connectors) for member, held in left.items()},
            tasks={member: list(held.tasks) for member, held in left.items()},
        )

    @property
    def members(self) -> Set[str]:
        return self.connectors.keys()

    @property
    def idle(self) -> tuple[str, ...]:
        """Members that are to run nothing so far."""
        return tuple(
            member
            for member, connectors in self.connectors.items()
            if not connectors and not self.tasks[member]
        )

    def add(self, member: str, items: Iterable[WorkItem]) -> None:
        more = ConnectorsAndTasks.of(items)
        self.connectors[member] += more.connectors
        self.tasks[member] += more.tasks

    def remove(self, member: str, items: Set[WorkItem]) -> None:
        self.connectors[member] = [each for each in self.connectors[member] if each not in items]
        self.tasks[member] = [each for each in self.tasks[member] if each not in items]

    def hand_out(self, items: Iterable[WorkItem]) -> None:
        """Each to whoever has least, connectors and tasks apart."""
        fresh = ConnectorsAndTasks.of(items)
        spread_evenly(self.connectors, fresh.connectors)
        spread_evenly(self.tasks, fresh.tasks)

    def too_many(self, configured: ConnectorsAndTasks) -> dict[str, frozenset[WorkItem]]:
        """What to take from members so that everything configured can be even afterwards.

        Nothing while nobody runs anything, or nothing is configured.
        """
        if not configured or len(self.idle) == len(self.members):
            return {}
        connectors = find_surplus(self.connectors, len(configured.connectors))
        tasks = find_surplus(self.tasks, len(configured.tasks))
        return {
            member: frozenset((*connectors.get(member, ()), *tasks.get(member, ())))
            for member in self.members
            if member in connectors or member in tasks
        }

    def work(self, member: str) -> ConnectorsAndTasks:
        return ConnectorsAndTasks(
            connectors=tuple(self.connectors[member]), tasks=tuple(self.tasks[member])
        )


def spread_evenly(held: Mapping[str, list[T]], items: Sequence[T]) -> None:
    """One each to all who have least, in the order of their ids, and again until none is left."""
    order = sorted(
        held,
        key=lambda member: (len(held[member]), connectors_and_tasks.make_java_sort_key(member)),
    )
    lists = [held[member] for member in order]
    given = 0
    while given < len(items):
        least = len(lists[0])
        for each in lists:  # ascending sizes stay ascending
            if len(each) > least or given == len(items):
                break
            each.append(items[given])
            given += 1


def find_surplus(held: Mapping[str, Sequence[T]], total: int) -> dict[str, Sequence[T]]:
    """The first items of each member that has more than its part of `total`.

    `total` counts what is not handed out yet too. Members that come first keep the odd ones.
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
    """What rests, and until when, in the milliseconds of whoever asks for plans.

    candidates: members that were idle while it rested, in the order of their coming.
    scheduled_ms: None while nothing rests. revoked_before: the last round took work from members
    to even out the loads.
    """

    candidates: tuple[str, ...] = ()
    scheduled_ms: int | None = None
    revoked_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LostAssignments:
    """`reassign`: to be handed out like new items. `given`: member -> what candidates get back."""

    waiting: DelayedRebalance
    reassign: Sequence[WorkItem] = ()
    given: Mapping[str, Sequence[WorkItem]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceTimes:
    """now_ms: any clock that never runs backwards. delay_max_ms: 0 for never waiting."""

    now_ms: int
    delay_max_ms: int


def handle_lost_assignments(
    lost: Sequence[WorkItem],
    loads: MemberLoads,
    waiting: DelayedRebalance,
    *,
    members_before: Set[str],
    times: RebalanceTimes,
) -> LostAssignments:
    """What becomes of `lost`, which is in order. `loads`: what members keep from before.

    When every member of the last round is still there, nothing was lost: the round's answers
    did not arrive. After a round that took work away, an idle member that left has the group wait
    the whole delay with nothing lost: so does Java.
    """
    if not lost and not waiting.revoked_before:
        return LostAssignments(waiting=DelayedRebalance())
    all_present = loads.members >= members_before
    if (waiting.scheduled_ms is None and all_present) or times.delay_max_ms == 0:
        return LostAssignments(waiting=waiting, reassign=lost)
    if waiting.scheduled_ms is None or times.now_ms < waiting.scheduled_ms:
        return LostAssignments(waiting=_schedule_rebalance(waiting, loads.idle, times))
    present = [member for member in waiting.candidates if member in loads.members]
    if not present:
        return LostAssignments(waiting=DelayedRebalance(), reassign=lost)
    return LostAssignments(waiting=DelayedRebalance(), given=_assign_round_robin(lost, present))


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
    """Connectors and tasks apart, each starting with the first member."""
    given: dict[str, list[WorkItem]] = {member: [] for member in members}
    apart = ConnectorsAndTasks.of(lost)
    kinds: tuple[Sequence[WorkItem], ...] = (apart.connectors, apart.tasks)
    for items in kinds:
        for item, member in zip(items, itertools.cycle(members), strict=False):
            given[member].append(item)
    return given


REVOCATION_BACKOFF_BASE_MS = 40
_MAX_REVOCATION_BACKOFF_EXPONENT = 6
"""Beyond it, every delay that fits into 32 bits has been reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignorState:
    """What a leader remembers of its last round.

    previous: all that was running or resting after it; revoked: what it took from members;
    members: who took part; revoking_rounds: how many rounds in a row wanted to take work away.
    """

    previous: frozenset[WorkItem] = frozenset()
    revoked: frozenset[WorkItem] = frozenset()
    members: frozenset[str] = frozenset()
    generation: int = -1
    waiting: DelayedRebalance = field(default_factory=DelayedRebalance)
    revoking_rounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentRound:
    """One generation. members: member id -> what it says that it runs, in its own order.

    last_completed: the generation whose answers last reached this leader, -1 for none.
    """

    configured: ConfiguredWork
    members: Mapping[str, ConnectorsAndTasks]
    generation: int
    last_completed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentPlan:
    """What every member is to start, to stop, and then runs; each map has all members.

    A member may be told to stop what it never ran: lost work that it was to get back, had that
    not been too much for it. So it joins again at once, and the work does not wait.
    delay_ms: members are to join again after it, 0 for not before something happens.
    """

    assigned: Mapping[str, ConnectorsAndTasks]
    revoked: Mapping[str, ConnectorsAndTasks]
    running: Mapping[str, ConnectorsAndTasks]
    delay_ms: int
    state: AssignorState


@dataclass(frozen=True, slots=True, kw_only=True)
class _RoundComparison:
    """What the last round, the members' reports and the configuration say of each other.

    withdrawn: deleted, or run by two members at once; the latter are stopped by all of them and
    come back as new ones. missing: should be running and is not. created: never handed out.
    """

    withdrawn: frozenset[WorkItem]
    missing: list[WorkItem]
    created: list[WorkItem]


def plan_cooperative_assignment(
    asked: AssignmentRound, state: AssignorState, *, times: RebalanceTimes
) -> AssignmentPlan:
    """The next step towards everything configured running once, evenly."""
    configured = asked.configured.work()
    compared = _compare_with_last_round(asked, state, configured=frozenset(configured.items))
    loads = MemberLoads.of(asked.members, without=compared.withdrawn)
    verdict = handle_lost_assignments(
        compared.missing,
        loads,
        state.waiting,
        members_before=state.members,
        times=times,
    )
    for member, items in verdict.given.items():
        loads.add(member, items)
    state = dataclasses.replace(state, waiting=verdict.waiting)
    if state.waiting.scheduled_ms is None:
        wanted = loads.too_many(configured)
        state = _update_revocation_delay(state, wanted=bool(wanted), times=times)
        taken = wanted if state.waiting.scheduled_ms is None else {}
    else:
        state, taken = _set_revoked_before(state, value=False), {}
    for member, gone in taken.items():
        loads.remove(member, gone)
    loads.hand_out(itertools.chain(compared.created, verdict.reassign))
    return _build_plan(
        asked, loads, state=state, compared=compared, taken=taken, now_ms=times.now_ms
    )


def _compare_with_last_round(
    asked: AssignmentRound, state: AssignorState, *, configured: frozenset[WorkItem]
) -> _RoundComparison:
    reported = [item for held in asked.members.values() for item in held.items]
    active = frozenset(reported)
    previous = _select_previous_items(asked, state, active=active)
    deleted = previous - configured
    return _RoundComparison(
        withdrawn=deleted | _find_duplicates(reported, active),
        missing=connectors_and_tasks.sort_items(previous - active - deleted),
        created=connectors_and_tasks.sort_items(configured - previous - active),
    )


def _select_previous_items(
    asked: AssignmentRound, state: AssignorState, *, active: frozenset[WorkItem]
) -> frozenset[WorkItem]:
    """The last round's outcome, unless its answers did not arrive or were not followed."""
    if state.revoked & active:
        return active
    return state.previous if state.generation == asked.last_completed else frozenset()


def _find_duplicates(reported: list[WorkItem], active: frozenset[WorkItem]) -> frozenset[WorkItem]:
    if len(reported) == len(active):
        return frozenset()
    counts = collections.Counter(reported)
    return frozenset(item for item, count in counts.items() if count > 1)


def _update_revocation_delay(
    state: AssignorState, *, wanted: bool, times: RebalanceTimes
) -> AssignorState:
    """Nothing rests; taking work away would help (`wanted`), or not. Is it put off?"""
    waiting = state.waiting
    if not wanted:
        rounds = 0 if waiting.revoked_before else state.revoking_rounds
        return _set_revoked_before(dataclasses.replace(state, revoking_rounds=rounds), value=False)
    if not waiting.revoked_before:
        return _set_revoked_before(state, value=True)
    rounds = state.revoking_rounds + 1
    delay_ms = compute_revocation_backoff_ms(rounds, times.delay_max_ms)
    if delay_ms:
        waiting = dataclasses.replace(waiting, scheduled_ms=times.now_ms + delay_ms)
    return dataclasses.replace(state, revoking_rounds=rounds, waiting=waiting)


def _set_revoked_before(state: AssignorState, *, value: bool) -> AssignorState:
    waiting = dataclasses.replace(state.waiting, revoked_before=value)
    return dataclasses.replace(state, waiting=waiting)


def compute_revocation_backoff_ms(rounds: int, delay_max_ms: int) -> int:
    """How long taking work away is put off: 40 ms, 1.6 s, 64 s … up to the longest delay."""
    unbounded_ms: int = REVOCATION_BACKOFF_BASE_MS ** min(rounds, _MAX_REVOCATION_BACKOFF_EXPONENT)
    return min(unbounded_ms, delay_max_ms)


def _build_plan(
    asked: AssignmentRound,
    loads: MemberLoads,
    *,
    state: AssignorState,
    compared: _RoundComparison,
    taken: Mapping[str, frozenset[WorkItem]],
    now_ms: int,
) -> AssignmentPlan:
    running = {member: loads.work(member) for member in asked.members}
    revoked: dict[str, ConnectorsAndTasks] = {}
    for member, held in asked.members.items():
        withdrawn = [item for item in held.items if item in compared.withdrawn]
        revoked[member] = ConnectorsAndTasks.of(
            [*withdrawn, *connectors_and_tasks.sort_items(taken.get(member, ()))]
        )
    scheduled_ms = state.waiting.scheduled_ms
    known = itertools.chain(compared.missing, *(held.items for held in running.values()))
    return AssignmentPlan(
        assigned={
            member: running[member].without(frozenset(held.items))
            for member, held in asked.members.items()
        },
        revoked=revoked,
        running=running,
        delay_ms=0 if scheduled_ms is None else scheduled_ms - now_ms,
        state=dataclasses.replace(
            state,
            previous=frozenset(known),
            revoked=frozenset(item for gone in revoked.values() for item in gone.items),
            members=frozenset(asked.members),
            generation=asked.generation,
        ),
    )


def plan_eager_assignment(
    configured: ConfiguredWork, members: Iterable[str]
) -> dict[str, ConnectorsAndTasks]:
    """What each member runs from now on, by member id; there has to be a member."""
    ordered = sorted(members, key=connectors_and_tasks.make_java_sort_key)
    assert ordered, "a group has members"
    given: dict[str, list[WorkItem]] = {member: [] for member in ordered}
    for item, member in zip(configured.work().items, itertools.cycle(ordered), strict=False):
        given[member].append(item)
    return {member: ConnectorsAndTasks.of(items) for member, items in given.items()}
