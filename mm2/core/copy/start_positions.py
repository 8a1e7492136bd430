"""Where partitions without progress begin: the flow's own start, or at the earliest record.

`start` speaks of topics that are new to a flow. A partition that is added to a mirrored topic later
must lose none of its records.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from connect_runtime.base import ids
from mm2.core.copy import setup
from mm2.core.offsets import offset_map


def settled(
    partitions: Iterable[setup.PartitionSetup], known: offset_map.OffsetMap
) -> tuple[setup.PartitionSetup, ...]:
    """The same partitions; those that were added to a topic in progress start at "earliest".

    `known` is the flow's map from before any of `partitions` was taken. A partition counts as added
    when another one of its topic has an era and it has none. That lasts until its own first era is
    stored, so a take-over that fails after the mirror has grown changes nothing. At a topic's first
    start no partition has an era, and all of them keep the flow's start. A crash in the middle of a
    first start makes those that had not begun start at "earliest": more records than asked for,
    never fewer.
    """
    begun = {each for each in known.partitions() if known.partition(each).had_progress}
    topics = {each.topic for each in begun}
    return tuple(
        replace(each, start="earliest")
        if each.topic in topics and ids.TopicPartition(each.topic, each.partition) not in begun
        else each
        for each in partitions
    )
