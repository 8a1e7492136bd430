"""Writes MirrorMaker 2's offset syncs for one task, derived from the resume points of its copy.

If a sync cannot be written, it is dropped and superseded by the next one; replication never
waits.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from connect_runtime.base.errors import ConnectError
from connect_runtime.base.ids import TopicPartition
from connect_runtime.base.timing import Clock, Deadline
from mm2.connectors.stall_log import RateLimitedWarnings
from mm2.formats import mm2_records, offset_map_records
from mm2.formats.mm2_records import OffsetSync
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey
from mm2.kafka.client_interfaces import OnWritten, RecordWriter
from mm2.offsets.offset_syncs import OffsetSyncWriter, ReplicatedSpanTracker
from mm2.replication.recovery_instructions import FlowLogItem

POLL_TIMEOUT_S = 0.05
WRITING_OFFSET_SYNCS = "writing offset syncs"
_LOG = logging.getLogger(__name__)


class OffsetSyncEmitter:
    """One thread's."""

    def __init__(self, writer: RecordWriter, *, lag_max: int, clock: Clock) -> None:
        self._writer = writer
        self._steps = ReplicatedSpanTracker()
        self._emitter = OffsetSyncWriter(lag_max)
        self._clock = clock
        self._complaints = RateLimitedWarnings(_LOG, clock=clock)

    @property
    def busy(self) -> bool:
        return self._emitter.under_way > 0

    def note(self, items: Iterable[FlowLogItem]) -> None:
        """What a copy streams; anchors among it are looked at."""
        for item in items:
            if item.incident or item.value is None:
                continue
            key = offset_map_records.decode_key(item.key)
            if not isinstance(key, MapSegmentKey):
                continue
            segment = offset_map_records.decode_value(key, item.value)
            assert isinstance(segment, MapSegment)
            name = TopicPartition(key.topic, key.partition)
            for step in self._steps.steps(key, segment):
                self._emitter.acknowledge(
                    name,
                    upstream=step.upstream,
                    downstream=step.downstream,
                    records=step.records,
                )

    def work(self) -> None:
        """Write what is due; hear what became of what was written."""
        self._write(0.0)

    def _write(self, timeout_s: float) -> None:
        self._writer.poll(timeout_s)
        for sync in self._emitter.take_due():
            key, value = mm2_records.encode_offset_sync(sync)
            self._writer.write(key, value, on_written=self._answered(sync))

    def committed(self) -> None:
        """Source offsets are stored: what was not due of itself is due now."""
        self._emitter.promote_delayed()

    def close(self, timeout_s: float) -> None:
        """Write all that is known, as far as there is time."""
        end = Deadline.after(timeout_s, now_s=self._clock.now_s())
        self.committed()
        self._write(0.0)
        while self._emitter.under_way and not end.passed(self._clock.now_s()):
            self._write(min(POLL_TIMEOUT_S, end.left_s(self._clock.now_s())))
        self._writer.close(end.left_s(self._clock.now_s()))

    def _answered(self, sync: OffsetSync) -> OnWritten:
        def answered(error: ConnectError | None) -> None:
            self._emitter.answered(sync, stored=error is None)
            if error is None:
                self._complaints.over(WRITING_OFFSET_SYNCS)
            else:
                self._complaints.say(WRITING_OFFSET_SYNCS, f"{error}; copying goes on")

        return answered
