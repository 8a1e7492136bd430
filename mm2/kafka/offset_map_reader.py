"""Reads a flow's offset map topic, once or repeatedly as it grows.

An unreadable record is ignored only if a later record has the same key. Otherwise an outdated value
would be treated as current.
"""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.formats.offset_map_records import MapKey
from mm2.kafka.kafka_client_interfaces import TopicRecord, TopicTail
from mm2.offsets.offset_map import OffsetMap


class MapReadTimeoutError(RetriableError):
    """The timeout expired before the whole offset map was read. The next call continues."""


class OffsetMapReader:
    """Reads the offset map of one flow and keeps only its current records in memory. Each read adds
    new records. Not thread-safe."""

    def __init__(
        self,
        connect: Callable[[], TopicTail],
        *,
        where: str,
        flow: str = "",
        key_filter: Callable[[MapKey], bool] = lambda _: True,
    ) -> None:
        """Create a reader without connecting. `connect` opens the map topic. `where` is the cluster
        name and `flow` is the flow name ("" if unknown) for messages. `key_filter` selects the keys
        to keep; see `OffsetMap`."""
        self._connect = connect
        self._where = where
        self._flow = flow
        self._keeps = key_filter
        self._topic = ""
        self._tail: TopicTail | None = None
        self._map = OffsetMap(key_filter=key_filter)

    def read_map(
        self, timeout_s: float, *, must_end: Callable[[], bool] = lambda: False
    ) -> OffsetMap:
        """Read all new records of the map topic and return the map, which is empty if the topic
        does not exist.

        `timeout_s` limits how long brokers may take to respond. `must_end` is called for each
        record: if it returns True, reading ends with `MapReadTimeoutError`.

        Later calls, including failed calls, modify the returned map. Raises `RetriableError` and
        `FatalError`. The next call starts from the beginning, except after `MapReadTimeoutError`.
        """
        if self._tail is None:
            self._map = OffsetMap(key_filter=self._keeps)
            self._tail = self._connect()
        try:
            self._tail.read_to_end(timeout_s, lambda record: self._apply_record(record, must_end))
        except TopicMissingError:
            self.close()
            self._map = OffsetMap(key_filter=self._keeps)
        except MapReadTimeoutError:
            raise
        except ConnectError:
            self.close()
            raise
        for each in self._map.list_unreadable_records():
            raise FatalError(
                each.format_error(topic=f"{self._topic} of {self._where}", flow=self._flow)
            )
        return self._map

    def close(self) -> None:
        """Close the connection."""
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _apply_record(self, record: TopicRecord, must_end: Callable[[], bool]) -> None:
        self._topic = record.topic
        if must_end():
            raise MapReadTimeoutError(
                f"reading {self._topic} of {self._where} took longer than the timeout: increase "
                "the timeout (--timeout), or call again to continue where reading stopped"
            )
        self._map.apply_record_or_keep_unreadable(
            record.key or b"", record.value, offset=record.offset
        )
