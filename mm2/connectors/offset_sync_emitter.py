"""Writes MirrorMaker 2's offset syncs for one task, derived from the offset map segments that its
copy process sends.

A sync that cannot be written is dropped and superseded by the next one. Replication never waits for
syncs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from connect_runtime.base.clock_and_deadline import Clock, Deadline
from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from mm2.connectors.rate_limited_error_logging import RateLimitedWarnings
from mm2.formats import mirrormaker2_records, offset_map_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey
from mm2.kafka.kafka_client_interfaces import OnWritten, RecordWriter
from mm2.offsets.offset_syncs import OffsetSyncWriter, ReplicatedSpanTracker
from mm2.replication.recovery_instructions import FlowStateRecord

POLL_TIMEOUT_S = 0.05
WRITING_OFFSET_SYNCS = "writing offset syncs"
_LOG = logging.getLogger(__name__)


def decode_segments(items: Iterable[FlowStateRecord]) -> list[tuple[MapSegmentKey, MapSegment]]:
    """Decode the offset map segments among the items that a copy process streams to the driver.

    Raises one of `offset_map_records.UNREADABLE_RECORD_ERRORS`.
    """
    segments = []
    for item in items:
        if item.incident or item.value is None:
            continue
        key = offset_map_records.decode_map_key(item.key)
        if not isinstance(key, MapSegmentKey):
            continue
        segment = offset_map_records.decode_map_value(key, item.value)
        assert isinstance(segment, MapSegment)
        segments.append((key, segment))
    return segments


class OffsetSyncEmitter:
    """Writes the offset syncs of one task. Not thread-safe."""

    def __init__(self, writer: RecordWriter, *, lag_max: int, clock: Clock) -> None:
        self._writer = writer
        self._span_tracker = ReplicatedSpanTracker()
        self._emitter = OffsetSyncWriter(lag_max)
        self._clock = clock
        self._warnings = RateLimitedWarnings(_LOG, clock=clock)

    @property
    def is_busy(self) -> bool:
        return self._emitter.in_flight_count > 0

    def record_segments(self, segments: Iterable[tuple[MapSegmentKey, MapSegment]]) -> None:
        """Derive offset syncs from offset map segments that a copy process has sent."""
        for key, segment in segments:
            name = TopicPartition(key.topic, key.partition)
            for step in self._span_tracker.extract_new_spans(key, segment):
                self._emitter.record_acknowledgement(
                    name,
                    upstream=step.upstream,
                    downstream=step.downstream,
                    records=step.records,
                )

    def run_once(self) -> None:
        """Write due syncs and process the results of earlier writes."""
        self._write_due_syncs(0.0)

    def _write_due_syncs(self, timeout_s: float) -> None:
        self._writer.poll(timeout_s)
        for sync in self._emitter.take_due_syncs():
            key, value = mirrormaker2_records.encode_offset_sync(sync)
            self._writer.write(key, value, on_written=self._build_result_handler(sync))

    def handle_commit(self) -> None:
        """Make the offset syncs due that are delayed until the worker has committed source offsets.
        Call after each commit."""
        self._emitter.promote_delayed_syncs()

    def close(self, timeout_s: float) -> None:
        """Write all remaining syncs within `timeout_s` and close the writer."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        self.handle_commit()
        self._write_due_syncs(0.0)
        while self._emitter.in_flight_count and not end.is_expired(self._clock.now_s()):
            self._write_due_syncs(min(POLL_TIMEOUT_S, end.remaining_s(self._clock.now_s())))
        self._writer.close(end.remaining_s(self._clock.now_s()))

    def _build_result_handler(self, sync: OffsetSync) -> OnWritten:
        def on_written(error: ConnectError | None) -> None:
            self._emitter.record_write_result(sync, stored=error is None)
            if error is None:
                self._warnings.reset(WRITING_OFFSET_SYNCS)
            else:
                self._warnings.warn(WRITING_OFFSET_SYNCS, f"{error}; replication continues")

        return on_written
