"""The incremental cooperative assignor: members keep what they run, and little moves at a time.

Work moves in two rounds: one takes it from a member, and once that has stopped it the next gives
it to another (KIP-415). Taking work away twice in a row is put off, longer each time, and so is
giving away what a departed member ran. As Java's IncrementalCooperativeAssignor computes it,
decision by decision, since a group may be led by either.

What Java's instance remembers is a value here: it goes in with a round and comes out with the
plan. It belongs to one leader: another one starts from `State()`.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.core.assignment import balance, lost, work

BACKOFF_BASE_MS = 40
_BACKOFF_EXPONENT_MAX = 6
"""Beyond it, every delay that fits into 32 bits has been reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a leader remembers of its last round.

    previous: all that was running or resting after it; revoked: what it took from members;
    members: who took part; revoking_rounds: how many rounds in a row wanted to take work away.
    """

    previous: frozenset[work.Item] = frozenset()
    revoked: frozenset[work.Item] = frozenset()
    members: frozenset[str] = frozenset()
    generation: int = -1
    waiting: lost.Waiting = field(default_factory=lost.Waiting)
    revoking_rounds: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One generation. members: member id -> what it says that it runs, in its own order.

    last_completed: the generation whose answers last reached this leader, -1 for none.
    """

    configured: work.Configured
    members: Mapping[str, work.Work]
    generation: int
    last_completed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What every member is to start, to stop, and then runs; each map has all members.

    A member may be told to stop what it never ran: lost work that it was to get back, had that
    not been too much for it. So it joins again at once, and the work does not wait.
    delay_ms: members are to join again after it, 0 for not before something happens.
    """

    assigned: Mapping[str, work.Work]
    revoked: Mapping[str, work.Work]
    running: Mapping[str, work.Work]
    delay_ms: int
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """What the last round, the members' reports and the configuration say of each other.

    withdrawn: deleted, or run by two members at once; the latter are stopped by all of them and
    come back as new ones. missing: should be running and is not. created: never handed out.
    """

    withdrawn: frozenset[work.Item]
    missing: list[work.Item]
    created: list[work.Item]


def plan(asked: Round, state: State, *, times: lost.Times) -> Plan:
    """The next step towards everything configured running once, evenly."""
    configured = asked.configured.work()
    compared = _compare(asked, state, configured=frozenset(configured.items))
    loads = balance.Loads.of(asked.members, without=compared.withdrawn)
    verdict = lost.judge(
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
        state = _after_wanting(state, wanted=bool(wanted), times=times)
        taken = wanted if state.waiting.scheduled_ms is None else {}
    else:
        state, taken = _with_revoked_before(state, value=False), {}
    for member, gone in taken.items():
        loads.remove(member, gone)
    loads.hand_out(itertools.chain(compared.created, verdict.reassign))
    return _plan(asked, loads, state=state, compared=compared, taken=taken, now_ms=times.now_ms)


def _compare(asked: Round, state: State, *, configured: frozenset[work.Item]) -> _Compared:
    reported = [item for held in asked.members.values() for item in held.items]
    active = frozenset(reported)
    previous = _trusted(asked, state, active=active)
    deleted = previous - configured
    return _Compared(
        withdrawn=deleted | _repeated(reported, active),
        missing=work.in_order(previous - active - deleted),
        created=work.in_order(configured - previous - active),
    )


def _trusted(asked: Round, state: State, *, active: frozenset[work.Item]) -> frozenset[work.Item]:
    """The last round's outcome, unless its answers did not arrive or were not followed."""
    if state.revoked & active:
        return active
    return state.previous if state.generation == asked.last_completed else frozenset()


def _repeated(reported: list[work.Item], active: frozenset[work.Item]) -> frozenset[work.Item]:
    if len(reported) == len(active):
        return frozenset()
    counts = collections.Counter(reported)
    return frozenset(item for item, count in counts.items() if count > 1)


def _after_wanting(state: State, *, wanted: bool, times: lost.Times) -> State:
    """Nothing rests; taking work away would help (`wanted`), or not. Is it put off?"""
    waiting = state.waiting
    if not wanted:
        rounds = 0 if waiting.revoked_before else state.revoking_rounds
        return _with_revoked_before(dataclasses.replace(state, revoking_rounds=rounds), value=False)
    if not waiting.revoked_before:
        return _with_revoked_before(state, value=True)
    rounds = state.revoking_rounds + 1
    delay_ms = backoff_ms(rounds, times.delay_max_ms)
    if delay_ms:
        waiting = dataclasses.replace(waiting, scheduled_ms=times.now_ms + delay_ms)
    return dataclasses.replace(state, revoking_rounds=rounds, waiting=waiting)


def _with_revoked_before(state: State, *, value: bool) -> State:
    waiting = dataclasses.replace(state.waiting, revoked_before=value)
    return dataclasses.replace(state, waiting=waiting)


def backoff_ms(rounds: int, delay_max_ms: int) -> int:
    """How long taking work away is put off: 40 ms, 1.6 s, 64 s … up to the longest delay."""
    unbounded_ms: int = BACKOFF_BASE_MS ** min(rounds, _BACKOFF_EXPONENT_MAX)
    return min(unbounded_ms, delay_max_ms)


def _plan(
    asked: Round,
    loads: balance.Loads,
    *,
    state: State,
    compared: _Compared,
    taken: Mapping[str, frozenset[work.Item]],
    now_ms: int,
) -> Plan:
    running = {member: loads.work(member) for member in asked.members}
    revoked: dict[str, work.Work] = {}
    for member, held in asked.members.items():
        withdrawn = [item for item in held.items if item in compared.withdrawn]
        revoked[member] = work.Work.of([*withdrawn, *work.in_order(taken.get(member, ()))])
    scheduled_ms = state.waiting.scheduled_ms
    known = itertools.chain(compared.missing, *(held.items for held in running.values()))
    return Plan(
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
