"""Fences all writers of a flow: a new epoch and an empty transaction under each partition's own
transactional id, markers read back.

Who still believes to copy (a frozen twin, a node cut off) cannot write behind the marker any more.
What stands between what the map knows and the marker is counted: the last batches of an owner that
did not live to record them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect_runtime.base import clock as base_clock
from connect_runtime.base import errors, ids
from mm2.core import flows
from mm2.core.offsets import offset_map
from mm2.pipeline import fenced_partition, single_questions

NO_RIGHT = 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """`marker` stands at this target offset. `tail` counts the records between what the map knows
    and there. `epoch` None: the flow has no right to the transactional id, so nobody is fenced."""

    partition: ids.TopicPartition
    marker: int | None
    epoch: int | None
    tail: int


def fence(
    flow: flows.Flow,
    known: offset_map.OffsetMap,
    questions: single_questions.SingleQuestions,
    *,
    clock: base_clock.Clock,
) -> list[Fenced]:
    """Every partition that was ever begun. Raises `ConnectError` where the target does not
    answer, or refuses; doing it again does no harm."""
    found = []
    for each in known.partitions():
        if known.partition(each).eras:
            place = fenced_partition.FencedPartition(
                questions,
                ids.TopicPartition(flow.remote_topic(each.topic), each.partition),
                transactional_id=flow.transactional_id(each),
                clock=clock,
            )
            found.append(_fence(each, known.partition(each), place))
    return found


def taken_since(known: offset_map.OffsetMap, fenced: Fenced) -> bool:
    """Has somebody taken the partition after it was fenced? Whoever copies says so first."""
    anchor = known.partition(fenced.partition).anchor
    if anchor is None or fenced.epoch is None:
        return False
    return anchor.key.epoch > fenced.epoch


def _fence(
    partition: ids.TopicPartition,
    known: offset_map.PartitionMap,
    place: fenced_partition.FencedPartition,
) -> Fenced:
    mirror = place.partition
    start = place.end()
    owner = place.new_owner()
    if isinstance(owner, fenced_partition.Refused):
        if owner.code != NO_RIGHT:
            raise errors.RetriableError(f"fencing {mirror}: {owner}")
        return Fenced(partition=partition, marker=None, epoch=None, tail=0)
    refused = place.commit_empty(owner)
    if refused is not None:
        raise errors.RetriableError(f"fencing {mirror}: {refused}; does somebody else copy it?")
    marker = place.marker_of(owner, start=start)
    if marker is None:
        raise errors.RetriableError(f"fencing {mirror}: our marker did not become readable")
    tail = _records(place, known, marker)
    return Fenced(partition=partition, marker=marker, epoch=owner.epoch, tail=tail)


def _records(
    place: fenced_partition.FencedPartition, known: offset_map.PartitionMap, marker: int
) -> int:
    """The flow's own between what the map knows and the marker."""
    anchor = known.anchor
    if anchor is None:
        return 0
    at, found = anchor.segment.target_next, 0
    while at < marker:
        headers = place.headers(at)
        if not headers:
            raise errors.RetriableError(f"reading {place.partition} from {at}: nothing came")
        for header in headers:
            if at <= header.base_offset < marker and not header.is_control:
                found += _ours(header.producer_id, known.producers) * header.record_count
        at = max(at, headers[-1].last_offset + 1)
    return found


def _ours(producer_id: int, producers: Mapping[int, object]) -> bool:
    return producer_id in producers
