"""Which writers of a flow are fenced, and whether a partition was acquired again since.

Owners are ordered by the ordinal of their producer id in the offset map, then by epoch. An owner
records its acquisition in the offset map before it writes to the mirror topic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.pair_snapshot import MirroredPartition
from mm2.offsets.offset_map import OffsetMap, PartitionMap

OwnerOrder = tuple[int, int]
"""Who is the newer owner: the ordinal of its producer id, and its epoch."""
NO_OWNER: OwnerOrder = (0, -1)
NOT_AUTHORIZED = "we have no right to the transactional id"
PRODUCER_ID_EXPIRED = "the producer id of who copied last has expired, and a new one fences nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingResult:
    """`marker` stands at this target offset. `tail` counts the flow's records between what the map
    knows and there, None where that could not be counted. `order`: whoever has a greater one has
    taken the partition since. `build_unfenced_result` says why nobody is locked out, "" where all
    are."""

    partition: TopicPartition
    marker: int | None
    order: OwnerOrder
    tail: int | None
    unfenced: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingSummary:
    """What fencing has found, by partition on the cluster that is left: records behind what the
    flow has recorded, where they were counted, and why nobody was locked out."""

    tails: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    unfenced: Mapping[TopicPartition, str] = field(default_factory=dict)


def summarize_fencing(found: Collection[FencingResult]) -> FencingSummary:
    return FencingSummary(
        tails={each.partition: each.tail for each in found},
        unfenced={each.partition: each.unfenced for each in found if each.unfenced},
    )


def apply_counted_tails(
    mirrored: Collection[MirroredPartition], fences: FencingSummary
) -> tuple[MirroredPartition, ...]:
    """What could not be counted stays bounded by offsets."""
    counted = fences.tails
    return tuple(
        each
        if (tail := counted.get(each.partition)) is None
        else dataclasses.replace(each, tail=tail)
        for each in mirrored
    )


def list_replicated_partitions(known: OffsetMap) -> set[TopicPartition]:
    """All that anybody ever copied."""
    return {each for each in known.partitions() if known.partition(each).eras}


def find_newest_owner(known: PartitionMap) -> OwnerOrder:
    """Of all who ever took the partition and said so."""
    orders = [key.owner_order for key in known.begun]
    anchor = known.anchor
    if anchor is not None:
        orders.append(anchor.key.owner_order)
    return max(((ordinal, epoch) for ordinal, epoch, _ in orders), default=NO_OWNER)


def is_acquired_since(known: OffsetMap, fenced: FencingResult) -> bool:
    """Has somebody taken the partition after it was fenced? Whoever copies says so first."""
    return find_newest_owner(known.partition(fenced.partition)) > fenced.order


def build_unfenced_result(
    partition: TopicPartition, known: PartitionMap, why: str = NOT_AUTHORIZED
) -> FencingResult:
    """Nobody is locked out; `why`: by default for want of the right to."""
    return FencingResult(
        partition=partition, marker=None, order=find_newest_owner(known), tail=None, unfenced=why
    )


def explain_unanswered(why: str) -> str:
    """Of a mirror that nobody answers for, which was accepted: why nobody is locked out."""
    return f"nobody answers for its mirror, as was accepted: {why}"


def build_fencing_result(
    partition: TopicPartition,
    known: PartitionMap,
    *,
    producer_id: int,
    epoch: int,
    marker: int,
    tail: int | None,
) -> FencingResult:
    """By the marker of this producer: an id other than that of who copied last locks nobody
    out."""
    used = known.producers.get(producer_id)
    order, why = (0 if used is None else used.ordinal, epoch), ""
    if order[0] < find_newest_owner(known)[0]:
        order, why = find_newest_owner(known), PRODUCER_ID_EXPIRED
    return FencingResult(partition=partition, marker=marker, order=order, tail=tail, unfenced=why)
