"""What a copy's anchors say was copied since the one before: pairs of source and target offsets.

The last word on what the target has acknowledged, in order and without a gap, are the segments that
a copy streams to its worker. Each repeats what the one before said and goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from connect_runtime.base import ids
from mm2.formats import map_record


class Step(NamedTuple):
    """So many records that follow one another, from these offsets on both sides."""

    upstream: int
    downstream: int
    records: int


@dataclass(slots=True)
class AnchorSteps:
    """A fold over the segments of one task's partitions.

    Invariant: per partition everything below the noted source offset of the noted era was told,
    or was copied before this object's life.
    """

    _told: dict[ids.TopicPartition, tuple[int, int]] = field(default_factory=dict)

    def steps(self, key: map_record.SegmentKey, segment: map_record.Segment) -> list[Step]:
        """What is new in it. The first of a partition, and of an era, says where it begins."""
        name = ids.TopicPartition(key.topic, key.partition)
        era, told = self._told.get(name, (0, 0))
        self._told[name] = (key.era, segment.through)
        if era != key.era or segment.through <= told:
            return []
        return _steps(segment, told)


def _steps(segment: map_record.Segment, begin: int) -> list[Step]:
    """Of a run's stretch at most what fits before the next one, on both sides: behind it the source
    has a gap, or the target a marker or somebody else's record."""
    found: list[Step] = []
    if not segment.runs:
        return found  # all of it was skipped
    ends = [(each.source, each.source + each.delta) for each in segment.runs[1:]]
    ends.append((segment.through, segment.target_next))
    for run, (source_end, target_end) in zip(segment.runs, ends, strict=True):
        start = max(run.source, begin)
        records = min(source_end - start, target_end - (start + run.delta))
        if records > 0:
            found.append(Step(start, start + run.delta, records))
    return found
