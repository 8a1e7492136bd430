"""Chooses where a partition without progress starts: the flow's `start`, or the earliest record.

`start` applies to topics that are new to a flow. A partition that is added to a replicated topic
later must lose none of its records, so it starts at the earliest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from connect_runtime.base.ids import TopicPartition
from mm2.offsets.offset_map import OffsetMap
from mm2.replication.setup import PartitionSetup


def resolve_start_positions(
    partitions: Iterable[PartitionSetup], offset_map: OffsetMap
) -> tuple[PartitionSetup, ...]:
    """Set the start of partitions that were added to a topic in progress to "earliest".

    `offset_map` is the flow's map before any of `partitions` was acquired. A partition counts as
    added if another one of its topic has an era and it has none, until its own first era is stored;
    so an acquisition that fails after the mirror has grown changes nothing. At a topic's first
    start no partition has an era, and all of them keep the flow's start. After a crash during a
    first start, partitions that had not begun start at "earliest": more records than requested,
    never fewer.
    """
    begun = {
        each for each in offset_map.list_partitions() if offset_map.get_partition(each).had_progress
    }
    topics = {each.topic for each in begun}
    return tuple(
        replace(each, start="earliest")
        if each.topic in topics and TopicPartition(each.topic, each.partition) not in begun
        else each
        for each in partitions
    )
