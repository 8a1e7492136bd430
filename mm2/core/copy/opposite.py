"""Which producers of the source are the opposite flow's: what they wrote is not copied back.

A flow that keeps names and the one that leads back write into the same topics. The opposite flow
stores a producer id in its map topic before its first data (behind its first marker), and no
cluster gives out an id twice: who has seen data and then reads that topic to its end knows whose
the id is, for good.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

LOCALS_MAX = 50_000
"""Of producers that are not theirs so many are kept in mind; of others is asked again."""
NOBODY = -1
"""The id of who writes without one."""
ASKED_MAX = 1_000
"""So many are asked of at once."""


class Known:
    """`by_id` says of each producer id that was asked of whether it is the opposite flow's.

    Invariant: who wrote without an id is known, and not theirs.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, bool] = {NOBODY: False}

    def learn(self, asked: Iterable[int], *, theirs: Collection[int]) -> None:
        """The answer for these ids; `theirs` may hold more of the opposite flow's."""
        for each in asked:
            self.by_id.pop(each, None)
            self.by_id[each] = False
        for each in theirs:
            self.by_id[each] = True
        self._forget()

    def _forget(self) -> None:
        """The oldest that are not theirs; theirs are few, one more each time an id expires."""
        local = [each for each, theirs in self.by_id.items() if not theirs and each != NOBODY]
        for each in local[: max(0, len(local) - LOCALS_MAX)]:
            del self.by_id[each]
