"""What a source offset is on the target, by the complete map: exact wherever we have copied.

Asked of few offsets at a time: no more of a map is decoded than the segments around them, for of
one partition there may be millions of runs. `offset_map` says whose word counts where.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from mm2.core.offsets import offset_map, translation
from mm2.formats import map_record, offset_sync

_Owner = tuple[int, int, int]


def translate(known: offset_map.PartitionMap, upstream: int) -> translation.Translation:
    """`upstream` is what a group goes on from. Beyond what was copied it goes on where the copy
    does; between two eras, where nothing was copied, at the newer one's beginning."""
    eras = known.eras
    if not eras:
        return translation.Untranslated.UNKNOWN
    newest = eras[max(eras)]
    number = max((each for each in eras if _holds(eras[each], newest, upstream)), default=None)
    if number is None:
        return translation.Untranslated.TOO_OLD
    found = _EraMap.of(known, number, eras[number])
    if upstream <= found.through:
        return translation.Exact(downstream=found.place(upstream))
    if number == max(eras):
        again_max = upstream - found.through
        return translation.Earlier(downstream=found.target_next, again_max=again_max)
    following = min(each for each in eras if each > number)
    return translation.Exact(downstream=eras[following].first_target)


def agrees(known: offset_map.PartitionMap, newest: offset_sync.OffsetSync) -> bool:
    """Does the map say the same as the newest offset sync of its partition, or nothing of it?

    If not, Java has mirrored since we did: the topic anew, so that the map is of other offsets, or
    some of it once more.
    """
    match translate(known, newest.upstream):
        case translation.Exact(downstream=downstream):
            return downstream == newest.downstream
        case _:
            return True


def _holds(era: map_record.Era, newest: map_record.Era, upstream: int) -> bool:
    """Was it copied in this era, if at all, between the topics that there are now?"""
    same_source = era.source_topic_id == newest.source_topic_id
    same_target = era.target_topic_id == newest.target_topic_id
    return same_source and same_target and era.first_source <= upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class _EraMap:
    """One era's segments, in the order of its owners and of the source, none of them decoded.

    `starts`: where on the source each owner's Take began; what older ones say from there on counts
    no more. It is copied up to `through`, and `target_next` is behind it all.
    """

    known: offset_map.PartitionMap
    owners: dict[_Owner, list[map_record.SegmentKey]]
    starts: dict[_Owner, int]
    through: int
    target_next: int

    @classmethod
    def of(cls, known: offset_map.PartitionMap, number: int, era: map_record.Era) -> _EraMap:
        owners: dict[_Owner, list[map_record.SegmentKey]] = {}
        keys = [key for key in known.segments if key.era == number]
        for key in sorted(keys, key=lambda each: (*each.owner_order, each.first_source)):
            owners.setdefault(key.owner_order, []).append(key)
        starts = {owner: known.segments[keys[0]].take_start for owner, keys in owners.items()}
        last = known.segments[next(reversed(owners.values()))[-1]] if owners else None
        return cls(
            known=known,
            owners=owners,
            starts=starts,
            through=era.first_source if last is None else last.through,
            target_next=era.first_target if last is None else last.target_next,
        )

    def place(self, upstream: int) -> int:
        """The target offset from which on stands all that the source has from `upstream` on, and
        behind all that it has before."""
        before = self._run_before(upstream)
        if before is None:
            return self._start_behind(upstream)
        here = upstream + before.delta
        return here if before.source == upstream else min(here, self._start_behind(upstream))

    def _run_before(self, upstream: int) -> map_record.Run | None:
        """The last run that counts and begins at or before `upstream`."""
        bound = upstream
        for owner in reversed(self.owners):
            for key in reversed(self.owners[owner]):
                if key.first_source > bound:
                    continue
                runs = [run for run in self.known.segments[key].runs if run.source <= bound]
                if runs:
                    return runs[-1]
            bound = min(bound, self.starts[owner] - 1)
        return None

    def _start_behind(self, upstream: int) -> int:
        """Where on the target the first run begins that counts and is behind `upstream`."""
        ends = self._ends()
        for each, keys in self.owners.items():
            if ends[each] <= upstream:
                continue
            first = bisect_right(keys, upstream, key=lambda key: key.first_source)
            for key in keys[max(0, first - 1) :]:
                for run in self.known.segments[key].runs:
                    if upstream < run.source < ends[each]:
                        return run.source + run.delta
        return self.target_next

    def _ends(self) -> dict[_Owner, int]:
        """Up to where each owner's word counts."""
        found: dict[_Owner, int] = {}
        end = self.through
        for owner in reversed(self.owners):
            found[owner] = end
            end = min(end, self.starts[owner])
        return found
