"""What a source offset is on the target, and the other way, by the complete map: exact wherever we
have copied.

Asked of few offsets at a time: no more of a map is decoded than the segments around them, for of
one partition there may be millions of runs. `offset_map` says whose word counts where.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from mm2.core.offsets import offset_map, translation
from mm2.formats import map_record, offset_sync

_Owner = tuple[int, int, int]


def translate(known: offset_map.PartitionMap, upstream: int) -> translation.Translation:
    """`upstream` is what a group goes on from. Beyond what was copied it goes on where the copy
    does; between two eras, where nothing was copied, at the newer one's beginning."""
    eras = _between_todays_topics(known.eras)
    if not eras:
        return translation.Untranslated.UNKNOWN
    number = max((each for each in eras if eras[each].first_source <= upstream), default=None)
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


def translate_back(known: offset_map.PartitionMap, downstream: int) -> translation.Translation:
    """Where on the source to go on who would go on at `downstream` on the target; the outcome's
    `downstream` is that source offset.

    What others wrote has no place on the source: who stands in it goes on at what we copied next.
    Behind everything that is known to be copied, and behind what an older era left unknown, the
    answer is `Earlier`: `again_max` counts all that stands there as copied. `Earlier` it is, too,
    where a newer era copied the same once more, for the target may have lost it in between.
    """
    eras = _between_todays_topics(known.eras)
    if not eras:
        return translation.Untranslated.UNKNOWN
    number = max((each for each in eras if eras[each].first_target <= downstream), default=None)
    if number is None:
        number, beyond = min(eras), 0
        if eras[number].reason != map_record.FIRST_START:
            return translation.Untranslated.TOO_OLD
        upstream = eras[number].first_source
    else:
        found = _EraMap.of(known, number, eras[number])
        beyond = max(0, downstream - found.target_next)
        upstream = found.through if beyond else found.place_back(downstream)
    later = (eras[each].first_source for each in eras if each > number)
    sure = min([upstream, *later])
    again_max = beyond + upstream - sure
    if again_max:
        return translation.Earlier(downstream=sure, again_max=again_max)
    return translation.Exact(downstream=sure)


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


def _between_todays_topics(eras: dict[int, map_record.Era]) -> dict[int, map_record.Era]:
    """Those in which the newest era's topics were copied: the others' are gone."""
    if not eras:
        return {}
    newest = eras[max(eras)]
    ids_now = (newest.source_topic_id, newest.target_topic_id)
    return {
        number: era
        for number, era in eras.items()
        if (era.source_topic_id, era.target_topic_id) == ids_now
    }


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

    def place_back(self, downstream: int) -> int:
        """The source offset from which on is copied all that stands at `downstream` and behind,
        and before which all that stands before."""
        before = behind = None
        ends = self._ends()
        for owner, keys in reversed(self.owners.items()):
            before, next_run = self._runs_around(keys, downstream, end=ends[owner])
            behind = next_run or behind
            if before is not None:
                break
        limit = self.through if behind is None else behind.source
        return limit if before is None else min(limit, downstream - before.delta)

    def _runs_around(
        self, keys: list[map_record.SegmentKey], downstream: int, *, end: int
    ) -> tuple[map_record.Run | None, map_record.Run | None]:
        """Of one owner's runs below source offset `end` the last one that begins at or before
        `downstream` on the target, and the first one behind."""
        count = bisect_left(keys, end, key=lambda key: key.first_source)
        known = self.known.segments
        first = bisect_right(keys, downstream, hi=count, key=lambda key: known[key].target_next)
        behind = None
        for key in keys[first:count]:
            runs = [run for run in known[key].runs if run.source < end]
            at = bisect_right(runs, downstream, key=lambda run: run.source + run.delta)
            behind = runs[at] if at < len(runs) else None
            if at:
                return runs[at - 1], behind
            if behind is not None:
                break
        for key in reversed(keys[:first]):
            runs = [run for run in known[key].runs if run.source < end]
            if runs:
                return runs[-1], behind
        return None, behind

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
