"""Reads a flow's offset map topic, once or repeatedly as it grows.

An unreadable record is ignored only if a later record has replaced its key; otherwise an
outdated value would be taken for the current one.
"""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.base.errors import ConnectError, FatalError
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.formats.offset_map_records import MapKey
from mm2.kafka.client_interfaces import TopicRecord, TopicTail
from mm2.offsets.offset_map import OffsetMap


class OffsetMapReader:
    """The map of one flow, kept up to date: of what the topic holds no more stays in memory than
    counts. One thread at a time."""

    def __init__(
        self,
        connect: Callable[[], TopicTail],
        *,
        where: str,
        flow: str = "",
        keeps: Callable[[MapKey], bool] = lambda _: True,
    ) -> None:
        """`connect` opens the map topic; `where` is what its cluster is called, `flow` the flow,
        "" if not known. `keeps` as in `OffsetMap`."""
        self._connect = connect
        self._where = where
        self._flow = flow
        self._keeps = keeps
        self._topic = ""
        self._tail: TopicTail | None = None
        self._known = OffsetMap(keeps=keeps)

    def read(self, timeout_s: float) -> OffsetMap:
        """All that stands in the topic now; empty where there is none. What was returned before
        goes on changing, also by a read that fails.

        Raises `RetriableError` and `FatalError`: asked again it begins anew.
        """
        if self._tail is None:
            self._known = OffsetMap(keeps=self._keeps)
            self._tail = self._connect()
        try:
            self._tail.feed_to_end(timeout_s, self._take)
        except TopicMissingError:
            self.close()
            self._known = OffsetMap(keeps=self._keeps)
        except ConnectError:
            self.close()
            raise
        for each in self._known.unreadable():
            raise FatalError(
                each.describe(topic=f"{self._topic} of {self._where}", flow=self._flow)
            )
        return self._known

    def close(self) -> None:
        """Let go of the connection."""
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _take(self, record: TopicRecord) -> None:
        self._topic = record.topic
        self._known.fold(record.key or b"", record.value, offset=record.offset)
