"""All runs of an era, made the dumb way: each decoded and laid over the ones before."""

from __future__ import annotations

from mm2.formats.offset_map_records import OffsetRun
from mm2.offsets.offset_map import PartitionMap


def runs(known: PartitionMap, era: int) -> list[OffsetRun]:
    """In source order, each newer owner's Take cutting what older ones say above it."""
    found: list[OffsetRun] = []
    owner = None
    for key in sorted(known.segments, key=lambda each: (*each.owner_sort_key, each.first_source)):
        if key.era != era:
            continue
        segment = known.segments[key]
        start = segment.acquired_from if key.owner_sort_key != owner else key.first_source
        owner = key.owner_sort_key
        while found and found[-1].source >= start:
            found.pop()
        for run in segment.runs:
            if not found or found[-1].delta != run.delta:
                found.append(run)
    return found
