"""What nobody runs any more, though somebody was told to: wait for its member, or give it away.

A member that only restarts should get its work back, so lost work rests for up to
`scheduled.rebalance.max.delay.ms` (KIP-415). Members without work that turn up meanwhile are
candidates: who bounced is one of them, under its new id.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from connect_runtime.core.assignment import balance, work


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """What rests, and until when, in the milliseconds of whoever asks for plans.

    candidates: members that were idle while it rested, in the order of their coming.
    scheduled_ms: None while nothing rests. revoked_before: the last round took work from members
    to even out the loads.
    """

    candidates: tuple[str, ...] = ()
    scheduled_ms: int | None = None
    revoked_before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`reassign`: to be handed out like new items. `given`: member -> what candidates get back."""

    waiting: Waiting
    reassign: Sequence[work.Item] = ()
    given: Mapping[str, Sequence[work.Item]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """now_ms: any clock that never runs backwards. delay_max_ms: 0 for never waiting."""

    now_ms: int
    delay_max_ms: int


def judge(
    lost: Sequence[work.Item],
    loads: balance.Loads,
    waiting: Waiting,
    *,
    members_before: Set[str],
    times: Times,
) -> Verdict:
    """What becomes of `lost`, which is in order. `loads`: what members keep from before.

    When every member of the last round is still there, nothing was lost: the round's answers
    did not arrive. After a round that took work away, an idle member that left has the group wait
    the whole delay with nothing lost: so does Java.
    """
    if not lost and not waiting.revoked_before:
        return Verdict(waiting=Waiting())
    all_present = loads.members >= members_before
    if (waiting.scheduled_ms is None and all_present) or times.delay_max_ms == 0:
        return Verdict(waiting=waiting, reassign=lost)
    if waiting.scheduled_ms is None or times.now_ms < waiting.scheduled_ms:
        return Verdict(waiting=_postponed(waiting, loads.idle, times))
    present = [member for member in waiting.candidates if member in loads.members]
    if not present:
        return Verdict(waiting=Waiting(), reassign=lost)
    return Verdict(waiting=Waiting(), given=_in_turns(lost, present))


def _postponed(waiting: Waiting, idle: Sequence[str], times: Times) -> Waiting:
    left_ms = times.delay_max_ms
    if waiting.scheduled_ms is not None:
        left_ms = min(waiting.scheduled_ms - times.now_ms, left_ms)
    return Waiting(
        candidates=tuple(dict.fromkeys((*waiting.candidates, *idle))),
        scheduled_ms=times.now_ms + left_ms,
        revoked_before=waiting.revoked_before,
    )


def _in_turns(lost: Sequence[work.Item], members: Sequence[str]) -> dict[str, list[work.Item]]:
    """Connectors and tasks apart, each starting with the first member."""
    given: dict[str, list[work.Item]] = {member: [] for member in members}
    apart = work.Work.of(lost)
    kinds: tuple[Sequence[work.Item], ...] = (apart.connectors, apart.tasks)
    for items in kinds:
        for item, member in zip(items, itertools.cycle(members), strict=False):
            given[member].append(item)
    return given
