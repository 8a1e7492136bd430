"""Remembers which source producers belong to the reverse flow, so that their records are not
replicated back.

A flow that keeps topic names and its reverse flow write to the same topics. The reverse flow stores
a producer id in its map topic before the id's first data record (after its first marker), and no
cluster issues an id twice. Therefore, reading the map topic to its end after a batch was fetched
shows definitively whether the batch's producer id belongs to the reverse flow.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

LOCAL_PRODUCERS_MAX = 50_000
"""Maximum number of remembered producers that do not belong to the reverse flow. Forgotten
producers are looked up again."""
NO_PRODUCER_ID = -1
"""Producer id in batches of non-idempotent producers."""
PRODUCERS_PER_QUERY_MAX = 1_000
"""Maximum number of producer ids per lookup."""


class ReverseFlowFilter:
    """Remembers for each known producer id of the source whether it belongs to the reverse flow.

    Invariant: the id of batches without a producer id is known and does not belong to the reverse
    flow.
    """

    def __init__(self) -> None:
        self.is_reverse_by_id: dict[int, bool] = {NO_PRODUCER_ID: False}

    def add_resolved_producers(
        self, producers: Iterable[int], *, reverse_producers: Collection[int]
    ) -> None:
        """Store the result of a lookup of the producer ids `producers`: those in
        `reverse_producers` belong to the reverse flow. `reverse_producers` may contain additional
        ids."""
        for each in producers:
            self.is_reverse_by_id.pop(each, None)
            self.is_reverse_by_id[each] = False
        for each in reverse_producers:
            self.is_reverse_by_id[each] = True
        self._forget_oldest_producers()

    def _forget_oldest_producers(self) -> None:
        """Forget the oldest producers that do not belong to the reverse flow. Producers of the
        reverse flow are kept. They are few, because the reverse flow gets a new producer id only
        after an old one has expired."""
        local = [
            each
            for each, theirs in self.is_reverse_by_id.items()
            if not theirs and each != NO_PRODUCER_ID
        ]
        for each in local[: max(0, len(local) - LOCAL_PRODUCERS_MAX)]:
            del self.is_reverse_by_id[each]
