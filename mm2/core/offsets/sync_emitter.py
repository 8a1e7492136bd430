"""When an offset sync is due, and which wait to be written (`OffsetSyncWriter` of MirrorMaker 2).

A sync is due at once where readers of the topic would err by too much without it: at the first
record of this life, at a gap in the source's offsets, when the target's went back, and when the
last sync is `offset_lag_max` records behind. What is acknowledged between is written the next time
that source offsets are committed (KAFKA-15906), so that groups at the end translate well. Per
partition the newest counts; how many are under way is bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.formats import offset_sync

UNDER_WAY_MAX = 10
"""`MAX_OUTSTANDING_OFFSET_SYNCS`"""
_NEVER = -1


@dataclass(slots=True)
class PartitionState:
    """What was acknowledged last of one source partition in this life (`PartitionState`)."""

    upstream: int = _NEVER
    downstream: int = _NEVER
    synced: int = _NEVER
    """The target's offset of the last sync that was due at once."""

    def acknowledge(
        self, upstream: int, downstream: int, records: int, *, offset_lag_max: int
    ) -> int | None:
        """`records` follow one another from these offsets. How many of them come before the last
        one that a sync is due for; None if none is due."""
        due: int | None = None
        if (
            self.synced == _NEVER
            or downstream - (self.synced + 1) >= offset_lag_max
            or upstream - self.upstream != 1
            or downstream < self.downstream
        ):
            self.synced = downstream
            due = 0
        # From here on only the lag grows, so one is due every so many records.
        last = downstream + records - 1
        steps = (last - self.synced) // (offset_lag_max + 1)
        if steps > 0:
            self.synced += steps * (offset_lag_max + 1)
            due = self.synced - downstream
        self.upstream, self.downstream = upstream + records - 1, last
        return due


@dataclass(slots=True)
class SyncEmitter:
    """The queues of one task; its owner writes what `take_due` gives, and tells what came of it.

    Invariants: at most `under_way_max` syncs were taken and are not answered; what is delayed was
    acknowledged after what is pending of the same partition.
    """

    offset_lag_max: int
    under_way_max: int = UNDER_WAY_MAX
    _states: dict[ids.TopicPartition, PartitionState] = field(default_factory=dict)
    _pending: dict[ids.TopicPartition, offset_sync.OffsetSync] = field(default_factory=dict)
    _delayed: dict[ids.TopicPartition, offset_sync.OffsetSync] = field(default_factory=dict)
    _under_way: int = 0

    def acknowledge(
        self, partition: ids.TopicPartition, *, upstream: int, downstream: int, records: int = 1
    ) -> None:
        """The target has this record, or `records` of them without a gap on either side.

        The same as to acknowledge one after the other (`maybeQueueOffsetSyncs`).
        """
        assert records > 0, records
        state = self._states.setdefault(partition, PartitionState())
        due = state.acknowledge(upstream, downstream, records, offset_lag_max=self.offset_lag_max)
        if due is not None:
            self._delayed.pop(partition, None)
            self._pending[partition] = _sync(partition, upstream + due, downstream + due)
        if due != records - 1:
            last = records - 1
            self._delayed[partition] = _sync(partition, upstream + last, downstream + last)

    def promote_delayed(self) -> None:
        """Source offsets were committed: the rest is due (`promoteDelayedOffsetSyncs`)."""
        self._pending.update(self._delayed)
        self._delayed.clear()

    def take_due(self) -> list[offset_sync.OffsetSync]:
        """To be written now, oldest first; each wants an `answered` (`firePendingOffsetSyncs`)."""
        taken: list[offset_sync.OffsetSync] = []
        while self._pending and self._under_way < self.under_way_max:
            taken.append(self._pending.pop(next(iter(self._pending))))
            self._under_way += 1
        return taken

    def answered(self, sync: offset_sync.OffsetSync, *, stored: bool) -> None:
        """A sync that was taken is in the topic, or will not get there.

        A lost one is written at the next commit if nothing newer has come; Java leaves it out.
        An older one must not follow a newer one: readers would take it for a source that went back.
        """
        assert self._under_way > 0, sync
        self._under_way -= 1
        state = self._states.get(sync.partition)
        if stored or state is None:
            return
        if (state.upstream, state.downstream) == (sync.upstream, sync.downstream):
            self._delayed[sync.partition] = sync

    def forget(self, partition: ids.TopicPartition) -> None:
        """It is copied elsewhere now, where its next record makes a sync due.

        What is queued is dropped: behind a newer sync it would look like a source that went back.
        """
        for table in (self._states, self._pending, self._delayed):
            table.pop(partition, None)

    @property
    def pending(self) -> Mapping[ids.TopicPartition, offset_sync.OffsetSync]:
        return self._pending

    @property
    def delayed(self) -> Mapping[ids.TopicPartition, offset_sync.OffsetSync]:
        return self._delayed

    @property
    def under_way(self) -> int:
        return self._under_way

    def check_invariants(self) -> None:
        assert 0 <= self._under_way <= self.under_way_max, self._under_way


def _sync(partition: ids.TopicPartition, upstream: int, downstream: int) -> offset_sync.OffsetSync:
    return offset_sync.OffsetSync(partition=partition, upstream=upstream, downstream=downstream)
