"""What the cluster gone to holds that never reached the one that is left: where to look for it, and
what is made of what was seen there.

It is what was born there, behind all that the opposite flow has brought over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from connect_runtime.base import ids
from mm2.core import naming
from mm2.core.failover import seen, whose
from mm2.core.offsets import log_ends, offset_map

LAST_OFFSETS = 1_000
"""So far back the last record that the opposite flow brought is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Of a partition of the cluster gone to, from where the opposite flow's map ends (`through`) to
    the last stable offset (`end`). Nothing that this flow brought over stands at `behind` on the
    cluster that is left, or later. `stretches` None: not all could be counted."""

    partition: ids.TopicPartition
    through: int
    end: int
    behind: int
    stretches: tuple[whose.Stretch, ...] | None
    counted: int

    @property
    def first(self) -> int | None:
        """Before it all that was born there has arrived; None: that was not counted."""
        if self.stretches is None:
            return None
        return min((each.first for each in self.stretches), default=self.end)

    def told(self) -> seen.Unreplicated:
        found = self.stretches or ()
        return seen.Unreplicated(
            partition=self.partition,
            start=min((each.first for each in found), default=self.through),
            end=self.end,
            records=None if self.stretches is None else self.counted,
            at_least=self.counted,
            first_ms=min((each.first_ms for each in found), default=None),
            last_ms=max((each.last_ms for each in found), default=None),
        )


class Arrived(NamedTuple):
    """Records that the opposite flow brought and did not write down; nothing of it stands at
    `behind` or later."""

    records: int
    behind: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """Where to look. `ours`: ids of the producers of the flow itself, under one name; `mirror`:
    where the opposite flow brings the partition, by the ids `theirs`. There its map ends at
    `mirror_next`; `mirror_ends` None: there is no such partition."""

    ends: log_ends.Ends
    through: int
    ours: Collection[int]
    mirror: ids.TopicPartition
    mirror_ends: log_ends.Ends | None
    mirror_next: int
    theirs: Collection[int]

    def behind_the_map(self) -> whose.Whose | None:
        """What of the mirror is to be looked at first; None: there is nothing."""
        if self.mirror_ends is None:
            return None
        return whose.Whose(ours=self.theirs, start=self.mirror_next, end=self.mirror_ends.end)

    def before_the_map_ends(self) -> whose.Whose | None:
        """Where nothing stood behind: its last record may stand before markers, and before
        others'. None: nothing is left there."""
        assert self.mirror_ends is not None, "it was looked at"
        start = max(self.mirror_ends.start, self.mirror_next - LAST_OFFSETS)
        if start >= self.mirror_next:
            return None
        return whose.Whose(ours=self.theirs, start=start, end=self.mirror_next)

    def born(self) -> whose.Whose:
        start = max(self.through, self.ends.start)
        return whose.Whose(ours=self.ours, start=start, end=self.ends.end)

    def tail(
        self,
        partition: ids.TopicPartition,
        found: whose.Whose,
        arrived: Arrived | None,
        *,
        whole: bool,
    ) -> Tail:
        """`found`: what was `born`, `whole` where all of it was read. `arrived` None: that could
        not be seen, so records may have arrived up to the mirror's end."""
        left = whose.behind(found.others, arrived.records if arrived else 0)
        mirror_end = self.mirror_next if self.mirror_ends is None else self.mirror_ends.end
        return Tail(
            partition=partition,
            through=self.through,
            end=max(self.through, self.ends.end),
            behind=max(self.mirror_next, mirror_end) if arrived is None else arrived.behind,
            stretches=tuple(left) if whole else None,
            counted=sum(each.records for each in left),
        )


def begun(
    opposite: offset_map.OffsetMap, policy: naming.ReplicationPolicy
) -> set[ids.TopicPartition]:
    """Partitions of the cluster gone to that the opposite flow has begun; heartbeats lose
    nothing."""
    return {
        each
        for each in opposite.partitions()
        if opposite.partition(each).eras and not naming.is_heartbeats_topic(policy, each.topic)
    }


def begins(
    opposite: offset_map.OffsetMap,
    known: offset_map.OffsetMap,
    *,
    name_here: Callable[[ids.TopicPartition], ids.TopicPartition],
    there: Mapping[ids.TopicPartition, log_ends.Ends],
    here: Mapping[ids.TopicPartition, log_ends.Ends | None],
) -> dict[ids.TopicPartition, Begin]:
    """Of every partition `there` whose mirror is known of: in `here` None says that there is none,
    and what is not in it could not be asked for. `name_here`: where the opposite flow brings it;
    `known`: the map of the flow, by whose ids it writes into topics of one name."""
    found = {}
    for partition, ends in there.items():
        mine = opposite.partition(partition)
        mirror = name_here(partition)
        if mirror not in here:
            continue
        anchor = mine.anchor
        same = known.partition(mirror).producers if mirror == partition else ()
        found[partition] = Begin(
            ends=ends,
            through=mine.copied_to or 0,
            ours=frozenset(same),
            mirror=mirror,
            mirror_ends=here[mirror],
            mirror_next=0 if anchor is None else anchor.segment.target_next,
            theirs=frozenset(mine.producers),
        )
    return found
