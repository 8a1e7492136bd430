"""What of a partition's map can be made anew: all of it, what lies before it, or nothing."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mm2.core.offsets import offset_map
from mm2.formats import map_record

REASON = "made anew by matching both logs"


class Kind(enum.Enum):
    """What is to be done with a partition; the value is for people."""

    LOST = "all of it"
    """Nothing is known of what was copied."""
    BEFORE = "before the first era"
    """The map begins somewhere in the mirror: others copied what stands before."""
    EMPTY = "nothing"
    """There is nothing on the mirror."""
    KNOWN = "known from its beginning"
    REBUILT = "was made anew before"
    UNTAKEN = "its first era has no anchor yet: start the flow first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """`source_to` and `target_to`: up to where both logs are compared, -1: to their ends."""

    kind: Kind
    source_to: int = -1
    target_to: int = -1

    @property
    def is_due(self) -> bool:
        return self.kind in {Kind.LOST, Kind.BEFORE}


def wanted(known: offset_map.PartitionMap) -> Wanted:
    """By what stands in the map topic. Eras of topics that are gone tell nothing."""
    if not known.begun:
        return Wanted(kind=Kind.LOST)
    eras = known.eras
    newest = eras[max(eras)]
    ids_now = (newest.source_topic_id, newest.target_topic_id)
    lowest = min(
        number
        for number, era in eras.items()
        if (era.source_topic_id, era.target_topic_id) == ids_now
    )
    first = eras[lowest]
    if lowest == 0:
        return Wanted(kind=Kind.REBUILT)
    if first.reason in {map_record.FIRST_START, REASON}:
        return Wanted(kind=Kind.KNOWN)
    if known.anchor is None:
        return Wanted(kind=Kind.UNTAKEN)
    return Wanted(kind=Kind.BEFORE, source_to=first.first_source, target_to=first.first_target)
