"""Which source producers belong to the reverse flow: their records are not replicated back.

A flow that keeps topic names and its reverse flow write into the same topics. The reverse flow
stores a producer id in its map topic before its first data (after its first marker), and no
cluster issues an id twice. So whoever has seen data and then reads that topic to its end knows
for good whether the id belongs to the reverse flow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

LOCAL_PRODUCERS_MAX = 50_000
"""Of producers that are not theirs so many are kept in mind; of others is asked again."""
NO_PRODUCER_ID = -1
"""The id of who writes without one."""
PRODUCERS_PER_QUERY_MAX = 1_000
"""So many are asked of at once."""


class ReverseFlowFilter:
    """`by_id` says of each producer id that was asked of whether it is the opposite flow's.

    Invariant: who wrote without an id is known, and not theirs.
    """

    def __init__(self) -> None:
        self.by_id: dict[int, bool] = {NO_PRODUCER_ID: False}

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
        local = [
            each for each, theirs in self.by_id.items() if not theirs and each != NO_PRODUCER_ID
        ]
        for each in local[: max(0, len(local) - LOCAL_PRODUCERS_MAX)]:
            del self.by_id[each]
