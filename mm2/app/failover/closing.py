"""Closes a flow: it is stopped durably, and its writers are locked out, who come back as well."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from connect_runtime.base import errors, ids
from mm2.app.failover import fencing, tools
from mm2.core.failover import codes, fences, orders, readiness
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


def fence(about: tools.Tools, wanted: orders.Wanted) -> list[fences.Fenced]:
    """Once more where somebody takes a partition meanwhile, or begins one: he has not read yet
    that the flow is stopped. What does not answer is tried last, and left unfenced where that is
    accepted."""
    turns = _Turns(about, leaves=wanted.accepts(codes.MIRROR_UNKNOWN))
    try:
        about.await_(turns.turn, turns.why)
    except errors.RetriableError as error:
        if not turns.late:
            raise
        if not turns.leaves:
            raise errors.RetriableError(
                f"{error}. To leave what does not answer to who may still copy it: --accept "
                f"{codes.MIRROR_UNKNOWN}"
            ) from error
        turns.leave(turns.late, about.known())
    found = turns.found
    return [found[each] for each in sorted(found)]


class _Turns:
    """`found` are fenced, or left as they are; `late` are those that did not answer in time, at
    the last turn; nobody leaves any unless he `leaves` what does not answer."""

    def __init__(self, about: tools.Tools, *, leaves: bool) -> None:
        self._about = about
        self.leaves = leaves
        self.found: dict[ids.TopicPartition, fences.Fenced] = {}
        self.late: set[ids.TopicPartition] = set()
        self._tried: set[ids.TopicPartition] = set()
        self._taken: set[ids.TopicPartition] = set()

    def turn(self) -> bool:
        """Are all locked out? Raises `RetriableError`."""
        about, self.late = self._about, set()
        about.stop()
        known = about.known()
        led = to_fence(about, known)
        due = {each for each in led if each in self._taken or each not in self.found}
        if self.leaves:
            self.leave({each for each in due if not led[each]}, known)
            due = {each for each in due if led[each]}
        self._fence(sorted(due, key=lambda each: (not led[each], each in self._tried, each)), known)
        about.pause(tools.TURN_S)
        known = about.known()
        found = self.found
        self._taken = {each for each in found if fences.taken_since(known, found[each])}
        self._taken.update(to_fence(about, known).keys() - found.keys())
        return not self._taken

    def _fence(self, due: Sequence[ids.TopicPartition], known: offset_map.OffsetMap) -> None:
        try:
            fenced = self._about.fence(known, due)
        except fencing.PartlyFencedError as error:
            self._have(error.fenced)
            self.late = set(due).difference(each.partition for each in error.fenced)
            self._tried.update(error.tried)
            raise
        self._have(fenced)

    def _have(self, fenced: Collection[fences.Fenced]) -> None:
        self.found.update({each.partition: each for each in fenced})
        self._taken.difference_update(each.partition for each in fenced)

    def leave(
        self, partitions: Collection[ids.TopicPartition], known: offset_map.OffsetMap
    ) -> None:
        """Nobody is locked out of these."""
        self._have(
            [fences.unfenced(each, known.partition(each), fences.UNANSWERED) for each in partitions]
        )

    def why(self) -> str:
        return f"somebody copies {min(self._taken)} still, though the flow is stopped"


def fence_again(
    about: tools.Tools, wanted: orders.Wanted, fenced: Collection[fences.Fenced]
) -> list[fences.Fenced]:
    """Whoever has taken a partition since, or begun one, is fenced once more, with all others;
    empty where nobody has."""
    known = about.known()
    fresh = to_fence(about, known).keys() - {each.partition for each in fenced}
    if fresh or any(fences.taken_since(known, each) for each in fenced):
        return fence(about, wanted)
    return []


def to_fence(about: tools.Tools, known: offset_map.OffsetMap) -> dict[ids.TopicPartition, bool]:
    """See `fencing.to_fence`."""
    return fencing.to_fence(about.both, known, timeout_s=about.planner.timeout_s)
