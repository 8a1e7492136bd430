"""Determines the offset ranges to scan for unreplicated records of the destination, and builds
results from the scans.

Unreplicated records were written on the destination itself, after everything that the reverse flow
has replicated from the destination.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import UnreplicatedRecords
from mm2.failover import foreign_record_scan
from mm2.failover.foreign_record_scan import ForeignRecordScan, RecordRange
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.offsets.log_start_and_end_offsets import LogBounds
from mm2.offsets.offset_map import OffsetMap
from mm2.topics import replication_policy, topic_selection
from mm2.topics.flow_config import Flow
from mm2.topics.replication_policy import ReplicationPolicy

LOOKBACK_OFFSETS = 1_000
"""Number of mirror offsets before the end of the reverse flow's offset map that are scanned if no
record of the reverse flow follows the end of the map."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreplicatedTail:
    """The last part of a destination partition, which the reverse flow has not replicated to the
    origin."""

    partition: TopicPartition
    map_end: int
    """End of the reverse flow's offset map."""
    end: int
    """Last stable offset of the destination partition."""
    origin_end: int
    """Exclusive upper bound of the reverse flow's record offsets on the origin."""
    ranges: tuple[RecordRange, ...] | None
    """Ranges of the unreplicated records, or None if some could not be counted."""
    counted: int
    """Number of unreplicated records that were found."""
    unknown_reason: str = ""
    """Reason why some records could not be counted, if known."""

    @property
    def first_unreplicated_offset(self) -> int | None:
        """Offset before which all records that were produced on the destination have been
        replicated to the origin. None if unknown."""
        if self.ranges is None:
            return None
        return min((each.first for each in self.ranges), default=self.end)

    def summarize_records(self) -> UnreplicatedRecords:
        """Summarize the unreplicated records for the plan."""
        found = self.ranges or ()
        return UnreplicatedRecords(
            partition=self.partition,
            start=min((each.first for each in found), default=self.map_end),
            end=self.end,
            records=None if self.ranges is None else self.counted,
            at_least=self.counted,
            first_ms=min((each.first_ms for each in found), default=None),
            last_ms=max((each.last_ms for each in found), default=None),
            unknown_reason=self.unknown_reason,
        )


class RecordsReplicatedBack(NamedTuple):
    """Records that the reverse flow has replicated but not yet stored in its offset map: their
    number, and the offset at which they end on the origin."""

    records: int
    end: int
    """Exclusive upper bound of the origin offsets of the records that the reverse flow has
    replicated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionScanInputs:
    """Inputs for building the scans that search one destination partition and its mirror for
    records that were not replicated."""

    ends: LogBounds
    """Start and end offsets of the destination partition's log."""
    map_end: int
    """End of the reverse flow's offset map."""
    flow_producers: Collection[int]
    """Producer ids of the flow itself, if the flow and the reverse flow replicate the topic under
    the same name; otherwise empty."""
    mirror: TopicPartition
    """Origin partition to which the reverse flow replicates this partition."""
    mirror_ends: LogBounds | None
    """Start and end offsets of the mirror partition's log, or None if the mirror does not exist."""
    mirror_next: int
    """Offset in the mirror partition that corresponds to the end of the reverse flow's map."""
    reverse_producers: Collection[int]
    """Producer ids of the reverse flow."""

    def build_mirror_scan_after_map_end(self) -> ForeignRecordScan | None:
        """Build the scan of the mirror partition after the end of the reverse flow's map; return
        None if the mirror does not exist."""
        if self.mirror_ends is None:
            return None
        end = self.mirror_ends.end
        return ForeignRecordScan(
            flow_producers=self.reverse_producers,
            start=self.mirror_next,
            end=end,
            collects_foreign=False,
        )

    def build_mirror_scan_before_map_end(self) -> ForeignRecordScan | None:
        """Build the scan of the mirror partition before the end of the reverse flow's map; return
        None if the range is empty. The scan is needed if the scan after the end of the map found no
        record of the reverse flow: its last record may then be before that end, followed only by
        markers and foreign records."""
        assert self.mirror_ends is not None, "the mirror was scanned"
        start = max(self.mirror_ends.start, self.mirror_next - LOOKBACK_OFFSETS)
        if start >= self.mirror_next:
            return None
        end = self.mirror_next
        return ForeignRecordScan(
            flow_producers=self.reverse_producers, start=start, end=end, collects_foreign=False
        )

    def build_local_record_scan(self) -> ForeignRecordScan:
        """Build the scan of the destination partition for records that were produced there and not
        replicated by the flow (local records)."""
        start = max(self.map_end, self.ends.start)
        return ForeignRecordScan(flow_producers=self.flow_producers, start=start, end=self.ends.end)

    def build_tail(
        self,
        partition: TopicPartition,
        found: ForeignRecordScan,
        arrived: RecordsReplicatedBack | None,
        *,
        whole: bool,
    ) -> UnreplicatedTail:
        """Build the unreplicated tail of a partition from `found`, the scan of its local records
        (records produced on the destination). `whole` is true if the scan reached the end of the
        log.

        `arrived` describes the records that the reverse flow replicated after the end of its offset
        map. If it is None, the reverse flow's progress is unknown, and records may have been
        replicated up to the end of the mirror partition.
        """
        left = foreign_record_scan.skip_foreign_records(
            found.foreign, arrived.records if arrived else 0
        )
        mirror_end = self.mirror_next if self.mirror_ends is None else self.mirror_ends.end
        return UnreplicatedTail(
            partition=partition,
            map_end=self.map_end,
            end=max(self.map_end, self.ends.end),
            origin_end=max(self.mirror_next, mirror_end) if arrived is None else arrived.end,
            ranges=tuple(left) if whole else None,
            counted=sum(each.records for each in left),
        )


def list_reverse_flow_partitions(
    opposite: OffsetMap, policy: ReplicationPolicy
) -> set[TopicPartition]:
    """List the destination partitions that the reverse flow has started to replicate. Heartbeat
    topics are excluded because losing heartbeats is harmless."""
    return {
        each
        for each in opposite.list_partitions()
        if opposite.get_partition(each).eras
        and not replication_policy.is_heartbeats_topic(policy, each.topic)
    }


def select_topics_to_replicate(back: Flow, listed: Collection[str]) -> set[str]:
    """Select the listed topics that the reverse flow would replicate."""
    return {
        each
        for each in listed
        if topic_selection.should_replicate_topic(back, each)
        and not replication_policy.is_heartbeats_topic(back.policy, each)
    }


_NO_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TailScanInputs:
    """Inputs for building the scans for unreplicated records, by destination partition."""

    reverse_map: OffsetMap
    """The reverse flow's offset map."""
    offset_map: OffsetMap
    """The flow's own offset map, with the flow's producer ids."""
    mirrors: Mapping[TopicPartition, TopicPartition]
    """Origin partition to which the reverse flow replicates each partition."""
    target_bounds: Mapping[TopicPartition, LogBounds]
    """Start and end offsets of the destination partitions' logs."""
    mirror_bounds: Mapping[TopicPartition, LogBounds | None]
    """Start and end offsets of the mirrors' logs on the origin. None if a mirror does not exist; no
    entry if the origin did not respond for it."""
    outdated: Collection[TopicPartition] = ()
    """Partitions whose map entries are outdated, so that no record is known to have been
    replicated."""
    syncs: Mapping[TopicPartition, Sequence[OffsetSync]] = field(default_factory=dict)
    """The reverse flow's offset syncs."""

    def build_partition_scan_inputs(self) -> dict[TopicPartition, PartitionScanInputs]:
        """Build the scan inputs of the partitions that have a known mirror or were never
        replicated."""
        return {
            each: self._build_partition_inputs(each, ends)
            for each, ends in self.target_bounds.items()
            if (self._is_replicated(each) and self.mirrors[each] in self.mirror_bounds)
            or not (self._is_replicated(each) or self._is_replicated_by_other_tool(each))
        }

    def build_tails_of_unknown_size(
        self, silent: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, UnreplicatedTail]:
        """Build the tails of partitions whose unreplicated records cannot be counted. `silent`
        contains the partitions for which the cluster did not respond, with the reason."""
        others = {
            each: "replicated by a tool other than this flow, without a record of its progress"
            for each in self.target_bounds
            if not self._is_replicated(each) and self._is_replicated_by_other_tool(each)
        }
        return {
            each: self._build_tail_of_unknown_size(each, why)
            for each, why in {**silent, **others}.items()
        }

    def _is_replicated(self, partition: TopicPartition) -> bool:
        return bool(self.reverse_map.get_partition(partition).eras)

    def _is_replicated_by_other_tool(self, partition: TopicPartition) -> bool:
        """Return True if another tool has replicated a partition that the flow has not started to
        replicate."""
        mirror = self.mirrors[partition]
        ends = self.mirror_bounds.get(mirror)
        named = mirror != partition and ends is not None and ends.high_watermark > ends.start
        return named or bool(self.syncs.get(partition))

    def _build_partition_inputs(
        self, partition: TopicPartition, ends: LogBounds
    ) -> PartitionScanInputs:
        mine, mirror = self.reverse_map.get_partition(partition), self.mirrors[partition]
        holds = partition not in self.outdated and bool(mine.eras)
        anchor = mine.resume_point if holds else None
        same = self.offset_map.get_partition(mirror).producers if mirror == partition else ()
        return PartitionScanInputs(
            ends=ends,
            map_end=(mine.next_source_offset or 0) if holds else 0,
            flow_producers=frozenset(same),
            mirror=mirror,
            mirror_ends=self.mirror_bounds[mirror] if holds else None,
            mirror_next=0 if anchor is None else anchor.segment.target_next,
            reverse_producers=frozenset(mine.producers),
        )

    def _build_tail_of_unknown_size(self, partition: TopicPartition, why: str) -> UnreplicatedTail:
        told = max((each.upstream for each in self.syncs.get(partition, ())), default=0)
        through = max(self.reverse_map.get_partition(partition).next_source_offset or 0, told)
        ends, mirror_ends = (
            self.target_bounds.get(partition),
            self.mirror_bounds.get(self.mirrors[partition]),
        )
        return UnreplicatedTail(
            partition=partition,
            map_end=through,
            end=through if ends is None else max(through, ends.end),
            origin_end=_NO_OFFSET if mirror_ends is None else mirror_ends.high_watermark,
            ranges=None,
            counted=0,
            unknown_reason=why,
        )
