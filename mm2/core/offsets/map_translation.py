"""What a source offset is on the target, and the other way, by the complete map: exact wherever we
have copied.

Where old runs were left out, to save room, the answers are `Earlier`, with a bound; what was
deleted is `TOO_OLD`. `offset_map` says whose word counts where, `era_runs` looks it up.
"""

from __future__ import annotations

from mm2.core.offsets import era_runs, offset_map, translation
from mm2.formats import map_record, offset_sync


class Translator:
    """`translate`, of many offsets of one partition whose map stays as it is meanwhile."""

    def __init__(self, known: offset_map.PartitionMap) -> None:
        self._segments = known.segments
        eras = known.eras
        self._eras = _between_todays_topics(eras)
        self._others = len(self._eras) < len(eras)
        self._runs: dict[int, era_runs.EraRuns] = {}

    def translate(self, upstream: int) -> translation.Translation:
        """See `translate`."""
        eras = self._eras
        if not eras:
            return translation.Untranslated.UNKNOWN
        number = max((each for each in eras if eras[each].first_source <= upstream), default=None)
        if number is None:
            return translation.Untranslated.TOO_OLD
        found = self._runs_of(number)
        if upstream < found.floor:
            return translation.Untranslated.TOO_OLD
        following = min((eras[each].first_target for each in eras if each > number), default=None)
        if upstream <= found.through:
            lowest, highest = found.place(upstream)
        elif following is None:
            lowest, highest = found.target_next, found.target_next + upstream - found.through
        else:
            lowest, highest = found.target_next, following - 1  # there its owner's marker stands
        if following is not None:  # up to there the target may have been cut back
            lowest, highest = min(lowest, following), min(highest, following)
        return _outcome(lowest, again_max=max(0, highest - lowest))

    def first_behind(self, upstream: int) -> int | None:
        """Of an offset that is `TOO_OLD`: the first place behind it that is known. None: there is
        none, or the map knows of other topics too, so that who was told a place by it may have been
        told one in those."""
        eras = self._eras
        if not eras or self._others:
            return None
        number = max((each for each in eras if eras[each].first_source <= upstream), default=None)
        found = self._runs_of(min(eras) if number is None else number)
        return found.place(found.floor).lowest

    def agrees(self, newest: offset_sync.OffsetSync) -> bool:
        """Does the map say the same as the newest offset sync of its partition, or nothing of it?

        If not, Java has mirrored since we did: the topic anew, so that the map is of other offsets,
        or some of it once more.
        """
        match self.translate(newest.upstream):
            case translation.Exact(downstream=downstream):
                return downstream == newest.downstream
            case _:
                return True

    def _runs_of(self, number: int) -> era_runs.EraRuns:
        if number not in self._runs:
            self._runs[number] = era_runs.EraRuns.of(self._segments, number, self._eras[number])
        return self._runs[number]


def translate(known: offset_map.PartitionMap, upstream: int) -> translation.Translation:
    """`upstream` is what a group goes on from. Beyond what was copied it goes on where the copy
    does.

    Between two eras it goes on where the older one's map ends: what was copied and not written down
    by whoever was killed then stands behind, and `again_max` counts all of it. What of that the
    source still has was copied once more; what its cleaner has taken since is known to nobody.
    """
    return Translator(known).translate(upstream)


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
        sure = most = eras[number].first_source
    else:
        found = era_runs.EraRuns.of(known.segments, number, eras[number])
        beyond = max(0, downstream - found.target_next)
        place = found.place_back(downstream)
        if place is None:
            return translation.Untranslated.TOO_OLD
        sure, most = (found.through, found.through) if beyond else place
    ahead = (eras[each].first_source for each in eras if each > number)
    sure = min([sure, *ahead])
    return _outcome(sure, again_max=beyond + most - sure)


def _outcome(place: int, *, again_max: int) -> translation.Translation:
    if again_max:
        return translation.Earlier(downstream=place, again_max=again_max)
    return translation.Exact(downstream=place)


def agrees(known: offset_map.PartitionMap, newest: offset_sync.OffsetSync) -> bool:
    """See `Translator.agrees`."""
    return Translator(known).agrees(newest)


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
