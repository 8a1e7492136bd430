"""Fencing results of a flow's writers, and functions that check whether a partition was acquired
again after fencing.

An owner of a partition is a producer that acquired the right to write it. Owners are ordered by the
ordinal of their producer id in the offset map, then by epoch. An owner records its acquisition in
the offset map before it writes to the mirror topic.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from connect_runtime.base.ids import TopicPartition
from mm2.clusters.cluster_pair_snapshot import MirroredPartition
from mm2.offsets.offset_map import OffsetMap, PartitionMap

OwnerOrder = tuple[int, int]
"""Sort key for a partition's owners (producers that acquired it) by age: ordinal of the producer id
in the offset map, then epoch. The greatest value is the newest owner."""
NO_OWNER: OwnerOrder = (0, -1)
NOT_AUTHORIZED = "not authorized for the transactional id"
PRODUCER_ID_EXPIRED = (
    "the last owner's producer id has expired, and a new producer id cannot fence that owner"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingResult:
    """Result of fencing one partition."""

    partition: TopicPartition
    marker: int | None
    """Target offset of the fencing marker."""
    owner_order: OwnerOrder
    """Owner order (`OwnerOrder`) of the fencing producer. Any owner with a greater order acquired
    the partition after fencing."""
    tail: int | None
    """Number of the flow's records between the end of the offset map and the fencing marker; None
    if unknown."""
    unfenced_reason: str = ""
    """Reason why older writers are not fenced; "" if they are fenced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FencingSummary:
    """Fencing results by source partition."""

    tails: Mapping[TopicPartition, int | None] = field(default_factory=dict)
    """Number of records on the mirror after the end of the offset map, by partition; None if they
    were not counted."""
    unfenced: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Reason why the writers of a partition are not fenced, by partition."""


def summarize_fencing(found: Collection[FencingResult]) -> FencingSummary:
    """Summarize the fencing results of all partitions."""
    return FencingSummary(
        tails={each.partition: each.tail for each in found},
        unfenced={each.partition: each.unfenced_reason for each in found if each.unfenced_reason},
    )


def set_exact_unrecorded_record_counts(
    mirrored: Collection[MirroredPartition], fences: FencingSummary
) -> tuple[MirroredPartition, ...]:
    """Set the number of records after the end of the offset map (`unrecorded`) to the exact number
    that was counted during fencing. Partitions without a count keep their upper bound, which was
    computed from offsets."""
    counted = fences.tails
    return tuple(
        each
        if (tail := counted.get(each.partition)) is None
        else dataclasses.replace(each, unrecorded=tail)
        for each in mirrored
    )


def list_replicated_partitions(known: OffsetMap) -> set[TopicPartition]:
    """Return all partitions that the flow has ever replicated."""
    return {each for each in known.list_partitions() if known.get_partition(each).eras}


def find_newest_owner(known: PartitionMap) -> OwnerOrder:
    """Return the order (producer ordinal and epoch) of the newest owner that is recorded in the
    offset map."""
    orders = [key.owner_sort_key for key in known.era_records]
    anchor = known.resume_point
    if anchor is not None:
        orders.append(anchor.key.owner_sort_key)
    return max(((ordinal, epoch) for ordinal, epoch, _ in orders), default=NO_OWNER)


def is_partition_acquired_after_fencing(known: OffsetMap, fenced: FencingResult) -> bool:
    """Return True if an owner acquired the partition after it was fenced. Owners record an
    acquisition before they write."""
    return find_newest_owner(known.get_partition(fenced.partition)) > fenced.owner_order


def build_unfenced_result(
    partition: TopicPartition, known: PartitionMap, reason: str = NOT_AUTHORIZED
) -> FencingResult:
    """Build the fencing result for a partition whose writers are not fenced."""
    return FencingResult(
        partition=partition,
        marker=None,
        owner_order=find_newest_owner(known),
        tail=None,
        unfenced_reason=reason,
    )


def format_reason_for_accepted_unfenced_mirror(reason: str) -> str:
    """Format the reason why an unresponsive mirror was left unfenced with the operator's
    consent."""
    return f"the operator accepted that its mirror does not respond: {reason}"


def build_fencing_result(
    partition: TopicPartition,
    known: PartitionMap,
    *,
    producer_id: int,
    epoch: int,
    marker: int,
    tail: int | None,
) -> FencingResult:
    """Build the fencing result of a partition from the marker that fenced it, written by the given
    producer. The marker fences only older epochs of the same producer id."""
    used = known.producers.get(producer_id)
    order, why = (0 if used is None else used.ordinal, epoch), ""
    if order[0] < find_newest_owner(known)[0]:
        order, why = find_newest_owner(known), PRODUCER_ID_EXPIRED
    return FencingResult(
        partition=partition, marker=marker, owner_order=order, tail=tail, unfenced_reason=why
    )
