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
"""Orders owners by age: ordinal of the producer id, then epoch; the greatest is the newest."""
NO_OWNER: OwnerOrder = (0, -1)
NOT_AUTHORIZED = "not authorized for the transactional id"
PRODUCER_ID_EXPIRED = "the last owner's producer id has expired, and a new one does not fence it"


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingResult:
    """Result of fencing one partition."""

    partition: TopicPartition
    marker: int | None
    """Target offset of the fencing marker."""
    owner_order: OwnerOrder
    """An owner with a greater order has acquired the partition since."""
    tail: int | None
    """Records of the flow between the end of the offset map and the marker; None if unknown."""
    unfenced_reason: str = ""
    """Why older writers are not fenced, "" if they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingSummary:
    """Results of fencing by partition of the source."""

    tails: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    """Records after the end of the offset map, None if not counted."""
    unfenced: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Why writers are not fenced."""


def summarize_fencing(found: Collection[FencingResult]) -> FencingSummary:
    """Summarize the results of all partitions."""
    return FencingSummary(
        tails={each.partition: each.tail for each in found},
        unfenced={each.partition: each.unfenced_reason for each in found if each.unfenced_reason},
    )


def apply_counted_tails(
    mirrored: Collection[MirroredPartition], fences: FencingSummary
) -> tuple[MirroredPartition, ...]:
    """Replace the offset-based bounds of tails by the counted numbers, where they are known."""
    counted = fences.tails
    return tuple(
        each
        if (tail := counted.get(each.partition)) is None
        else dataclasses.replace(each, unrecorded=tail)
        for each in mirrored
    )


def list_replicated_partitions(known: OffsetMap) -> set[TopicPartition]:
    """Returns all partitions that the flow has ever replicated."""
    return {each for each in known.list_partitions() if known.get_partition(each).eras}


def find_newest_owner(known: PartitionMap) -> OwnerOrder:
    """Returns the order of the newest owner that the offset map has recorded."""
    orders = [key.owner_order for key in known.era_records]
    anchor = known.resume_point
    if anchor is not None:
        orders.append(anchor.key.owner_order)
    return max(((ordinal, epoch) for ordinal, epoch, _ in orders), default=NO_OWNER)


def is_acquired_since(known: OffsetMap, fenced: FencingResult) -> bool:
    """Returns True if an owner acquired the partition after it was fenced: owners record that
    before they write."""
    return find_newest_owner(known.get_partition(fenced.partition)) > fenced.owner_order


def build_unfenced_result(
    partition: TopicPartition, known: PartitionMap, reason: str = NOT_AUTHORIZED
) -> FencingResult:
    """Build the result for a partition whose writers are not fenced."""
    return FencingResult(
        partition=partition,
        marker=None,
        owner_order=find_newest_owner(known),
        tail=None,
        unfenced_reason=reason,
    )


def explain_unanswered(reason: str) -> str:
    """Reason for leaving a mirror unfenced that does not answer, after that was accepted."""
    return f"its mirror does not answer, as accepted: {reason}"


def build_fencing_result(
    partition: TopicPartition,
    known: PartitionMap,
    *,
    producer_id: int,
    epoch: int,
    marker: int,
    tail: int | None,
) -> FencingResult:
    """Build the result for a marker of this producer; it fences only older epochs of the same
    producer id."""
    used = known.producers.get(producer_id)
    order, why = (0 if used is None else used.ordinal, epoch), ""
    if order[0] < find_newest_owner(known)[0]:
        order, why = find_newest_owner(known), PRODUCER_ID_EXPIRED
    return FencingResult(
        partition=partition, marker=marker, owner_order=order, tail=tail, unfenced_reason=why
    )
