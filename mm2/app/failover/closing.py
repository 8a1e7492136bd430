"""Closes a flow: it is stopped durably, and its writers are locked out, who come back as well."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass

from connect_runtime.base import errors
from mm2.app.failover import fence_turns, tools
from mm2.core.failover import codes, fences, orders, readiness

GIVE_UP_S = 20.0
"""So long is waited for tasks of a stopped flow to say that they have ended: who was killed says
nothing, and is fenced all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """`connectors` are stopped now; `running` tasks had not said that they ended."""

    connectors: list[str]
    running: list[str]


def stop(about: tools.Tools, wanted: orders.Wanted) -> Stopped:
    """Who takes part in the flow reads that it is stopped, ends its tasks and says so."""
    stopped = list(about.stop())
    if not stopped and readiness.NO_CONNECTORS not in wanted.accepted:
        raise errors.FatalError(readiness.no_connectors(about.both.flow.name, wanted.destination))
    left: list[str] = []

    def ended() -> bool:
        left[:] = about.running()
        return not left

    if stopped:
        with contextlib.suppress(errors.RetriableError):  # they are fenced all the same
            about.await_(ended, lambda: f"{', '.join(left)} still run", most_s=GIVE_UP_S)
    return Stopped(connectors=stopped, running=left)


def fence(about: tools.Tools, wanted: orders.Wanted) -> list[fences.Fenced]:
    """Once more where somebody takes a partition meanwhile, or begins one: he has not read yet
    that the flow is stopped. What does not answer is left unfenced where that is accepted; what
    answers never is. Raises `ConnectError`."""
    leaves = wanted.accepts(codes.MIRROR_UNKNOWN)
    turns = fence_turns.FenceTurns(about, leaves=leaves)
    try:
        about.await_(turns.turn, turns.why)
    except errors.RetriableError:
        if not (leaves and turns.late):
            raise
        turns.leave_late()
    found = turns.found
    return [found[each] for each in sorted(found)]


def fence_again(
    about: tools.Tools, wanted: orders.Wanted, fenced: Collection[fences.Fenced]
) -> list[fences.Fenced]:
    """Whoever has taken a partition since, or begun one, is fenced once more, with all others;
    empty where nobody has."""
    known = about.known()
    fresh = fence_turns.to_fence(about, known).keys() - {each.partition for each in fenced}
    if fresh or any(fences.taken_since(known, each) for each in fenced):
        return fence(about, wanted)
    return []
