"""What stands of one flow's offsets, read again before every answer: its map, and offset syncs."""

from __future__ import annotations

import logging

from connect_runtime.base import errors
from mm2.client import clusters
from mm2.cluster import map_reader, state_topics
from mm2.core import naming
from mm2.core.offsets import offset_map, sync_table
from mm2.formats import schema_fields

_LOG = logging.getLogger(__name__)


class FlowOffsets:
    """Of the flow from `source_alias` to the cluster `target`. One thread at a time."""

    def __init__(
        self,
        target: clusters.Cluster,
        *,
        source_alias: str,
        syncs: tuple[clusters.Cluster, str] | None = None,
    ) -> None:
        """`syncs`: the cluster and topic of the flow's offset syncs, None where unknown. Nothing is
        asked of the clusters yet."""
        self._target = target
        self._topic = naming.map_topic(source_alias)
        self._map = map_reader.MapReader(lambda: target.tail(self._topic), where="the target")
        self._syncs = syncs
        self._tail: state_topics.TopicTail | None = None
        self._table = sync_table.SyncTable(keep_history=True)
        self._there: set[str] = set()

    def read(self, timeout_s: float) -> offset_map.OffsetMap:
        """The map as it stands now; empty where there is none. Raises `RetriableError` and
        `FatalError`."""
        if not self._exists(self._target, self._topic, timeout_s):
            return offset_map.OffsetMap()
        return self._map.read(timeout_s)

    def read_syncs(self, timeout_s: float) -> sync_table.SyncTable | None:
        """As they stand now; None: there are none, or we may not read them.

        Raises `RetriableError` where their cluster does not answer.
        """
        if self._syncs is None:
            return None
        cluster, topic = self._syncs
        try:
            if not self._exists(cluster, topic, timeout_s):
                return None
            if self._tail is None:
                self._table = sync_table.SyncTable(keep_history=True)
                self._tail = cluster.tail(topic)
            for each in self._tail.read_to_end(timeout_s):
                self._apply(each)
        except errors.FatalError as error:
            self._close_syncs()
            _LOG.warning("offset syncs are done without: %s", error)
            return None
        except errors.ConnectError:
            self._close_syncs()
            raise
        if not self._table.ready:
            self._table.read_through()
        return self._table

    def close(self) -> None:
        """Let go of the connections."""
        self._map.close()
        self._close_syncs()

    def _exists(self, cluster: clusters.Cluster, topic: str, timeout_s: float) -> bool:
        """Whoever reads what does not exist waits for it."""
        if topic not in self._there and topic in cluster.topics.list_topics(timeout_s):
            self._there.add(topic)
        return topic in self._there

    def _apply(self, record: state_topics.TopicRecord) -> None:
        where = f"{record.topic}: the record at offset {record.offset}"
        try:
            if record.key is not None:
                self._table.apply(record.key, record.value)
        except schema_fields.MalformedRecordError as error:
            _LOG.warning("%s is no offset sync (%s); skipping it", where, error)

    def _close_syncs(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()
