"""Which writers of a flow are to be locked out, who was, and who has come back since.

`app/failover/fencing` does it; here is what its outcome means.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.core.failover import seen
from mm2.core.offsets import offset_map

Order = tuple[int, int]
"""Who is the newer owner: the ordinal of its producer id, and its epoch."""
NOBODY: Order = (0, -1)
NO_RIGHT = "we have no right to the transactional id"
EXPIRED = "the producer id of who copied last has expired, and a new one fences nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """`marker` stands at this target offset. `tail` counts the flow's records between what the map
    knows and there, None where that could not be counted. `order`: whoever has a greater one has
    taken the partition since. `unfenced` says why nobody is locked out, "" where all are."""

    partition: ids.TopicPartition
    marker: int | None
    order: Order
    tail: int | None
    unfenced: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fences:
    """What fencing has found, by partition on the cluster that is left: records behind what the
    flow has recorded, where they were counted, and why nobody was locked out."""

    tails: Mapping[ids.TopicPartition, int | None] = field(default_factory=dict)
    unfenced: Mapping[ids.TopicPartition, str] = field(default_factory=dict)


def together(found: Collection[Fenced]) -> Fences:
    return Fences(
        tails={each.partition: each.tail for each in found},
        unfenced={each.partition: each.unfenced for each in found if each.unfenced},
    )


def with_tails(mirrored: Collection[seen.Mirrored], fences: Fences) -> tuple[seen.Mirrored, ...]:
    """What could not be counted stays bounded by offsets."""
    counted = fences.tails
    return tuple(
        each
        if (tail := counted.get(each.partition)) is None
        else dataclasses.replace(each, tail=tail)
        for each in mirrored
    )


def begun(known: offset_map.OffsetMap) -> set[ids.TopicPartition]:
    """All that anybody ever copied."""
    return {each for each in known.partitions() if known.partition(each).eras}


def newest(known: offset_map.PartitionMap) -> Order:
    """Of all who ever took the partition and said so."""
    orders = [key.owner_order for key in known.begun]
    anchor = known.anchor
    if anchor is not None:
        orders.append(anchor.key.owner_order)
    return max(((ordinal, epoch) for ordinal, epoch, _ in orders), default=NOBODY)


def taken_since(known: offset_map.OffsetMap, fenced: Fenced) -> bool:
    """Has somebody taken the partition after it was fenced? Whoever copies says so first."""
    return newest(known.partition(fenced.partition)) > fenced.order


def unfenced(
    partition: ids.TopicPartition, known: offset_map.PartitionMap, why: str = NO_RIGHT
) -> Fenced:
    """Nobody is locked out; `why`: by default for want of the right to."""
    return Fenced(partition=partition, marker=None, order=newest(known), tail=None, unfenced=why)


def unanswered(why: str) -> str:
    """Of a mirror that nobody answers for, which was accepted: why nobody is locked out."""
    return f"nobody answers for its mirror, as was accepted: {why}"


def fenced(
    partition: ids.TopicPartition,
    known: offset_map.PartitionMap,
    *,
    producer_id: int,
    epoch: int,
    marker: int,
    tail: int | None,
) -> Fenced:
    """By the marker of this producer: an id other than that of who copied last locks nobody
    out."""
    used = known.producers.get(producer_id)
    order, why = (0 if used is None else used.ordinal, epoch), ""
    if order[0] < newest(known)[0]:
        order, why = newest(known), EXPIRED
    return Fenced(partition=partition, marker=marker, order=order, tail=tail, unfenced=why)
