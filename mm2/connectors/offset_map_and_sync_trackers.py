"""Reads the offset map and the offset syncs, from which a checkpoint task translates offsets.

Without an offset map (only Java replicates, or the map cannot be read), checkpoints are as precise
as Java's. A missing map is logged once, and reading the map is retried. If the offset-syncs topic
is missing, reading is retried; unreadable offset syncs are skipped. Java's `OffsetSyncStore` fails
permanently in both cases.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from connect_runtime.base import plurals
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.errors import FatalError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import TopicMissingError
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.offset_map_records import EraKey, MapKey, MapSegmentKey
from mm2.kafka.kafka_client_interfaces import LogTruncatedError, TopicRecord, TopicTail
from mm2.kafka.state_topic_reader import RecordApplier
from mm2.offsets.offset_map import OffsetMap
from mm2.offsets.offset_syncs import OffsetSyncStore
from mm2.offsets.offset_translation import MapTranslator, TranslatedOffset, UntranslatedReason

_LOG = logging.getLogger(__name__)


class OffsetSyncsTracker:
    """Reads the offset syncs of a flow as they are written, and translates offsets with them. Not
    thread-safe. Keeps only topics for which `takes_topic` returns True. `keep_history` is passed to
    `OffsetSyncStore`."""

    def __init__(
        self,
        connect: Callable[[], TopicTail],
        takes_topic: Callable[[str], bool],
        *,
        keep_history: bool,
    ) -> None:
        self._connect = connect
        self._takes_topic = takes_topic
        self._keep_history = keep_history
        self._tail: TopicTail | None = None
        self._table = OffsetSyncStore(keep_history=keep_history)
        self._applier = RecordApplier(self._apply_record)

    @property
    def is_ready(self) -> bool:
        """True once the topic has been read to its end."""
        return self._table.is_ready

    def refresh(self, timeout_s: float) -> None:
        """Read new offset syncs. Raises the same errors as `TopicTail`. Known syncs are kept unless
        the topic was recreated."""
        if self._tail is None:
            self._tail = self._connect()
        ignored = self._table.ignored_syncs
        try:
            self._tail.read_to_end(timeout_s, self._applier.apply_record)
        except LogTruncatedError as error:
            _LOG.warning("%s", error)
            self.close()
            self._table = OffsetSyncStore(keep_history=self._keep_history)
            return
        if self._table.ignored_syncs > ignored:
            _LOG.warning("%s", self._table.describe_ignored_syncs())
        if not self._table.is_ready:
            self._table.mark_ready()
            _LOG.info(
                "read the offset syncs of %s",
                plurals.format_count(len(self._table.list_partitions()), "partition"),
            )

    def translate(self, partition: TopicPartition, upstream: int) -> TranslatedOffset:
        """Translate a source offset with the offset syncs; see `TranslateOffset`."""
        return self._table.translate_downstream(partition, upstream)

    def get_newest_sync(self, partition: TopicPartition) -> OffsetSync | None:
        """Return the partition's newest offset sync, or None if no sync is known."""
        slots = self._table.list_syncs(partition)
        return slots[0] if slots else None

    def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _apply_record(self, key: bytes, value: bytes | None) -> None:
        if self._takes_topic(mirrormaker2_records.decode_offset_sync_key(key).topic):
            self._table.apply_record(key, value)


MAP_RETRY_DELAY_S = 60.0
"""Delay in seconds before another attempt to read a missing or unreadable offset map."""


class OffsetMapTracker:
    """Reads the offset map of a flow as it is written, and translates offsets with it. Not
    thread-safe. Keeps only topics for which `takes_topic` returns True."""

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
        self._map = self._create_map()
        self._is_complete = False
        self._due_s = clock.now_s()
        self._logged_reason = ""
        self._contradicted: set[TopicPartition] = set()
        self._translators: dict[TopicPartition, MapTranslator] = {}
        self._confirmed_syncs: dict[TopicPartition, OffsetSync] = {}
        self.reset_count = 0
        """Number of new eras (mirror generations) and resets of the map. A change invalidates
        earlier translations."""

    def refresh(self, timeout_s: float) -> None:
        """Read new records of the offset map. Known records are kept unless the topic was
        recreated.

        Raises `RetriableError` if an early retry may help.
        """
        if self._clock.now_s() < self._due_s:
            return
        if self._tail is None:
            self._tail = self._connect()
        try:
            self._tail.read_to_end(timeout_s, self._apply_record)
            self._raise_if_unreadable()
            self._is_complete = True
        except LogTruncatedError as error:
            self._reset_map(f"{error}; reading it again", delay_s=0.0)
        except TopicMissingError:
            self._reset_map("", delay_s=MAP_RETRY_DELAY_S)
        except FatalError as error:
            self._reset_map(f"{error}; using only offset syncs", delay_s=MAP_RETRY_DELAY_S)
        else:
            self._logged_reason = ""

    def translate(
        self, partition: TopicPartition, upstream: int, *, newest: OffsetSync | None
    ) -> TranslatedOffset:
        """Translate a source offset with the offset map; see `TranslateOffset`.

        `newest` is the partition's newest offset sync. If the sync contradicts the map, the map is
        ignored: the map may describe a deleted topic, or Java may have replicated records after the
        map was written.
        """
        if not self._is_complete or self._does_sync_contradict_map(partition, newest):
            return UntranslatedReason.UNKNOWN
        return self._get_translator(partition).translate_offset(upstream)

    def get_next_source_offset(
        self, partition: TopicPartition, *, newest: OffsetSync | None
    ) -> int | None:
        """Return the next source offset to replicate, according to the map. Returns None if the map
        is ignored; see `translate`."""
        if not self._is_complete or self._does_sync_contradict_map(partition, newest):
            return None
        return self._map.get_partition(partition).next_source_offset

    def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _get_translator(self, partition: TopicPartition) -> MapTranslator:
        translator = self._translators.get(partition)
        if translator is None:
            translator = MapTranslator(self._map.get_partition(partition))
            self._translators[partition] = translator
        return translator

    def _clear_caches(self) -> None:
        """Clear the caches derived from the offset map. Call after the map has changed."""
        self._translators.clear()
        self._confirmed_syncs.clear()

    def _does_sync_contradict_map(
        self, partition: TopicPartition, newest: OffsetSync | None
    ) -> bool:
        if newest is not None and self._confirmed_syncs.get(partition) != newest:
            if not self._get_translator(partition).agrees_with_sync(newest):
                self._log_map_contradiction(partition)
                return True
            self._confirmed_syncs[partition] = newest
        self._contradicted.discard(partition)
        return False

    def _log_map_contradiction(self, partition: TopicPartition) -> None:
        if partition not in self._contradicted:
            self._contradicted.add(partition)
            _LOG.warning(
                "%s: its offset map contradicts the newest offset sync; using only offset syncs",
                partition,
            )

    def _apply_record(self, record: TopicRecord) -> None:
        if record.key is None:
            raise FatalError(f"{record.topic}: the record at offset {record.offset} has no key")
        self._map.apply_record_or_keep_unreadable(record.key, record.value, offset=record.offset)
        self._clear_caches()

    def _raise_if_unreadable(self) -> None:
        for each in self._map.list_unreadable_records():
            raise FatalError(each.format_error(topic="the offset map", flow=self._flow))

    def _reset_map(self, reason: str, *, delay_s: float) -> None:
        """Discard the map and schedule a new read from its start after `delay_s`."""
        self.close()
        self.reset_count += bool(self._map.list_partitions())
        self._map = self._create_map()
        self._is_complete = False
        self._clear_caches()
        self._due_s = self._clock.now_s() + delay_s
        if reason and reason != self._logged_reason:
            _LOG.warning("%s", reason)
        self._logged_reason = reason

    def _create_map(self) -> OffsetMap:
        return OffsetMap(key_filter=self._should_keep_record)

    def _should_keep_record(self, key: MapKey) -> bool:
        is_era = isinstance(key, EraKey)
        if not (is_era or isinstance(key, MapSegmentKey)):
            return False
        self.reset_count += is_era
        return self._takes_topic(key.topic)
