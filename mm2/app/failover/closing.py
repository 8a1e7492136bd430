"""Closes a flow: it is stopped durably, and its writers are locked out, who come back as well."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from dataclasses import dataclass

from connect_runtime.base import errors, ids
from mm2.app.failover import fencing, tools
from mm2.core.failover import fences, orders, readiness
from mm2.core.offsets import offset_map

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
            about.await_(ended, lambda: f"{left} still run", most_s=GIVE_UP_S)
    return Stopped(connectors=stopped, running=left)


def fence(about: tools.Tools) -> list[fences.Fenced]:
    """Once more where somebody takes a partition meanwhile, or begins one: he has not read yet
    that the flow is stopped."""
    found: dict[ids.TopicPartition, fences.Fenced] = {}
    taken: list[ids.TopicPartition] = []

    def locked_out() -> bool:
        about.stop()
        known = about.known()
        wanted = {*taken, *(to_fence(about, known) - found.keys())}
        try:
            found.update({each.partition: each for each in about.fence(known, wanted)})
        except fencing.PartlyFencedError as error:
            found.update({each.partition: each for each in error.fenced})
            taken[:] = set(taken).difference(each.partition for each in error.fenced)
            raise
        about.pause(tools.TURN_S)
        known = about.known()
        taken[:] = [place for place, each in found.items() if fences.taken_since(known, each)]
        taken.extend(sorted(to_fence(about, known) - found.keys()))
        return not taken

    about.await_(
        locked_out, lambda: f"somebody copies {taken[0]} still, though the flow is stopped"
    )
    return [found[each] for each in sorted(found)]


def fence_again(about: tools.Tools, fenced: Collection[fences.Fenced]) -> list[fences.Fenced]:
    """Whoever has taken a partition since, or begun one, is fenced once more, with all others;
    empty where nobody has."""
    known = about.known()
    fresh = to_fence(about, known) - {each.partition for each in fenced}
    if fresh or any(fences.taken_since(known, each) for each in fenced):
        return fence(about)
    return []


def to_fence(about: tools.Tools, known: offset_map.OffsetMap) -> set[ids.TopicPartition]:
    """See `fencing.to_fence`."""
    return fencing.to_fence(about.both, known, timeout_s=about.planner.timeout_s)
