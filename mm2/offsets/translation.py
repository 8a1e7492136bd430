"""Translates a source offset to a target offset, or back, with outcomes instead of sentinels.

`downstream` is the offset at which to continue on the other cluster. With the complete offset map,
translation is exact wherever mm2 replicated. If old runs were removed to save space, the outcome is
`EarlierOffset`, with a bound; what was deleted from the map is `TOO_OLD`.
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
    """A consumer that continues at `downstream` neither re-reads nor misses records."""

    downstream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierOffset:
    """A consumer that continues at `downstream` misses nothing and re-reads up to `reread_max`
    records."""

    downstream: int
    reread_max: int


class Untranslated(enum.Enum):
    """Why an offset has no translation."""

    NOT_READY = "not ready"
    """The map is not read yet, or the offset is not replicated yet: retry later."""
    UNKNOWN = "unknown"
    """Nothing of this partition was replicated."""
    TOO_OLD = "too old"
    """The offset is before everything that the map can translate."""


TranslatedOffset: TypeAlias = ExactOffset | EarlierOffset | Untranslated
TranslateOffset: TypeAlias = Callable[[TopicPartition, int], TranslatedOffset]
"""Translates the offset at which a group continues; the partition has its source name."""


def choose_closest(one: TranslatedOffset, other: TranslatedOffset) -> TranslatedOffset:
    """Choose the translation of two valid ones that re-reads less.

    `one` wins if both are equal or if it is exact: a higher offset would be of a recreated topic.
    """
    if isinstance(other, Untranslated) or isinstance(one, ExactOffset):
        return one
    if isinstance(one, Untranslated) or other.downstream > one.downstream:
        return other
    exact = isinstance(other, ExactOffset) and other.downstream == one.downstream
    return other if exact else one


class MapTranslator:
    """Translates many offsets of one partition whose map does not change meanwhile."""

    def __init__(self, known: PartitionMap) -> None:
        self._segments = known.segments
        eras = known.eras
        self._eras = _select_current_eras(eras)
        self._has_other_topics = len(self._eras) < len(eras)
        self._runs: dict[int, EraRuns] = {}

    def translate(self, upstream: int) -> TranslatedOffset:
        """Translate a source offset like `translate_to_target`."""
        eras = self._eras
        if not eras:
            return Untranslated.UNKNOWN
        number = max((each for each in eras if eras[each].first_source <= upstream), default=None)
        if number is None:
            return Untranslated.TOO_OLD
        found = self._get_runs(number)
        if upstream < found.floor:
            return Untranslated.TOO_OLD
        following = min((eras[each].first_target for each in eras if each > number), default=None)
        if upstream <= found.through:
            lowest, highest = found.to_target(upstream)
        elif following is None:
            lowest, highest = found.target_next, found.target_next + upstream - found.through
        else:
            lowest, highest = (
                found.target_next,
                following - 1,
            )  # excluding the marker of the next owner
        if following is not None:  # the target may have been truncated to there
            lowest, highest = min(lowest, following), min(highest, following)
        return _build_outcome(lowest, again_max=max(0, highest - lowest))

    def find_first_after(self, upstream: int) -> int | None:
        """The first known target offset after an offset that is `TOO_OLD`.

        None if there is none, or if the map also has eras of recreated topics, whose offsets may
        have been translated before.
        """
        eras = self._eras
        if not eras or self._has_other_topics:
            return None
        number = max((each for each in eras if eras[each].first_source <= upstream), default=None)
        found = self._get_runs(min(eras) if number is None else number)
        return found.to_target(found.floor).lowest

    def agrees_with_sync(self, newest: OffsetSync) -> bool:
        """Returns whether the map does not contradict the newest offset sync of the partition.

        If it does, MirrorMaker 2 has mirrored since this flow: it recreated the topic, so that the
        map has other offsets, or replicated some records again.
        """
        match self.translate(newest.upstream):
            case ExactOffset(downstream=downstream):
                return downstream == newest.downstream
            case _:
                return True

    def _get_runs(self, number: int) -> EraRuns:
        if number not in self._runs:
            self._runs[number] = EraRuns.from_segments(self._segments, number, self._eras[number])
        return self._runs[number]


def translate_to_target(partition_map: PartitionMap, upstream: int) -> TranslatedOffset:
    """Translate a source offset to the target. Beyond what was replicated, the result is where
    copying continues.

    Between two eras, the result is the end of the older era's map: records that a crashed owner
    copied without recording them follow, and `again_max` counts all of them. Those that the source
    still had were replicated again; those that compaction has removed since are unknown.
    """
    return MapTranslator(partition_map).translate(upstream)


def translate_to_source(partition_map: PartitionMap, downstream: int) -> TranslatedOffset:
    """Translate a target offset to the source; the outcome's `downstream` is a source offset.

    Foreign records have no source offset: the result is the next record that this flow copied.
    After everything that is known to be replicated, and in gaps between eras, the outcome is
    `EarlierOffset`, whose `again_max` counts all records there as copies. The same holds if a newer
    era copied records again, because the target may have lost them in between.
    """
    eras = _select_current_eras(partition_map.eras)
    if not eras:
        return Untranslated.UNKNOWN
    number = max((each for each in eras if eras[each].first_target <= downstream), default=None)
    if number is None:
        number, beyond = min(eras), 0
        if eras[number].reason != offset_map_records.FIRST_START_REASON:
            return Untranslated.TOO_OLD
        sure = most = eras[number].first_source
    else:
        found = EraRuns.from_segments(partition_map.segments, number, eras[number])
        beyond = max(0, downstream - found.target_next)
        place = found.to_source(downstream)
        if place is None:
            return Untranslated.TOO_OLD
        sure, most = (found.through, found.through) if beyond else place
    ahead = (eras[each].first_source for each in eras if each > number)
    sure = min([sure, *ahead])
    return _build_outcome(sure, again_max=beyond + most - sure)


def _build_outcome(place: int, *, again_max: int) -> TranslatedOffset:
    if again_max:
        return EarlierOffset(downstream=place, reread_max=again_max)
    return ExactOffset(downstream=place)


def agrees_with_sync(known: PartitionMap, newest: OffsetSync) -> bool:
    """Returns whether the map does not contradict an offset sync; see
    `MapTranslator.agrees_with_sync`."""
    return MapTranslator(known).agrees_with_sync(newest)


def _select_current_eras(eras: dict[int, Era]) -> dict[int, Era]:
    """Eras with the same topic ids as the newest one; the other eras' topics are gone."""
    if not eras:
        return {}
    newest = eras[max(eras)]
    ids_now = (newest.source_topic_id, newest.target_topic_id)
    return {
        number: era
        for number, era in eras.items()
        if (era.source_topic_id, era.target_topic_id) == ids_now
    }
