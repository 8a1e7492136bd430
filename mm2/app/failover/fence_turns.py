"""Fencing all writers of a flow, turn by turn, until nobody takes a partition any more. What does
not answer holds up nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from connect_runtime.base import errors, ids
from mm2.app.failover import fencing, tools
from mm2.app.looks import partition_ends
from mm2.core.failover import codes, fences
from mm2.core.offsets import offset_map

GONE_S = 30.0
"""Who has not answered for so long is as good as dead to who accepted that. A broker that died has
lost what it led by then (broker.session.timeout.ms is 9 s, with ZooKeeper 18 s), and another leads
it where there is one; of one that hangs and leads on nothing better is to come."""
NAMES_MAX = 10
_NOT_BEGUN = "time was up before it was tried"


class FenceTurns:
    """`found` are fenced, or left as they are; `late` those that the last turn asked about, and
    that were neither."""

    def __init__(self, about: tools.Tools, *, leaves: bool) -> None:
        """`leaves`: what does not answer is left unfenced after `GONE_S`, and at once where no
        broker leads it; else it is waited for."""
        self._about = about
        self._leaves = leaves
        self.found: dict[ids.TopicPartition, fences.Fenced] = {}
        self.late: set[ids.TopicPartition] = set()
        self._since_s: dict[ids.TopicPartition, float] = {}
        """Those that have not answered since they were asked at that time."""
        self._silent: dict[ids.TopicPartition, str] = {}
        """Those whose leader did not answer in the last turn, and why."""
        self._failed: dict[ids.TopicPartition, str] = {}
        """Those that did not answer when they were fenced last, and what failed."""
        self._refused: dict[ids.TopicPartition, str] = {}
        """Those that did when they were asked last, and what they said instead."""
        self._taken: set[ids.TopicPartition] = set()

    def turn(self) -> bool:
        """Are all locked out? Raises `RetriableError`, and `FatalError` where a right is
        missing."""
        self.late = set()
        about = self._about
        about.stop()
        known = about.known()
        led = to_fence(about, known)
        late = {each for each in led if each in self._taken or each not in self.found}
        self._ask({each: led[each] for each in late})
        self.late = late
        if self._leaves:
            self._leave({each for each in late if self._is_gone(each, led[each])}, known)
        self._fence(self.late - self._silent.keys(), known)
        if self.late:
            raise errors.RetriableError(self._why_late())
        about.pause(tools.TURN_S)
        known = about.known()
        found = self.found
        self._taken = {each for each in found if fences.taken_since(known, found[each])}
        self._taken.update(to_fence(about, known).keys() - found.keys())
        return not self._taken

    def leave_late(self) -> None:
        """Those that have not answered up to the end. Raises `RetriableError` where some did, and
        are not fenced all the same: that is not what was accepted."""
        about, refused = self._about, sorted(self.late & self._refused.keys())
        if refused:
            more = len(refused) - NAMES_MAX
            names = ", ".join(map(str, refused[:NAMES_MAX])) + f" and {more} more" * (more > 0)
            raise errors.RetriableError(
                f"after {about.wait_s:g} s not fenced, though they are answered for: {names} "
                f"({self._refused[refused[0]]}). Only what nobody answers for is left unfenced"
            )
        self._leave(set(self.late), about.known())

    def why(self) -> str:
        return f"somebody copies {min(self._taken)} still, though the flow is stopped"

    def _leave(
        self, partitions: Collection[ids.TopicPartition], known: offset_map.OffsetMap
    ) -> None:
        """Nobody is locked out of these."""
        why = {**dict.fromkeys(partitions, _NOT_BEGUN), **self._failed, **self._silent}
        self._have(
            [
                fences.unfenced(each, known.partition(each), fences.unanswered(why[each]))
                for each in partitions
            ]
        )

    def _ask(self, led: partition_ends.Led) -> None:
        about = self._about
        self._silent = fencing.silent(about.both, led, clock=about.clock)
        for each in self._silent:
            self._refused.pop(each, None)
        now_s, before = about.clock.now_s(), self._since_s
        self._since_s = {each: before.get(each, now_s) for each in (*self._failed, *self._silent)}

    def _is_gone(self, partition: ids.TopicPartition, leader: int | errors.ConnectError) -> bool:
        if isinstance(leader, partition_ends.NoLeaderError):
            return True
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
            for each in (*error.silent, *error.refused):
                self._failed.pop(each, None)
                self._refused.pop(each, None)
            self._failed.update(error.silent)
            self._refused.update(error.refused)
            way_on = self._way_on if error.silent else ""
            raise errors.RetriableError(f"{error}{way_on}") from error
        self._have(fenced)

    def _have(self, fenced: Collection[fences.Fenced]) -> None:
        done = [each.partition for each in fenced]
        self.found.update(zip(done, fenced, strict=True))
        self.late.difference_update(done)
        self._taken.difference_update(done)
        for each in done:
            self._failed.pop(each, None)
            self._refused.pop(each, None)

    def _why_late(self) -> str:
        first = min(self.late)
        more = f" and {len(self.late) - 1} more" if len(self.late) > 1 else ""
        said = f"nobody answers for the mirror of {first}{more} ({self._silent[first]})"
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
) -> Mapping[ids.TopicPartition, int | errors.ConnectError]:
    """See `fencing.to_fence`."""
    return fencing.to_fence(about.both, known, timeout_s=about.planner.timeout_s)
