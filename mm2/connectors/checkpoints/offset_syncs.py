"""The offset-syncs topic as a checkpoint task follows it (`OffsetSyncStore`).

Where Java gives up for good when the topic is missing at start, or has a record that cannot be
read, it is looked for again, or that record is passed over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from connect_runtime.base import amounts, ids
from mm2.cluster import errors as cluster_errors
from mm2.cluster import state_topics
from mm2.connectors import record_folds
from mm2.core.offsets import sync_table, translation
from mm2.formats import offset_sync

_LOG = logging.getLogger(__name__)


class OffsetSyncs:
    """One thread at a time. `keep_history`: see `sync_table.SyncTable`."""

    def __init__(
        self, connect: Callable[[], state_topics.TopicTail], *, keep_history: bool
    ) -> None:
        self._connect = connect
        self._keep_history = keep_history
        self._tail: state_topics.TopicTail | None = None
        self._table = sync_table.SyncTable(keep_history=keep_history)

    @property
    def ready(self) -> bool:
        """Was it read to an end once?"""
        return self._table.ready

    def refresh(self, timeout_s: float) -> None:
        """Take in what is new. Raises as `state_topics.TopicTail`; what was known stays known,
        unless the topic itself is another one now."""
        if self._tail is None:
            self._tail = self._connect()
        try:
            found = self._tail.read_to_end(timeout_s)
        except cluster_errors.LogTruncatedError as error:
            _LOG.warning("%s", error)
            self.close()
            self._table = sync_table.SyncTable(keep_history=self._keep_history)
            return
        record_folds.fold(found, self._table.apply)
        if not self._table.ready:
            self._table.read_through()
            _LOG.info(
                "read %s of %s",
                amounts.counted(len(found), "offset sync"),
                amounts.counted(len(self._table.partitions()), "partition"),
            )

    def translate(self, partition: ids.TopicPartition, upstream: int) -> translation.Translation:
        """See `translation.Translate`."""
        return self._table.translate(partition, upstream)

    def newest(self, partition: ids.TopicPartition) -> offset_sync.OffsetSync | None:
        """The last sync of the partition, None without one."""
        slots = self._table.slots(partition)
        return slots[0] if slots else None

    def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()
