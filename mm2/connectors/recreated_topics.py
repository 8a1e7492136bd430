"""Detects partitions without progress whose topic was deleted and created again.

A recreated topic halts where it was copied before. If the new topic has more partitions, the
added ones have no progress of their own, so the progress of their siblings decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from connect_runtime.base.ids import TopicPartition
from mm2.formats.offset_map_records import Era
from mm2.offsets.offset_map import OffsetMap
from mm2.replication import recovery
from mm2.replication.halts import PartitionHalt
from mm2.replication.setup import PartitionSetup


class RecreatedSplit(NamedTuple):
    """`kept` may be copied; of the others, why they must not be."""

    kept: list[PartitionSetup]
    stopped: list[tuple[PartitionSetup, PartitionHalt]]


def split_recreated(partitions: Iterable[PartitionSetup], known: OffsetMap) -> RecreatedSplit:
    """`known` is the flow's map. Whoever has an era, or is asked to begin anew, is kept: there the
    take itself sees what is wrong. So is a topic of which one partition has begun anew."""
    eras = _newest_eras_by_topic(known)
    found = RecreatedSplit([], [])
    for each in partitions:
        mine = known.partition(TopicPartition(each.topic, each.partition))
        untouched = not mine.newest_era and mine.open_request is None
        stop = _recreated_halt(each, eras.get(each.topic, [])) if untouched else None
        if stop is None:
            found.kept.append(each)
        else:
            found.stopped.append((each, stop))
    return found


def _newest_eras_by_topic(known: OffsetMap) -> dict[str, list[Era]]:
    """Of each partition that has one, by topic."""
    found: dict[str, list[Era]] = defaultdict(list)
    for name in known.partitions():
        mine = known.partition(name)
        era = mine.eras.get(mine.newest_era)
        if era is not None:
            found[name.topic].append(era)
    return found


def _recreated_halt(where: PartitionSetup, siblings: list[Era]) -> PartitionHalt | None:
    found = [recovery.check_topic_ids(where, era) for era in siblings]
    return found[0] if found and all(found) else None
