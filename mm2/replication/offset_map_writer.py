"""Writes the segments (records) of a partition's offset map. The open segment is also the
partition's resume point.

The writer receives acknowledged batches only. A segment grows under one key until it reaches 2 KB
and is then closed. The next segment begins where the closed one ended.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey, OffsetRun
from mm2.replication.outbound_batches import OutboundBatch
from mm2.replication.recovery_instructions import AppendToFlowState, FlowStateRecord
from mm2.replication.recovery_outcomes import PartitionAcquired, RecoveryContext

SEGMENT_BYTES = 2048
UNWRITTEN_BYTES_MAX = 128 * 1024
"""Size in bytes at which a segment (record of the offset map) is closed in memory. Used while an
open transaction prevents writing the segment. The size is far below the usual record limit of 1 MB,
because the next batch may still enlarge the segment."""
WRITE_INTERVAL_S = 1.0
UNRECORDED_AGE_MAX_S = 30.0
"""Sending pauses if the oldest acknowledged batch has not been recorded in the offset map for this
number of seconds. This limits the work of tail matching after a crash."""

_SEGMENT_HEAD_BYTES = 64


@dataclass(slots=True, kw_only=True)
class MapWriter:
    """Collects the offset runs (ranges of offsets with a constant difference), progress and CRC of
    the batches acknowledged since this owner acquired the partition.

    Invariants: `runs` are in source order, and consecutive runs have different offset differences;
    `through` (end of the replicated source offsets) and `target_next` (next target offset) never
    decrease; no unacknowledged batch is included.
    """

    topic: str
    partition: int
    era: int
    ordinal: int
    epoch: int
    leader_epoch: int
    owner: bytes
    take_start: int
    through: int
    target_next: int
    source_epoch: int = -1
    last_crc: int | None = None
    segment_bytes: int = SEGMENT_BYTES

    _first_source: int = field(init=False)
    _closed: list[FlowStateRecord] = field(default_factory=list)
    _runs: list[OffsetRun] = field(default_factory=list)
    _delta: int | None = None
    _run_bytes: int = 0
    _previous: OffsetRun | None = None
    _unwritten_since_s: float | None = None
    _unrecorded: dict[int, float] = field(default_factory=dict)
    _written_at_s: float = 0.0
    _token: int = field(init=False)

    def __post_init__(self) -> None:
        self._first_source = self.take_start
        # Tokens of earlier acquisitions are smaller, so late answers to them confirm nothing
        # written here.
        self._token = (self.ordinal << 48) | (self.epoch << 32)

    def add_matched_batch(self, source: int, target: int) -> None:
        """Add to this owner's offset map a batch that a former owner replicated."""
        self._add_offset_run(source, target - source)

    def close_segment(self, *, through: int, target_next: int, source_epoch: int) -> None:
        """Close the map segment that covers the batches replicated by a former owner, up to source
        offset `through`."""
        self._closed.append(
            self._create_segment_record(
                closed=True,
                through=through,
                target_next=target_next,
                source_epoch=source_epoch,
                last_crc=None,
            )
        )
        self._begin_segment(through)

    def add_acknowledged_batch(
        self, batch: OutboundBatch, *, target: int, crc: int, now_s: float
    ) -> None:
        """Record that an acknowledged batch is stored at target offset `target` with this CRC."""
        if batch.offset_spans:
            for source, place in batch.offset_spans:
                self._add_offset_run(source, target + place - source)
        elif target - batch.source != self._delta:
            self._add_offset_run(batch.source, target - batch.source)
        self.through = batch.next_source
        self.target_next = target + batch.records
        self.last_crc = crc
        self.source_epoch = batch.source_epoch
        if self._run_bytes >= UNWRITTEN_BYTES_MAX:
            self._closed.append(self._create_open_segment_record(closed=True))
            self._begin_segment(self.through)
        if self._unwritten_since_s is None:
            self._unwritten_since_s = now_s

    def record_skipped_offsets(self, source: int, *, source_epoch: int, now_s: float) -> None:
        """Record that every source record before `source` was replicated or cannot be
        replicated."""
        if source > self.through:
            self.through = source
            self.source_epoch = source_epoch
            if self._unwritten_since_s is None:
                self._unwritten_since_s = now_s

    def record_transaction_marker(self, next_target: int, *, now_s: float) -> None:
        """Record that this owner wrote a transaction marker. The next data offset on the target,
        `next_target`, follows the marker."""
        self.target_next = next_target
        self.last_crc = None
        if self._unwritten_since_s is None:
            self._unwritten_since_s = now_s

    def is_write_due(self, now_s: float) -> bool:
        """Return True if the map segment must be written: once per second while it changes, and
        immediately when it is full."""
        if self._unwritten_since_s is None:
            return False
        return self._is_segment_full or now_s - self._written_at_s >= WRITE_INTERVAL_S

    @property
    def _is_segment_full(self) -> bool:
        return self._run_bytes + _SEGMENT_HEAD_BYTES >= self.segment_bytes

    @property
    def has_unwritten_progress(self) -> bool:
        """Return True if some progress is not yet written."""
        return self._unwritten_since_s is not None

    @property
    def has_unstored_segments(self) -> bool:
        """Return True if a written map segment has not yet been acknowledged as stored."""
        return bool(self._unrecorded)

    @property
    def is_all_progress_recorded(self) -> bool:
        """Return True if all progress is written and acknowledged as stored."""
        return self._unwritten_since_s is None and not self._unrecorded

    @property
    def oldest_unrecorded_time_s(self) -> float | None:
        """Time of the oldest acknowledged progress that is not durably recorded (monotonic
        seconds); None if all progress is recorded."""
        return min(self._unrecorded.values(), default=self._unwritten_since_s)

    def must_pause_sending(self, now_s: float) -> bool:
        """Return True if sending must pause because acknowledged progress has not been stored in
        the offset map for too long."""
        oldest = self.oldest_unrecorded_time_s
        return oldest is not None and now_s - oldest >= UNRECORDED_AGE_MAX_S

    def create_write_instruction(self, now_s: float) -> AppendToFlowState:
        """Return the instruction that writes the current progress. Close the segment if it is
        full."""
        self._token += 1
        since_s = self._unwritten_since_s
        self._unrecorded[self._token] = now_s if since_s is None else since_s
        self._unwritten_since_s = None
        self._written_at_s = now_s
        full = self._is_segment_full
        items = [*self._closed, self._create_open_segment_record(closed=full)]
        self._closed = []
        if full:
            self._begin_segment(self.through)
            items.append(self._create_open_segment_record(closed=False))
        return AppendToFlowState(items=tuple(items), token=self._token)

    def on_segments_stored(self, token: int) -> None:
        """Mark progress as stored in the offset map: all progress included in the write that
        `token` identifies, or in an earlier write."""
        for each in [each for each in self._unrecorded if each <= token]:
            del self._unrecorded[each]

    def _add_offset_run(self, source: int, delta: int) -> None:
        if delta == self._delta:
            return
        run = OffsetRun(source, delta)
        step = bytearray()
        offset_map_records.append_offset_runs(step, [run], previous=self._previous)
        self._run_bytes += len(step)
        self._runs.append(run)
        self._previous = run
        self._delta = delta

    def _begin_segment(self, source: int) -> None:
        self._first_source = source
        self._runs, self._run_bytes, self._previous = [], 0, None
        self._delta = None

    def _create_open_segment_record(self, *, closed: bool) -> FlowStateRecord:
        return self._create_segment_record(
            closed=closed,
            through=self.through,
            target_next=self.target_next,
            source_epoch=self.source_epoch,
            last_crc=self.last_crc,
        )

    def _create_segment_record(
        self,
        *,
        closed: bool,
        through: int,
        target_next: int,
        source_epoch: int,
        last_crc: int | None,
    ) -> FlowStateRecord:
        key = MapSegmentKey(
            topic=self.topic,
            partition=self.partition,
            era=self.era,
            ordinal=self.ordinal,
            epoch=self.epoch,
            first_source=self._first_source,
        )
        segment = MapSegment(
            leader_epoch=self.leader_epoch,
            owner=self.owner,
            acquired_from=self.take_start,
            through=through,
            target_next=target_next,
            source_epoch=source_epoch,
            last_crc=last_crc,
            runs=tuple(self._runs),
            closed=closed,
        )
        return FlowStateRecord(
            key=offset_map_records.encode_map_key(key),
            value=offset_map_records.encode_map_value(segment),
        )

    def check_invariants(self) -> None:
        for one, two in itertools.pairwise(self._runs):
            assert one.source < two.source, self._runs
            assert one.delta != two.delta, self._runs
        assert self.through >= self._first_source, (self.through, self._first_source)


def create_map_writer(context: RecoveryContext, acquired: PartitionAcquired) -> MapWriter:
    """Create the map writer of an acquired partition. Its first write is the first map segment of
    the new producer epoch.

    If many batches were matched, their offset map is split into several segments. Each segment is a
    valid resume point, in case the later ones are not stored.
    """
    written = MapWriter(
        topic=context.setup.topic,
        partition=context.setup.partition,
        era=acquired.era,
        ordinal=acquired.ordinal,
        epoch=acquired.producer.epoch,
        leader_epoch=acquired.leader_epoch,
        owner=context.owner,
        take_start=acquired.match_start,
        through=acquired.source,
        target_next=acquired.target,
        source_epoch=acquired.source_epoch,
    )
    start = 0
    for seam in acquired.junctions:
        _add_offset_runs(written, acquired.runs[start : seam.runs])
        written.close_segment(
            through=seam.source, target_next=seam.target, source_epoch=seam.source_epoch
        )
        start = seam.runs
    _add_offset_runs(written, acquired.runs[start:])
    return written


def _add_offset_runs(written: MapWriter, runs: Sequence[OffsetRun]) -> None:
    for run in runs:
        written.add_matched_batch(run.source, run.source + run.delta)
