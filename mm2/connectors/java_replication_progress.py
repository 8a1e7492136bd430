"""Reads the replication progress of a task's partitions from Connect offsets and offset syncs.

Java MirrorMaker 2 and mm2 both write Connect offsets and offset syncs. Both write an offset only
after the target has acknowledged the record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence

from connect_runtime.api.plugin_context import OffsetReader
from connect_runtime.base.clock_and_deadline import Clock
from connect_runtime.base.ids import TopicPartition
from connect_runtime.kafka.client_errors import NotAuthorizedError, TopicMissingError
from mm2.connectors import connect_offsets
from mm2.connectors.rate_limited_error_logging import RateLimitedWarnings
from mm2.formats import mirrormaker2_records
from mm2.kafka.kafka_client_interfaces import LogTruncatedError, TopicTail
from mm2.kafka.state_topic_reader import RecordApplier
from mm2.replication.java_offset_map_reconstruction import JavaOffsetSyncs
from mm2.replication.recovery_instructions import JavaMirrorProgress

READ_TIMEOUT_S = 3.0
READING_OFFSET_SYNCS = "reading offset syncs"
_LOG = logging.getLogger(__name__)


class JavaProgressReader:
    """Reads replication progress from Connect offsets and offset syncs. Not thread-safe."""

    def __init__(
        self,
        alias: str,
        partitions: Collection[TopicPartition],
        *,
        offsets: OffsetReader,
        connect_syncs: Callable[[], TopicTail] | None,
        clock: Clock,
    ) -> None:
        """Create a reader. `alias` is the source cluster's alias. `connect_syncs` connects to the
        offset-syncs topic; None if the flow has none."""
        self._alias = alias
        self._partitions = frozenset(partitions)
        self._offsets = offsets
        self._connect_syncs = connect_syncs
        self._tail: TopicTail | None = None
        self._applier = RecordApplier(self._apply_offset_sync)
        self._syncs: dict[TopicPartition, JavaOffsetSyncs] = {}
        self._warnings = RateLimitedWarnings(_LOG, clock=clock)

    def read_progress(
        self, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, JavaMirrorProgress]:
        """Read the Connect offsets and offset syncs to their ends and return each partition's
        progress. Implements `flow_state_store.ReadJavaProgress`. Raises `ConnectError` if a topic
        cannot be read."""
        ordered = sorted(partitions)
        stored: Sequence[Mapping[str, object] | None] = self._offsets.offsets(
            [connect_offsets.build_source_partition(self._alias, each) for each in ordered]
        )
        self._read_offset_syncs()
        found = {
            each: self._build_progress(each, connect_offsets.read_next_offset(offset))
            for each, offset in zip(ordered, stored, strict=True)
        }
        return {name: each for name, each in found.items() if each is not None}

    def close(self) -> None:
        tail, self._tail = self._tail, None
        if tail is not None:
            tail.close()

    def _build_progress(
        self, partition: TopicPartition, next_offset: int | None
    ) -> JavaMirrorProgress | None:
        syncs = self._syncs.get(partition, JavaOffsetSyncs())
        if next_offset is None:
            return JavaMirrorProgress(next_offset=0) if syncs else None
        return JavaMirrorProgress(next_offset=next_offset, sync=syncs.find_sync_below(next_offset))

    def _read_offset_syncs(self) -> None:
        """Read the offset syncs. If the topic is missing or access is denied, continue as if it
        were empty."""
        if self._connect_syncs is None:
            return
        if self._tail is None:
            self._tail = self._connect_syncs()
        try:
            self._tail.read_to_end(READ_TIMEOUT_S, self._applier.apply_record)
        except (TopicMissingError, NotAuthorizedError) as error:
            self._warnings.warn(
                READING_OFFSET_SYNCS,
                f"{error}; finding the end of Java's replication without offset syncs",
            )
            return
        except LogTruncatedError:
            self.close()
            self._syncs = {}
            raise

    def _apply_offset_sync(self, key: bytes, value: bytes | None) -> None:
        """Apply a record of the offset-syncs topic. Raises
        `MalformedRecordError`.
        """
        name = mirrormaker2_records.decode_offset_sync_key(key)
        if name not in self._partitions:
            return
        if value is None:
            self._syncs.pop(name, None)
            return
        sync = mirrormaker2_records.decode_offset_sync(key, value)
        known = self._syncs.setdefault(name, JavaOffsetSyncs())
        known.add_sync(sync.upstream, sync.downstream)
