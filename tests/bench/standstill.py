"""Which partitions of a mirror stood still after a node's end, and when they moved again. Pure.

Only records count that the source has written, each once, known by their stamps: a marker of a
transaction or a record that is copied once more moves nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

STILL_S = 2.0
"""Who brings nothing new for so long stands still, where fifty records a second are sent."""
QUIET_S = 10.0
"""Nothing has stood still for so long: it is over."""


@dataclass(slots=True)
class Standstill:
    """`hear` of each record that is read on the target; times are seconds of one clock.

    Stamps grow within a partition, as its records are written.
    """

    partitions: int
    killed_s: float | None = None
    _newest: dict[int, int] = field(default_factory=dict)
    _moved_s: dict[int, float] = field(default_factory=dict)
    _again_s: dict[int, float] = field(default_factory=dict)

    def hear(self, partition: int, stamp: int, at_s: float) -> None:
        if stamp <= self._newest.get(partition, -1):
            return  # a double
        self._newest[partition] = stamp
        if self.killed_s is not None:
            since_s = max(self.killed_s, self._moved_s.get(partition, self.killed_s))
            if at_s - since_s >= STILL_S:
                self._again_s[partition] = at_s
        self._moved_s[partition] = at_s

    def moving(self, now_s: float) -> bool:
        """Has every partition brought something new just now?"""
        return not self.still(now_s)

    def still(self, now_s: float) -> list[int]:
        """Partitions that stand still now, or have never moved."""
        return [
            each
            for each in range(self.partitions)
            if each not in self._moved_s or now_s - self._moved_s[each] >= STILL_S
        ]

    def over(self, now_s: float) -> bool:
        """Something stood still since the kill, and for a while nothing does any more."""
        return (
            bool(self._again_s)
            and self.moving(now_s)
            and now_s - max(self._again_s.values()) >= QUIET_S
        )

    @property
    def again_s(self) -> dict[int, float]:
        """Seconds from the kill until each partition that stood still moved again, for good."""
        killed_s = self.killed_s or 0.0
        return {partition: at_s - killed_s for partition, at_s in self._again_s.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """`lost`: never came; `doubled`: came once more, so many times; `foreign`: nobody sent it."""

    lost: int
    doubled: int
    foreign: int

    def fault(self, *, doubles_allowed: bool) -> str:
        """What is wrong with the mirror, "" if nothing is."""
        found = [
            f"{count:,} records {said}"
            for count, said in (
                (self.lost, "lost"),
                (0 if doubles_allowed else self.doubled, "doubled"),
                (self.foreign, "that the source has not"),
            )
            if count
        ]
        return ", ".join(found)


Values = Mapping[int, Sequence[bytes]]
"""The values of a topic's records, by partition; no two of the source's are the same."""


def judge(source: Values, target: Values) -> Judgement:
    """Record by record and partition by partition, in whatever order they stand."""
    lost = doubled = foreign = 0
    for partition in {*source, *target}:
        sent, there = set(source.get(partition, ())), Counter(target.get(partition, ()))
        lost += len(sent - there.keys())
        foreign += sum(count for value, count in there.items() if value not in sent)
        doubled += sum(count - 1 for value, count in there.items() if value in sent)
    return Judgement(lost=lost, doubled=doubled, foreign=foreign)


def spread_over(placed: Mapping[str, str], tasks: Collection[str], nodes: int) -> bool:
    """Do so many nodes run all of these tasks, each at least one?"""
    owners = [placed.get(each) for each in tasks]
    return None not in owners and len(set(owners)) == nodes
