"""Which OffsetSync of a partition what MirrorMaker 2 wrote last is retraced from (fold)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

KEPT = 2_000
"""Java writes one for each 100 records, and more where the source has gaps."""
LONGEST = 1_000_000
"""Target offsets that are retraced at most to be exact: some ten seconds."""

Sync = tuple[int, int]
"""Source offset, target offset."""


@dataclass(slots=True)
class JavaSyncs:
    """The newest OffsetSyncs of one partition, in the topic's order, which is that of their target
    offsets."""

    _known: deque[Sync] = field(default_factory=lambda: deque(maxlen=KEPT))

    def __bool__(self) -> bool:
        return bool(self._known)

    def apply(self, source: int, target: int) -> None:
        """The next record. Where the target goes back, its log is another one or was cut."""
        while self._known and self._known[-1][1] >= target:
            self._known.pop()
        self._known.append((source, target))

    def below(self, next_offset: int) -> Sync | None:
        """The newest below this source offset that parts what was copied: nothing higher can stand
        before it, nothing lower is known behind. None without any below.

        Java may have stepped back, and may not have come as far again as it was: what it had copied
        first stands before its newer OffsetSyncs. Where that reaches too far back, just the newest.
        """
        lowest = next_offset
        lowest_behind = []
        for source, _ in reversed(self._known):
            lowest = min(lowest, source)
            lowest_behind.append(lowest)
        surest = newest = before = None
        highest = -1
        for sync in self._known:
            if before is not None:
                # As many records as there is room for may have followed the one before.
                highest = max(highest, before[0] + sync[1] - before[1] - 1)
            if sync[0] < next_offset:
                newest = sync
                if highest <= sync[0] <= lowest_behind[-1]:
                    surest = sync
            lowest_behind.pop()
            highest = max(highest, sync[0])
            before = sync
        if surest is None or newest is None or newest[1] - surest[1] > LONGEST:
            return newest
        return surest
