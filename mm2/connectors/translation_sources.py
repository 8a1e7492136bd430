"""Sources of translated offsets: offset maps and offset syncs as a checkpoint task follows them.

Without an offset map (only Java replicates, or it cannot be read) checkpoints are as precise as
Java's; this is logged once, and the map is looked for again. A missing offset-syncs topic is
retried and an unreadable record skipped, where Java's `OffsetSyncStore` fails for good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from connect_runtime.base import plurals
from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.formats.mm2_records import OffsetSync
from mm2.formats.offset_map_records import EraKey, MapKey, MapSegmentKey
from mm2.kafka import state_topic_reader
from mm2.kafka.client_interfaces import LogTruncatedError, TopicRecord, TopicTail
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_syncs import OffsetSyncStore
from mm2.offsets.translation import MapTranslator, TranslatedOffset, Untranslated

_LOG = logging.getLogger(__name__)


class OffsetSyncsFollower:
    """One thread at a time. `keep_history`: see `OffsetSyncStore`."""

    def __init__(self, connect: Callable[[], TopicTail], *, keep_history: bool) -> None:
        self._connect = connect
        self._keep_history = keep_history
        self._tail: TopicTail | None = None
        self._table = OffsetSyncStore(keep_history=keep_history)

    @property
    def ready(self) -> bool:
        """Was it read to an end once?"""
        return self._table.ready

    def refresh(self, timeout_s: float) -> None:
        """Take in what is new. Raises as `TopicTail`; what was known stays known,
        unless the topic itself is another one now."""
        if self._tail is None:
            self._tail = self._connect()
        try:
            found = self._tail.read_to_end(timeout_s)
        except LogTruncatedError as error:
            _LOG.warning("%s", error)
            self.close()
            self._table = OffsetSyncStore(keep_history=self._keep_history)
            return
        state_topic_reader.apply_records(found, self._table.apply)
        if not self._table.ready:
            self._table.read_through()
            _LOG.info(
                "read %s of %s",
                plurals.format_count(len(found), "offset sync"),
                plurals.format_count(len(self._table.partitions()), "partition"),
            )

    def translate(self, partition: TopicPartition, upstream: int) -> TranslatedOffset:
        """See `TranslateOffset`."""
        return self._table.translate(partition, upstream)

    def newest(self, partition: TopicPartition) -> OffsetSync | None:
        """The last sync of the partition, None without one."""
        slots = self._table.slots(partition)
        return slots[0] if slots else None

    def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()


MAP_RETRY_DELAY_S = 60.0
"""What is not there, or may not be read, is looked for again after this time."""


class OffsetMapFollower:
    """One thread at a time. Only topics that `takes_topic` takes are kept."""

    def __init__(
        self,
        connect: Callable[[], TopicTail],
        takes_topic: Callable[[str], bool],
        *,
        flow: str,
        clock: Clock,
    ) -> None:
        self._connect = connect
        self._flow = flow
        self._takes_topic = takes_topic
        self._clock = clock
        self._tail: TopicTail | None = None
        self._map = self._empty()
        self._due_s = clock.now_s()
        self._told = ""
        self._doubted: set[TopicPartition] = set()
        self._translators: dict[TopicPartition, MapTranslator] = {}
        self._agreed: dict[TopicPartition, OffsetSync] = {}
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
        except LogTruncatedError as error:
            self._give_up(f"{error}; it is read anew", again_s=0.0)
        except TopicMissingError:
            self._give_up("", again_s=MAP_RETRY_DELAY_S)
        except FatalError as error:
            self._give_up(f"{error}; offset syncs alone count", again_s=MAP_RETRY_DELAY_S)
        else:
            self._told = ""

    def translate(
        self, partition: TopicPartition, upstream: int, *, newest: OffsetSync | None
    ) -> TranslatedOffset:
        """See `TranslateOffset`. `newest`: the last offset sync of the partition; a map that
        it contradicts may be of a topic that is no more: Java has mirrored since."""
        if self._contradicts(partition, newest):
            return Untranslated.UNKNOWN
        return self._translator(partition).translate(upstream)

    def copied_to(self, partition: TopicPartition, *, newest: OffsetSync | None) -> int | None:
        """The next source offset to copy, as far as was written down; None where the map counts
        for nothing, see `translate`."""
        if self._contradicts(partition, newest):
            return None
        return self._map.partition(partition).copied_to

    def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _translator(self, partition: TopicPartition) -> MapTranslator:
        found = self._translators.get(partition)
        if found is None:
            found = MapTranslator(self._map.partition(partition))
            self._translators[partition] = found
        return found

    def _forget(self) -> None:
        """The map has changed."""
        self._translators.clear()
        self._agreed.clear()

    def _contradicts(self, partition: TopicPartition, newest: OffsetSync | None) -> bool:
        if newest is not None and self._agreed.get(partition) != newest:
            if not self._translator(partition).agrees(newest):
                self._doubt(partition)
                return True
            self._agreed[partition] = newest
        self._doubted.discard(partition)
        return False

    def _doubt(self, partition: TopicPartition) -> None:
        if partition not in self._doubted:
            self._doubted.add(partition)
            _LOG.warning(
                "%s: its map says other than its newest offset sync; syncs alone count", partition
            )

    def _apply(self, record: TopicRecord) -> None:
        if record.key is None:
            raise FatalError(f"{record.topic}: what stands at {record.offset} has no key")
        self._map.fold(record.key, record.value, offset=record.offset)

    def _refuse_unreadable(self) -> None:
        for each in self._map.unreadable():
            raise FatalError(each.describe(topic="the offset map", flow=self._flow))

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

    def _empty(self) -> OffsetMap:
        return OffsetMap(keeps=self._keeps)

    def _keeps(self, key: MapKey) -> bool:
        is_era = isinstance(key, EraKey)
        if not (is_era or isinstance(key, MapSegmentKey)):
            return False
        self.beginnings += is_era
        return self._takes_topic(key.topic)
