"""Offset syncs as in MirrorMaker 2: the store that translates offsets, and the writer that decides
when a sync is written.

`OffsetSyncStore` keeps a bounded number of syncs per partition. They are denser near the newest
sync: translation is precise there, and becomes half as precise with every doubling of the distance
from the newest sync. In any one state of the store, higher source offsets never translate to lower
target offsets. When the store drops a sync, however, the same source offset may translate to a
lower target offset than before. Callers must not publish such a lower offset.

`OffsetSyncWriter` (KAFKA-15906): a sync is due immediately at the first record since the start, at
a gap in the source's offsets, when the target's offsets moved back, and when the last sync is
`offset_lag_max` records behind. Other syncs are written at the next commit of source offsets. Only
the newest sync of each partition is written, and the number of syncs in flight is bounded.

`ReplicatedSpanTracker` derives the replicated offset spans from the map segments that a copy
process sends to its task. The target has acknowledged the records of these segments, in order and
without gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import ids, plurals
from connect_runtime.base.ids import TopicPartition
from mm2.formats import mirrormaker2_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.offset_map_records import MapSegment, MapSegmentKey
from mm2.offsets.offset_translation import (
    EarlierOffset,
    ExactOffset,
    TranslatedOffset,
    UntranslatedReason,
)

SYNCS_PER_PARTITION = 64
"""Number of syncs per partition: one for each bit of an offset (Java: `SYNCS_PER_PARTITION`)."""
SYNC_PARTITIONS_MAX = 250_000
"""Maximum number of partitions for which a store keeps syncs. The limit bounds the memory if the
offset-syncs topic contains syncs of nonexistent partitions. No flow has that many partitions."""
_INT64_END = 1 << 63

PartitionSyncs = list[OffsetSync]


@dataclass(slots=True)
class OffsetSyncStore:
    """Offset syncs of all partitions of one flow, used to translate source offsets.

    Each partition has `SYNCS_PER_PARTITION` slots, each of which contains a sync. Invariants per
    partition, for slots i < j with different source offsets, except where a bound would overflow 64
    bits:

    - A: slot 0 contains the newest sync.
    - B: upstream[i] <= upstream[j] + 2^j - 2^i, so a sync is not too old for its slot.
    - C: upstream[i] >= upstream[j] + 2^max(i - 2, 0), so a sync is not too close to its neighbor.
    - D: slot 63 contains the oldest usable sync.

    """

    keep_history: bool
    """True if all syncs read before `mark_ready` are used, False if only the last sync of each
    partition is used. Set True only if the caller knows all checkpoints that were published before
    (KAFKA-15905). Otherwise an offset could translate to a lower target offset than in a published
    checkpoint (KAFKA-13659)."""
    partitions_max: int = SYNC_PARTITIONS_MAX
    ignored_syncs: int = 0
    """Number of syncs that were ignored, because there are more than `partitions_max` partitions or
    Kafka does not allow the topic's name."""
    _ready: bool = False
    _partitions: dict[TopicPartition, PartitionSyncs] = field(default_factory=dict)
    """Offset syncs in the slots of each partition. The last sync of the list also fills all
    remaining slots, but is stored only once."""

    def apply_record(self, key: bytes, value: bytes | None) -> None:
        """Apply one record of the offset-syncs topic. A `value` of None is a tombstone, which
        removes all syncs of the partition.

        If the record is malformed, raises `MalformedRecordError` and changes nothing.
        """
        if value is None:
            self._partitions.pop(mirrormaker2_records.decode_offset_sync_key(key), None)
        else:
            self.add_sync(mirrormaker2_records.decode_offset_sync(key, value))

    def add_sync(self, sync: OffsetSync) -> None:
        """Add a decoded offset sync, which becomes the newest sync of its partition."""
        old = self._partitions.get(sync.partition)
        if old is None and not is_partition_allowed(
            sync.partition, known=len(self._partitions), partitions_max=self.partitions_max
        ):
            self.ignored_syncs += 1
            return
        rewound = old is not None and sync.upstream < old[0].upstream
        if old is None or rewound or not (self._ready or self.keep_history):
            self._partitions[sync.partition] = [sync]
        else:
            slots = _insert_newest_sync(_repeat_last_sync_in_free_slots(old), sync)
            while len(slots) > 1 and slots[-1] is slots[-2]:
                slots.pop()
            self._partitions[sync.partition] = slots

    def mark_ready(self) -> None:
        """Mark the initial read of the offset-syncs topic as complete. Offsets can be translated
        from now on."""
        self._ready = True

    @property
    def is_ready(self) -> bool:
        """True if the offset-syncs topic was read to its end, so that offsets can be translated."""
        return self._ready

    def translate_downstream(self, partition: TopicPartition, upstream: int) -> TranslatedOffset:
        """Translate a source offset. `partition` has the topic name on the source; `upstream` is
        the next offset to consume.

        Only the offset right after a sync is exact, because later source records may have been
        filtered or compacted away, or may be markers. Any later offset translates to the offset
        right after the sync.
        """
        if not self._ready:
            return UntranslatedReason.NOT_READY
        syncs = self._partitions.get(partition)
        if syncs is None:
            return UntranslatedReason.UNKNOWN
        sync = next((each for each in syncs if each.upstream <= upstream), None)
        if sync is None:
            return UntranslatedReason.TOO_OLD
        if upstream == sync.upstream:
            return ExactOffset(downstream=sync.downstream)
        if upstream == sync.upstream + 1:
            return ExactOffset(downstream=sync.downstream + 1)
        return EarlierOffset(
            downstream=sync.downstream + 1, reread_max=upstream - sync.upstream - 1
        )

    def list_syncs(self, partition: TopicPartition) -> tuple[OffsetSync, ...]:
        """Return the syncs of a partition, one for each slot, newest to oldest; empty if there are
        none."""
        syncs = self._partitions.get(partition)
        return () if syncs is None else tuple(_repeat_last_sync_in_free_slots(syncs))

    def describe_ignored_syncs(self) -> str:
        """Format a warning about the ignored offset syncs of this store."""
        return format_ignored_syncs(self.ignored_syncs, partitions_max=self.partitions_max)

    def list_partitions(self) -> list[TopicPartition]:
        return sorted(self._partitions)

    def check_invariants(self) -> None:
        for partition, distinct in self._partitions.items():
            syncs = _repeat_last_sync_in_free_slots(distinct)
            assert len(syncs) == SYNCS_PER_PARTITION, partition
            for lower in range(SYNCS_PER_PARTITION - 1):
                one, other = syncs[lower], syncs[lower + 1]
                assert _satisfies_invariant_b(one, other, i=lower, j=lower + 1), (partition, lower)
                beyond = other.upstream + (1 << max(lower - 2, 0)) >= _INT64_END
                alike = one.upstream == other.upstream
                assert alike or beyond or _satisfies_invariant_c(one, other, lower), (
                    partition,
                    lower,
                )


def is_partition_allowed(partition: TopicPartition, *, known: int, partitions_max: int) -> bool:
    """Return whether a store keeps the syncs of a new partition. True if Kafka allows the topic's
    name and the store has syncs of fewer than `partitions_max` partitions. `known` is the number of
    partitions for which the store has syncs."""
    return known < partitions_max and ids.is_valid_topic_name(partition.topic)


def format_ignored_syncs(count: int, *, partitions_max: int) -> str:
    """Format a warning about `count` ignored offset syncs, with the reasons for which syncs are
    ignored."""
    return (
        f"{plurals.format_count(count, 'offset sync')} ignored: syncs of at most "
        f"{partitions_max:,} partitions are kept, and their topics must have valid names; "
        "find the program that writes the other syncs to the offset-syncs topic"
    )


def _repeat_last_sync_in_free_slots(syncs: PartitionSyncs) -> PartitionSyncs:
    """Return the syncs in all slots of a partition. The last stored sync is repeated in all slots
    after it."""
    return syncs + syncs[-1:] * (SYNCS_PER_PARTITION - len(syncs))


def _insert_newest_sync(old: PartitionSyncs, newest: OffsetSync) -> PartitionSyncs:
    """Insert the newest sync into slot 0, which restores invariant A of `OffsetSyncStore`. Then
    restore invariant B slot by slot, until a slot already satisfies it."""
    syncs = [newest, *old[1:]]
    replacement, at = newest, 0
    for slot in range(1, SYNCS_PER_PARTITION):
        if _satisfies_invariant_b(syncs[slot - 1], syncs[slot], i=slot - 1, j=slot):
            break  # then all later slots are valid, too
        replacement, at = _choose_sync_for_slot(syncs, old, slot, replacement=replacement, at=at)
        syncs[slot] = replacement
    return syncs


def _choose_sync_for_slot(
    syncs: PartitionSyncs, old: PartitionSyncs, slot: int, *, replacement: OffsetSync, at: int
) -> tuple[OffsetSync, int]:
    """Choose the sync for `slot`, preferably one of the previous syncs in `old` that satisfies the
    invariants, so that few syncs are dropped. Return it, and the index in `old` at which to
    continue the search for the next slot."""
    while True:
        candidate = old[at]
        apart = _satisfies_invariant_c(syncs[slot - 1], candidate, slot - 1)
        fits = (
            apart
            and _satisfies_invariant_b(syncs[slot - 1], candidate, i=slot - 1, j=slot)
            and (
                slot + 1 == SYNCS_PER_PARTITION
                or _satisfies_invariant_c(candidate, syncs[slot + 1], slot)
            )
        )
        if fits:
            replacement = candidate
        # The next sync is the same one, or this one is too close to ever fit in a later slot.
        passed_over = not apart or (at + 1 < SYNCS_PER_PARTITION and candidate is old[at + 1])
        if fits or passed_over:
            at += 1
        if at >= slot or not passed_over:
            return replacement, at


def _satisfies_invariant_b(one: OffsetSync, other: OffsetSync, *, i: int, j: int) -> bool:
    """Return whether sync `one` in slot i and sync `other` in slot j satisfy invariant B of
    `OffsetSyncStore`: `one` is recent enough compared with `other`. True if the bound exceeds 64
    bits."""
    bound = other.upstream + (1 << j) - (1 << i)
    return one is other or not 0 <= bound < _INT64_END or one.upstream <= bound


def _satisfies_invariant_c(one: OffsetSync, other: OffsetSync, i: int) -> bool:
    """Return whether sync `one` in slot i and sync `other` in a later slot satisfy invariant C of
    `OffsetSyncStore`: `one` is far enough from `other`. False if the bound exceeds 64 bits."""
    bound = other.upstream + (1 << max(i - 2, 0))
    return one is other or (0 <= bound < _INT64_END and one.upstream >= bound)


IN_FLIGHT_SYNCS_MAX = 10
"""Maximum number of syncs in flight (Java: `MAX_OUTSTANDING_OFFSET_SYNCS`)."""
_NO_OFFSET = -1


@dataclass(slots=True)
class PartitionSyncState:
    """Last acknowledged offsets of one source partition since the task started (Java:
    `PartitionState`)."""

    upstream: int = _NO_OFFSET
    downstream: int = _NO_OFFSET
    last_sync_downstream: int = _NO_OFFSET
    """Target offset of the last sync that was due immediately. Other syncs become due at the next
    commit of source offsets."""

    def record_acknowledgement(
        self, upstream: int, downstream: int, records: int, *, offset_lag_max: int
    ) -> int | None:
        """Record that the target acknowledged `records` consecutive records; `upstream` and
        `downstream` are the source and target offset of the first one.

        Returns the index of the last of these records for which a sync is due; None if no sync is
        due.
        """
        due: int | None = None
        if (
            self.last_sync_downstream == _NO_OFFSET
            or downstream - (self.last_sync_downstream + 1) >= offset_lag_max
            or upstream - self.upstream != 1
            or downstream < self.downstream
        ):
            self.last_sync_downstream = downstream
            due = 0
        # From here on only the lag grows, so a sync is due every `offset_lag_max + 1` records.
        last = downstream + records - 1
        steps = (last - self.last_sync_downstream) // (offset_lag_max + 1)
        if steps > 0:
            self.last_sync_downstream += steps * (offset_lag_max + 1)
            due = self.last_sync_downstream - downstream
        self.upstream, self.downstream = upstream + records - 1, last
        return due


@dataclass(slots=True)
class OffsetSyncWriter:
    """Queues the offset syncs of one task. The caller writes the syncs that `take_due_syncs`
    returns, and reports each result with `record_write_result`.

    Invariants: at most `in_flight_max` syncs are in flight; a delayed sync is newer than the
    pending sync of the same partition.
    """

    offset_lag_max: int
    in_flight_max: int = IN_FLIGHT_SYNCS_MAX
    _states: dict[TopicPartition, PartitionSyncState] = field(default_factory=dict)
    _pending: dict[TopicPartition, OffsetSync] = field(default_factory=dict)
    _delayed: dict[TopicPartition, OffsetSync] = field(default_factory=dict)
    _under_way: int = 0

    def record_acknowledgement(
        self, partition: TopicPartition, *, upstream: int, downstream: int, records: int = 1
    ) -> None:
        """Record that the target acknowledged `records` consecutive records; `upstream` and
        `downstream` are the source and target offset of the first one. Equivalent to one call of
        Java's `maybeQueueOffsetSyncs` for each record."""
        assert records > 0, records
        state = self._states.setdefault(partition, PartitionSyncState())
        due = state.record_acknowledgement(
            upstream, downstream, records, offset_lag_max=self.offset_lag_max
        )
        if due is not None:
            self._delayed.pop(partition, None)
            self._pending[partition] = _create_sync(partition, upstream + due, downstream + due)
        if due != records - 1:
            last = records - 1
            self._delayed[partition] = _create_sync(partition, upstream + last, downstream + last)

    def promote_delayed_syncs(self) -> None:
        """Make delayed syncs due after source offsets were committed (Java:
        `promoteDelayedOffsetSyncs`)."""
        self._pending.update(self._delayed)
        self._delayed.clear()

    def take_due_syncs(self) -> list[OffsetSync]:
        """Remove and return the syncs to write now, oldest first (Java: `firePendingOffsetSyncs`).
        The caller must call `record_write_result` for each of them."""
        taken: list[OffsetSync] = []
        while self._pending and self._under_way < self.in_flight_max:
            taken.append(self._pending.pop(next(iter(self._pending))))
            self._under_way += 1
        return taken

    def record_write_result(self, sync: OffsetSync, *, stored: bool) -> None:
        """Record whether a sync that `take_due_syncs` returned was written (`stored`).

        A sync that could not be written is written again at the next commit of source offsets,
        unless a newer sync of the partition exists; Java drops it. An older sync must not be
        written after a newer one, because readers would conclude that the source was rewound.
        """
        assert self._under_way > 0, sync
        self._under_way -= 1
        state = self._states.get(sync.partition)
        if stored or state is None:
            return
        if (state.upstream, state.downstream) == (sync.upstream, sync.downstream):
            self._delayed[sync.partition] = sync

    def forget_partition(self, partition: TopicPartition) -> None:
        """Drop the state and the queued syncs of a partition that is now assigned to another task.

        If this task wrote the queued syncs after the other task had written newer syncs, readers
        would conclude that the source was rewound.
        """
        for table in (self._states, self._pending, self._delayed):
            table.pop(partition, None)

    @property
    def due_syncs(self) -> Mapping[TopicPartition, OffsetSync]:
        """Offset syncs that are due now, by partition."""
        return self._pending

    @property
    def delayed_syncs(self) -> Mapping[TopicPartition, OffsetSync]:
        """Offset syncs that become due at the next commit of source offsets, by partition."""
        return self._delayed

    @property
    def in_flight_count(self) -> int:
        """Number of offset syncs that are being written."""
        return self._under_way

    def check_invariants(self) -> None:
        assert 0 <= self._under_way <= self.in_flight_max, self._under_way


def _create_sync(partition: TopicPartition, upstream: int, downstream: int) -> OffsetSync:
    return OffsetSync(partition=partition, upstream=upstream, downstream=downstream)


class ReplicatedSpan(NamedTuple):
    """Replicated records with consecutive offsets: the source and target offset of the first
    record, and the number of records."""

    upstream: int
    downstream: int
    records: int


@dataclass(slots=True)
class ReplicatedSpanTracker:
    """Derives newly replicated spans (records with consecutive offsets) from the map segments of
    one task's partitions.

    `_reported` contains an era (mirror generation) and a source offset for each partition.
    Invariant: all spans of that era below that offset were returned, or had been replicated before
    this tracker was created.
    """

    _reported: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def extract_new_spans(self, key: MapSegmentKey, segment: MapSegment) -> list[ReplicatedSpan]:
        """Return the replicated spans of a map segment that this tracker has not returned yet. For
        the first segment of a partition or era (mirror generation), record the segment's end and
        return no spans."""
        name = TopicPartition(key.topic, key.partition)
        era, reported = self._reported.get(name, (0, 0))
        self._reported[name] = (key.era, segment.through)
        if era != key.era or segment.through <= reported:
            return []
        return _extract_segment_spans(segment, reported)


def _extract_segment_spans(segment: MapSegment, begin: int) -> list[ReplicatedSpan]:
    """Return the replicated spans of a segment, starting at source offset `begin`.

    A span ends where the next run (range with a constant offset difference) begins on the source or
    on the target, whichever is reached first. The remaining offsets before the next run are a gap
    on the source, or markers or foreign records on the target.
    """
    found: list[ReplicatedSpan] = []
    if not segment.runs:
        return found  # all of it was skipped
    ends = [(each.source, each.source + each.delta) for each in segment.runs[1:]]
    ends.append((segment.through, segment.target_next))
    for run, (source_end, target_end) in zip(segment.runs, ends, strict=True):
        start = max(run.source, begin)
        records = min(source_end - start, target_end - (start + run.delta))
        if records > 0:
            found.append(ReplicatedSpan(start, start + run.delta, records))
    return found
