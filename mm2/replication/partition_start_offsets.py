"""Chooses the start position of a partition that was never replicated: the flow's `start`, or the
earliest record.

`start` applies to topics that are new to a flow. If a partition is later added to a replicated
topic, none of its records may be lost, so it starts at the earliest record.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from connect_runtime.base.ids import TopicPartition
from mm2.offsets.offset_map import OffsetMap
from mm2.replication.partition_setup import PartitionSetup


def resolve_start_positions(
    partitions: Iterable[PartitionSetup], offset_map: OffsetMap
) -> tuple[PartitionSetup, ...]:
    """Set the start of partitions that were added to an already replicated topic to "earliest".

    `offset_map` is the flow's map before any of `partitions` was acquired. An era is a generation
    of a mirror partition. A partition counts as added if it has no era but another partition of its
    topic has one. A failed acquisition stores no era, so the partition still counts as added. At a
    topic's first start no partition has an era, so all partitions keep the flow's start. After a
    crash during a first start, partitions that had not begun start at "earliest", which may
    replicate more records than requested but never fewer.
    """
    begun = {
        each
        for each in offset_map.list_partitions()
        if offset_map.get_partition(each).has_ever_begun_era
    }
    topics = {each.topic for each in begun}
    return tuple(
        replace(each, start="earliest")
        if each.topic in topics and TopicPartition(each.topic, each.partition) not in begun
        else each
        for each in partitions
    )
