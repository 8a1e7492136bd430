"""The map topic of the flow that leads back, on this flow's source: there its producer ids are.

That flow has stored each id before its first batch: who has seen a batch, and reads the topic to
its end then, finds the id there, or else it is nobody's of that flow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import admin, state_topics
from mm2.cluster import errors as cluster_errors
from mm2.core.offsets import offset_map
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
        flow: str,
    ) -> None:
        """Nothing is connected yet; both are to lead to this flow's source. `flow`: the opposite
        one's name."""
        self._topic = topic
        self._flow = flow
        self._connect_admin = connect_admin
        self._connect_tail = connect_tail
        self._clock = clock
        self._admin: admin.Admin | None = None
        self._tail: state_topics.TopicTail | None = None
        self._ids: set[int] = set()
        self._map = offset_map.OffsetMap(keeps=self._note)
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
            self._map = offset_map.OffsetMap(keeps=self._note)
            raise errors.RetriableError(str(error)) from error
        self._seen = True
        for record in found:
            self._map.fold(record.key or b"", record.value, offset=record.offset)
        for each in self._map.unreadable():
            raise errors.FatalError(
                each.describe(topic=f"{self._topic} on the source", flow=self._flow)
            )

    def _note(self, key: map_record.MapKey) -> bool:
        """Of the map nothing is kept but its producer ids, which never change owners."""
        if isinstance(key, map_record.ProducerKey):
            self._ids.add(key.producer_id)
        return False

    def _disconnect(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def close(self) -> None:
        self._disconnect()
        used, self._admin = self._admin, None
        if used is not None:
            used.close()
