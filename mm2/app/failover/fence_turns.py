"""Fencing all writers of a flow, turn by turn, until nobody takes a partition any more. What does
not answer holds up nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect_runtime.base import errors, ids
from mm2.app.failover import fencing, tools
from mm2.core.failover import codes, fences
from mm2.core.offsets import offset_map

GONE_S = 30.0
"""Who has not answered for so long is as good as dead to who accepted that. A broker that died has
lost what it led by then (broker.session.timeout.ms is 9 s, with ZooKeeper 18 s), and another leads
it where there is one; of one that hangs and leads on nothing better is to come."""


class FenceTurns:
    """`found` are fenced, or left as they are; `late` those that were neither in the last turn."""

    def __init__(self, about: tools.Tools, *, leaves: bool) -> None:
        """`leaves`: what does not answer is left unfenced after `GONE_S`, and at once where no
        broker leads it; else it is waited for."""
        self._about = about
        self._leaves = leaves
        self.found: dict[ids.TopicPartition, fences.Fenced] = {}
        self.late: set[ids.TopicPartition] = set()
        self._since_s: dict[ids.TopicPartition, float] = {}
        """Those that have not answered since they were asked at that time."""
        self._failed: set[ids.TopicPartition] = set()
        """Those that could not be fenced when that was tried last."""
        self._taken: set[ids.TopicPartition] = set()

    def turn(self) -> bool:
        """Are all locked out? Raises `RetriableError`."""
        about = self._about
        about.stop()
        known = about.known()
        led = to_fence(about, known)
        self.late = {each for each in led if each in self._taken or each not in self.found}
        silent = self._silent({each: led[each] for each in self.late})
        if self._leaves:
            self.leave(
                {each for each in self.late if led[each] is None or self._is_gone(each)}, known
            )
        self._fence(self.late - silent.keys(), known)
        if self.late:
            raise errors.RetriableError(self._why_late(silent))
        about.pause(tools.TURN_S)
        known = about.known()
        found = self.found
        self._taken = {each for each in found if fences.taken_since(known, found[each])}
        self._taken.update(to_fence(about, known).keys() - found.keys())
        return not self._taken

    def leave(
        self, partitions: Collection[ids.TopicPartition], known: offset_map.OffsetMap
    ) -> None:
        """Nobody is locked out of these."""
        self._have(
            [fences.unfenced(each, known.partition(each), fences.UNANSWERED) for each in partitions]
        )

    def why(self) -> str:
        return f"somebody copies {min(self._taken)} still, though the flow is stopped"

    def _silent(
        self, led: Mapping[ids.TopicPartition, int | None]
    ) -> dict[ids.TopicPartition, str]:
        about = self._about
        found = fencing.silent(about.both, led, clock=about.clock)
        now_s, before = about.clock.now_s(), self._since_s
        self._since_s = {each: before.get(each, now_s) for each in self._failed.union(found)}
        return found

    def _is_gone(self, partition: ids.TopicPartition) -> bool:
        return partition in self._since_s and self._left_s(partition) <= 0

    def _left_s(self, partition: ids.TopicPartition) -> float:
        """Until it is left, where that is accepted."""
        return self._since_s[partition] + GONE_S - self._about.clock.now_s()

    def _fence(
        self, partitions: Collection[ids.TopicPartition], known: offset_map.OffsetMap
    ) -> None:
        """Those first that have not failed yet."""
        due = sorted(partitions, key=lambda each: (each in self._failed, each))
        try:
            fenced = self._about.fence(known, due)
        except fencing.PartlyFencedError as error:
            self._have(error.fenced)
            self._failed.update(error.tried)
            raise errors.RetriableError(f"{error}{self._way_on}") from error
        self._have(fenced)

    def _have(self, fenced: Collection[fences.Fenced]) -> None:
        done = [each.partition for each in fenced]
        self.found.update(zip(done, fenced, strict=True))
        self.late.difference_update(done)
        self._taken.difference_update(done)
        self._failed.difference_update(done)

    def _why_late(self, silent: Mapping[ids.TopicPartition, str]) -> str:
        first = min(self.late)
        more = f" and {len(self.late) - 1} more" if len(self.late) > 1 else ""
        said = f"nobody answers for the mirror of {first}{more} ({silent[first]})"
        if not self._leaves:
            return said + self._way_on
        left_s = max(0.0, max(map(self._left_s, self.late)))
        return f"{said}; who has not within {left_s:.0f} s is left unfenced, as was accepted"

    @property
    def _way_on(self) -> str:
        if self._leaves:
            return ""
        return f". To leave it to who may still copy it: --accept {codes.MIRROR_UNKNOWN}"


def to_fence(
    about: tools.Tools, known: offset_map.OffsetMap
) -> dict[ids.TopicPartition, int | None]:
    """See `fencing.to_fence`."""
    return fencing.to_fence(about.both, known, timeout_s=about.planner.timeout_s)
