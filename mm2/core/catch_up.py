"""Has everything that the source held at the start been copied?"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from connect_runtime.base import ids


class Verdict(enum.Enum):
    """IN_ERROR once nothing can move any more and at least one partition stands still."""

    COPYING = "copying"
    CAUGHT_UP = "caught up"
    IN_ERROR = "in error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Records (by offset: an upper bound where the source has gaps) and partitions."""

    verdict: Verdict
    total: int
    copied: int
    partitions: int
    done: int


@dataclass(slots=True)
class CatchUp:
    """A fold over what partitions report; the end of each is the first one seen.

    Invariant: `_ends` of a partition never changes once it is known.
    """

    partitions: list[ids.TopicPartition]
    _starts: dict[ids.TopicPartition, int] = field(default_factory=dict)
    _ends: dict[ids.TopicPartition, int] = field(default_factory=dict)
    _copied: dict[ids.TopicPartition, int] = field(default_factory=dict)
    _failed: set[ids.TopicPartition] = field(default_factory=set)

    def report(
        self, partition: ids.TopicPartition, *, copied_to: int, end: int, stopped: bool
    ) -> None:
        """`copied_to` and `end` as in `messages.Gauge`, -1 when not known yet."""
        if copied_to >= 0:
            self._starts.setdefault(partition, copied_to)
            self._copied[partition] = copied_to
        if end >= 0:
            self._ends.setdefault(partition, end)
        if stopped:
            self._failed.add(partition)
        else:
            self._failed.discard(partition)

    def progress(self) -> Progress:
        done = {each for each in self.partitions if self.is_done(each)}
        failed = self._failed - done
        if len(done) == len(self.partitions):
            verdict = Verdict.CAUGHT_UP
        elif len(done) + len(failed) == len(self.partitions):
            verdict = Verdict.IN_ERROR
        else:
            verdict = Verdict.COPYING
        total = copied = 0
        for partition, end in self._ends.items():
            start = self._starts.get(partition, end)
            total += max(0, end - start)
            copied += max(0, min(self._copied.get(partition, start), end) - start)
        return Progress(
            verdict=verdict,
            total=total,
            copied=copied,
            partitions=len(self.partitions),
            done=len(done),
        )

    def is_done(self, partition: ids.TopicPartition) -> bool:
        """Is everything copied that this partition held when it was first seen?"""
        end = self._ends.get(partition)
        return end is not None and self._copied.get(partition, -1) >= end
