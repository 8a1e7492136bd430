"""How far a flow has mirrored, of what both clusters and its map told."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect_runtime.base import ids
from mm2.core import flows, naming
from mm2.core.failover import doubts, seen
from mm2.core.offsets import log_ends, offset_map

Times = Mapping[ids.TopicPartition, int]
"""UTC milliseconds."""
_Ends = Mapping[ids.TopicPartition, log_ends.Ends]
_Why = Mapping[ids.TopicPartition, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What was told. `here`, `unknown` and `waiting_ms` go by partition on the source, `there`,
    `unheard` and `newest_ms` by that of its mirror; topics by their names on either side. Fields as
    in `seen.Mirrored`; where the source was not asked, it is empty."""

    known: offset_map.OffsetMap
    here: _Ends = field(default_factory=dict)
    there: _Ends = field(default_factory=dict)
    unknown: _Why = field(default_factory=dict)
    unheard: _Why = field(default_factory=dict)
    waiting_ms: Times = field(default_factory=dict)
    newest_ms: Times = field(default_factory=dict)
    source_ids: Mapping[str, uuid.UUID | None] = field(default_factory=dict)
    target_ids: Mapping[str, uuid.UUID | None] = field(default_factory=dict)

    def mirrored(self, partition: ids.TopicPartition, mirror: ids.TopicPartition) -> seen.Mirrored:
        known, there = self.known.partition(partition), self.there.get(mirror)
        return seen.Mirrored(
            partition=partition,
            mirror=mirror,
            copied_to=known.copied_to,
            tail=_tail(known, there),
            here=self.here.get(partition),
            there=there,
            waiting_since_ms=self.waiting_ms.get(partition),
            newest_ms=self.newest_ms.get(mirror),
            stopped=doubts.made_anew(
                known,
                source=self.source_ids.get(partition.topic),
                target=self.target_ids.get(mirror.topic),
            ),
            unknown=self.unknown.get(partition, ""),
            unheard=self.unheard.get(mirror, ""),
        )


def waits_at(known: offset_map.OffsetMap, here: _Ends) -> dict[ids.TopicPartition, int]:
    """The first offset that is not copied yet and still there, of partitions that have one."""
    found = {
        each: max(known.partition(each).copied_to or 0, ends.start) for each, ends in here.items()
    }
    return {each: at for each, at in found.items() if at < here[each].end}


def why_left_out(flow: flows.Flow, topic: str, *, missing: bool) -> str:
    """Why the flow mirrors a topic no more, "" for what it mirrors, and for heartbeats. `missing`:
    the source has it no more."""
    if naming.is_heartbeats_topic(flow.policy, topic):
        return ""
    if missing:
        return f"there is no such topic on {flow.source} any more"
    return flow.why_not(topic)


def _tail(known: offset_map.PartitionMap, there: log_ends.Ends | None) -> int:
    """By offsets, behind what the flow has recorded, whoever may read it by now."""
    anchor = known.anchor
    if anchor is None or there is None:
        return 0
    return max(0, there.high_watermark - max(anchor.segment.target_next, there.start))
