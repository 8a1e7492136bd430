"""Where to search for unreplicated records of the cluster to move to, and what the search means.

Unreplicated records were written on that cluster itself, after everything that the reverse flow
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
"""So far back the last record that the opposite flow brought is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreplicatedTail:
    """Of a partition of the cluster gone to, from where the opposite flow's map ends (`through`) to
    the last stable offset (`end`). Nothing that this flow brought over stands at `behind` on the
    cluster that is left, or later. `stretches` None: not all could be counted, `why`, where that is
    known."""

    partition: TopicPartition
    through: int
    end: int
    behind: int
    stretches: tuple[RecordRange, ...] | None
    counted: int
    why: str = ""

    @property
    def first(self) -> int | None:
        """Before it all that was born there has arrived; None: that was not counted."""
        if self.stretches is None:
            return None
        return min((each.first for each in self.stretches), default=self.end)

    def told(self) -> UnreplicatedRecords:
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
    """Records that the opposite flow brought and did not write down; nothing of it stands at
    `behind` or later."""

    records: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanStart:
    """Where to look. `ours`: ids of the producers of the flow itself, under one name; `mirror`:
    where the opposite flow brings the partition, by the ids `theirs`. There its map ends at
    `mirror_next`; `mirror_ends` None: there is no such partition."""

    ends: LogBounds
    through: int
    ours: Collection[int]
    mirror: TopicPartition
    mirror_ends: LogBounds | None
    mirror_next: int
    theirs: Collection[int]

    def behind_the_map(self) -> Provenance | None:
        """What of the mirror is to be looked at first; None: there is nothing."""
        if self.mirror_ends is None:
            return None
        end = self.mirror_ends.end
        return Provenance(ours=self.theirs, start=self.mirror_next, end=end, keeps_others=False)

    def before_the_map_ends(self) -> Provenance | None:
        """Where nothing stood behind: its last record may stand before markers, and before
        others'. None: nothing is left there."""
        assert self.mirror_ends is not None, "it was looked at"
        start = max(self.mirror_ends.start, self.mirror_next - LOOKBACK_OFFSETS)
        if start >= self.mirror_next:
            return None
        end = self.mirror_next
        return Provenance(ours=self.theirs, start=start, end=end, keeps_others=False)

    def born(self) -> Provenance:
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
        """`found`: what was `born`, `whole` where all of it was read. `arrived` None: that could
        not be seen, so records may have arrived up to the mirror's end."""
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
    """Partitions of the cluster gone to that the opposite flow has begun; heartbeats lose
    nothing."""
    return {
        each
        for each in opposite.partitions()
        if opposite.partition(each).eras and not naming.is_heartbeats_topic(policy, each.topic)
    }


def select_topics_to_replicate(back: Flow, listed: Collection[str]) -> set[str]:
    """Of the topics of its source those that it is to mirror."""
    return {
        each
        for each in listed
        if back.should_replicate_topic(each) and not naming.is_heartbeats_topic(back.policy, each)
    }


_NO_OFFSET = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TailScan:
    """What was asked before anything is counted, by partition of the cluster gone to.

    `known`: the map of the flow, by whose ids it writes into topics of one name. `mirror`: where
    the opposite flow brings each; `there` its log, `here` that of its mirror: None says that there
    is none, and what is not in it could not be asked for. `stopped`: of which the opposite map
    holds no more: nothing of what stands there now is known to have arrived. `syncs`: offset syncs
    of the opposite direction, by name there.
    """

    opposite: OffsetMap
    known: OffsetMap
    mirror: Mapping[TopicPartition, TopicPartition]
    there: Mapping[TopicPartition, LogBounds]
    here: Mapping[TopicPartition, LogBounds | None]
    stopped: Collection[TopicPartition] = ()
    syncs: Mapping[TopicPartition, Sequence[OffsetSync]] = field(default_factory=dict)

    def begins(self) -> dict[TopicPartition, ScanStart]:
        """Where to look: of every partition whose mirror is known of, or that nobody began."""
        return {
            each: self._begin(each, ends)
            for each, ends in self.there.items()
            if (self._is_begun(each) and self.mirror[each] in self.here)
            or not (self._is_begun(each) or self._brought_by_others(each))
        }

    def uncounted(
        self, silent: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, UnreplicatedTail]:
        """Of which nothing can be counted. `silent`: for which the cluster gone to does not
        answer, and why."""
        others = {
            each: "something else than this flow has brought it over, and no map says how far"
            for each in self.there
            if not self._is_begun(each) and self._brought_by_others(each)
        }
        return {each: self._uncounted(each, why) for each, why in {**silent, **others}.items()}

    def _is_begun(self, partition: TopicPartition) -> bool:
        return bool(self.opposite.partition(partition).eras)

    def _brought_by_others(self, partition: TopicPartition) -> bool:
        """Of what the flow has not begun."""
        mirror = self.mirror[partition]
        ends = self.here.get(mirror)
        named = mirror != partition and ends is not None and ends.high_watermark > ends.start
        return named or bool(self.syncs.get(partition))

    def _begin(self, partition: TopicPartition, ends: LogBounds) -> ScanStart:
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

    def _uncounted(self, partition: TopicPartition, why: str) -> UnreplicatedTail:
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
