"""Where to scan for records that never left the destination, and how to evaluate the scans.

Unreplicated records were written on the destination itself, after everything that the reverse flow
has replicated from it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.pair_snapshot import UnreplicatedRecords
from mm2.failover import divergence
from mm2.failover.divergence import Provenance, RecordRange
from mm2.formats.mm2_records import OffsetSync
from mm2.offsets.log_bounds import LogBounds
from mm2.offsets.offset_map import OffsetMap
from mm2.topics import naming
from mm2.topics.flow_config import Flow
from mm2.topics.naming import ReplicationPolicy

LOOKBACK_OFFSETS = 1_000
"""How far before its end the reverse flow's last record is searched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreplicatedTail:
    """The end of one partition of the destination that the reverse flow has not replicated."""

    partition: TopicPartition
    through: int
    """End of the reverse flow's offset map."""
    end: int
    """Last stable offset."""
    behind: int
    """On the origin, no record of the reverse flow is at this offset or later."""
    stretches: tuple[RecordRange, ...] | None
    """Unreplicated records; None if not all could be counted."""
    counted: int
    """Number of unreplicated records found so far."""
    why: str = ""
    """Why not all could be counted, if known."""

    @property
    def first(self) -> int | None:
        """All local records before this offset have been replicated; None if unknown."""
        if self.stretches is None:
            return None
        return min((each.first for each in self.stretches), default=self.end)

    def told(self) -> UnreplicatedRecords:
        """Summarize for the plan."""
        found = self.stretches or ()
        return UnreplicatedRecords(
            partition=self.partition,
            start=min((each.first for each in found), default=self.through),
            end=self.end,
            records=None if self.stretches is None else self.counted,
            at_least=self.counted,
            first_ms=min((each.first_ms for each in found), default=None),
            last_ms=max((each.last_ms for each in found), default=None),
            why=self.why,
        )


class ReplicatedBack(NamedTuple):
    """Records that the reverse flow replicated after the end of its map."""

    records: int
    behind: int
    """None of them is at this offset or later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStart:
    """What to scan for one partition of the destination."""

    ends: LogBounds
    """Log bounds of the partition."""
    through: int
    """End of the reverse flow's map."""
    ours: Collection[int]
    """Producer ids of the flow itself, if both flows use one topic name."""
    mirror: TopicPartition
    """Where the reverse flow replicates the partition to."""
    mirror_ends: LogBounds | None
    """Log bounds of that mirror; None if it does not exist."""
    mirror_next: int
    """Where the reverse flow's map ends on the mirror."""
    theirs: Collection[int]
    """Producer ids of the reverse flow."""

    def behind_the_map(self) -> Provenance | None:
        """Returns the scan of the mirror after the map's end; None if there is no mirror."""
        if self.mirror_ends is None:
            return None
        end = self.mirror_ends.end
        return Provenance(ours=self.theirs, start=self.mirror_next, end=end, keeps_others=False)

    def before_the_map_ends(self) -> Provenance | None:
        """Returns the scan before the map's end, if nothing was found after it: the last record may
        be followed by markers and foreign records. None if the range is empty."""
        assert self.mirror_ends is not None, "the mirror was scanned"
        start = max(self.mirror_ends.start, self.mirror_next - LOOKBACK_OFFSETS)
        if start >= self.mirror_next:
            return None
        end = self.mirror_next
        return Provenance(ours=self.theirs, start=start, end=end, keeps_others=False)

    def born(self) -> Provenance:
        """Returns the scan of the partition itself for local records."""
        start = max(self.through, self.ends.start)
        return Provenance(ours=self.ours, start=start, end=self.ends.end)

    def tail(
        self,
        partition: TopicPartition,
        found: Provenance,
        arrived: ReplicatedBack | None,
        *,
        whole: bool,
    ) -> UnreplicatedTail:
        """Evaluate a scan of local records; `whole`: it reached the end.

        `arrived` None: unknown, so records may have been replicated up to the mirror's end."""
        left = divergence.skip_records(found.others, arrived.records if arrived else 0)
        mirror_end = self.mirror_next if self.mirror_ends is None else self.mirror_ends.end
        return UnreplicatedTail(
            partition=partition,
            through=self.through,
            end=max(self.through, self.ends.end),
            behind=max(self.mirror_next, mirror_end) if arrived is None else arrived.behind,
            stretches=tuple(left) if whole else None,
            counted=sum(each.records for each in left),
        )


def list_reverse_flow_partitions(
    opposite: OffsetMap, policy: ReplicationPolicy
) -> set[TopicPartition]:
    """Partitions of the destination that the reverse flow has begun, without heartbeats, which are
    no loss."""
    return {
        each
        for each in opposite.partitions()
        if opposite.partition(each).eras and not naming.is_heartbeats_topic(policy, each.topic)
    }


def select_topics_to_replicate(back: Flow, listed: Collection[str]) -> set[str]:
    """Select the listed topics that the reverse flow would replicate."""
    return {
        each
        for each in listed
        if back.should_replicate_topic(each) and not naming.is_heartbeats_topic(back.policy, each)
    }


_NO_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TailScan:
    """What is known before the scans, by partition of the destination."""

    opposite: OffsetMap
    """Offset map of the reverse flow."""
    known: OffsetMap
    """Offset map of the flow, with its producer ids."""
    mirror: Mapping[TopicPartition, TopicPartition]
    """Where the reverse flow replicates each partition to."""
    there: Mapping[TopicPartition, LogBounds]
    """Log bounds on the destination."""
    here: Mapping[TopicPartition, LogBounds | None]
    """Log bounds of the mirrors on the origin; None if a mirror does not exist, no entry if it did
    not answer."""
    stopped: Collection[TopicPartition] = ()
    """Partitions whose map entries are outdated: nothing is known to have been replicated."""
    syncs: Mapping[TopicPartition, Sequence[OffsetSync]] = field(default_factory=dict)
    """Offset syncs of the reverse flow."""

    def begins(self) -> dict[TopicPartition, ScanStart]:
        """Returns the scans: partitions whose mirror is known, or that nobody replicated."""
        return {
            each: self._build_scan_start(each, ends)
            for each, ends in self.there.items()
            if (self._is_replicated(each) and self.mirror[each] in self.here)
            or not (self._is_replicated(each) or self._has_foreign_copies(each))
        }

    def uncounted(
        self, silent: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, UnreplicatedTail]:
        """Returns the partitions that cannot be counted; `silent` did not answer, and why."""
        others = {
            each: "replicated by another tool than this flow, without a map of how far"
            for each in self.there
            if not self._is_replicated(each) and self._has_foreign_copies(each)
        }
        return {
            each: self._build_uncounted_tail(each, why)
            for each, why in {**silent, **others}.items()
        }

    def _is_replicated(self, partition: TopicPartition) -> bool:
        return bool(self.opposite.partition(partition).eras)

    def _has_foreign_copies(self, partition: TopicPartition) -> bool:
        """Returns True if another tool has replicated a partition that the flow has not begun."""
        mirror = self.mirror[partition]
        ends = self.here.get(mirror)
        named = mirror != partition and ends is not None and ends.high_watermark > ends.start
        return named or bool(self.syncs.get(partition))

    def _build_scan_start(self, partition: TopicPartition, ends: LogBounds) -> ScanStart:
        mine, mirror = self.opposite.partition(partition), self.mirror[partition]
        holds = partition not in self.stopped and bool(mine.eras)
        anchor = mine.anchor if holds else None
        same = self.known.partition(mirror).producers if mirror == partition else ()
        return ScanStart(
            ends=ends,
            through=(mine.copied_to or 0) if holds else 0,
            ours=frozenset(same),
            mirror=mirror,
            mirror_ends=self.here[mirror] if holds else None,
            mirror_next=0 if anchor is None else anchor.segment.target_next,
            theirs=frozenset(mine.producers),
        )

    def _build_uncounted_tail(self, partition: TopicPartition, why: str) -> UnreplicatedTail:
        told = max((each.upstream for each in self.syncs.get(partition, ())), default=0)
        through = max(self.opposite.partition(partition).copied_to or 0, told)
        ends, mirror_ends = self.there.get(partition), self.here.get(self.mirror[partition])
        return UnreplicatedTail(
            partition=partition,
            through=through,
            end=through if ends is None else max(through, ends.end),
            behind=_NO_OFFSET if mirror_ends is None else mirror_ends.high_watermark,
            stretches=None,
            counted=0,
            why=why,
        )
