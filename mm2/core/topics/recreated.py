"""Which partitions look new to a flow only because their topic was deleted and created again.

Such a topic stands still where it was copied before (`take.recreated`). With more partitions than
it had, the rest of it has no progress that would tell; its siblings have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from connect_runtime.base import ids
from mm2.core.copy import setup, stops, take
from mm2.core.offsets import offset_map
from mm2.formats import map_record


class Apart(NamedTuple):
    """`kept` may be copied; of the others, why they must not be."""

    kept: list[setup.PartitionSetup]
    stopped: list[tuple[setup.PartitionSetup, stops.Stop]]


def set_apart(partitions: Iterable[setup.PartitionSetup], known: offset_map.OffsetMap) -> Apart:
    """`known` is the flow's map. Whoever has an era, or is asked to begin anew, is kept: there the
    take itself sees what is wrong. So is a topic of which one partition has begun anew."""
    eras = _newest_eras(known)
    found = Apart([], [])
    for each in partitions:
        mine = known.partition(ids.TopicPartition(each.topic, each.partition))
        untouched = not mine.newest_era and mine.open_request is None
        stop = _stop(each, eras.get(each.topic, [])) if untouched else None
        if stop is None:
            found.kept.append(each)
        else:
            found.stopped.append((each, stop))
    return found


def _newest_eras(known: offset_map.OffsetMap) -> dict[str, list[map_record.Era]]:
    """Of each partition that has one, by topic."""
    found: dict[str, list[map_record.Era]] = defaultdict(list)
    for name in known.partitions():
        mine = known.partition(name)
        era = mine.eras.get(mine.newest_era)
        if era is not None:
            found[name.topic].append(era)
    return found


def _stop(where: setup.PartitionSetup, siblings: list[map_record.Era]) -> stops.Stop | None:
    found = [take.recreated(where, era) for era in siblings]
    return found[0] if found and all(found) else None
