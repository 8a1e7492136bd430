"""The map topics of a flow as a checkpoint task follows them: exact where we have copied.

Where only Java mirrors there is no map, and without the right to read it checkpoints are as precise
as Java's: both are said once, and looked for again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from connect_runtime.kafka_client import errors as kafka_errors
from mm2.cluster import errors as cluster_errors
from mm2.cluster import state_topics
from mm2.core.offsets import map_translation, offset_map, translation
from mm2.formats import map_record, offset_sync

AGAIN_S = 60.0
"""What is not there, or may not be read, is looked for again after this time."""
_LOG = logging.getLogger(__name__)


class MapOffsets:
    """One thread at a time. Only topics that `takes_topic` takes are kept."""

    def __init__(
        self,
        connect: Callable[[], state_topics.TopicTail],
        takes_topic: Callable[[str], bool],
        *,
        flow: str,
        clock: base_clock.Clock,
    ) -> None:
        self._connect = connect
        self._flow = flow
        self._takes_topic = takes_topic
        self._clock = clock
        self._tail: state_topics.TopicTail | None = None
        self._map = self._empty()
        self._due_s = clock.now_s()
        self._told = ""
        self._doubted: set[ids.TopicPartition] = set()
        self._translators: dict[ids.TopicPartition, map_translation.Translator] = {}
        self._agreed: dict[ids.TopicPartition, offset_sync.OffsetSync] = {}
        self.beginnings = 0
        """How often an era has begun, or all: what was exact before may be elsewhere since."""

    def refresh(self, timeout_s: float) -> None:
        """Take in what is new, as far as that goes; what was known stays known, unless the topic
        itself is another one now. Raises `RetriableError` where asking again soon may help."""
        if self._clock.now_s() < self._due_s:
            return
        if self._tail is None:
            self._tail = self._connect()
        try:
            found = self._tail.read_to_end(timeout_s)
            for each in found:
                self._apply(each)
            self._refuse_unreadable()
            if found:
                self._forget()
        except cluster_errors.LogTruncatedError as error:
            self._give_up(f"{error}; it is read anew", again_s=0.0)
        except kafka_errors.TopicMissingError:
            self._give_up("", again_s=AGAIN_S)
        except errors.FatalError as error:
            self._give_up(f"{error}; offset syncs alone count", again_s=AGAIN_S)
        else:
            self._told = ""

    def translate(
        self, partition: ids.TopicPartition, upstream: int, *, newest: offset_sync.OffsetSync | None
    ) -> translation.Translation:
        """See `translation.Translate`. `newest`: the last offset sync of the partition; a map that
        it contradicts may be of a topic that is no more: Java has mirrored since."""
        if self._contradicts(partition, newest):
            return translation.Untranslated.UNKNOWN
        return self._translator(partition).translate(upstream)

    def copied_to(
        self, partition: ids.TopicPartition, *, newest: offset_sync.OffsetSync | None
    ) -> int | None:
        """The next source offset to copy, as far as was written down; None where the map counts
        for nothing, see `translate`."""
        if self._contradicts(partition, newest):
            return None
        return self._map.partition(partition).copied_to

    def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _translator(self, partition: ids.TopicPartition) -> map_translation.Translator:
        found = self._translators.get(partition)
        if found is None:
            found = map_translation.Translator(self._map.partition(partition))
            self._translators[partition] = found
        return found

    def _forget(self) -> None:
        """The map has changed."""
        self._translators.clear()
        self._agreed.clear()

    def _contradicts(
        self, partition: ids.TopicPartition, newest: offset_sync.OffsetSync | None
    ) -> bool:
        if newest is not None and self._agreed.get(partition) != newest:
            if not self._translator(partition).agrees(newest):
                self._doubt(partition)
                return True
            self._agreed[partition] = newest
        self._doubted.discard(partition)
        return False

    def _doubt(self, partition: ids.TopicPartition) -> None:
        if partition not in self._doubted:
            self._doubted.add(partition)
            _LOG.warning(
                "%s: its map says other than its newest offset sync; syncs alone count", partition
            )

    def _apply(self, record: state_topics.TopicRecord) -> None:
        if record.key is None:
            raise errors.FatalError(f"{record.topic}: what stands at {record.offset} has no key")
        self._map.fold(record.key, record.value, offset=record.offset)

    def _refuse_unreadable(self) -> None:
        for each in self._map.unreadable():
            raise errors.FatalError(each.describe(topic="the offset map", flow=self._flow))

    def _give_up(self, why: str, *, again_s: float) -> None:
        """Until then, and from there on anew."""
        self.close()
        self.beginnings += bool(self._map.partitions())
        self._map = self._empty()
        self._forget()
        self._due_s = self._clock.now_s() + again_s
        if why and why != self._told:
            _LOG.warning("%s", why)
        self._told = why

    def _empty(self) -> offset_map.OffsetMap:
        return offset_map.OffsetMap(keeps=self._keeps)

    def _keeps(self, key: map_record.MapKey) -> bool:
        is_era = isinstance(key, map_record.EraKey)
        if not (is_era or isinstance(key, map_record.SegmentKey)):
            return False
        self.beginnings += is_era
        return self._takes_topic(key.topic)
