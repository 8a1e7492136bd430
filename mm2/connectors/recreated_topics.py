"""Detects recreated topics from the progress of their other partitions.

If a topic is deleted and recreated, partitions that were replicated before are halted when they are
acquired. The new topic may have more partitions than the deleted one, and these have no recorded
progress. Whether they must also be halted depends on the progress of the topic's other partitions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from connect_runtime.base.ids import TopicPartition
from mm2.formats.offset_map_records import Era
from mm2.offsets.offset_map import OffsetMap
from mm2.replication import partition_recovery
from mm2.replication.partition_halt_messages import PartitionHalt
from mm2.replication.partition_setup import PartitionSetup


class RecreatedTopicSplit(NamedTuple):
    """A task's partitions: those that may be replicated, and those that are halted because their
    topic was recreated."""

    replicable: list[PartitionSetup]
    """Partitions that may be replicated."""
    halted: list[tuple[PartitionSetup, PartitionHalt]]
    """Partitions that must not be replicated, each with its halt, which contains the reason."""


def split_recreated_topics(
    partitions: Iterable[PartitionSetup], offset_map: OffsetMap
) -> RecreatedTopicSplit:
    """Find the partitions without recorded progress that must be halted because their topic was
    recreated. The other partitions may be replicated. `offset_map` is the flow's offset map.

    Partitions with an era (mirror generation) or an era request may be replicated, because their
    acquisition detects a recreated topic. A partition without recorded progress may be replicated
    if another partition of its topic already has an era of the new topic.
    """
    eras = _collect_newest_eras(offset_map)
    result = RecreatedTopicSplit([], [])
    for each in partitions:
        progress = offset_map.get_partition(TopicPartition(each.topic, each.partition))
        has_no_progress = not progress.newest_era and progress.pending_era_request is None
        stop = (
            _find_recreated_topic_halt(each, eras.get(each.topic, [])) if has_no_progress else None
        )
        if stop is None:
            result.replicable.append(each)
        else:
            result.halted.append((each, stop))
    return result


def _collect_newest_eras(known: OffsetMap) -> dict[str, list[Era]]:
    """Collect each partition's newest era (mirror generation), by topic."""
    eras: dict[str, list[Era]] = defaultdict(list)
    for name in known.list_partitions():
        progress = known.get_partition(name)
        era = progress.eras.get(progress.newest_era)
        if era is not None:
            eras[name.topic].append(era)
    return eras


def _find_recreated_topic_halt(where: PartitionSetup, siblings: list[Era]) -> PartitionHalt | None:
    halts = [partition_recovery.check_topic_ids(where, era) for era in siblings]
    return halts[0] if halts and all(halts) else None
