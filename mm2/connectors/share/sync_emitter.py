"""Offset syncs of one task, as MirrorMaker 2's tasks write them: of what its copy's anchors say.

A sync that cannot be written is left out until there is a newer one: copying never waits for it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from connect_runtime.base import clock as base_clock
from connect_runtime.base import deadline, errors, ids
from mm2.cluster import record_writer
from mm2.connectors import complaints
from mm2.core.copy import instructions
from mm2.core.offsets import anchor_steps, sync_emitter
from mm2.formats import map_record, offset_sync

TURN_S = 0.05
SYNCS = "writing offset syncs"
_LOG = logging.getLogger(__name__)


class OffsetSyncEmitter:
    """One thread's."""

    def __init__(
        self, writer: record_writer.RecordWriter, *, lag_max: int, clock: base_clock.Clock
    ) -> None:
        self._writer = writer
        self._steps = anchor_steps.AnchorSteps()
        self._emitter = sync_emitter.SyncEmitter(lag_max)
        self._clock = clock
        self._complaints = complaints.Complaints(_LOG, clock=clock)

    @property
    def busy(self) -> bool:
        return self._emitter.under_way > 0

    def note(self, items: Iterable[instructions.LogItem]) -> None:
        """What a copy streams; anchors among it are looked at."""
        for item in items:
            if item.receipt or item.value is None:
                continue
            key = map_record.decode_key(item.key)
            if not isinstance(key, map_record.SegmentKey):
                continue
            segment = map_record.decode_value(key, item.value)
            assert isinstance(segment, map_record.Segment)
            name = ids.TopicPartition(key.topic, key.partition)
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
            key, value = offset_sync.encode(sync)
            self._writer.write(key, value, on_written=self._answered(sync))

    def committed(self) -> None:
        """Source offsets are stored: what was not due of itself is due now."""
        self._emitter.promote_delayed()

    def close(self, timeout_s: float) -> None:
        """Write all that is known, as far as there is time."""
        end = deadline.Deadline.after(timeout_s, now_s=self._clock.now_s())
        self.committed()
        self._write(0.0)
        while self._emitter.under_way and not end.passed(self._clock.now_s()):
            self._write(min(TURN_S, end.left_s(self._clock.now_s())))
        self._writer.close(end.left_s(self._clock.now_s()))

    def _answered(self, sync: offset_sync.OffsetSync) -> record_writer.OnWritten:
        def answered(error: errors.ConnectError | None) -> None:
            self._emitter.answered(sync, stored=error is None)
            if error is None:
                self._complaints.over(SYNCS)
            else:
                self._complaints.say(SYNCS, f"{error}; copying goes on")

        return answered
