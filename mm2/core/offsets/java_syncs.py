"""The offset syncs of some partitions as they stand in their topic, for who takes over from Java.

Translating needs a store of its own (`sync_table`); here the newest one below an offset is asked
for, in the order of the topic.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.formats import offset_sync

KEPT = 1_000
"""Per partition: Java's tasks store their progress every minute, which is this many syncs at most
where records come slowly enough to matter."""


@dataclass(slots=True)
class JavaSyncs:
    """A fold over the topic. Invariant: at most `KEPT` of each of `share`, newest last."""

    share: Collection[ids.TopicPartition]
    _syncs: dict[ids.TopicPartition, deque[offset_sync.OffsetSync]] = field(default_factory=dict)

    def apply(self, key: bytes, value: bytes | None) -> None:
        """Raises `schema_fields.MalformedRecordError`."""
        name = offset_sync.decode_key(key)
        if name not in self.share:
            return
        if value is None:
            self._syncs.pop(name, None)
        else:
            kept = self._syncs.setdefault(name, deque(maxlen=KEPT))
            kept.append(offset_sync.decode(key, value))

    def any(self, partition: ids.TopicPartition) -> bool:
        return bool(self._syncs.get(partition))

    def below(self, partition: ids.TopicPartition, offset: int) -> tuple[int, int] | None:
        """The two offsets of the newest sync of a source offset below `offset`."""
        for sync in reversed(self._syncs.get(partition, ())):
            if sync.upstream < offset:
                return sync.upstream, sync.downstream
        return None
