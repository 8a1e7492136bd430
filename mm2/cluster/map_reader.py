"""Reading the map topic of a flow: once, or again and again as it grows.

What cannot be read is never passed over: what it replaces would be taken for the truth.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable

from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import state_topics
from mm2.core.offsets import offset_map
from mm2.formats import map_record


def fold(found: Iterable[state_topics.TopicRecord], *, where: str) -> offset_map.OffsetMap:
    """The map that these records of the topic make; `where`: what the cluster is called.

    Raises `FatalError` where another release wrote some of it.
    """
    known = offset_map.OffsetMap()
    for each in found:
        _apply(known, each, where)
    return known


class MapReader:
    """The map of one flow, kept up to date. One thread at a time."""

    def __init__(
        self,
        connect: Callable[[], state_topics.TopicTail],
        *,
        where: str,
        keeps: Callable[[map_record.MapKey], bool] = lambda _: True,
    ) -> None:
        """`connect` opens the map topic; `where` is what its cluster is called. `keeps` as in
        `offset_map.OffsetMap`."""
        self._connect = connect
        self._where = where
        self._keeps = keeps
        self._tail: state_topics.TopicTail | None = None
        self._known = offset_map.OffsetMap(keeps=keeps)

    def read(self, timeout_s: float) -> offset_map.OffsetMap:
        """All that stands in the topic now; empty where there is none.

        Raises `RetriableError` and `FatalError`: asked again it begins anew.
        """
        if self._tail is None:
            self._known = offset_map.OffsetMap(keeps=self._keeps)
            self._tail = self._connect()
        try:
            for each in self._tail.read_to_end(timeout_s):
                _apply(self._known, each, self._where)
        except kafka_errors.TopicMissingError:
            self.close()
            self._known = offset_map.OffsetMap(keeps=self._keeps)
        except errors.ConnectError:
            self.close()
            raise
        return self._known

    def close(self) -> None:
        """Let go of the connection."""
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()


def _apply(known: offset_map.OffsetMap, record: state_topics.TopicRecord, where: str) -> None:
    try:
        known.apply(record.key or b"", record.value)
    except (map_record.UnknownVersionError, struct.error, ValueError, IndexError) as error:
        raise errors.FatalError(
            f"reading {record.topic} of {where} at offset {record.offset}: {error}. Another "
            "release, or another program, wrote it: use that release"
        ) from error
