"""Plans which part of a partition's lost offset map can be rebuilt, and creates the map records.

The map records are derived from an alignment of the source and target logs.

A lost map is rebuilt for the newest owner, which has fenced the partition and not written yet;
replication resumes from the rebuilt map. Source records before the first known era (mirror
generation) are assigned to era 0. The owner of era 0 is ordered before all other owners, so
replication never resumes from era 0.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.formats.offset_map_records import (
    Era,
    EraKey,
    MapKey,
    MapProducer,
    MapProducerKey,
    MapSegment,
    MapSegmentKey,
    MapValue,
    OffsetRun,
)
from mm2.offsets.offset_map import PartitionMap
from mm2.offsets.partition_log_alignment import AlignedRange, LogAlignment

REBUILD_REASON = "rebuilt by matching both logs"


class RebuildScope(enum.Enum):
    """Which part of a partition's offset map can be rebuilt. The value is shown to users."""

    LOST = "all of it"
    """The map has no records of the partition."""
    BEFORE = "before the first era"
    """The map does not begin at the mirror's first record, because another writer replicated the
    earlier records."""
    EMPTY = "nothing"
    """The mirror topic is empty."""
    KNOWN = "nothing, the map is complete"
    """The map is complete from the mirror's first record."""
    REBUILT = "nothing, rebuilt before"
    """The map was rebuilt before."""
    NOT_STARTED = "nothing until the flow has run: its first mirror generation has no resume point"
    """The first era (mirror generation) has no resume point yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildPlan:
    """Which part of a partition's offset map to rebuild, and up to which offsets the logs are
    compared."""

    kind: RebuildScope
    source_to: int = -1
    """Source offset up to which both logs are compared; -1 for the log end."""
    target_to: int = -1
    """Target offset up to which both logs are compared; -1 for the log end."""

    @property
    def is_rebuild_needed(self) -> bool:
        """True if any part of the map has to be rebuilt."""
        return self.kind in {RebuildScope.LOST, RebuildScope.BEFORE}


def plan_rebuild(partition_map: PartitionMap) -> RebuildPlan:
    """Plan the rebuild of a partition's map from the records that the map topic still has. Eras
    (mirror generations) of deleted topics are ignored."""
    if not partition_map.era_records:
        return RebuildPlan(kind=RebuildScope.LOST)
    eras = partition_map.eras
    newest = eras[max(eras)]
    ids_now = (newest.source_topic_id, newest.target_topic_id)
    lowest = min(
        number
        for number, era in eras.items()
        if (era.source_topic_id, era.target_topic_id) == ids_now
    )
    first = eras[lowest]
    if lowest == 0:
        return RebuildPlan(kind=RebuildScope.REBUILT)
    if first.reason in {offset_map_records.FIRST_START_REASON, REBUILD_REASON}:
        return RebuildPlan(kind=RebuildScope.KNOWN)
    if partition_map.resume_point is None:
        return RebuildPlan(kind=RebuildScope.NOT_STARTED)
    return RebuildPlan(
        kind=RebuildScope.BEFORE, source_to=first.first_source, target_to=first.first_target
    )


SEGMENT_RUNS_MAX = 500
"""Maximum number of offset runs (ranges with a constant offset difference) per segment, so that a
segment has a size of about 2 KB."""
_NO_OWNER = bytes(offset_map_records.OWNER_BYTES)

MapRecord = tuple[MapKey, MapValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingProducer:
    """The owner (transactional producer) that fenced the partition for the rebuild. All target
    records before its fence marker have been compared with the source."""

    producer_id: int
    epoch: int
    marker: int
    """Target offset of the fence marker: the commit marker of the empty transaction with which the
    owner fenced the partition."""
    leader_epoch: int
    """Leader epoch of the target partition in which the fence marker was written."""


def rebuild_lost_map(
    partition: TopicPartition,
    alignment: LogAlignment,
    era: Era,
    *,
    fencing_owner: FencingProducer,
) -> list[MapRecord]:
    """Create the map records of a partition whose map is lost. The map records must be stored in
    the returned order.

    `era` is the era record to store, with the topics and the reason of the rebuild. The last record
    is the resume point; the next acquisition compares the target records that follow it with the
    source.
    """
    writers = [
        each for each in alignment.producer_ids if each not in {-1, fencing_owner.producer_id}
    ]
    writers.append(fencing_owner.producer_id)
    producers: list[MapRecord] = [
        (
            MapProducerKey(topic=partition.topic, partition=partition.partition, producer_id=each),
            MapProducer(ordinal=ordinal, era=1),
        )
        for ordinal, each in enumerate(writers, start=1)
    ]
    owner = EraKey(
        topic=partition.topic,
        partition=partition.partition,
        era=1,
        ordinal=len(writers),
        epoch=fencing_owner.epoch,
    )
    *before, last = _build_segments(owner, alignment, leader_epoch=fencing_owner.leader_epoch)
    key, segment = last
    target_next = segment.target_next if alignment.unmatched_tail else fencing_owner.marker + 1
    anchor = dataclasses.replace(segment, target_next=target_next, closed=False)
    return [*producers, (owner, era), *before, (key, anchor)]


def rebuild_first_era(
    partition: TopicPartition, alignment: LogAlignment, era: Era
) -> list[MapRecord]:
    """Create the map records for the source records before the first known era (mirror generation).
    The map records must be stored in the returned order.

    The era record is last. If it was not stored, the partition counts as not rebuilt, and the
    rebuild is repeated.
    """
    owner = EraKey(topic=partition.topic, partition=partition.partition, era=0, ordinal=0, epoch=0)
    return [*_build_segments(owner, alignment, leader_epoch=-1), (owner, era)]


def _build_segments(
    owner: EraKey, matched: LogAlignment, *, leader_epoch: int
) -> Iterator[tuple[MapSegmentKey, MapSegment]]:
    for each in split_ranges(matched.ranges):
        key = MapSegmentKey(
            topic=owner.topic,
            partition=owner.partition,
            era=owner.era,
            ordinal=owner.ordinal,
            epoch=owner.epoch,
            first_source=each.first,
        )
        yield (
            key,
            MapSegment(
                leader_epoch=leader_epoch,
                source_epoch=-1,
                owner=_NO_OWNER,
                acquired_from=matched.first_source,
                through=each.through,
                target_next=each.target_next,
                last_crc=None,
                runs=tuple(OffsetRun._make(run) for run in each.runs),
                closed=True,
                below=each.below,
                above=each.above,
            ),
        )


def split_ranges(
    ranges: Iterable[AlignedRange], *, runs_max: int = SEGMENT_RUNS_MAX
) -> Iterator[AlignedRange]:
    """Split aligned ranges so that none has more than `runs_max` offset runs (ranges with a
    constant offset difference)."""
    for each in ranges:
        first = each.first
        for at in range(0, len(each.runs) or 1, runs_max):
            following = each.runs[at + runs_max : at + runs_max + 1]
            through, target_next = each.through, each.target_next
            if following:
                ((through, delta),) = following
                target_next = through + delta
            yield each._replace(
                first=first,
                through=through,
                target_next=target_next,
                runs=each.runs[at : at + runs_max],
            )
            first = through
