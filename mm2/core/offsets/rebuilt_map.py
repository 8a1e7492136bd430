"""A partition's map written anew, from what was found by matching both logs.

Either as the newest owner's, whose fence stands and who has not copied yet: what is started next
goes on from there. Or as an era before all that are known, of the nobody who comes before every
owner: it changes nothing for who copies.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from connect_runtime.base import ids
from mm2.core.offsets import matched_runs
from mm2.formats import map_record

RUNS_MAX = 500
"""Of a segment, so that it takes about 2 KB."""
_OWNER = bytes(map_record.OWNER_BYTES)

Record = tuple[map_record.MapKey, map_record.MapValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """Who has fenced the partition: producer id and epoch, with the marker at this target offset,
    written in this leader epoch. What stood before it was matched."""

    producer_id: int
    epoch: int
    marker: int
    leader_epoch: int


def lost(
    partition: ids.TopicPartition,
    matched: matched_runs.Matched,
    era: map_record.Era,
    *,
    by: Fenced,
) -> list[Record]:
    """Of a partition of which nothing is known any more; to be stored in this order. `era` says
    which topics, and why. The anchor comes last: what stands behind it is paired by who takes the
    partition next."""
    writers = [each for each in matched.writers if each not in {-1, by.producer_id}]
    writers.append(by.producer_id)
    producers: list[Record] = [
        (
            map_record.ProducerKey(
                topic=partition.topic, partition=partition.partition, producer_id=each
            ),
            map_record.Producer(ordinal=ordinal, era=1),
        )
        for ordinal, each in enumerate(writers, start=1)
    ]
    owner = map_record.EraKey(
        topic=partition.topic,
        partition=partition.partition,
        era=1,
        ordinal=len(writers),
        epoch=by.epoch,
    )
    *before, last = _segments(owner, matched, leader_epoch=by.leader_epoch)
    key, segment = last
    target_next = segment.target_next if matched.tail else by.marker + 1
    anchor = dataclasses.replace(segment, target_next=target_next, closed=False)
    return [*producers, (owner, era), *before, (key, anchor)]


def before_all(
    partition: ids.TopicPartition, matched: matched_runs.Matched, era: map_record.Era
) -> list[Record]:
    """Of a partition that is known from some era on; to be stored in this order. The era is last:
    until it is there the partition counts as not made anew, and is next time."""
    owner = map_record.EraKey(
        topic=partition.topic, partition=partition.partition, era=0, ordinal=0, epoch=0
    )
    return [*_segments(owner, matched, leader_epoch=-1), (owner, era)]


def _segments(
    owner: map_record.EraKey, matched: matched_runs.Matched, *, leader_epoch: int
) -> Iterator[tuple[map_record.SegmentKey, map_record.Segment]]:
    for each in cut(matched.stretches):
        key = map_record.SegmentKey(
            topic=owner.topic,
            partition=owner.partition,
            era=owner.era,
            ordinal=owner.ordinal,
            epoch=owner.epoch,
            first_source=each.first,
        )
        yield (
            key,
            map_record.Segment(
                leader_epoch=leader_epoch,
                source_epoch=-1,
                owner=_OWNER,
                take_start=matched.first_source,
                through=each.through,
                target_next=each.target_next,
                last_crc=None,
                runs=tuple(map_record.Run._make(run) for run in each.runs),
                closed=True,
                below=each.below,
                above=each.above,
            ),
        )


def cut(
    stretches: Iterable[matched_runs.Stretch], *, runs_max: int = RUNS_MAX
) -> Iterator[matched_runs.Stretch]:
    """Each becomes as many as it takes so that none has more runs."""
    for each in stretches:
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
