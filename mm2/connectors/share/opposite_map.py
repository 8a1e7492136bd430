"""The map topic of the flow that leads back, on this flow's source: there its producer ids are.

That flow has stored each id before its first batch: who has seen a batch, and reads the topic to
its end then, finds the id there, or else it is nobody's of that flow.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Sequence

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import admin, state_topics
from mm2.cluster import errors as cluster_errors
from mm2.formats import map_record

GONE_S = 30.0
"""A topic that was there is missing for so long before it counts as deleted: a broker that has just
started may not know of it."""


class OppositeMap:
    """One thread's. Ids are never forgotten, whatever becomes of the topic."""

    def __init__(
        self,
        topic: str,
        *,
        connect_admin: Callable[[], admin.Admin],
        connect_tail: Callable[[], state_topics.TopicTail],
        clock: base_clock.Clock,
    ) -> None:
        """Nothing is connected yet; both are to lead to this flow's source."""
        self._topic = topic
        self._connect_admin = connect_admin
        self._connect_tail = connect_tail
        self._clock = clock
        self._admin: admin.Admin | None = None
        self._tail: state_topics.TopicTail | None = None
        self._ids: set[int] = set()
        self._unreadable: dict[bytes, str] = {}
        self._seen = False
        self._missing_since_s: float | None = None

    def whose(self, producers: Sequence[int], timeout_s: float) -> frozenset[int]:
        """Those of the ids that are the opposite flow's.

        Raises `RetriableError` when the topic cannot be read to its end in time, and `FatalError`
        where that is refused, or something in it cannot be read.
        """
        if not self._ids.issuperset(producers) and self._exists(timeout_s):
            self._read(timeout_s)
        return frozenset(self._ids.intersection(producers))

    def _exists(self, timeout_s: float) -> bool:
        """While there is no such topic the flow has never run, or its topic was deleted."""
        if self._tail is not None:
            return True
        if self._admin is None:
            self._admin = self._connect_admin()
        failure = self._admin.describe_topics([self._topic], timeout_s).failed.get(self._topic)
        if failure is None:
            self._missing_since_s = None
            return True
        if not isinstance(failure, kafka_errors.TopicMissingError):
            raise failure
        self._believe_missing(failure, self._admin.list_topics(timeout_s))
        return False

    def _believe_missing(self, failure: errors.ConnectError, names: Collection[str]) -> None:
        """Raises `RetriableError` where the broker asked may just not know of it yet."""
        if not names or self._topic in names:
            raise errors.RetriableError(f"{failure}; the broker asked has just started, it seems")
        now_s = self._clock.now_s()
        if self._missing_since_s is None:
            self._missing_since_s = now_s
        if self._seen and now_s - self._missing_since_s < GONE_S:
            raise errors.RetriableError(f"{failure}; it was there before")

    def _read(self, timeout_s: float) -> None:
        if self._tail is None:
            self._tail = self._connect_tail()
        try:
            found = self._tail.read_to_end(timeout_s)
        except (cluster_errors.LogTruncatedError, kafka_errors.TopicMissingError) as error:
            self._disconnect()
            self._unreadable.clear()
            raise errors.RetriableError(str(error)) from error
        self._seen = True
        for record in found:
            self._fold(record)
        for why in self._unreadable.values():
            raise errors.FatalError(why)

    def _fold(self, record: state_topics.TopicRecord) -> None:
        self._unreadable.pop(record.key or b"", None)
        try:
            key = map_record.decode_key(record.key or b"")
        except (map_record.UnknownVersionError, struct.error, ValueError, IndexError) as error:
            if record.value is not None:
                self._unreadable[record.key or b""] = (
                    f"the record at offset {record.offset} cannot be read: {error}. If a newer "
                    "release of mm2 wrote it, run that release. If another program wrote it, skip "
                    f"the record with mm2 offsets skip REVERSE-FLOW --offset {record.offset}"
                )
            return
        if isinstance(key, map_record.ProducerKey):
            self._ids.add(key.producer_id)

    def _disconnect(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def close(self) -> None:
        self._disconnect()
        used, self._admin = self._admin, None
        if used is not None:
            used.close()
