"""Translates a source offset to a target offset, or back, with outcomes instead of sentinels.

`downstream` is the offset at which to continue on the other cluster. With the complete offset
map, translation is exact wherever mm2 replicated. Where old runs were removed to save space, the
outcome is `EarlierOffset`, with a bound; what was deleted from the map is `TOO_OLD`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.formats.mm2_records import OffsetSync
from mm2.formats.offset_map_records import Era
from mm2.offsets.offset_map import EraRuns, PartitionMap


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOffset:
    """Who goes on at `downstream` reads nothing again and misses nothing."""

    downstream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierOffset:
    """Who goes on at `downstream` misses nothing, and reads up to `again_max` records again."""

    downstream: int
    again_max: int


class Untranslated(enum.Enum):
    """Why there is no offset on the target."""

    NOT_READY = "not ready"
    """What is known was not read yet, or the offset was not copied yet: ask again later."""
    UNKNOWN = "unknown"
    """Nothing of this partition was copied."""
    TOO_OLD = "too old"
    """It lies before everything that can be told apart."""


TranslatedOffset: TypeAlias = ExactOffset | EarlierOffset | Untranslated
TranslateOffset: TypeAlias = Callable[[TopicPartition, int], TranslatedOffset]
"""A partition of the source, by its name there, and the offset that a group goes on from."""


def choose_closest(one: TranslatedOffset, other: TranslatedOffset) -> TranslatedOffset:
    """Of two that are both true the one by which less is read again; `one` where they say the
    same, and where it is exact: what goes beyond that is of topics that are no more."""
    if isinstance(other, Untranslated) or isinstance(one, ExactOffset):
        return one
    if isinstance(one, Untranslated) or other.downstream > one.downstream:
        return other
    exact = isinstance(other, ExactOffset) and other.downstream == one.downstream
    return other if exact else one


class MapTranslator:
    """`translate_to_target`, of many offsets of one partition whose map stays as it is
    meanwhile."""

    def __init__(self, known: PartitionMap) -> None:
        self._segments = known.segments
        eras = known.eras
        self._eras = _select_current_eras(eras)
        self._others = len(self._eras) < len(eras)
        self._runs: dict[int, EraRuns] = {}

    def translate(self, upstream: int) -> TranslatedOffset:
        """See `translate_to_target`."""
        eras = self._eras
        if not eras:
            return Untranslated.UNKNOWN
        number = max((each for each in eras if eras[each].first_source <= upstream), default=None)
        if number is None:
            return Untranslated.TOO_OLD
        found = self._runs_of(number)
        if upstream < found.floor:
            return Untranslated.TOO_OLD
        following = min((eras[each].first_target for each in eras if each > number), default=None)
        if upstream <= found.through:
            lowest, highest = found.place(upstream)
        elif following is None:
            lowest, highest = found.target_next, found.target_next + upstream - found.through
        else:
            lowest, highest = found.target_next, following - 1  # there its owner's marker stands
        if following is not None:  # up to there the target may have been cut back
            lowest, highest = min(lowest, following), min(highest, following)
        return _build_outcome(lowest, again_max=max(0, highest - lowest))

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

    def agrees(self, newest: OffsetSync) -> bool:
        """Does the map say the same as the newest offset sync of its partition, or nothing of it?

        If not, Java has mirrored since we did: the topic anew, so that the map is of other offsets,
        or some of it once more.
        """
        match self.translate(newest.upstream):
            case ExactOffset(downstream=downstream):
                return downstream == newest.downstream
            case _:
                return True

    def _runs_of(self, number: int) -> EraRuns:
        if number not in self._runs:
            self._runs[number] = EraRuns.of(self._segments, number, self._eras[number])
        return self._runs[number]


def translate_to_target(known: PartitionMap, upstream: int) -> TranslatedOffset:
    """`upstream` is what a group goes on from. Beyond what was copied it goes on where the copy
    does.

    Between two eras it goes on where the older one's map ends: what was copied and not written down
    by whoever was killed then stands behind, and `again_max` counts all of it. What of that the
    source still has was copied once more; what its cleaner has taken since is known to nobody.
    """
    return MapTranslator(known).translate(upstream)


def translate_to_source(known: PartitionMap, downstream: int) -> TranslatedOffset:
    """Where on the source to go on who would go on at `downstream` on the target; the outcome's
    `downstream` is that source offset.

    What others wrote has no place on the source: who stands in it goes on at what we copied next.
    Behind everything that is known to be copied, and behind what an older era left unknown, the
    answer is `Earlier`: `again_max` counts all that stands there as copied. `Earlier` it is, too,
    where a newer era copied the same once more, for the target may have lost it in between.
    """
    eras = _select_current_eras(known.eras)
    if not eras:
        return Untranslated.UNKNOWN
    number = max((each for each in eras if eras[each].first_target <= downstream), default=None)
    if number is None:
        number, beyond = min(eras), 0
        if eras[number].reason != offset_map_records.FIRST_START_REASON:
            return Untranslated.TOO_OLD
        sure = most = eras[number].first_source
    else:
        found = EraRuns.of(known.segments, number, eras[number])
        beyond = max(0, downstream - found.target_next)
        place = found.place_back(downstream)
        if place is None:
            return Untranslated.TOO_OLD
        sure, most = (found.through, found.through) if beyond else place
    ahead = (eras[each].first_source for each in eras if each > number)
    sure = min([sure, *ahead])
    return _build_outcome(sure, again_max=beyond + most - sure)


def _build_outcome(place: int, *, again_max: int) -> TranslatedOffset:
    if again_max:
        return EarlierOffset(downstream=place, again_max=again_max)
    return ExactOffset(downstream=place)


def agrees_with_sync(known: PartitionMap, newest: OffsetSync) -> bool:
    """See `MapTranslator.agrees`."""
    return MapTranslator(known).agrees(newest)


def _select_current_eras(eras: dict[int, Era]) -> dict[int, Era]:
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
