"""Does the flow's map still tell where its mirror stands? Not where MirrorMaker 2 has copied since:
the newest offset sync then says other than the map."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from connect_runtime.base import ids
from mm2.core.failover import seen
from mm2.core.offsets import map_translation, offset_map
from mm2.formats import offset_sync

OTHERS_SINCE = "its newest offset sync says other than its map: MirrorMaker 2 has copied it since"


def doubted(
    mirrored: Collection[seen.Mirrored],
    known: offset_map.OffsetMap,
    syncs: Mapping[ids.TopicPartition, Sequence[offset_sync.OffsetSync]],
) -> tuple[seen.Mirrored, ...]:
    """`syncs` by name on the flow's source, as they were written."""
    return tuple(
        dataclasses.replace(each, stopped=each.stopped or OTHERS_SINCE)
        if (told := syncs.get(each.partition))
        and not map_translation.agrees(known.partition(each.partition), told[-1])
        else each
        for each in mirrored
    )
