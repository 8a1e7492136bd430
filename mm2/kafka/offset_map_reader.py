"""Reads a flow's offset map topic, once or repeatedly as it grows.

An unreadable record is ignored only if a later record has replaced its key. Otherwise an outdated
value would be treated as current.
"""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.base.errors import ConnectError, FatalError, RetriableError
from connect_runtime.base.timing import Clock, Deadline
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.formats.offset_map_records import MapKey
from mm2.kafka.client_interfaces import TopicRecord, TopicTail
from mm2.offsets.offset_map import OffsetMap


class MapReadTimeoutError(RetriableError):
    """The timeout expired before the whole offset map was read. The next call continues."""


class OffsetMapReader:
    """Keeps the offset map of one flow up to date and stores only current records in memory. Not
    thread-safe."""

    def __init__(
        self,
        connect: Callable[[], TopicTail],
        *,
        where: str,
        flow: str = "",
        key_filter: Callable[[MapKey], bool] = lambda _: True,
        clock: Clock | None = None,
    ) -> None:
        """Create a reader without connecting. `connect` opens the map topic. `where` is the cluster
        name and `flow` is the flow name ("" if unknown) for messages. `key_filter` selects keys as
        in `OffsetMap`. If a `clock` is given, reading ends at the timeout even if records are still
        arriving."""
        self._connect = connect
        self._clock = clock
        self._deadline: Deadline | None = None
        self._where = where
        self._flow = flow
        self._keeps = key_filter
        self._topic = ""
        self._tail: TopicTail | None = None
        self._map = OffsetMap(key_filter=key_filter)

    def read(self, timeout_s: float, *, total_timeout_s: float | None = None) -> OffsetMap:
        """Read all new records and return the map, which is empty if the topic does not exist.

        `total_timeout_s` limits reading while records are arriving; None uses `timeout_s`.

        Later calls, including failed calls, modify the returned map. Raises `RetriableError` and
        `FatalError`. The next call starts from the beginning, except after `MapReadTimeoutError`.
        """
        if self._clock is not None:
            total_s = timeout_s if total_timeout_s is None else total_timeout_s
            self._deadline = Deadline.after(total_s, now_s=self._clock.now_s())
        if self._tail is None:
            self._map = OffsetMap(key_filter=self._keeps)
            self._tail = self._connect()
        try:
            self._tail.read_each_to_end(timeout_s, self._apply)
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
        self._check_deadline()
        self._map.fold(record.key or b"", record.value, offset=record.offset)

    def _check_deadline(self) -> None:
        if self._clock is None or self._deadline is None:
            return
        if self._deadline.is_expired(self._clock.now_s()):
            raise MapReadTimeoutError(
                f"reading {self._topic} of {self._where} took longer than the timeout: increase "
                "the timeout (--timeout), or call again to continue where reading stopped"
            )
