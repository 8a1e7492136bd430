"""Does a flow's map still tell where its mirror stands? Not where one of both topics was made anew,
nor where MirrorMaker 2 has copied since: the newest offset sync then says other than the map."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Collection, Mapping, Sequence

from connect_runtime.base import ids
from mm2.core.failover import seen
from mm2.core.offsets import map_translation, offset_map
from mm2.formats import map_record, offset_sync

OTHERS_SINCE = "its newest offset sync says other than its map: MirrorMaker 2 has copied it since"


def made_anew(
    known: offset_map.PartitionMap, *, source: uuid.UUID | None, target: uuid.UUID | None
) -> str:
    """Are both topics, by their ids now, those that were copied last? "" where they are, or nobody
    tells: brokers before 2.8 do not."""
    eras = known.eras
    if not eras:
        return ""
    newest = eras[max(eras)]
    for now, was, which in (
        (source, newest.source_topic_id, "the topic"),
        (target, newest.target_topic_id, "its mirror"),
    ):
        if now is not None and was != map_record.NO_TOPIC_ID and now.bytes != was:
            return f"{which} was made anew, and what is known of it is of the one before"
    return ""


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
