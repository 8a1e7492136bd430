"""Reads a flow's offset map topic, once or repeatedly as it grows.

An unreadable record is ignored only if a later record has replaced its key; otherwise an outdated
value would be taken for the current one.
"""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.formats.offset_map_records import MapKey
from mm2.kafka.client_interfaces import TopicRecord, TopicTail
from mm2.offsets.offset_map import OffsetMap


class OffsetMapReader:
    """Keeps the offset map of one flow up to date, holding only current records in memory. One
    thread at a time."""

    def __init__(
        self,
        connect: Callable[[], TopicTail],
        *,
        where: str,
        flow: str = "",
        key_filter: Callable[[MapKey], bool] = lambda _: True,
    ) -> None:
        """`connect` opens the map topic. `where` names the cluster and `flow` the flow ("" if
        unknown) in messages. `key_filter` as in `OffsetMap`."""
        self._connect = connect
        self._where = where
        self._flow = flow
        self._keeps = key_filter
        self._topic = ""
        self._tail: TopicTail | None = None
        self._map = OffsetMap(key_filter=key_filter)

    def read(self, timeout_s: float) -> OffsetMap:
        """Read all new records and return the map, which is empty if the topic does not exist.

        Later calls, even failed ones, change the returned map. Raises `RetriableError` and
        `FatalError`; the next call starts over.
        """
        if self._tail is None:
            self._map = OffsetMap(key_filter=self._keeps)
            self._tail = self._connect()
        try:
            self._tail.read_each_to_end(timeout_s, self._apply)
        except TopicMissingError:
            self.close()
            self._map = OffsetMap(key_filter=self._keeps)
        except ConnectError:
            self.close()
            raise
        for each in self._map.list_unreadable():
            raise FatalError(
                each.describe(topic=f"{self._topic} of {self._where}", flow=self._flow)
            )
        return self._map

    def close(self) -> None:
        """Close the connection."""
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _apply(self, record: TopicRecord) -> None:
        self._topic = record.topic
        self._map.fold(record.key or b"", record.value, offset=record.offset)
