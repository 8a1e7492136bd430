"""Reading the map topic of a flow: once, or again and again as it grows.

What cannot be read is passed over only once a record behind it has replaced it: else what it
replaces would be taken for the truth.
"""

from __future__ import annotations

from collections.abc import Callable

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import state_topics
from mm2.core.offsets import offset_map
from mm2.formats import map_record


class MapReader:
    """The map of one flow, kept up to date: of what the topic holds no more stays in memory than
    counts. One thread at a time."""

    def __init__(
        self,
        connect: Callable[[], state_topics.TopicTail],
        *,
        where: str,
        flow: str = "",
        keeps: Callable[[map_record.MapKey], bool] = lambda _: True,
    ) -> None:
        """`connect` opens the map topic; `where` is what its cluster is called, `flow` the flow,
        "" if not known. `keeps` as in `offset_map.OffsetMap`."""
        self._connect = connect
        self._where = where
        self._flow = flow
        self._keeps = keeps
        self._topic = ""
        self._tail: state_topics.TopicTail | None = None
        self._known = offset_map.OffsetMap(keeps=keeps)

    def read(self, timeout_s: float) -> offset_map.OffsetMap:
        """All that stands in the topic now; empty where there is none. What was returned before
        goes on changing, also by a read that fails.

        Raises `RetriableError` and `FatalError`: asked again it begins anew.
        """
        if self._tail is None:
            self._known = offset_map.OffsetMap(keeps=self._keeps)
            self._tail = self._connect()
        try:
            self._tail.feed_to_end(timeout_s, self._take)
        except kafka_errors.TopicMissingError:
            self.close()
            self._known = offset_map.OffsetMap(keeps=self._keeps)
        except errors.ConnectError:
            self.close()
            raise
        for each in self._known.unreadable():
            raise errors.FatalError(
                each.describe(topic=f"{self._topic} of {self._where}", flow=self._flow)
            )
        return self._known

    def close(self) -> None:
        """Let go of the connection."""
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _take(self, record: state_topics.TopicRecord) -> None:
        self._topic = record.topic
        self._known.fold(record.key or b"", record.value, offset=record.offset)
