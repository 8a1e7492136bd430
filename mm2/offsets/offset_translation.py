"""Translates source offsets to target offsets and back.

The result of a translation is an object (`ExactOffset`, `EarlierOffset` or `UntranslatedReason`),
not a sentinel value. `downstream` is the offset at which to continue on the other cluster. With the
complete offset map, translation is exact wherever mm2 replicated. If old runs (ranges of offsets
with a constant difference) were removed to save space, the result is `EarlierOffset` with a bound.
If the part of the map that covers an offset was deleted, the offset is `TOO_OLD`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from connect_runtime.base.ids import TopicPartition
from mm2.formats import offset_map_records
from mm2.formats.mirrormaker2_records import OffsetSync
from mm2.formats.offset_map_records import Era
from mm2.offsets.offset_map import EraRuns, PartitionMap


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactOffset:
    """A consumer that continues at `downstream` neither re-reads nor misses records."""

    downstream: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierOffset:
    """A consumer that continues at `downstream` misses no record and re-reads at most `reread_max`
    records."""

    downstream: int
    reread_max: int


class UntranslatedReason(enum.Enum):
    """Reason why an offset cannot be translated."""

    NOT_READY = "not ready"
    """The map has not been read yet, or the offset has not been replicated yet. Retry later."""
    UNKNOWN = "unknown"
    """No record of this partition has been replicated."""
    TOO_OLD = "too old"
    """The offset is lower than every offset that the map can translate."""


TranslatedOffset: TypeAlias = ExactOffset | EarlierOffset | UntranslatedReason
TranslateOffset: TypeAlias = Callable[[TopicPartition, int], TranslatedOffset]
"""Function that translates the source offset at which a consumer group continues. The partition has
the topic's name on the source."""


def choose_closest_translation(one: TranslatedOffset, other: TranslatedOffset) -> TranslatedOffset:
    """Choose whichever of two valid translations re-reads fewer records.

    Returns `one` if both are equal, or if `one` is exact: a higher offset in `other` can then only
    come from a recreated topic.
    """
    if isinstance(other, UntranslatedReason) or isinstance(one, ExactOffset):
        return one
    if isinstance(one, UntranslatedReason) or other.downstream > one.downstream:
        return other
    exact = isinstance(other, ExactOffset) and other.downstream == one.downstream
    return other if exact else one


class MapTranslator:
    """Translates many offsets of one partition. The partition's map must not change while this
    object is used."""

    def __init__(self, known: PartitionMap) -> None:
        self._segments = known.segments
        eras = known.eras
        self._eras = _select_current_eras(eras)
        self._has_other_topics = len(self._eras) < len(eras)
        self._runs: dict[int, EraRuns] = {}

    def translate_offset(self, upstream: int) -> TranslatedOffset:
        """Translate a source offset to the target, as `translate_to_target` does."""
        eras = self._eras
        if not eras:
            return UntranslatedReason.UNKNOWN
        number = max((each for each in eras if eras[each].first_source <= upstream), default=None)
        if number is None:
            return UntranslatedReason.TOO_OLD
        found = self._get_era_runs(number)
        if upstream < found.floor:
            return UntranslatedReason.TOO_OLD
        following = min((eras[each].first_target for each in eras if each > number), default=None)
        if upstream <= found.through:
            lowest, highest = found.translate_to_target(upstream)
        elif following is None:
            lowest, highest = found.target_next, found.target_next + upstream - found.through
        else:
            lowest, highest = (
                found.target_next,
                following - 1,
            )  # excluding the marker of the next owner
        if following is not None:  # the target's log may have been truncated to this offset
            lowest, highest = min(lowest, following), min(highest, following)
        return _build_translation_outcome(lowest, again_max=max(0, highest - lowest))

    def find_first_target_offset_after(self, upstream: int) -> int | None:
        """Find the first known target offset for a source offset that is `TOO_OLD` to translate.

        Returns None if no target offset is known, or if the map also has eras (mirror generations)
        of topics that were deleted and recreated: the source offset may then belong to one of those
        topics.
        """
        eras = self._eras
        if not eras or self._has_other_topics:
            return None
        number = max((each for each in eras if eras[each].first_source <= upstream), default=None)
        found = self._get_era_runs(min(eras) if number is None else number)
        return found.translate_to_target(found.floor).lowest

    def agrees_with_sync(self, newest: OffsetSync) -> bool:
        """Return whether the map is consistent with the newest offset sync of the partition.

        If it is not, MirrorMaker 2 has replicated the partition since mm2 stored the map: either it
        recreated the topic, so that target offsets differ from the map, or it replicated some
        records again.
        """
        match self.translate_offset(newest.upstream):
            case ExactOffset(downstream=downstream):
                return downstream == newest.downstream
            case _:
                return True

    def _get_era_runs(self, number: int) -> EraRuns:
        if number not in self._runs:
            self._runs[number] = EraRuns.from_segments(self._segments, number, self._eras[number])
        return self._runs[number]


def translate_to_target(partition_map: PartitionMap, upstream: int) -> TranslatedOffset:
    """Translate a source offset to the target. Beyond the replicated records, the result is the
    offset at which replication continues.

    Between two eras (mirror generations), the result is the end of the older era's map. A crashed
    owner replicated the target records after this end without storing them in the map.
    `reread_max` counts all these records. Those that still existed on the source were replicated
    again in the newer era.
    """
    return MapTranslator(partition_map).translate_offset(upstream)


def translate_to_source(partition_map: PartitionMap, downstream: int) -> TranslatedOffset:
    """Translate a target offset to the source. `downstream` of the result is a source offset.

    Foreign records have no source offset, so their offsets translate to the next record that this
    flow replicated. In gaps between eras (mirror generations), and after the last record that is
    known to be replicated, the result is an `EarlierOffset`. Its `reread_max` assumes that all
    target records there are copies of source records. The result is also an `EarlierOffset` if a
    newer era replicated records again, because the target may have lost them before that era.
    """
    eras = _select_current_eras(partition_map.eras)
    if not eras:
        return UntranslatedReason.UNKNOWN
    number = max((each for each in eras if eras[each].first_target <= downstream), default=None)
    if number is None:
        number, beyond = min(eras), 0
        if eras[number].reason != offset_map_records.FIRST_START_REASON:
            return UntranslatedReason.TOO_OLD
        sure = most = eras[number].first_source
    else:
        found = EraRuns.from_segments(partition_map.segments, number, eras[number])
        beyond = max(0, downstream - found.target_next)
        place = found.translate_to_source(downstream)
        if place is None:
            return UntranslatedReason.TOO_OLD
        sure, most = (found.through, found.through) if beyond else place
    ahead = (eras[each].first_source for each in eras if each > number)
    sure = min([sure, *ahead])
    return _build_translation_outcome(sure, again_max=beyond + most - sure)


def _build_translation_outcome(place: int, *, again_max: int) -> TranslatedOffset:
    if again_max:
        return EarlierOffset(downstream=place, reread_max=again_max)
    return ExactOffset(downstream=place)


def agrees_with_sync(known: PartitionMap, newest: OffsetSync) -> bool:
    """Return whether a partition's offset map is consistent with its newest offset sync."""
    return MapTranslator(known).agrees_with_sync(newest)


def _select_current_eras(eras: dict[int, Era]) -> dict[int, Era]:
    """Select the eras (mirror generations) with the same topic ids as the newest era. The topics of
    the other eras were deleted."""
    if not eras:
        return {}
    newest = eras[max(eras)]
    ids_now = (newest.source_topic_id, newest.target_topic_id)
    return {
        number: era
        for number, era in eras.items()
        if (era.source_topic_id, era.target_topic_id) == ids_now
    }
